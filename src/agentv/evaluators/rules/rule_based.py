"""`rule_based`: deterministic rules, each with its own criterion. Its class is RuleBasedEvaluator."""

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias, assert_never

from msgspec import Meta, Struct
from msgspec.structs import replace

from agentv.evaluators.rules.base import Check, Finding, judged_text
from agentv.evaluators.rules.json import JsonSettings, json_check
from agentv.evaluators.rules.keywords import IncludesSettings, KeywordCountSettings, includes_check, keyword_count_check
from agentv.evaluators.rules.numbers import LengthSettings, NumericSettings, length_check, numeric_check
from agentv.evaluators.rules.regex import RegexSettings, regex_check
from agentv.evaluators.rules.text import (
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
from agentv.scoring.results.criteria import criterion_named, failed_result, result_of
from agentv.scoring.results.sources import parse_source
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationResult
from agentv.types.json_value import JsonObject
from agentv.types.protocols import EvaluatorTools

Criterion: TypeAlias = Annotated[
    str | None, Meta(description="the criterion that the rule scores", extra={"aliases": ("criterion_name",)})
]
Source: TypeAlias = Annotated[
    str | None,
    Meta(description="the path of the text to check", extra={"aliases": ("source_field", "source_text_field")}),
]


class _Placed:
    """The keys of every rule: the criterion it scores and the source of its text; None means the evaluator's own."""

    __slots__ = ()
    criterion: str | None
    source: str | None

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid source or setting of the rule itself."""
        if self.source is not None:
            try:
                parse_source(self.source)
            except ValueError as error:
                raise ValueError(f"`source` {error}") from error
        check_own = getattr(super(), "__post_init__", None)
        if check_own is not None:
            check_own()


class RegexRule(_Placed, RegexSettings, frozen=True, kw_only=True):
    """A regular expression matches the text, or must not match it."""

    type: Literal["regex"] = "regex"
    criterion: Criterion = None
    source: Source = None


class LengthRule(_Placed, LengthSettings, frozen=True, kw_only=True):
    """The number of characters, words or tokens in the text is within limits."""

    type: Literal["length"] = "length"
    criterion: Criterion = None
    source: Source = None


class IncludesRule(_Placed, IncludesSettings, frozen=True, kw_only=True):
    """The text includes all, any or none of the keywords."""

    type: Literal["includes"] = "includes"
    criterion: Criterion = None
    source: Source = None


class KeywordCountRule(_Placed, KeywordCountSettings, frozen=True, kw_only=True):
    """The number of times that the text has a keyword is within limits."""

    type: Literal["keyword_count"] = "keyword_count"
    criterion: Criterion = None
    source: Source = None


class JsonRule(_Placed, JsonSettings, frozen=True, kw_only=True):
    """The text is valid JSON and matches a JSON Schema, if one is given."""

    type: Literal["json_parse", "is_json"] = "json_parse"
    criterion: Criterion = None
    source: Source = None


class ContainsRule(_Placed, ContainsSettings, frozen=True, kw_only=True):
    """The text contains a given text, or any or all of several."""

    type: Literal["contains"] = "contains"
    criterion: Criterion = None
    source: Source = None


class EqualsRule(_Placed, EqualsSettings, frozen=True, kw_only=True):
    """The text equals a given text, ignoring surrounding white space."""

    type: Literal["equals"] = "equals"
    criterion: Criterion = None
    source: Source = None


class OneOfRule(_Placed, OneOfSettings, frozen=True, kw_only=True):
    """The text is one of a list."""

    type: Literal["one_of"] = "one_of"
    criterion: Criterion = None
    source: Source = None


class StartsWithRule(_Placed, EdgeSettings, frozen=True, kw_only=True):
    """The text starts with a given text."""

    type: Literal["starts_with"] = "starts_with"
    criterion: Criterion = None
    source: Source = None


class EndsWithRule(_Placed, EdgeSettings, frozen=True, kw_only=True):
    """The text ends with a given text."""

    type: Literal["ends_with"] = "ends_with"
    criterion: Criterion = None
    source: Source = None


class NumericRule(_Placed, NumericSettings, frozen=True, kw_only=True):
    """The last number in the text equals a value, within a tolerance."""

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
    """Return the check of a rule, with everything prepared that can be prepared in advance."""
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
    """Return True if a rule is quick on any text, so that it needs no thread of its own."""
    return not isinstance(rule, RegexRule | JsonRule)


KIND = "rule_based"
_SHOWN_LINES = 5
_SHOWN_CHARS = 1000


class RuleBasedSettings(Struct, frozen=True, kw_only=True):
    """Settings of `rule_based`."""

    rules: Annotated[
        tuple[Rule, ...],
        Meta(
            description="the rules: [{criterion, type, source, and the keys of that type}]",
            extra={"nested": "config"},
        ),
    ]

    def __post_init__(self) -> None:
        """Raise ValueError for an empty list."""
        if not self.rules:
            raise ValueError("`rules` must have at least one rule")

    def criteria(self) -> tuple[str | None, ...]:
        """Return the criteria that the rules name; None stands for the evaluator's own."""
        return tuple(rule.criterion for rule in self.rules)


class _Prepared(Struct, frozen=True):
    """A prepared rule: its check, the source of its text, and the criterion and metadata of its result."""

    check: Check
    criterion: str
    source: str
    metadata: JsonObject


class RuleBasedEvaluator:
    """An evaluator that checks a text by rules and returns one result per rule, on its criterion's scale.

    A rule without a criterion scores `criterion`; one without a source checks the text at `source`.

    >>> from agentv.evaluators.rules.rule_based import LengthRule
    >>> RuleBasedEvaluator([LengthRule(max=100)], criterion="short").kind
    'rule_based'
    """

    kind = KIND
    reusable = True

    def __init__(self, rules: Sequence[Rule], *, criterion: str = KIND, source: str = "response") -> None:
        self.inline = all(map(is_quick, rules))
        self._rules = tuple(
            _Prepared(
                check=check_of(rule),
                criterion=rule.criterion or criterion,
                source=rule.source or source,
                metadata={"rule": index, "type": rule.type},
            )
            for index, rule in enumerate(rules)
        )

    def evaluate(self, context: EvaluationContext) -> list[EvaluationResult]:
        """Return one result per rule, in order. A rule that cannot be applied gets an error of its own."""
        return [_judged(rule, context) for rule in self._rules]


def _judged(rule: _Prepared, context: EvaluationContext) -> EvaluationResult:
    criterion = criterion_named(rule.criterion, context.criteria)
    try:
        finding = rule.check(judged_text(context, rule.source))
    except EvaluatorError as error:
        return replace(failed_result(str(error), criterion, kind=KIND), metadata=rule.metadata)
    value = 1.0 if finding.passed else 0.0
    return result_of(value, criterion, kind=KIND, reasoning=reasoning_of(finding), metadata=rule.metadata)


def reasoning_of(finding: Finding) -> str | None:
    """Return a finding as one line: the hits of a rule that passed, else the misses; None without any."""
    lines = finding.hits if finding.passed else finding.misses
    more = len(lines) - _SHOWN_LINES
    shown = "; ".join(lines[:_SHOWN_LINES]) + (f"; and {more} more" if more > 0 else "")
    return f"{shown[:_SHOWN_CHARS]} …" if len(shown) > _SHOWN_CHARS else shown or None


def make_rule_based(config: EvaluatorConfig, settings: RuleBasedSettings, _tools: EvaluatorTools) -> RuleBasedEvaluator:
    """Make a `rule_based`; rules without a criterion score the evaluator's own criterion, or one of its name."""
    return RuleBasedEvaluator(settings.rules, criterion=config.criterion or config.name, source=config.source)
