"""`tool_usage`: rules on an agent's tool calls, each of which scores one criterion. Its class is ToolUsageEvaluator."""

import copy
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, cast

from msgspec import Meta, Struct
from msgspec.structs import replace

from agentv.evaluators.named_files import function_files
from agentv.evaluators.rules.base import Finding, reasoning_of
from agentv.evaluators.rules.json import first_problems
from agentv.evaluators.rules.text import check_range
from agentv.execution.user_code import described, load_callable
from agentv.scoring.results.criteria import criterion_named, failed_result, result_of
from agentv.scoring.text.json_schema import check_schema, make_schema_check, plain_json
from agentv.scoring.tools.recorded_calls import CallSource, recorded_calls
from agentv.scoring.tools.tool_calls import ExpectedCall, name_matches
from agentv.scoring.tools.trajectory import NO_TRACE, Trajectory, score_trajectory
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationResult
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import ToolCall
from agentv.types.protocols import EvaluatorTools

ValueCheck: TypeAlias = Callable[[JsonValue], str | None]
"""A function that returns the problem of a value, or None. Raises EvaluatorError when it cannot decide."""

ArgsSetting: TypeAlias = JsonObject | str | Callable[..., object]
"""A JSON Schema, the name of a function (`python:path.py:function`), or in Python the function itself or an object with
a function for each argument."""


def check_args_setting(args: object) -> None:
    """Raise ValueError for a string that cannot be a function's name, or an object that is not a valid JSON Schema."""
    if isinstance(args, str):
        if ":" not in function_name(args):
            raise ValueError("`args` must be a JSON Schema, or name a function: python:path.py:function")
    elif isinstance(args, Mapping) and not _has_functions(args):
        check_schema(args, name="args")


def function_name(args: str) -> str:
    """Return the name of a function without its optional prefix `python:`."""
    return args.removeprefix("python:")


def make_args_check(args: ArgsSetting, *, base_dir: str) -> ValueCheck:
    """Return a check of a call's arguments. Loads a named function from `base_dir`, or raises PluginError."""
    if isinstance(args, str):
        return _function_check(load_callable(function_name(args), base_dir))
    if callable(args):
        return _function_check(args)
    return _each_check(args) if _has_functions(args) else make_value_check(args)


def _has_functions(args: Mapping[str, object]) -> bool:
    """Return True for an object of functions, one for each argument, instead of a schema."""
    return bool(args) and all(map(callable, args.values()))


def _each_check(functions: Mapping[str, Any]) -> ValueCheck:
    """Return a check of each named argument by a function of its own, which gets None if it is missing."""
    checks = {name: _function_check(function) for name, function in functions.items()}

    def check(value: JsonValue) -> str | None:
        parsed = value if isinstance(value, Mapping) else _parsed(value)
        given = parsed if isinstance(parsed, Mapping) else {}
        problems = {name: problem for name, each in checks.items() if (problem := each(given.get(name))) is not None}
        return "; ".join(f"{name}: {problem}" for name, problem in problems.items()) or None

    return check


def make_value_check(schema: JsonObject) -> ValueCheck:
    """Return a check of a value by a JSON Schema.

    If the value is a string that is a JSON object or list as a whole, either the string or the parsed value may match.
    """
    violations_of = make_schema_check(schema)

    def check(value: JsonValue) -> str | None:
        parsed = _parsed(value)
        try:
            problems = list(first_problems(violations_of(plain_json(value))))
        except RecursionError as error:
            raise EvaluatorError("nested too deeply to compare with the schema") from error
        if problems and parsed is not None:
            problems = list(first_problems(violations_of(parsed)))
        return "; ".join(problems) or None

    return check


def _parsed(value: JsonValue) -> JsonValue:
    """Parse a string that is a JSON object or list as a whole; return None for any other value."""
    if not isinstance(value, str):
        return None
    try:
        parsed: JsonValue = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict | list) else None


