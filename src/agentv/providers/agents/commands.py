"""Run a target's command or its healthcheck, and convert failures to Failure."""

import errno
import os
import signal
import stat
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from agentv.execution.processes.process import MAX_OUTPUT_BYTES, Command, Outcome, run_process
from agentv.providers.healthchecks import CommandHealthcheck, HttpHealthcheck
from agentv.templating.command import FilledCommand, parse_command
from agentv.types.failures import Failure, FailureKind
from agentv.types.protocols import SharedParts
from agentv.types.provider import ProviderError
from agentv.types.targets import ResolvedTarget

_OUT_OF_RESOURCES = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC}
"""The errors of a system that temporarily lacks processes, memory, file descriptors or disk space."""

_USE_PROMPT_FILE = "use {PROMPT_FILE}, which has no length limit"


async def run_command(
    filled: FilledCommand,
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
    max_bytes: int,
    inherit: tuple[str, ...] | None = None,
    printed: bytearray | None = None,
) -> Outcome:
    """Run a command and return its outcome. Raises ProviderError unless it starts and exits with 0.

    The command inherits PATH and the variables named in `inherit`, or all variables if it is None. `printed` receives
    the standard output while the command runs; the outcome then has none.
    """
    try:
        command = Command(argv=filled.argv, cwd=str(cwd), env={**env, **filled.env}, inherit=inherit)
        listener = None if printed is None else partial(_append_within_limit, printed, max_bytes)
        outcome = await run_process(command, timeout_s=timeout_s, max_output_bytes=max_bytes, listener=listener)
    except OSError as error:
        raise ProviderError(start_failure(error, filled.argv, cwd, too_long=_USE_PROMPT_FILE)) from None
    except ValueError as error:
        raise ProviderError(Failure("bad_request", f"the command cannot be started: {error}")) from None
    stderr = f"; standard error ends with:\n{outcome.stderr.strip()}" if outcome.stderr.strip() else ""
    if outcome.timed_out:
        message = f"no answer within {timeout_s:g} s; the command and all its child processes were ended"
        raise ProviderError(Failure("target_timeout", message + stderr, retryable=True))
    if outcome.too_large:
        raise ProviderError(too_large("standard output", max_bytes))
    if outcome.exit_code != 0:
        message = describe_exit(outcome.exit_code) + stderr
        raise ProviderError(Failure("target_exit", message, details={"exit_code": outcome.exit_code}))
    return outcome


def _append_within_limit(printed: bytearray, max_bytes: int, chunk: bytes) -> bool:
    """Add a chunk of output; return False if it does not fit."""
    room = max_bytes - len(printed)
    printed += chunk[:room]
    return len(chunk) <= room


def describe_exit(exit_code: int | None) -> str:
    """Return a sentence about an exit code; a negative one stands for the signal that ended the command."""
    if exit_code is None or exit_code >= 0:
        return f"the command failed with exit code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    return f"the command was ended by {name}"


def too_large(what: str, max_bytes: int) -> Failure:
    """Return the failure of an answer that exceeds the limit."""
    return Failure("too_large", f"{what} is larger than {max_bytes / 2**20:g} MiB; the answer was discarded")


def read_output_file(path: Path, max_bytes: int) -> bytes:
    """Return a command's output file. Raises ProviderError unless it is a regular file within the limit."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a named pipe must not block
    except OSError as error:
        message = (
            f"the command succeeded but left no readable {{OUTPUT_FILE}} ({error.strerror}); it must write its answer "
            "there, or print it with a template without {OUTPUT_FILE}"
        )
        raise ProviderError(Failure("malformed_reply", message)) from None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ProviderError(Failure("malformed_reply", "{OUTPUT_FILE} is not a regular file after the command"))
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ProviderError(too_large("{OUTPUT_FILE}", max_bytes))
    return content


def decode(content: bytes, what: str) -> tuple[str, tuple[str, ...]]:
    """Return bytes as text, and a note if some of them are not UTF-8 and are replaced by U+FFFD."""
    try:
        return content.decode("utf-8-sig"), ()
    except UnicodeDecodeError as error:
        note = f"{what} is not UTF-8 (first invalid byte at offset {error.start}); invalid bytes are replaced by U+FFFD"
        return content.decode("utf-8-sig", "replace"), (note,)


def start_failure(error: OSError, argv: tuple[str, ...], cwd: Path, *, too_long: str) -> Failure:
    """Return the failure of a command that could not start; `too_long` is the advice if the arguments are too long."""
    if not cwd.is_dir():
        return Failure("config_error", f"the command cannot run in {cwd}: no such folder")
    kind: FailureKind = "target_missing"
    message = f"cannot start {argv[0]!r}: {error.strerror}"
    if error.errno == errno.E2BIG:
        kind = "bad_request"
        message = f"the command's arguments are too long for this system; {too_long}"
    elif error.errno in _OUT_OF_RESOURCES:
        return Failure("transport", message, retryable=True)
    return Failure(kind, message)


HEALTHCHECK_TIMEOUT_S = 30.0


async def run_healthcheck(
    check: HttpHealthcheck | CommandHealthcheck | None,
    target: ResolvedTarget,
    shared: SharedParts,
    *,
    eval_dirs: Sequence[str],
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Raise ProviderError with kind `healthcheck` if the configured healthcheck fails; None always passes.

    A command runs in `check.cwd`, else in the target's `cwd`, else in the eval folder. A relative path starts from each
    of `eval_dirs` in turn; the command runs once in each resulting folder.
    """
    if check is None:
        return
    timeout_s, where = check.timeout_seconds or HEALTHCHECK_TIMEOUT_S, ""
    try:
        if isinstance(check, HttpHealthcheck):
            # aiohttp is imported only if it is needed.
            from agentv.providers.apis.transport import check_url  # noqa: PLC0415

            await check_url(check.url, shared, timeout_s=timeout_s)
        else:
            filled = parse_command(check.command_template, supported=()).fill({})
            folders = _folders(eval_dirs, check.cwd or cwd or "")
            inherit = getattr(target.settings, "env_allow", None)
            for folder in folders:
                where = f" in {folder}" if len(folders) > 1 else ""
                await run_command(
                    filled,
                    cwd=folder,
                    env=env or {},
                    timeout_s=timeout_s,
                    max_bytes=MAX_OUTPUT_BYTES,
                    inherit=inherit,
                )
    except ProviderError as error:
        message = f"the healthcheck of target {target.name!r} failed{where}: {error.failure.message}"
        failure = replace(error.failure, kind="healthcheck", stage="healthcheck", message=message, retryable=False)
        raise ProviderError(failure) from None


def _folders(eval_dirs: Sequence[str], cwd: str) -> tuple[Path, ...]:
    """Return the working folders of a command, each once."""
    return tuple(dict.fromkeys(Path(each, cwd).resolve() for each in eval_dirs))
