"""Rules on a text: contains, equals, one_of, starts_with, ends_with and the like; `numeric` and `length`.

Expected texts are literal, not patterns. `equals`, `one_of`, `starts_with` and `ends_with` ignore white space around
the judged text and around the expected texts.
"""

import re
from collections.abc import Callable, Iterable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from math import isfinite
from operator import contains
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from agentv.evaluators.rules.base import Check, Finding, RuleEvaluator, quoted
from agentv.scoring.text.forms import TextForm
from agentv.types.cases import EvaluatorConfig
from agentv.types.messages_json import compact_json
from agentv.types.protocols import EvaluatorTools

Unit: TypeAlias = Literal["characters", "words", "tokens"]

# Includes every comma between digits; `_THOUSANDS` decides later whether they separate thousands. One pattern for both
# would backtrack at every comma, which takes minutes for a megabyte of commas.
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+(?:,\d+)*(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,4})?", re.ASCII)
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?![\d,])", re.ASCII)
_UNLIMITED = Context(Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Decimal arithmetic for numbers of any size: an answer may contain a number with a million digits."""

_TOKEN = re.compile(r"\w+|[^\w\s]")


def check_range(least: int | None, most: int | None, what: str, names: tuple[str, str] = ("min", "max")) -> None:
    """Raise ValueError for bounds of `what` that are both missing, negative or in the wrong order.

    `names` are the names of the two settings, for messages.
    """
    low, high = names
    if least is None and most is None:
        raise ValueError(f"`{what}` needs `{low}`, `{high}` or both")
    for name, bound in ((low, least), (high, most)):
        if bound is not None and bound < 0:
            raise ValueError(f"`{name}` must be at least 0")
    if least is not None and most is not None and least > most:
        raise ValueError(f"`{low}` {least} is larger than `{high}` {most}")


class NumericSettings(Struct, frozen=True):
    """Settings of `numeric`."""

    value: Annotated[
        float | tuple[float, ...], Meta(description="the expected number, or a list of them; one must match")
    ]
    tolerance: Annotated[float, Meta(description="the allowed absolute difference")] = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError for a value or tolerance that is not finite, or a negative tolerance."""
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        if not values or not all(map(isfinite, values)):
            raise ValueError("`value` must be a finite number, or a list of them")
        if not (isfinite(self.tolerance) and self.tolerance >= 0):
            raise ValueError("`tolerance` must be a finite number of at least 0")


class LengthSettings(Struct, frozen=True):
    """Settings of `length`."""

    min: Annotated[int | None, Meta(description="the minimum number of units")] = None
    max: Annotated[int | None, Meta(description="the maximum number of units")] = None
    unit: Annotated[
        Unit, Meta(description="`characters` (code points), `words`, or `tokens` (words and punctuation marks)")
    ] = "characters"

    def __post_init__(self) -> None:
        """Raise ValueError for a range without bounds, or a range that no text can meet."""
        check_range(self.min, self.max, "length")


def make_numeric(config: EvaluatorConfig, settings: NumericSettings, _tools: EvaluatorTools) -> RuleEvaluator:
    """Return a `numeric` evaluator."""
    return RuleEvaluator("numeric", numeric_check(settings), source=config.source)


def make_length(config: EvaluatorConfig, settings: LengthSettings, _tools: EvaluatorTools) -> RuleEvaluator:
    """Return a `length` evaluator."""
    return RuleEvaluator("length", length_check(settings), source=config.source)


def numeric_check(settings: NumericSettings) -> Check:
    """Return a check of the last number in a text, in decimal arithmetic; commas may separate thousands."""
    values = settings.value if isinstance(settings.value, tuple) else (settings.value,)
    expected_values = [Decimal(repr(value)) for value in values]
    tolerance = Decimal(repr(settings.tolerance))
    expected = " or ".join(f"{value:.15g}" for value in values)
    if settings.tolerance:
        expected += f" ± {settings.tolerance:.15g}"

    def check(text: str) -> Finding:
        number = last_number(text)
        if number is None:
            return Finding(passed=False, misses=(f"expected {expected}, found no number in {quoted(text)}",))
        if any(_UNLIMITED.subtract(number, each).copy_abs() <= tolerance for each in expected_values):
            return Finding(passed=True, hits=(f"is {_shown(number)}",))
        return Finding(passed=False, misses=(f"expected {expected}, got {_shown(number)}",))

    return check


def last_number(text: str) -> Decimal | None:
    """Return the last number in a text, or None. `1,234.5`, `-3` and `1e3` are numbers, `v2` contains none.

    Commas separate thousands only if three digits follow each: `1,2,3` ends with 3.
    """
    last = None
    for last in _NUMBER.finditer(text.replace("\N{MINUS SIGN}", "-")):  # noqa: B007 - only the last match is used
        pass
    if last is None:
        return None
    written = last[0]
    return Decimal(written.replace(",", "") if _THOUSANDS.match(written) else written.rpartition(",")[2])


def _shown(number: Decimal) -> str:
    text = str(number)
    return text if len(text) <= 40 else f"{number:.10g}"  # noqa: PLR2004 - fits on a line


def length_check(settings: LengthSettings) -> Check:
    """Return a check of a text's length."""

    def check(text: str) -> Finding:
        count = count_units(text, settings.unit)
        got = f"{count} {settings.unit if count != 1 else settings.unit.removesuffix('s')}"
        if settings.min is not None and count < settings.min:
            return Finding(passed=False, misses=(f"expected at least {settings.min} {settings.unit}, got {count}",))
        if settings.max is not None and count > settings.max:
            return Finding(passed=False, misses=(f"expected at most {settings.max} {settings.unit}, got {count}",))
        return Finding(passed=True, hits=(f"has {got}",))

    return check


def count_units(text: str, unit: Unit) -> int:
    """Return the number of characters, words or tokens in a text."""
    match unit:
        case "characters":
            return len(text)
        case "words":
            return len(text.split())
        case "tokens":
            return sum(1 for _ in _TOKEN.finditer(text))


Scalar: TypeAlias = str | bool | int | float
Expect: TypeAlias = Literal["any", "all"]
TextPredicate: TypeAlias = Callable[[str, str], bool]
"""A function of the judged text and an expected text, such as `contains`."""


_CASE_HELP = "treat `Yes` and `yes` as different"


class ContainsSettings(Struct, frozen=True):
    """Settings of `contains`."""

    value: Annotated[Scalar | tuple[Scalar, ...], Meta(description="the text to search for, or a list of texts")]
    expect: Annotated[Expect, Meta(description="with a list: `any` of them must match, or `all`")] = "any"
    case_sensitive: Annotated[bool, Meta(description=_CASE_HELP)] = True

    def __post_init__(self) -> None:
        """Raise ValueError for an empty text, which every answer contains."""
        if not texts_of(self.value) or "" in texts_of(self.value):
            raise ValueError("`value` must not be empty: every text contains the empty text")


class EdgeSettings(Struct, frozen=True):
    """Settings of `starts_with` and `ends_with`."""

    value: Annotated[
        Scalar | tuple[Scalar, ...], Meta(description="the expected start or end of the text, or a list of them")
    ]
    expect: Annotated[Expect, Meta(description="with a list: `any` of them must match, or `all`")] = "any"
    case_sensitive: Annotated[bool, Meta(description=_CASE_HELP)] = True

    def __post_init__(self) -> None:
        """Raise ValueError for a blank text, which every answer starts and ends with."""
        if not texts_of(self.value) or not all(text.strip() for text in texts_of(self.value)):
            raise ValueError("`value` must not be empty or blank: every text starts and ends with the empty text")


class EqualsSettings(Struct, frozen=True):
    """Settings of `equals`."""

    value: Annotated[Scalar | tuple[Scalar, ...], Meta(description="the expected text, or a list of texts")]
    expect: Annotated[Expect, Meta(description="with a list: `any` of them must match, or `all`")] = "any"
    case_sensitive: Annotated[bool, Meta(description=_CASE_HELP)] = True


class OneOfSettings(Struct, frozen=True):
    """Settings of `one_of`."""

    values: Annotated[tuple[Scalar, ...], Meta(description="the allowed texts")]
    case_sensitive: Annotated[bool, Meta(description=_CASE_HELP)] = True

    def __post_init__(self) -> None:
        """Raise ValueError for an empty list, which nothing can match."""
        if not self.values:
            raise ValueError("`values` must have at least one text")


def texts_of(value: Scalar | tuple[Scalar, ...]) -> tuple[str, ...]:
    """Return one value or several as texts; `true` and `4` are written as in JSON."""
    values = value if isinstance(value, tuple) else (value,)
    return tuple(each if isinstance(each, str) else compact_json(each) for each in values)


def make_contains(config: EvaluatorConfig, settings: ContainsSettings, _tools: EvaluatorTools) -> RuleEvaluator:
    """Return a `contains` evaluator."""
    return RuleEvaluator("contains", contains_check(settings), source=config.source)


def make_starts_with(config: EvaluatorConfig, settings: EdgeSettings, _tools: EvaluatorTools) -> RuleEvaluator:
    """Return a `starts_with` evaluator."""
    return RuleEvaluator("starts_with", starts_with_check(settings), source=config.source)


def make_ends_with(config: EvaluatorConfig, settings: EdgeSettings, _tools: EvaluatorTools) -> RuleEvaluator:
    """Return an `ends_with` evaluator."""
    return RuleEvaluator("ends_with", ends_with_check(settings), source=config.source)


def make_equals(config: EvaluatorConfig, settings: EqualsSettings, _tools: EvaluatorTools) -> RuleEvaluator:
    """Return an `equals` evaluator."""
    return RuleEvaluator("equals", equals_check(settings), source=config.source)


def make_one_of(config: EvaluatorConfig, settings: OneOfSettings, _tools: EvaluatorTools) -> RuleEvaluator:
    """Return a `one_of` evaluator."""
    return RuleEvaluator("one_of", one_of_check(settings), source=config.source)


def contains_check(settings: ContainsSettings) -> Check:
    """Return a check that a text contains the expected texts."""
    return _expected_texts_check(settings, contains, ("contains", "expected"))


def starts_with_check(settings: EdgeSettings) -> Check:
    """Return a check that a text starts with the expected texts."""
    return _expected_texts_check(settings, _starts_with, ("starts with", "expected it to start with"))


def ends_with_check(settings: EdgeSettings) -> Check:
    """Return a check that a text ends with the expected texts."""
    return _expected_texts_check(settings, _ends_with, ("ends with", "expected it to end with"))


def equals_check(settings: EqualsSettings) -> Check:
    """Return a check that a text equals an expected text."""
    return _expected_texts_check(settings, _is_same, ("equals", "expected"))


def one_of_check(settings: OneOfSettings) -> Check:
    """Return a check that a text is one of the allowed texts."""
    normalize = literal_form(case_sensitive=settings.case_sensitive)
    allowed = {each: normalize(each) for each in texts_of(settings.values)}

    def check(text: str) -> Finding:
        searched = normalize(text)
        found = next((each for each, expected in allowed.items() if _is_same(searched, expected)), None)
        if found is not None:
            return Finding(passed=True, hits=(f"is {quoted(found)}",))
        return Finding(passed=False, misses=(f"expected one of {_listed(allowed)}, got {quoted(text)}",))

    return check


def _starts_with(text: str, expected: str) -> bool:
    return text.strip().startswith(expected.strip())


def _ends_with(text: str, expected: str) -> bool:
    return text.strip().endswith(expected.strip())


def _is_same(text: str, expected: str) -> bool:
    return text.strip() == expected.strip()


def literal_form(*, case_sensitive: bool) -> Callable[[str], str]:
    """Return a function that normalizes texts for comparison: composed and decomposed é are equal."""
    return TextForm(case_sensitive=case_sensitive, normalize_whitespace=False).of


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(map(quoted, texts))


def _expected_texts_check(
    settings: ContainsSettings | EdgeSettings | EqualsSettings, matches: TextPredicate, openings: tuple[str, str]
) -> Check:
    """Return a check for one expected text or several; `openings` are the first words of a hit and of a miss."""
    normalize = literal_form(case_sensitive=settings.case_sensitive)
    expected = {each: normalize(each) for each in texts_of(settings.value)}
    hit, miss = openings
    lines = [(normalized, f"{hit} {quoted(each)}") for each, normalized in expected.items()]

    def check(text: str) -> Finding:
        searched = normalize(text)
        hits = tuple([line for normalized, line in lines if matches(searched, normalized)])
        if settings.expect == "all":
            absent = [each for each, normalized in expected.items() if not matches(searched, normalized)]
            return Finding(not absent, hits, tuple([f"{miss} {quoted(each)}, got {quoted(text)}" for each in absent]))
        if hits:
            return Finding(True, hits)
        any_of = "any of " if len(expected) > 1 else ""
        return Finding(passed=False, misses=(f"{miss} {any_of}{_listed(expected)}, got {quoted(text)}",))

    return check


class IncludesSettings(Struct, frozen=True, kw_only=True):
    """Settings of the rule `includes`."""

    keywords: Annotated[tuple[str, ...], Meta(description="literal texts to look for")]
    expect: Annotated[
        Literal["all", "any", "none"],
        Meta(
            description="how many of them the text must include: all, any or none",
            extra={"aliases": ("expected_outcome",)},
        ),
    ] = "all"
    case_sensitive: Annotated[bool, Meta(description=_CASE_HELP)] = False

    def __post_init__(self) -> None:
        """Raise ValueError for an empty list or an empty keyword, which every text includes."""
        if not self.keywords or "" in self.keywords:
            raise ValueError("`keywords` must have at least one text, and no empty one")


class KeywordCountSettings(Struct, frozen=True, kw_only=True):
    """Settings of the rule `keyword_count`."""

    keyword: Annotated[str, Meta(description="the literal text to count, without overlaps")]
    min: Annotated[int | None, Meta(description="the minimum number of times")] = None
    max: Annotated[int | None, Meta(description="the maximum number of times")] = None
    case_sensitive: Annotated[bool, Meta(description=_CASE_HELP)] = False

    def __post_init__(self) -> None:
        """Raise ValueError for an empty keyword, a range without bounds, or a range that no text can meet."""
        if not self.keyword:
            raise ValueError("`keyword` must not be empty: every text contains the empty text")
        check_range(self.min, self.max, "keyword_count")


def includes_check(settings: IncludesSettings) -> Check:
    """Return a check that a text includes all, any or none of the keywords."""
    normalize = literal_form(case_sensitive=settings.case_sensitive)
    keywords = {keyword: normalize(keyword) for keyword in settings.keywords}

    def check(text: str) -> Finding:
        searched = normalize(text)
        found = tuple(keyword for keyword, normalized in keywords.items() if normalized in searched)
        absent = tuple(keyword for keyword in keywords if keyword not in found)
        included, missing = _keyword_line("includes", found), _keyword_line("does not include", absent)
        if settings.expect == "none":
            return Finding(not found, hits=missing, misses=included)
        passed = bool(found) if settings.expect == "any" else not absent
        return Finding(passed, hits=included, misses=() if passed else missing)

    return check


def keyword_count_check(settings: KeywordCountSettings) -> Check:
    """Return a check of how often a text has a keyword."""
    normalize = literal_form(case_sensitive=settings.case_sensitive)
    keyword = normalize(settings.keyword)
    shown, least, most = quoted(settings.keyword), settings.min, settings.max

    def check(text: str) -> Finding:
        count = normalize(text).count(keyword)
        got = f"has {shown} {count} time{'' if count == 1 else 's'}"
        if least is not None and count < least:
            return Finding(passed=False, misses=(f"{got}, expected at least {least}",))
        if most is not None and count > most:
            return Finding(passed=False, misses=(f"{got}, expected at most {most}",))
        return Finding(passed=True, hits=(got,))

    return check


def _keyword_line(opening: str, keywords: tuple[str, ...]) -> tuple[str, ...]:
    """Return one line with all keywords, as a tuple; () without keywords."""
    return (f"{opening} {_listed(keywords)}",) if keywords else ()
