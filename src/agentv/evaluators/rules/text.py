"""Rules on literal text: contains, equals, one_of, starts_with, ends_with. White space around a text never counts."""

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
"""Whether a text is as a wanted one says."""


_CASE_HELP = "whether `Yes` and `yes` are different"


class ContainsSettings(Struct, frozen=True):
    """Settings of `contains`."""

    value: Annotated[Scalar | tuple[Scalar, ...], Meta(description="the text to look for, or a list of texts")]
    expect: Annotated[Expect, Meta(description="of a list: `any` of them, or `all`")] = "any"
    case_sensitive: Annotated[bool, Meta(description=_CASE_HELP)] = True

    def __post_init__(self) -> None:
        """Refuse a text that every answer has."""
        if not texts_of(self.value) or "" in texts_of(self.value):
            raise ValueError("`value` must not be empty: every text contains the empty text")


class EdgeSettings(Struct, frozen=True):
    """Settings of `starts_with` and `ends_with`."""

    value: Annotated[Scalar | tuple[Scalar, ...], Meta(description="the text at that end, or a list of such texts")]
    expect: Annotated[Expect, Meta(description="of a list: `any` of them, or `all`")] = "any"
    case_sensitive: Annotated[bool, Meta(description=_CASE_HELP)] = True

    def __post_init__(self) -> None:
        """Refuse a text that every answer has once the white space around it is gone."""
        if not texts_of(self.value) or not all(text.strip() for text in texts_of(self.value)):
            raise ValueError("`value` must not be empty or blank: every text starts and ends with nothing")


class EqualsSettings(Struct, frozen=True):
    """Settings of `equals`."""

    value: Annotated[Scalar | tuple[Scalar, ...], Meta(description="what the text must be, or a list of such texts")]
    expect: Annotated[Expect, Meta(description="of a list: `any` of them, or `all`")] = "any"
    case_sensitive: Annotated[bool, Meta(description=_CASE_HELP)] = True


class OneOfSettings(Struct, frozen=True):
    """Settings of `one_of`."""

    values: Annotated[tuple[Scalar, ...], Meta(description="the texts that are allowed")]
    case_sensitive: Annotated[bool, Meta(description=_CASE_HELP)] = True

    def __post_init__(self) -> None:
        """Refuse an empty list, which nothing can match."""
        if not self.values:
            raise ValueError("`values` must name at least one text")


def texts_of(value: Scalar | tuple[Scalar, ...]) -> tuple[str, ...]:
    """Return a value, or a list of them, as texts: `true` and `4` as JSON writes them."""
    values = value if isinstance(value, tuple) else (value,)
    return tuple(each if isinstance(each, str) else compact_json(each) for each in values)


def make_contains(config: EvaluatorConfig, settings: ContainsSettings, _tools: EvaluatorTools) -> RuleEvaluator:
    """Make a `contains`."""
    return RuleEvaluator("contains", contains_check(settings), source=config.source)


def make_starts_with(config: EvaluatorConfig, settings: EdgeSettings, _tools: EvaluatorTools) -> RuleEvaluator:
    """Make a `starts_with`."""
    return RuleEvaluator("starts_with", starts_with_check(settings), source=config.source)


def make_ends_with(config: EvaluatorConfig, settings: EdgeSettings, _tools: EvaluatorTools) -> RuleEvaluator:
    """Make an `ends_with`."""
    return RuleEvaluator("ends_with", ends_with_check(settings), source=config.source)


def make_equals(config: EvaluatorConfig, settings: EqualsSettings, _tools: EvaluatorTools) -> RuleEvaluator:
    """Make an `equals`."""
    return RuleEvaluator("equals", equals_check(settings), source=config.source)


def make_one_of(config: EvaluatorConfig, settings: OneOfSettings, _tools: EvaluatorTools) -> RuleEvaluator:
    """Make a `one_of`."""
    return RuleEvaluator("one_of", one_of_check(settings), source=config.source)


def contains_check(settings: ContainsSettings) -> Check:
    """Return the check whether a text contains others."""
    return _check(settings, contains, ("contains", "expected"))


def starts_with_check(settings: EdgeSettings) -> Check:
    """Return the check how a text starts."""
    words = ("starts with", "expected it to start with")
    return _check(settings, lambda text, wanted: text.strip().startswith(wanted.strip()), words)


def ends_with_check(settings: EdgeSettings) -> Check:
    """Return the check how a text ends."""
    words = ("ends with", "expected it to end with")
    return _check(settings, lambda text, wanted: text.strip().endswith(wanted.strip()), words)


def equals_check(settings: EqualsSettings) -> Check:
    """Return the check whether a text is another."""
    return _check(settings, _is_same, ("equals", "expected"))


def one_of_check(settings: OneOfSettings) -> Check:
    """Return the check whether a text is one of a list."""
    form = literal_form(case_sensitive=settings.case_sensitive)
    allowed = {each: form(each) for each in texts_of(settings.values)}

    def check(text: str) -> Finding:
        formed = form(text)
        found = next((each for each, wanted in allowed.items() if _is_same(formed, wanted)), None)
        if found is not None:
            return Finding(passed=True, hits=(f"is {quoted(found)}",))
        return Finding(passed=False, misses=(f"expected one of {_listed(allowed)}, got {quoted(text)}",))

    return check


def _is_same(text: str, wanted: str) -> bool:
    return text.strip() == wanted.strip()


def literal_form(*, case_sensitive: bool) -> Callable[[str], str]:
    """Return what makes texts comparable letter by letter: é is é however it is written."""
    return TextForm(case_sensitive=case_sensitive, normalize_whitespace=False).of


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(map(quoted, texts))


def _check(settings: ContainsSettings | EdgeSettings | EqualsSettings, holds: Holds, words: tuple[str, str]) -> Check:
    """Return a check over one wanted text or several; `words` open its hits and its misses."""
    form = literal_form(case_sensitive=settings.case_sensitive)
    wanted = {each: form(each) for each in texts_of(settings.value)}
    hit, miss = words
    lines = [(plain, f"{hit} {quoted(each)}") for each, plain in wanted.items()]

    def check(text: str) -> Finding:
        formed = form(text)
        hits = tuple([line for plain, line in lines if holds(formed, plain)])
        if settings.expect == "all":
            absent = [each for each, plain in wanted.items() if not holds(formed, plain)]
            return Finding(not absent, hits, tuple([f"{miss} {quoted(each)}, got {quoted(text)}" for each in absent]))
        if hits:
            return Finding(True, hits)
        one_of = "any of " if len(wanted) > 1 else ""
        return Finding(passed=False, misses=(f"{miss} {one_of}{_listed(wanted)}, got {quoted(text)}",))

    return check
