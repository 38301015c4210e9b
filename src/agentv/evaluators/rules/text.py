"""Rules on a text: contains, equals, one_of, starts_with, ends_with and the like; `length`.

Expected texts are literal, not patterns. `equals`, `one_of`, `starts_with` and `ends_with` ignore white space around
the judged text and around the expected texts.
"""

import re
from collections.abc import Iterable, Mapping
from operator import contains
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from agentv.evaluators.rules.base import Check, Finding, RuleEvaluator, quoted
from agentv.evaluators.rules.comparison import (
    CASE_HELP,
    AtLocation,
    Comparison,
    Ignore,
    check_remains,
    comparison_at,
    comparison_of,
)
from agentv.scoring.text.locations import Location
from agentv.types.cases import EvaluatorConfig
from agentv.types.messages_json import compact_json
from agentv.types.protocols import EvaluatorTools

Unit: TypeAlias = Literal["characters", "words", "tokens"]

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


def make_length(config: EvaluatorConfig, settings: LengthSettings, _tools: EvaluatorTools) -> RuleEvaluator:
    """Return a `length` evaluator."""
    return RuleEvaluator("length", length_check(settings), source=config.source)


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
VALUE_WORDS = dict.fromkeys(("expected", "text", "texts", "values", "string", "substring", "answer"), "write `value`")
"""Advice on the words that people write for `value`."""
_WHOLE_WORDS = {"location": "`equals` has `location`, which searches for whole words"}
_EXPECT_HELP = "with a list: `any` of them must match, or `all`"


class ContainsSettings(Struct, frozen=True):
    """Settings of `contains`."""

    value: Annotated[
        Scalar | tuple[Scalar, ...],
        Meta(
            description="the text to search for, or a list of texts", extra={"instead": {**VALUE_WORDS, **_WHOLE_WORDS}}
        ),
    ]
    expect: Annotated[Expect, Meta(description=_EXPECT_HELP)] = "any"
    case_sensitive: Annotated[bool, Meta(description=CASE_HELP)] = True
    ignore: Ignore = ()

    def __post_init__(self) -> None:
        """Raise ValueError for an empty text, or one of which nothing is left; every answer contains it."""
        if not texts_of(self.value) or "" in texts_of(self.value):
            raise ValueError("`value` must not be empty: every text contains the empty text")
        check_remains("value", texts_of(self.value), self)


class EdgeSettings(Struct, frozen=True):
    """Settings of `starts_with` and `ends_with`."""

    value: Annotated[
        Scalar | tuple[Scalar, ...],
        Meta(description="the expected start or end of the text, or a list of them", extra={"instead": VALUE_WORDS}),
    ]
    expect: Annotated[Expect, Meta(description=_EXPECT_HELP)] = "any"
    case_sensitive: Annotated[bool, Meta(description=CASE_HELP)] = True
    ignore: Ignore = ()

    def __post_init__(self) -> None:
        """Raise ValueError for a blank text, which every answer starts and ends with."""
        if not texts_of(self.value) or not all(text.strip() for text in texts_of(self.value)):
            raise ValueError("`value` must not be empty or blank: every text starts and ends with the empty text")
        check_remains("value", texts_of(self.value), self)


class EqualsSettings(Struct, frozen=True):
    """Settings of `equals`."""

    value: Annotated[
        Scalar | tuple[Scalar, ...],
        Meta(description="the expected text, or a list of texts", extra={"instead": VALUE_WORDS}),
    ]
    expect: Annotated[Expect, Meta(description=_EXPECT_HELP)] = "any"
    case_sensitive: Annotated[bool, Meta(description=CASE_HELP)] = True
    ignore: Ignore = ()
    location: AtLocation = None

    def __post_init__(self) -> None:
        """Raise ValueError for a text of which nothing is left to compare."""
        _check_equality("value", texts_of(self.value), self)


