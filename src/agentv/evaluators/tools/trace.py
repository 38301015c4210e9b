"""`trace`: bounds on calls, errors, steps, time, cost and tokens. Its class is TraceEvaluator."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, structs
from msgspec.structs import replace

from agentv.scoring.tools.recorded_calls import (
    Calls,
    count_calls,
    count_errors,
    count_model_steps,
    most_repeated_call,
    recorded_calls,
)
from agentv.scoring.tools.trajectory import NO_TRACE
from agentv.types.cases import WITHOUT_MESSAGES_HELP, EvaluatorConfig, WithoutMessages
from agentv.types.evaluation import EvaluationContext, EvaluationScore
from agentv.types.failures import Failure
from agentv.types.messages import Message
from agentv.types.protocols import EvaluatorTools
from agentv.types.stored import TOLERANCE

KIND = "trace"
Bound: TypeAlias = int | float


class TraceSettings(Struct, frozen=True, kw_only=True):
    """Settings of `trace`; also the keywords of TraceEvaluator. At least one bound is needed."""

    max_tool_calls: Annotated[int | None, Meta(description="the maximum number of tool calls")] = None
    max_errors: Annotated[int | None, Meta(description="the maximum number of errors")] = None
    max_model_steps: Annotated[int | None, Meta(description="the maximum number of model steps")] = None
    no_repeated_calls: Annotated[
        int | None, Meta(description="how often one tool may be called with the same arguments (1: no repeats)")
    ] = None
    max_duration_ms: Annotated[
        float | None, Meta(description="the maximum duration of the answer, in milliseconds")
    ] = None
    max_cost_usd: Annotated[float | None, Meta(description="the maximum cost of the answer, in dollars")] = None
    max_tokens: Annotated[
        int | None, Meta(description="the maximum number of tokens of the answer, input and output")
    ] = None
    max_input_tokens: Annotated[int | None, Meta(description="the maximum number of input tokens")] = None
    max_output_tokens: Annotated[int | None, Meta(description="the maximum number of output tokens")] = None
    exploration_ratio: Annotated[
        float | None, Meta(description="the share of tool calls (0..1) that should only read or search")
    ] = None
    exploration_tolerance: Annotated[float, Meta(description="how far from `exploration_ratio` the share may be")] = 0.2
    unknown: Annotated[
        Literal["error", "unmet"],
        Meta(
            description="a bound on a duration, cost or number of tokens that is not known counts as an `error`, or "
            "as `unmet`"
        ),
    ] = "error"
    without_messages: Annotated[WithoutMessages, Meta(description=WITHOUT_MESSAGES_HELP)] = "unknown"

    @property
    def bounds(self) -> Mapping[str, Bound | None]:
        """All bounds by name; a bound that is not set is None."""
        other_settings = ("exploration_tolerance", "unknown", "without_messages")
        return {name: value for name, value in structs.asdict(self).items() if name not in other_settings}

    def __post_init__(self) -> None:
        """Raise ValueError if no bound is set, or for a number outside its range."""
        if not 0 <= self.exploration_tolerance <= 1:
            raise ValueError("`exploration_tolerance` must be a number from 0 to 1")
        if self.exploration_ratio is not None and not 0 <= self.exploration_ratio <= 1:
            raise ValueError("`exploration_ratio` must be a number from 0 to 1")
        bounds = self.bounds
        if all(value is None for value in bounds.values()):
            raise ValueError(f"`trace` needs at least one of {', '.join(f'`{name}`' for name in bounds)}")
        for name, value in bounds.items():
            least = 1 if name == "no_repeated_calls" else 0
            if value is not None and not (math.isfinite(value) and value >= least):
                raise ValueError(f"`{name}` must be a finite number of at least {least}")


class _BoundCheck(Struct, frozen=True):
    """The result of one bound. `line` is its hit or miss.

    `unknown` is True if a duration, cost or number of tokens is not known; a count without a record is only a miss.
    """

    line: str
    met: bool = False
    unknown: bool = False


class TraceEvaluator:
    """An evaluator that compares the trace of an answer with bounds; the score is the share of bounds that are met.

    Takes a settings object, or its fields as keyword arguments. With an object, the keywords replace its fields.

    >>> TraceEvaluator(max_tool_calls=5, no_repeated_calls=1).kind
    'trace'
    """

    kind = KIND
    reads_workspace = False
    inline = True
    reusable = True

    def __init__(self, settings: TraceSettings | None = None, /, **fields: Any) -> None:
        given = TraceSettings(**fields) if settings is None else replace(settings, **fields)
        bounds_on_calls = (given.max_tool_calls, given.max_errors, given.no_repeated_calls, given.exploration_ratio)
        self._settings = given
        self._needs_calls = any(bound is not None for bound in bounds_on_calls)

    def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        """Check all bounds.

        If a bounded duration, cost or number of tokens is not known, the score is an error; with `unknown: unmet` the
        bound counts as not met. Raises EvaluatorError if a bound needs the calls and `context.toolCalls` cannot be
        read, or if arguments are nested too deep to compare.
        """
        if self._settings.without_messages == "no_calls" and _has_no_record(context):
            # A message without tool calls is the record that none was made.
            context = replace(context, output_messages=(Message("assistant", context.candidate),))
        checks = list(self._checks(context))
        hits = tuple(each.line for each in checks if each.met)
        misses = tuple(each.line for each in checks if not each.met)
        unknown = [each.line for each in checks if each.unknown]
        if unknown and self._settings.unknown == "error":
            failure = Failure("evaluator_error", "; ".join(unknown), stage="evaluator")
            return EvaluationScore(0.0, hits, misses, len(checks), status="error", error=failure)
        return EvaluationScore(len(hits) / len(checks), hits, misses, len(checks))

    def _checks(self, context: EvaluationContext) -> Iterator[_BoundCheck]:
        bounds = self._settings
        calls = recorded_calls(context) if self._needs_calls else None
        yield from _counted(bounds.max_tool_calls, lambda: count_calls(context, calls), "tool call")
        yield from _counted(bounds.max_errors, lambda: count_errors(context, calls), "error")
        yield from _counted(bounds.max_model_steps, lambda: count_model_steps(context), "model step")
        if bounds.no_repeated_calls is not None:
            yield _repeated(bounds.no_repeated_calls, most_repeated_call(calls))
        yield from _measured(bounds.max_duration_ms, context.duration_ms, "{:g} ms", "the duration of the answer")
        yield from _measured(bounds.max_cost_usd, context.cost_usd, "${:g}", "the cost of the answer")
        tokens = input_tokens = output_tokens = None
        usage = context.usage
        if usage is not None:
            input_tokens, output_tokens = usage.input, usage.output
            tokens = usage.total or usage.input + usage.output
        yield from _measured(bounds.max_tokens, tokens, "{:d} tokens", "the number of tokens of the answer")
        yield from _measured(bounds.max_input_tokens, input_tokens, "{:d} input tokens", "the number of input tokens")
        yield from _measured(
            bounds.max_output_tokens, output_tokens, "{:d} output tokens", "the number of output tokens"
        )
        if bounds.exploration_ratio is not None:
            yield _explored(bounds.exploration_ratio, bounds.exploration_tolerance, calls)


def _has_no_record(context: EvaluationContext) -> bool:
    recorded = (context.output_messages, context.trace, context.candidate_trace, context.candidate_trace_summary)
    return all(each is None for each in recorded)


def _counted(bound: int | None, count: Callable[[], int | None], unit: str) -> Iterator[_BoundCheck]:
    """Yield the check of a bound, if there is one. Only then is `count` called; it returns None without a record."""
    if bound is None:
        return
    found = count()
    if found is None:
        yield _BoundCheck(f"{NO_TRACE} ({unit}s)")
        return
    yield _BoundCheck(f"{found} {unit}{'' if found == 1 else 's'} (maximum: {bound})", met=found <= bound)


def _repeated(bound: int, most_repeated: tuple[str, int] | None) -> _BoundCheck:
    if most_repeated is None:
        return _BoundCheck(f"{NO_TRACE} (repeated calls)")
    call, count = most_repeated
    if count <= bound:
        return _BoundCheck(f"no call made more than {bound} time{'' if bound == 1 else 's'}", met=True)
    return _BoundCheck(f"{call} called {count} times (maximum: {bound})")


_EXPLORING = frozenset(["read", "grep", "glob", "search", "list", "Read", "Grep", "Glob", "WebSearch", "WebFetch"])
"""The tools that only read or search."""


def _explored(expected: float, tolerance: float, calls: Calls) -> _BoundCheck:
    if calls is None:
        return _BoundCheck(f"{NO_TRACE} (share of calls that explore)")
    if not calls:
        return _BoundCheck("no tool call made, so there is no share of calls that explore")
    share = sum(call.tool in _EXPLORING for call in calls) / len(calls)
    line = f"{share:.2f} of the calls explore (expected: {expected:g}, tolerance: {tolerance:g})"
    return _BoundCheck(line, met=abs(share - expected) <= tolerance + TOLERANCE)


def _measured(bound: Bound | None, found: Bound | None, template: str, measure: str) -> Iterator[_BoundCheck]:
    """Yield the check of a bound, if there is one.

    `measure` names the bounded quantity, such as `the cost of the answer`; `template` formats it with its unit.
    """
    if bound is None:
        return
    if found is None:
        yield _BoundCheck(f"{measure} is not known", unknown=True)
        return
    yield _BoundCheck(f"{template.format(found)} (maximum: {template.format(bound)})", met=found <= bound)


def make_trace(_config: EvaluatorConfig, settings: TraceSettings, _tools: EvaluatorTools) -> TraceEvaluator:
    """Return a `trace` evaluator."""
    return TraceEvaluator(settings)