def _function_check(function: Callable[..., object]) -> ValueCheck:
    name = getattr(function, "__name__", type(function).__name__)

    def check(value: JsonValue) -> str | None:
        parsed = _parsed(value)
        try:
            # A copy, because the function may change its argument.
            returned = function(copy.deepcopy(value if parsed is None else parsed))
        except (Exception, SystemExit) as error:
            raise EvaluatorError(f"{name} raised {described(error)}") from error
        return _refusal(returned, name)

    return check


def _refusal(returned: object, name: str) -> str | None:
    """Return the reason why a check function refused a value; None if it accepted the value.

    `returned` is what the function `name` returned. Raises EvaluatorError unless this is a bool, or a mapping with a
    bool in `isValid` or `is_valid`, and optionally a `reason`.
    """
    if inspect.iscoroutine(returned):
        returned.close()
        raise EvaluatorError(f"{name} is a coroutine function; a check must be a synchronous function")
    reason: object = None
    verdict = returned
    if isinstance(returned, Mapping):
        fields = cast(Mapping[str, object], returned)
        verdict = fields.get("is_valid", fields.get("isValid"))
        reason = fields.get("reason")
    if not isinstance(verdict, bool):
        raise EvaluatorError(f"{name} returned {returned!r:.100}; it must return a bool or {{isValid, reason}}")
    return None if verdict else str(reason or f"refused by {name}")


