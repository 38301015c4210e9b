"""`rule_based`: deterministic rules, each for a criterion of its own. Its class is RuleBasedEvaluator."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from agentv.evaluators.rules.base import Check, judged_text, reasoning_of
from agentv.evaluators.rules.json import JsonSettings, json_check
from agentv.evaluators.rules.regex import RegexSettings, regex_check
from agentv.evaluators.rules.text import (
    ContainsSettings,
    EdgeSettings,
    EqualsSettings,
    IncludesSettings,
    KeywordCountSettings,
    LengthSettings,
    NumericSettings,
    OneOfSettings,
    contains_check,
    ends_with_check,
    equals_check,
    includes_check,
    keyword_count_check,
    length_check,
    numeric_check,
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


class RuleKind(Struct, frozen=True):
    """How one sort of rule is checked; `is_quick` says that any text is checked at once, without a thread."""

    prepare: Callable[[Any], Check]
    is_quick: bool = True


RULES: Mapping[type[Rule], RuleKind] = {
    RegexRule: RuleKind(regex_check, is_quick=False),
    LengthRule: RuleKind(length_check),
    IncludesRule: RuleKind(includes_check),
    KeywordCountRule: RuleKind(keyword_count_check),
    JsonRule: RuleKind(json_check, is_quick=False),
    ContainsRule: RuleKind(contains_check),
    EqualsRule: RuleKind(equals_check),
    OneOfRule: RuleKind(one_of_check),
    StartsWithRule: RuleKind(starts_with_check),
    EndsWithRule: RuleKind(ends_with_check),
    NumericRule: RuleKind(numeric_check),
}
"""Every rule by its class; another one is a settings class in this room, its rule above, and a line here."""


KIND = "rule_based"


class RuleBasedSettings(Struct, frozen=True, kw_only=True):
    """Settings of `rule_based`."""

    rules: Annotated[
        tuple[Rule, ...],
        Meta(
            description="what to check: [{criterion, type, source, and the keys of that type}]",
            extra={"nested": "config"},
        ),
    ]

    def __post_init__(self) -> None:
        """Refuse an empty list, which judges nothing."""
        if not self.rules:
            raise ValueError("`rules` must have at least one rule")

    def criteria(self) -> tuple[str | None, ...]:
        """Return the criteria that the rules name; None stands for the evaluator's own."""
        return tuple(rule.criterion for rule in self.rules)


class _Prepared(Struct, frozen=True):
    """A rule ready to judge: its check, and where its text and its result belong."""

    check: Check
    criterion: str
    source: str
    metadata: JsonObject


class RuleBasedEvaluator:
    """Checks a text by rules, and gives one result per rule on its criterion's scale.

    A rule without a criterion judges `criterion`, one without a source looks at `source`.

    >>> from agentv.evaluators.rules.rule_based import LengthRule
    >>> RuleBasedEvaluator([LengthRule(max=100)], criterion="short").kind
    'rule_based'
    """

    kind = KIND
    reusable = True

    def __init__(self, rules: Sequence[Rule], *, criterion: str = KIND, source: str = "response") -> None:
        self.inline = all(RULES[type(rule)].is_quick for rule in rules)
        self._rules = tuple(
            _Prepared(
                check=RULES[type(rule)].prepare(rule),
                criterion=rule.criterion or criterion,
                source=rule.source or source,
                metadata={"rule": index, "type": rule.type},
            )
            for index, rule in enumerate(rules)
        )

    def evaluate(self, context: EvaluationContext) -> list[EvaluationResult]:
        """Return one result per rule, in order. What a rule cannot judge is that rule's error."""
        return [_judged(rule, context) for rule in self._rules]


def _judged(rule: _Prepared, context: EvaluationContext) -> EvaluationResult:
    criterion = criterion_named(rule.criterion, context.criteria)
    try:
        finding = rule.check(judged_text(context, rule.source))
    except EvaluatorError as error:
        return replace(failed_result(str(error), criterion, kind=KIND), metadata=rule.metadata)
    value = 1.0 if finding.passed else 0.0
    return result_of(value, criterion, kind=KIND, reasoning=reasoning_of(finding), metadata=rule.metadata)


def make_rule_based(config: EvaluatorConfig, settings: RuleBasedSettings, _tools: EvaluatorTools) -> RuleBasedEvaluator:
    """Return a `rule_based` evaluator; rules that name no criterion judge the evaluator's own, or one of its name."""
    return RuleBasedEvaluator(settings.rules, criterion=config.criterion or config.name, source=config.source)
