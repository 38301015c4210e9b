"""`rule_based`: deterministic rules on a text, each of which scores one criterion. Its class is RuleBasedEvaluator."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from agentv.evaluators.rules.base import Check, judged_text, reasoning_of
from agentv.evaluators.rules.json import JsonSettings, json_check
from agentv.evaluators.rules.numeric import NumericSettings, numeric_check
from agentv.evaluators.rules.regex import RegexSettings, regex_check
from agentv.evaluators.rules.text import (
    ContainsSettings,
    EdgeSettings,
    EqualsSettings,
    IncludesSettings,
    KeywordCountSettings,
    LengthSettings,
    OneOfSettings,
    contains_check,
    ends_with_check,
    equals_check,
    includes_check,
    keyword_count_check,
    length_check,
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


class _RuleBase:
    """The fields of every rule: the criterion to score and the path of the text; None means the evaluator's own."""

    __slots__ = ()
    criterion: str | None
    source: str | None

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid source, then run the checks of the rule's settings class."""
        if self.source is not None:
            try:
                parse_source(self.source)
            except ValueError as error:
                raise ValueError(f"`source` {error}") from error
        check_settings = getattr(super(), "__post_init__", None)
        if check_settings is not None:
            check_settings()


class RegexRule(_RuleBase, RegexSettings, frozen=True, kw_only=True):
    """A regular expression matches somewhere in the text, or with `expect: no_match` nowhere."""

    type: Literal["regex"] = "regex"
    criterion: Criterion = None
    source: Source = None


class LengthRule(_RuleBase, LengthSettings, frozen=True, kw_only=True):
    """The number of characters, words or tokens in the text is within limits."""

    type: Literal["length"] = "length"
    criterion: Criterion = None
    source: Source = None


class IncludesRule(_RuleBase, IncludesSettings, frozen=True, kw_only=True):
    """The text includes all, any or none of the keywords."""

    type: Literal["includes"] = "includes"
    criterion: Criterion = None
    source: Source = None


class KeywordCountRule(_RuleBase, KeywordCountSettings, frozen=True, kw_only=True):
    """The number of occurrences of a keyword in the text is within limits."""

    type: Literal["keyword_count"] = "keyword_count"
    criterion: Criterion = None
    source: Source = None


class JsonRule(_RuleBase, JsonSettings, frozen=True, kw_only=True):
    """The text is JSON, or with `inside` contains it, and matches the schema, if one is given."""

    type: Literal["json_parse", "is_json"] = "json_parse"
    criterion: Criterion = None
    source: Source = None


class ContainsRule(_RuleBase, ContainsSettings, frozen=True, kw_only=True):
    """The text contains `value`; if this is a list, any or all of its texts."""

    type: Literal["contains"] = "contains"
    criterion: Criterion = None
    source: Source = None


class EqualsRule(_RuleBase, EqualsSettings, frozen=True, kw_only=True):
    """The text equals `value`; if this is a list, any or all of its texts. Outer white space is ignored."""

    type: Literal["equals"] = "equals"
    criterion: Criterion = None
    source: Source = None


class OneOfRule(_RuleBase, OneOfSettings, frozen=True, kw_only=True):
    """The text is one of `values`; white space around both is ignored."""

    type: Literal["one_of"] = "one_of"
    criterion: Criterion = None
    source: Source = None


class StartsWithRule(_RuleBase, EdgeSettings, frozen=True, kw_only=True):
    """The text starts with `value`; if this is a list, with any or all of its texts. Outer white space is ignored."""

    type: Literal["starts_with"] = "starts_with"
    criterion: Criterion = None
    source: Source = None


class EndsWithRule(_RuleBase, EdgeSettings, frozen=True, kw_only=True):
    """The text ends with `value`; if this is a list, with any or all of its texts. Outer white space is ignored."""

    type: Literal["ends_with"] = "ends_with"
    criterion: Criterion = None
    source: Source = None


class NumericRule(_RuleBase, NumericSettings, frozen=True, kw_only=True):
    """A number in the text, by default the last, equals `value` within a tolerance, or one of a list of values."""

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
    """How one type of rule is checked.

    `prepare` makes the check. `is_quick` is True if the check is fast for every text, so that it needs no thread.
    """

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
"""How each rule is checked, by its class. A new rule needs a settings class in `evaluators/rules/`, a class above,
and a line in `Rule` and here."""


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
        """Raise ValueError for an empty list, which checks nothing."""
        if not self.rules:
            raise ValueError("`rules` must have at least one rule")

    def criteria(self) -> tuple[str | None, ...]:
        """Return the criteria that the rules name; None stands for the evaluator's own."""
        return tuple(rule.criterion for rule in self.rules)


class _PreparedRule(Struct, frozen=True):
    """A rule that is ready to be applied: `source` is the path of its text, `metadata` the metadata of its result."""

    check: Check
    criterion: str
    source: str
    metadata: JsonObject


class RuleBasedEvaluator:
    """An evaluator that checks a text by rules and returns one result per rule, on the scale of its criterion.

    `criterion` and `source` apply to rules without their own.

    >>> from agentv.evaluators.rules.rule_based import LengthRule
    >>> RuleBasedEvaluator([LengthRule(max=100)], criterion="short").kind
    'rule_based'
    """

    kind = KIND
    reads_workspace = False
    reusable = True

    def __init__(self, rules: Sequence[Rule], *, criterion: str = KIND, source: str = "response") -> None:
        self.inline = all(RULES[type(rule)].is_quick for rule in rules)
        self._rules = tuple(
            _PreparedRule(
                check=RULES[type(rule)].prepare(rule),
                criterion=rule.criterion or criterion,
                source=rule.source or source,
                metadata={"rule": index, "type": rule.type},
            )
            for index, rule in enumerate(rules)
        )

    def evaluate(self, context: EvaluationContext) -> list[EvaluationResult]:
        """Return one result per rule, in order. A rule that cannot be applied gets an error of its own."""
        return [_judged(rule, context) for rule in self._rules]


def _judged(rule: _PreparedRule, context: EvaluationContext) -> EvaluationResult:
    criterion = criterion_named(rule.criterion, context.criteria)
    try:
        finding = rule.check(judged_text(context, rule.source))
    except EvaluatorError as error:
        return replace(failed_result(str(error), criterion, kind=KIND), metadata=rule.metadata)
    value = 1.0 if finding.passed else 0.0
    return result_of(value, criterion, kind=KIND, reasoning=reasoning_of(finding), metadata=rule.metadata)


def make_rule_based(config: EvaluatorConfig, settings: RuleBasedSettings, _tools: EvaluatorTools) -> RuleBasedEvaluator:
    """Return a `rule_based` evaluator.

    A rule without a criterion scores the evaluator's `criterion`; default: the criterion with the evaluator's name.
    """
    return RuleBasedEvaluator(settings.rules, criterion=config.criterion or config.name, source=config.source)