class OneOfSettings(Struct, frozen=True):
    """Settings of `one_of`."""

    values: Annotated[tuple[Scalar, ...], Meta(description="the allowed texts")]
    case_sensitive: Annotated[bool, Meta(description=CASE_HELP)] = True
    ignore: Ignore = ()
    location: AtLocation = None

    def __post_init__(self) -> None:
        """Raise ValueError for an empty list, which nothing can match, or a text of which nothing is left."""
        if not self.values:
            raise ValueError("`values` must have at least one text")
        _check_equality("values", texts_of(self.values), self)


def _check_equality(name: str, texts: tuple[str, ...], settings: EqualsSettings | OneOfSettings) -> None:
    """Raise ValueError for an expected text that is empty where it must not be; a blank text equals a blank answer."""
    if settings.location and not all(map(str.strip, texts)):
        raise ValueError(f"`{name}` must not be empty with `location`: the empty text is everywhere")
    check_remains(name, [text for text in texts if text.strip()], settings)


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
    return _expected_texts_check(settings, comparison_of(settings, contains), ("contains", "expected"))


def starts_with_check(settings: EdgeSettings) -> Check:
    """Return a check that a text starts with the expected texts."""
    comparison = comparison_of(settings, _starts_with)
    return _expected_texts_check(settings, comparison, ("starts with", "expected it to start with"))


def ends_with_check(settings: EdgeSettings) -> Check:
    """Return a check that a text ends with the expected texts."""
    comparison = comparison_of(settings, _ends_with)
    return _expected_texts_check(settings, comparison, ("ends with", "expected it to end with"))


_OPENINGS_AT: Mapping[Location | None, tuple[str, str]] = {
    None: ("equals", "expected"),
    "start": ("starts with the words", "expected it to start with the words"),
    "end": ("ends with the words", "expected it to end with the words"),
    "any": ("has the words", "expected the words"),
}


def equals_check(settings: EqualsSettings) -> Check:
    """Return a check that a text equals an expected text or, with a location, has it there."""
    return _expected_texts_check(settings, _equality(settings), _OPENINGS_AT[settings.location])


def one_of_check(settings: OneOfSettings) -> Check:
    """Return a check that a text is one of the allowed texts or, with a location, has it there."""
    comparison = _equality(settings)
    allowed = {each: comparison.of_expected(each) for each in texts_of(settings.values)}
    hit = "is" if settings.location is None else _OPENINGS_AT[settings.location][0]
    miss = f"expected one of {_listed(allowed)}{_PLACES[settings.location]}"

    def check(text: str) -> Finding:
        searched = comparison.of(text)
        found = next((each for each, expected in allowed.items() if comparison.matches(searched, expected)), None)
        if found is not None:
            return Finding(passed=True, hits=(comparison.hit(f"{hit} {quoted(found)}"),))
        return Finding(passed=False, misses=(comparison.miss(miss, text),))

    return check


_PLACES: Mapping[Location | None, str] = {
    None: "",
    "start": " as words at the start",
    "end": " as words at the end",
    "any": " as words in it",
}


def _equality(settings: EqualsSettings | OneOfSettings) -> Comparison:
    return comparison_at(settings, settings.location) if settings.location else comparison_of(settings, _is_same)


def _starts_with(text: str, expected: str) -> bool:
    return text.strip().startswith(expected.strip())


def _ends_with(text: str, expected: str) -> bool:
    return text.strip().endswith(expected.strip())


def _is_same(text: str, expected: str) -> bool:
    return text.strip() == expected.strip()


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(map(quoted, texts))


