"""Calls of a target with its fallbacks: after it has failed, with all its retries, the next target is called."""

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from agentv.engine.calling.answer import CallOutcome, OnLogLine, OnRetry, call_target
from agentv.engine.calling.resilience import ResilientProvider
from agentv.engine.calling.runtime import Runtime
from agentv.engine.planning.prepared_case import PreparedCase, prepare_case
from agentv.types.failures import Failure
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage, total_usage

_FINAL = ("budget", "cancelled")
"""Failures of the run, not of the target: another target would fail for the same reason."""


async def call_with_fallbacks(
    prepared: PreparedCase,
    provider: ResilientProvider,
    runtime: Runtime,
    *,
    on_retry: OnRetry,
    on_log_line: OnLogLine | None = None,
    before_repeat: Callable[[], Awaitable[None]] | None = None,
) -> CallOutcome:
    """Call a target, then its `fallback_targets` until one responds; each has the time limit of the case.

    Fallbacks of fallbacks are not called. `before_repeat` prepares another attempt or target.
    """
    outcome = await call_target(
        prepared,
        provider,
        clock=runtime.clock,
        on_retry=on_retry,
        on_log_line=on_log_line,
        before_repeat=before_repeat,
    )
    for name in prepared.task.target.fallback_targets:
        if not isinstance(outcome.result, Failure) or outcome.result.kind in _FINAL:
            break
        target = prepared.task.known.get(name)
        if before_repeat is not None:
            await before_repeat()
        fallback = await call_target(
            _prepared_for(prepared, target, runtime),
            runtime.provider(target),
            clock=runtime.clock,
            on_retry=on_retry,
            on_log_line=on_log_line,
            before_repeat=before_repeat,
        )
        outcome = _joined(outcome, fallback, name)
    return outcome


def _prepared_for(prepared: PreparedCase, target: ResolvedTarget, runtime: Runtime) -> PreparedCase:
    """Return a prepared case with the request for another target; its row and keys stay those of the first."""
    spec = runtime.specs.providers.get(target.provider)
    task = replace(prepared.task, target=target)
    own = prepare_case(task, prepared.case, target_key="", quotes_paths_only=spec.reads_files)
    return replace(prepared, request=replace(own.request, workspace=prepared.request.workspace))


def _joined(first: CallOutcome, second: CallOutcome, name: str) -> CallOutcome:
    """Return the outcome of a fallback, with the attempts, usage and cost of the failed targets before it."""
    calls, response = (*first.calls, *second.calls), second.result
    if isinstance(response, Failure):
        before = first.result.message if isinstance(first.result, Failure) else ""
        return CallOutcome(
            replace(response, message=f"{before}; fallback {name!r}: {response.message}"),
            started_at=first.started_at,
            ended_at=second.ended_at,
            calls=calls,
            usage=total_usage((first.usage, second.usage)),
            cost_usd=_total_cost((first.usage, first.cost_usd), (second.usage, second.cost_usd)),
            partial=second.partial or first.partial,
        )
    response = replace(
        response,
        calls=calls,
        usage=total_usage((first.usage, response.usage)),
        cost_usd=_total_cost((first.usage, first.cost_usd), (response.usage, response.cost_usd)),
    )
    return CallOutcome(response, first.started_at, second.ended_at, calls=calls, answered_by=name)


def _total_cost(*spent: tuple[Usage | None, float | None]) -> float | None:
    """Return the sum of costs; None if none is known, or that of a known usage is not."""
    costs = [cost for usage, cost in spent if usage is not None or cost is not None]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if costs and len(known) == len(costs) else None
