"""The rules that `rule_based` is made of: the single rules' own settings and checks, with where a rule belongs."""

from typing import Annotated, Literal, TypeAlias, assert_never

from msgspec import Meta

from agentv.evaluators.json_rule import JsonSettings, json_check
from agentv.evaluators.keyword_rules import (
    IncludesSettings,
    KeywordCountSettings,
    includes_check,
    keyword_count_check,
)
from agentv.evaluators.number_rules import LengthSettings, NumericSettings, length_check, numeric_check
from agentv.evaluators.regex_rule import RegexSettings, regex_check
from agentv.evaluators.rules import Check
from agentv.evaluators.text_rules import (
    ContainsSettings,
    EdgeSettings,
    EqualsSettings,
    OneOfSettings,
    contains_check,
    ends_with_check,
    equals_check,
    one_of_check,
    starts_with_check,
)
from agentv.scoring.sources import parse_source

Criterion: TypeAlias = Annotated[
    str | None, Meta(description="which of the criteria it judges", extra={"aliases": ("criterion_name",)})
]
Source: TypeAlias = Annotated[
    str | None,
    Meta(description="where its text comes from", extra={"aliases": ("source_field", "source_text_field")}),
]


class _Placed:
    """What every rule has: the criterion it judges and the text it looks at; None means as its evaluator says."""

    __slots__ = ()
    criterion: str | None
    source: str | None

    def __post_init__(self) -> None:
        """Refuse a source that is none, then what the rule itself refuses."""
        if self.source is not None:
            try:
                parse_source(self.source)
            except ValueError as error:
                raise ValueError(f"`source` {error}") from error
        check_own = getattr(super(), "__post_init__", None)
        if check_own is not None:
            check_own()


class RegexRule(_Placed, RegexSettings, frozen=True, kw_only=True):
    """A regular expression matches, or does not."""

    type: Literal["regex"] = "regex"
    criterion: Criterion = None
    source: Source = None


class LengthRule(_Placed, LengthSettings, frozen=True, kw_only=True):
    """The text has so many characters, words or tokens."""

    type: Literal["length"] = "length"
    criterion: Criterion = None
    source: Source = None


class IncludesRule(_Placed, IncludesSettings, frozen=True, kw_only=True):
    """The text has all, any or none of some keywords."""

    type: Literal["includes"] = "includes"
    criterion: Criterion = None
    source: Source = None


class KeywordCountRule(_Placed, KeywordCountSettings, frozen=True, kw_only=True):
    """The text has a keyword so many times."""

    type: Literal["keyword_count"] = "keyword_count"
    criterion: Criterion = None
    source: Source = None


class JsonRule(_Placed, JsonSettings, frozen=True, kw_only=True):
    """The text is JSON, of a given schema if there is one."""

    type: Literal["json_parse", "is_json"] = "json_parse"
    criterion: Criterion = None
    source: Source = None


class ContainsRule(_Placed, ContainsSettings, frozen=True, kw_only=True):
    """The text contains a text, any of several, or all of them."""

    type: Literal["contains"] = "contains"
    criterion: Criterion = None
    source: Source = None


class EqualsRule(_Placed, EqualsSettings, frozen=True, kw_only=True):
    """The text is exactly this, white space around it aside."""

    type: Literal["equals"] = "equals"
    criterion: Criterion = None
    source: Source = None


class OneOfRule(_Placed, OneOfSettings, frozen=True, kw_only=True):
    """The text is one of a list."""

    type: Literal["one_of"] = "one_of"
    criterion: Criterion = None
    source: Source = None


class StartsWithRule(_Placed, EdgeSettings, frozen=True, kw_only=True):
    """The text starts with this."""

    type: Literal["starts_with"] = "starts_with"
    criterion: Criterion = None
    source: Source = None


class EndsWithRule(_Placed, EdgeSettings, frozen=True, kw_only=True):
    """The text ends with this."""

    type: Literal["ends_with"] = "ends_with"
    criterion: Criterion = None
    source: Source = None


class NumericRule(_Placed, NumericSettings, frozen=True, kw_only=True):
    """The last number in the text is this one, within a tolerance."""

    type: Literal["numeric"] = "numeric"
    criterion: Criterion = None
    source: Source = None


Rule: TypeAlias = (
    RegexRule
    | LengthRule
    | IncludesRule
    | KeywordCountRule
    | JsonRule
    | ContainsRule
    | EqualsRule
    | OneOfRule
    | StartsWithRule
    | EndsWithRule
    | NumericRule
)


def check_of(rule: Rule) -> Check:
    """Return what a rule does with a text; whatever can be prepared is prepared here, once."""
    match rule:
        case ContainsRule() | EqualsRule() | OneOfRule() | StartsWithRule() | EndsWithRule():
            return _literal_check(rule)
        case RegexRule():
            return regex_check(rule)
        case LengthRule():
            return length_check(rule)
        case IncludesRule():
            return includes_check(rule)
        case KeywordCountRule():
            return keyword_count_check(rule)
        case JsonRule():
            return json_check(rule)
        case NumericRule():
            return numeric_check(rule)
    assert_never(rule)


def _literal_check(rule: ContainsRule | EqualsRule | OneOfRule | StartsWithRule | EndsWithRule) -> Check:
    match rule:
        case ContainsRule():
            return contains_check(rule)
        case EqualsRule():
            return equals_check(rule)
        case OneOfRule():
            return one_of_check(rule)
        case StartsWithRule():
            return starts_with_check(rule)
        case EndsWithRule():
            return ends_with_check(rule)
    assert_never(rule)


def is_quick(rule: Rule) -> bool:
    """Whether a rule is quick on any text, so that it needs no thread of its own."""
    return not isinstance(rule, RegexRule | JsonRule)
