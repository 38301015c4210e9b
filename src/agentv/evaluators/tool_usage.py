"""`tool_usage`: rules on the tools an agent called, each for a criterion. Its class is ToolUsageEvaluator."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from agentv.evaluators.argument_checks import function_name
from agentv.evaluators.named_files import function_files
from agentv.evaluators.rule_based import reasoning_of
from agentv.evaluators.tool_rules import PreparedToolRule, ToolRule
from agentv.scoring.criterion_results import criterion_named, failed_result, result_of
from agentv.scoring.recorded_calls import CallSource, recorded_calls
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationResult
from agentv.types.json_value import JsonObject
from agentv.types.messages import ToolCall
from agentv.types.protocols import EvaluatorTools

KIND = "tool_usage"


class ToolUsageSettings(Struct, frozen=True, kw_only=True):
    """Settings of `tool_usage`."""

    rules: Annotated[
        tuple[ToolRule, ...],
        Meta(description="what to demand: [{criterion, tool, required, min_calls, max_calls, args, result, each}]"),
    ]
    tool_data_source: Annotated[
        Literal["message_history", "messageHistory", "context"] | None,
        Meta(description="look for calls only in the messages, or only in context.toolCalls"),
    ] = None

    def __post_init__(self) -> None:
        """Refuse an empty list, which judges nothing."""
        if not self.rules:
            raise ValueError("`rules` must have at least one rule")

    def criteria(self) -> tuple[str | None, ...]:
        """Return the criteria that the rules name; None stands for the evaluator's own."""
        return tuple(rule.criterion for rule in self.rules)

    def files(self, base_dir: str) -> tuple[str, ...]:
        """Return the files of the functions that the rules name."""
        named = (function_name(rule.args) for rule in self.rules if isinstance(rule.args, str))
        return tuple(file for name in named for file in function_files(name, Path(base_dir)))


class ToolUsageEvaluator:
    """Checks the tool calls on record by rules, and gives one result per rule on its criterion's scale.

    A rule without a criterion judges `criterion`. `base_dir` is where the functions are that rules name.

    >>> ToolUsageEvaluator([ToolRule(tool="search", required=True)]).kind
    'tool_usage'
    """

    kind = KIND
    reusable = True

    def __init__(
        self,
        rules: Sequence[ToolRule],
        *,
        criterion: str = KIND,
        tool_data_source: CallSource | None = None,
        base_dir: str = ".",
    ) -> None:
        self.inline = not any(rule.has_check for rule in rules)
        self.warnings = tuple(
            f"rule {number} demands nothing of {rule.tool}: add `required: true`, or what it is called with"
            for number, rule in enumerate(rules, start=1)
            if rule.demands_nothing
        )
        self._source = tool_data_source
        self._rules = tuple(
            (PreparedToolRule(rule, base_dir=base_dir), rule.criterion or criterion, _metadata(index, rule))
            for index, rule in enumerate(rules)
        )

    def evaluate(self, context: EvaluationContext) -> list[EvaluationResult]:
        """Return one result per rule, in order. What a rule cannot judge is that rule's error.

        Raises EvaluatorError when `context.toolCalls` cannot be read.
        """
        calls = recorded_calls(context, self._source)
        return [_judged(rule, name, metadata, calls, context) for rule, name, metadata in self._rules]


def _metadata(index: int, rule: ToolRule) -> JsonObject:
    return {"rule": index} if rule.tool is None else {"rule": index, "tool": rule.tool}


def _judged(
    rule: PreparedToolRule,
    name: str,
    metadata: JsonObject,
    calls: Sequence[ToolCall] | None,
    context: EvaluationContext,
) -> EvaluationResult:
    criterion = criterion_named(name, context.criteria)
    try:
        finding = rule.judge(calls)
    except EvaluatorError as error:
        return replace(failed_result(str(error), criterion, kind=KIND), metadata=metadata)
    value = 1.0 if finding.passed else 0.0
    return result_of(value, criterion, kind=KIND, reasoning=reasoning_of(finding), metadata=metadata)


def make_tool_usage(config: EvaluatorConfig, settings: ToolUsageSettings, _tools: EvaluatorTools) -> ToolUsageEvaluator:
    """Make a `tool_usage`; rules that name no criterion judge the evaluator's own, or one of its name."""
    return ToolUsageEvaluator(
        settings.rules,
        criterion=config.criterion or config.name,
        tool_data_source=None if settings.tool_data_source is None else _SOURCES[settings.tool_data_source],
        base_dir=config.base_dir,
    )


_SOURCES: dict[str, CallSource] = {
    "message_history": "message_history",
    "messageHistory": "message_history",
    "context": "context",
}