def _expected_texts_check(
    settings: ContainsSettings | EdgeSettings | EqualsSettings, comparison: Comparison, openings: tuple[str, str]
) -> Check:
    """Return a check for one expected text or several; `openings` are the first words of a hit and of a miss."""
    expected = {each: comparison.of_expected(each) for each in texts_of(settings.value)}
    matches, (hit, miss) = comparison.matches, openings
    lines = [(converted, comparison.hit(f"{hit} {quoted(each)}")) for each, converted in expected.items()]

    def check(text: str) -> Finding:
        searched = comparison.of(text)
        hits = tuple([line for converted, line in lines if matches(searched, converted)])
        if settings.expect == "all":
            absent = [each for each, converted in expected.items() if not matches(searched, converted)]
            return Finding(
                not absent, hits, tuple([comparison.miss(f"{miss} {quoted(each)}", text) for each in absent])
            )
        if hits:
            return Finding(True, hits)
        any_of = "any of " if len(expected) > 1 else ""
        return Finding(passed=False, misses=(comparison.miss(f"{miss} {any_of}{_listed(expected)}", text),))

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
    case_sensitive: Annotated[bool, Meta(description=CASE_HELP)] = False
    ignore: Ignore = ()

    def __post_init__(self) -> None:
        """Raise ValueError for an empty list or an empty keyword, which every text includes."""
        if not self.keywords or "" in self.keywords:
            raise ValueError("`keywords` must have at least one text, and no empty one")
        check_remains("keywords", self.keywords, self)


class KeywordCountSettings(Struct, frozen=True, kw_only=True):
    """Settings of the rule `keyword_count`."""

    keyword: Annotated[str, Meta(description="the literal text to count, without overlaps")]
    min: Annotated[int | None, Meta(description="the minimum number of times")] = None
    max: Annotated[int | None, Meta(description="the maximum number of times")] = None
    case_sensitive: Annotated[bool, Meta(description=CASE_HELP)] = False
    ignore: Ignore = ()

    def __post_init__(self) -> None:
        """Raise ValueError for an empty keyword, a range without bounds, or a range that no text can meet."""
        if not self.keyword:
            raise ValueError("`keyword` must not be empty: every text contains the empty text")
        check_range(self.min, self.max, "keyword_count")
        check_remains("keyword", (self.keyword,), self)


def includes_check(settings: IncludesSettings) -> Check:
    """Return a check that a text includes all, any or none of the keywords."""
    comparison = comparison_of(settings, contains)
    keywords = {keyword: comparison.of_expected(keyword) for keyword in settings.keywords}

    def check(text: str) -> Finding:
        searched = comparison.of(text)
        found = tuple(keyword for keyword, converted in keywords.items() if comparison.matches(searched, converted))
        absent = tuple(keyword for keyword in keywords if keyword not in found)
        included = _keyword_line(comparison, "includes", found)
        missing = _keyword_line(comparison, "does not include", absent)
        if settings.expect == "none":
            return Finding(not found, hits=missing, misses=included)
        passed = bool(found) if settings.expect == "any" else not absent
        return Finding(passed, hits=included, misses=() if passed else missing)

    return check


def keyword_count_check(settings: KeywordCountSettings) -> Check:
    """Return a check of how often a text has a keyword: in the form in which it is there most often."""
    comparison = comparison_of(settings, contains)
    forms = [(form, form(settings.keyword)) for form in comparison.forms]
    shown, least, most = quoted(settings.keyword), settings.min, settings.max

    def check(text: str) -> Finding:
        count = max(form(text).count(keyword) for form, keyword in forms)
        got = comparison.hit(f"has {shown} {count} time{'' if count == 1 else 's'}")
        if least is not None and count < least:
            return Finding(passed=False, misses=(f"{got}, expected at least {least}",))
        if most is not None and count > most:
            return Finding(passed=False, misses=(f"{got}, expected at most {most}",))
        return Finding(passed=True, hits=(got,))

    return check


def _keyword_line(comparison: Comparison, opening: str, keywords: tuple[str, ...]) -> tuple[str, ...]:
    """Return one line with all keywords, as a tuple; () without keywords."""
    return (comparison.hit(f"{opening} {_listed(keywords)}"),) if keywords else ()
