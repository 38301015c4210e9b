"""Rules on literal text: contains, equals, one_of, starts_with, ends_with. Surrounding white space is ignored."""

from collections.abc import Callable, Iterable
from operator import contains
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from agentv.evaluators.rules.base import Check, Finding, RuleEvaluator, quoted
from agentv.scoring.text.forms import TextForm
from agentv.types.cases import EvaluatorConfig
from agentv.types.messages_json import compact_json
from agentv.types.protocols import EvaluatorTools

Scalar: TypeAlias = str | bool | int | float
Expect: TypeAlias = Literal["any", "all"]
Holds: TypeAlias = Callable[[str, str], bool]
"""A function that returns True if a text satisfies an expected one."""


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

    value: Annotated[Scalar | tuple[Scalar, ...], Meta(description="the text expected there, or a list of texts")]
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
    return _check(settings, contains, ("contains", "expected"))


def starts_with_check(settings: EdgeSettings) -> Check:
    """Return a check that a text starts with the expected texts."""
    words = ("starts with", "expected it to start with")
    return _check(settings, lambda text, expected: text.strip().startswith(expected.strip()), words)


def ends_with_check(settings: EdgeSettings) -> Check:
    """Return a check that a text ends with the expected texts."""
    words = ("ends with", "expected it to end with")
    return _check(settings, lambda text, expected: text.strip().endswith(expected.strip()), words)


def equals_check(settings: EqualsSettings) -> Check:
    """Return a check that a text equals an expected text."""
    return _check(settings, _is_same, ("equals", "expected"))


def one_of_check(settings: OneOfSettings) -> Check:
    """Return a check that a text is one of the allowed texts."""
    form = literal_form(case_sensitive=settings.case_sensitive)
    allowed = {each: form(each) for each in texts_of(settings.values)}

    def check(text: str) -> Finding:
        formed = form(text)
        found = next((each for each, expected in allowed.items() if _is_same(formed, expected)), None)
        if found is not None:
            return Finding(passed=True, hits=(f"is {quoted(found)}",))
        return Finding(passed=False, misses=(f"expected one of {_listed(allowed)}, got {quoted(text)}",))

    return check


def _is_same(text: str, expected: str) -> bool:
    return text.strip() == expected.strip()


def literal_form(*, case_sensitive: bool) -> Callable[[str], str]:
    """Return a function that normalizes texts for comparison: composed and decomposed é are equal."""
    return TextForm(case_sensitive=case_sensitive, normalize_whitespace=False).of


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(map(quoted, texts))


def _check(settings: ContainsSettings | EdgeSettings | EqualsSettings, holds: Holds, words: tuple[str, str]) -> Check:
    """Return a check for one expected text or several; `words` start its hits and its misses."""
    form = literal_form(case_sensitive=settings.case_sensitive)
    expected = {each: form(each) for each in texts_of(settings.value)}
    hit, miss = words
    lines = [(plain, f"{hit} {quoted(each)}") for each, plain in expected.items()]

    def check(text: str) -> Finding:
        formed = form(text)
        hits = tuple([line for plain, line in lines if holds(formed, plain)])
        if settings.expect == "all":
            absent = [each for each, plain in expected.items() if not holds(formed, plain)]
            return Finding(not absent, hits, tuple([f"{miss} {quoted(each)}, got {quoted(text)}" for each in absent]))
        if hits:
            return Finding(True, hits)
        one_of = "any of " if len(expected) > 1 else ""
        return Finding(passed=False, misses=(f"{miss} {one_of}{_listed(expected)}, got {quoted(text)}",))

    return check