class ToolRule(Struct, frozen=True, kw_only=True):
    """A requirement on the calls of `tool` (None: of any tool), or with `sequence` on the order of several tools."""

    criterion: Annotated[
        str | None, Meta(description="the criterion that the rule scores", extra={"aliases": ("criterion_name",)})
    ] = None
    tool: Annotated[
        str | None,
        Meta(
            description="the name of the tool, or a glob pattern",
            extra={"aliases": ("expected_tool_name", "tool_name")},
        ),
    ] = None
    required: Annotated[bool, Meta(description="the tool must be called", extra={"aliases": ("is_required",)})] = False
    min_calls: Annotated[int | None, Meta(description="the minimum number of calls")] = None
    max_calls: Annotated[int | None, Meta(description="the maximum number of calls; 0 forbids the tool")] = None
    args: Annotated[
        Mapping[str, JsonValue] | str | Callable[..., object] | None,
        Meta(
            description="check of the arguments: a JSON Schema, or a function as python:path.py:function; in Python "
            "also a function, or an object with a function for each argument",
            extra={"aliases": ("argument_checks",)},
        ),
    ] = None
    result: Annotated[Mapping[str, JsonValue] | None, Meta(description="check of the result: a JSON Schema")] = None
    each: Annotated[
        Literal["first", "any", "all"],
        Meta(description="the calls that must pass `args` and `result`: first, any (at least one) or all"),
    ] = "first"
    sequence: Annotated[
        tuple[str, ...], Meta(description="tools that must be called in this order; others may come between")
    ] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for keys that are missing, invalid or cannot be combined.

        A rule needs `tool`, `args`, `result` or `sequence`. If it only names a tool, `requires_nothing` is True.
        """
        if self.sequence:
            self._check_sequence()
        elif not (self.tool or self.has_check):
            raise ValueError("a rule needs `tool`, `args`, `result` or `sequence`")
        if self.has_count:
            check_range(self.min_calls, self.max_calls, "tool_usage", ("min_calls", "max_calls"))
        if self.required and self.max_calls == 0:
            raise ValueError("`required` and `max_calls: 0` contradict each other")
        check_args_setting(self.args)
        if self.result is not None:
            check_schema(self.result, name="result")

    def _check_sequence(self) -> None:
        if self.tool or self.has_check or self.required or self.has_count or self.each != "first":
            raise ValueError("`sequence` cannot be combined with keys about one tool; use a separate rule for them")

    @property
    def has_count(self) -> bool:
        """True if `min_calls` or `max_calls` limits the number of calls."""
        return self.min_calls is not None or self.max_calls is not None

    @property
    def has_check(self) -> bool:
        """True if the rule checks the arguments or results of calls, not only their number."""
        return self.args is not None or self.result is not None

    @property
    def requires_nothing(self) -> bool:
        """True if the rule only names a tool, so that every answer passes."""
        return not (self.required or self.has_count or self.has_check or self.sequence)


class PreparedToolRule:
    """A rule with its checks prepared. Loads a named function from `base_dir`, or raises PluginError."""

    def __init__(self, rule: ToolRule, *, base_dir: str) -> None:
        self._rule = rule
        self._args_check = None if rule.args is None else make_args_check(rule.args, base_dir=base_dir)
        self._result_check = None if rule.result is None else make_value_check(rule.result)
        self._sequence = Trajectory("in_order", tuple(ExpectedCall(tool) for tool in rule.sequence))

    def judge(self, calls: Sequence[ToolCall] | None) -> Finding:
        """Apply the rule to the recorded calls; `calls` is None if nothing is recorded.

        Raises EvaluatorError if a call cannot be checked.
        """
        rule = self._rule
        depends_on_count = rule.required or rule.min_calls or rule.max_calls is not None
        if calls is None and (rule.sequence or depends_on_count):
            return Finding(passed=False, misses=(NO_TRACE,))
        if rule.sequence:
            compared = score_trajectory(self._sequence, calls or ())
            return Finding(not compared.misses, compared.hits, compared.misses)
        matching = [call for call in calls or () if rule.tool is None or name_matches(rule.tool, call.tool)]
        return self._judge_matching(matching)

    def _judge_matching(self, calls: Sequence[ToolCall]) -> Finding:
        problems = tuple(self._count_problems(len(calls)))
        if problems:
            return Finding(passed=False, misses=problems)
        if not calls:
            return Finding(passed=True, hits=(f"{self._call_count_text(0)}, which is allowed",))
        if not self._rule.has_check:
            return Finding(passed=True, hits=(self._call_count_text(len(calls)),))
        return self._check_calls(calls)

    def _count_problems(self, count: int) -> Iterator[str]:
        rule = self._rule
        if rule.min_calls is not None and count < rule.min_calls:
            yield f"{self._call_count_text(count)} (minimum: {rule.min_calls})"
        elif rule.required and count == 0:
            yield f"{self._call_count_text(0)}, but it is required"
        if rule.max_calls is not None and count > rule.max_calls:
            yield f"{self._call_count_text(count)} (maximum: {rule.max_calls})"

    def _call_count_text(self, count: int) -> str:
        return f"{self._rule.tool or 'any tool'} called {count} time{'' if count == 1 else 's'}"

    def _check_calls(self, calls: Sequence[ToolCall]) -> Finding:
        if self._rule.each == "any":
            return self._check_any(calls)
        checked_calls = calls if self._rule.each == "all" else calls[:1]
        problems = [self._problem(call, number) for number, call in enumerate(checked_calls, start=1)]
        misses = tuple(problem for problem in problems if problem is not None)
        if misses:
            return Finding(passed=False, misses=misses)
        checked = "every call" if self._rule.each == "all" else "the first call"
        return Finding(passed=True, hits=(f"{self._call_count_text(len(calls))}, {checked} as required",))

    def _check_any(self, calls: Sequence[ToolCall]) -> Finding:
        """Pass if any call passes. If none does, raise the error of the first call that could not be checked."""
        problems: list[str] = []
        first_error: EvaluatorError | None = None
        for number, call in enumerate(calls, start=1):
            try:
                problem = self._problem(call, number)
            except EvaluatorError as error:
                first_error = first_error or error
                continue
            if problem is None:
                return Finding(passed=True, hits=(f"{self._call_count_text(len(calls))}, call {number} as required",))
            problems.append(problem)
        if first_error is not None:
            raise first_error
        return Finding(passed=False, misses=tuple(problems))

    def _problem(self, call: ToolCall, number: int) -> str | None:
        """Return the problem of the matching call `number`, or None. Raises EvaluatorError if it cannot be checked."""
        where = f"call {number} of {call.tool}"
        try:
            problem = self._args_problem(call)
            if problem is not None:
                return f"{where}: {problem}"
            problem = self._result_problem(call)
        except EvaluatorError as error:
            raise EvaluatorError(f"{where}: {error}", kind=error.failure.kind) from error
        return None if problem is None else f"{where} returned an unexpected result: {problem}"

    def _args_problem(self, call: ToolCall) -> str | None:
        if self._args_check is None:
            return None
        return self._args_check({} if call.input is None else call.input)

    def _result_problem(self, call: ToolCall) -> str | None:
        if self._result_check is None:
            return None
        if call.output is None:
            raise EvaluatorError("its result is not recorded")
        return self._result_check(call.output)


KIND = "tool_usage"


class ToolUsageSettings(Struct, frozen=True, kw_only=True):
    """Settings of `tool_usage`."""

    rules: Annotated[
        tuple[ToolRule, ...],
        Meta(
            description="the rules: [{criterion, tool, required, min_calls, max_calls, args, result, each, sequence}]",
            extra={"aliases": ("expected_tool_calls",)},
        ),
    ]
    tool_data_source: Annotated[
        Literal["message_history", "messageHistory", "context"] | None,
        Meta(description="use only the calls in the messages, or only those in context.toolCalls"),
    ] = None

    def __post_init__(self) -> None:
        """Raise ValueError for an empty list, which checks nothing."""
        if not self.rules:
            raise ValueError("`rules` must have at least one rule")

    def criteria(self) -> tuple[str | None, ...]:
        """Return the criteria that the rules name; None stands for the evaluator's own."""
        return tuple(rule.criterion for rule in self.rules)

    def code_files(self, base_dir: str) -> tuple[str, ...]:
        """Return the files of the functions that the rules name in `args`."""
        named = (function_name(rule.args) for rule in self.rules if isinstance(rule.args, str))
        return tuple(file for name in named for file in function_files(name, Path(base_dir)))


