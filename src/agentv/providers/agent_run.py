"""Run an agent's command, and say in one Failure why it brought no answer."""

from pathlib import Path

from msgspec.structs import replace

from agentv.execution.processes import Command, Outcome, run_process
from agentv.providers.agent_steps import Failed
from agentv.providers.agent_stream import MAX_KEPT_BYTES, AgentStream
from agentv.providers.commands import how_it_ended, not_started
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure, FailureKind

_SERVER_ERRORS = 500
_KINDS: dict[int, FailureKind] = {401: "auth", 403: "auth", 429: "rate_limited"}


async def run_agent(command: Command, stream: AgentStream, *, name: str, timeout_s: float) -> None:
    """Run an agent to its end; `stream` then holds what it did. Raises ProviderError when it brought no answer."""
    try:
        outcome = await run_process(command, timeout_s=timeout_s, listener=stream.hear)
    except OSError as error:
        advice = "shorten `args` or `system_prompt`"
        failure = not_started(error, command.argv, Path(command.cwd or "."), too_long=advice)
        raise ProviderError(failure) from None
    except ValueError as error:
        raise ProviderError(Failure("bad_request", f"{name} cannot be started: {error}")) from None
    stream.end()
    errors = stream.strike(outcome.stderr.strip())
    stream.note(f"ends     exit code {outcome.exit_code} after {outcome.duration_s:.1f} s")
    if errors:
        stream.note(f"errors   {errors}")
    failed = _failure(outcome, stream, name, timeout_s)
    if failed is None:
        return
    logs = stream.log.paths
    said = f"; standard error ends with:\n{errors}" if errors and stream.transcript.failed is None else ""
    where = f"; log: {logs[0]}" if logs else ""
    details = {"exit_code": outcome.exit_code, "stdout": stream.tail, "stderr": errors, "log_paths": list(logs)}
    raise ProviderError(replace(failed, message=failed.message + said + where, details=details))


def _failure(outcome: Outcome, stream: AgentStream, name: str, timeout_s: float) -> Failure | None:
    if outcome.timed_out:
        message = f"no answer within {timeout_s:g} s; {name} and all it had started were ended"
        return Failure("target_timeout", message, retryable=True)
    if outcome.too_large:
        message = f"{name} printed more than {MAX_KEPT_BYTES / 2**20:g} MiB of events; the answer was not kept"
        return Failure("too_large", message)
    transcript = stream.transcript
    if transcript.failed is not None:
        return _told(transcript.failed, name)
    if outcome.exit_code != 0:
        return Failure("target_exit", how_it_ended(outcome.exit_code))
    if transcript.answer is None and not transcript.has_calls:
        return Failure("malformed_reply", f"{name} ended well, but none of its output is an answer")
    return None


def _told(failed: Failed, name: str) -> Failure:
    """Return the failure that an agent told itself."""
    kind = failed.kind or _kind_of(failed.status)
    advice = "; check the key or the login that it uses" if kind == "auth" else ""
    return Failure(kind, f"{name} failed: {failed.message.rstrip('. ')}{advice}", http_status=failed.status)


def _kind_of(status: int | None) -> FailureKind:
    if status is None:
        return "target_exit"
    return _KINDS.get(status, "server_error" if status >= _SERVER_ERRORS else "bad_request")
