"""`rule_based`: deterministic rules, each for a criterion of its own. Its class is RuleBasedEvaluator."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from agentv.evaluators.rule_kinds import Rule, check_of, is_quick
from agentv.evaluators.rules import Check, Finding, judged_text
from agentv.scoring.criterion_results import criterion_named, failed_result, result_of
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationResult
from agentv.types.json_value import JsonObject
from agentv.types.protocols import EvaluatorTools

KIND = "rule_based"
_SHOWN_LINES = 5
_SHOWN_CHARS = 1000


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

    >>> from agentv.evaluators.rule_kinds import LengthRule
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


def reasoning_of(finding: Finding) -> str | None:
    """Return what a rule found as one line: what was missed, or when it passed what was hit; None without either."""
    lines = finding.hits if finding.passed else finding.misses
    more = len(lines) - _SHOWN_LINES
    shown = "; ".join(lines[:_SHOWN_LINES]) + (f"; and {more} more" if more > 0 else "")
    return f"{shown[:_SHOWN_CHARS]} …" if len(shown) > _SHOWN_CHARS else shown or None


def make_rule_based(config: EvaluatorConfig, settings: RuleBasedSettings, _tools: EvaluatorTools) -> RuleBasedEvaluator:
    """Make a `rule_based`; rules that name no criterion judge the evaluator's own, or one of its name."""
    return RuleBasedEvaluator(settings.rules, criterion=config.criterion or config.name, source=config.source)
