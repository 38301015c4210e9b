"""One rule of `tool_usage`: its settings, and what it says of the calls on record."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from agentv.evaluators.argument_checks import (
    ValueCheck,
    check_args_setting,
    check_value_schema,
    make_args_check,
    make_value_check,
)
from agentv.evaluators.number_rules import check_range
from agentv.evaluators.rules import Finding
from agentv.scoring.tool_calls import ExpectedCall, name_matches
from agentv.scoring.trajectory import NO_TRACE, Trajectory, score_trajectory
from agentv.types.errors import EvaluatorError
from agentv.types.json_value import JsonValue
from agentv.types.messages import ToolCall


class ToolRule(Struct, frozen=True, kw_only=True):
    """What is demanded of one tool, or with `sequence` of the order of several."""

    criterion: Annotated[
        str | None, Meta(description="which of the criteria it judges", extra={"aliases": ("criterion_name",)})
    ] = None
    tool: Annotated[
        str | None, Meta(description="the tool's name, or a glob", extra={"aliases": ("expected_tool_name",)})
    ] = None
    required: Annotated[bool, Meta(description="whether it must be called", extra={"aliases": ("is_required",)})] = (
        False
    )
    min_calls: Annotated[int | None, Meta(description="at least so many calls")] = None
    max_calls: Annotated[int | None, Meta(description="at most so many calls; 0 forbids the tool")] = None
    args: Annotated[
        Mapping[str, JsonValue] | str | Callable[..., object] | None,
        Meta(
            description="what it is called with: a JSON Schema, or python:path.py:function, which gets the arguments",
            extra={"aliases": ("argument_checks",)},
        ),
    ] = None
    result: Annotated[Mapping[str, JsonValue] | None, Meta(description="what it returns, as a JSON Schema")] = None
    each: Annotated[
        Literal["first", "any", "all"], Meta(description="which calls must be as `args` and `result` say")
    ] = "first"
    sequence: Annotated[
        tuple[str, ...], Meta(description="tools that must be called in this order; others may come between")
    ] = ()

    def __post_init__(self) -> None:
        """Refuse a rule that demands nothing, or what cannot be."""
        if self.sequence:
            self._check_sequence()
        elif not (self.tool or self.has_check):
            raise ValueError("a rule needs `tool`, `args`, `result` or `sequence`; without them it judges nothing")
        if self.min_calls is not None or self.max_calls is not None:
            check_range(self.min_calls, self.max_calls, "tool_usage", ("min_calls", "max_calls"))
        if self.required and self.max_calls == 0:
            raise ValueError("`required` demands a call, and `max_calls: 0` forbids it")
        check_args_setting(self.args)
        if self.result is not None:
            check_value_schema(self.result, name="result")

    def _check_sequence(self) -> None:
        counted = self.min_calls is not None or self.max_calls is not None
        if self.tool or self.has_check or self.required or counted:
            raise ValueError("`sequence` stands alone: what is demanded of one tool is a rule of its own")

    @property
    def has_check(self) -> bool:
        """Whether it looks at what a call brought, not only whether there was one."""
        return self.args is not None or self.result is not None

    @property
    def demands_nothing(self) -> bool:
        """Whether every answer passes it."""
        counted = self.min_calls is not None or self.max_calls is not None
        return not (self.required or counted or self.has_check or self.sequence)


class PreparedToolRule:
    """A rule with its checks ready. Functions that it names are loaded from `base_dir`."""

    def __init__(self, rule: ToolRule, *, base_dir: str) -> None:
        self._rule = rule
        self._args: ValueCheck | None = None
        if rule.args is not None:
            self._args = make_args_check(rule.args, base_dir=base_dir)
        self._result = None if rule.result is None else make_value_check(rule.result)
        self._sequence = Trajectory("in_order", tuple(ExpectedCall(tool) for tool in rule.sequence))

    def judge(self, calls: Sequence[ToolCall] | None) -> Finding:
        """Return what the rule says of the calls on record, None when nothing is. Raises EvaluatorError."""
        rule = self._rule
        if calls is None and (rule.sequence or rule.required or rule.min_calls or rule.max_calls is not None):
            return Finding(passed=False, misses=(NO_TRACE,))
        if rule.sequence:
            compared = score_trajectory(self._sequence, calls or ())
            return Finding(not compared.misses, compared.hits, compared.misses)
        return self._of_tool([call for call in calls or () if rule.tool is None or name_matches(rule.tool, call.tool)])

    def _of_tool(self, calls: Sequence[ToolCall]) -> Finding:
        problems = tuple(self._count_problems(len(calls)))
        if problems or not calls:
            return Finding(not problems, hits=(f"{self._times(0)}, which is allowed",), misses=problems)
        if not self._rule.has_check:
            return Finding(passed=True, hits=(self._times(len(calls)),))
        return self._checked(calls)

    def _count_problems(self, count: int) -> Iterator[str]:
        rule = self._rule
        if rule.min_calls is not None and count < rule.min_calls:
            yield f"{self._times(count)} (minimum: {rule.min_calls})"
        elif rule.required and count == 0:
            yield f"{self._times(0)}, but is required"
        if rule.max_calls is not None and count > rule.max_calls:
            yield f"{self._times(count)} (maximum: {rule.max_calls})"

    def _times(self, count: int) -> str:
        return f"{self._rule.tool or 'any tool'} called {count} time{'' if count == 1 else 's'}"

    def _checked(self, calls: Sequence[ToolCall]) -> Finding:
        if self._rule.each == "any":
            return self._any(calls)
        checked_calls = calls if self._rule.each == "all" else calls[:1]
        problems = [self._problem(call, number) for number, call in enumerate(checked_calls, start=1)]
        misses = tuple(problem for problem in problems if problem is not None)
        checked = "every call" if self._rule.each == "all" else "the first call"
        return Finding(not misses, (f"{self._times(len(calls))}, {checked} as demanded",), misses)

    def _any(self, calls: Sequence[ToolCall]) -> Finding:
        """One good call is enough; what cannot be checked matters only when there is none."""
        problems: list[str] = []
        broken: EvaluatorError | None = None
        for number, call in enumerate(calls, start=1):
            try:
                problem = self._problem(call, number)
            except EvaluatorError as error:
                broken = broken or error
                continue
            if problem is None:
                return Finding(passed=True, hits=(f"{self._times(len(calls))}, call {number} as demanded",))
            problems.append(problem)
        if broken is not None:
            raise broken
        return Finding(passed=False, misses=tuple(problems))

    def _problem(self, call: ToolCall, number: int) -> str | None:
        """Return what is wrong with one call. Raises EvaluatorError when that cannot be told."""
        where = f"call {number} of {call.tool}"
        try:
            problem = self._args({} if call.input is None else call.input) if self._args is not None else None
            if problem is not None:
                return f"{where}: {problem}"
            problem = self._result_problem(call) if self._result is not None else None
        except EvaluatorError as error:
            raise EvaluatorError(f"{where}: {error}", kind=error.failure.kind) from error
        return None if problem is None else f"{where} returned something else: {problem}"

    def _result_problem(self, call: ToolCall) -> str | None:
        if call.output is None:
            raise EvaluatorError("what it returned is not on record")
        return self._result(call.output) if self._result is not None else None