class ToolUsageEvaluator:
    """An evaluator that checks the recorded tool calls by rules and returns one result per rule.

    Each result is on its criterion's scale. A rule without a criterion scores `criterion`. `tool_data_source` selects
    the calls, as in `recorded_calls`. Functions that rules name are loaded from `base_dir`; raises PluginError if that
    fails.

    >>> ToolUsageEvaluator([ToolRule(tool="search", required=True)]).kind
    'tool_usage'
    """

    kind = KIND
    reads_workspace = False
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
            f"rule {number} requires nothing of {rule.tool}: add `required`, `min_calls`, `max_calls` or `args`"
            for number, rule in enumerate(rules, start=1)
            if rule.requires_nothing
        )
        self._source = tool_data_source
        self._rules = tuple(
            (PreparedToolRule(rule, base_dir=base_dir), rule.criterion or criterion, _metadata(index, rule))
            for index, rule in enumerate(rules)
        )

    def evaluate(self, context: EvaluationContext) -> list[EvaluationResult]:
        """Return one result per rule, in order. A rule that cannot be applied gets an error of its own.

        Raises EvaluatorError if `context.toolCalls` cannot be read.
        """
        calls = recorded_calls(context, self._source)
        return [
            _judged(rule, criterion_name=criterion_name, metadata=metadata, calls=calls, context=context)
            for rule, criterion_name, metadata in self._rules
        ]


def _metadata(index: int, rule: ToolRule) -> JsonObject:
    return {"rule": index} if rule.tool is None else {"rule": index, "tool": rule.tool}


def _judged(
    rule: PreparedToolRule,
    criterion_name: str,
    metadata: JsonObject,
    calls: Sequence[ToolCall] | None,
    context: EvaluationContext,
) -> EvaluationResult:
    criterion = criterion_named(criterion_name, context.criteria)
    try:
        finding = rule.judge(calls)
    except EvaluatorError as error:
        return replace(failed_result(str(error), criterion, kind=KIND), metadata=metadata)
    value = 1.0 if finding.passed else 0.0
    return result_of(value, criterion, kind=KIND, reasoning=reasoning_of(finding), metadata=metadata)


def make_tool_usage(config: EvaluatorConfig, settings: ToolUsageSettings, _tools: EvaluatorTools) -> ToolUsageEvaluator:
    """Return a `tool_usage` evaluator.

    A rule without a criterion scores the evaluator's `criterion`; default: the criterion with the evaluator's name.
    """
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
"""The sources of calls, by the accepted values of `tool_data_source`."""
