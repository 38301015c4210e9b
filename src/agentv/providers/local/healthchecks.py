"""Healthchecks of a target before its first request: a URL that responds, or a command that succeeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from agentv.execution.processes.process import MAX_OUTPUT_BYTES
from agentv.providers.agents.commands import run_command
from agentv.providers.local.cli_settings import CommandHealthcheck, HttpHealthcheck
from agentv.templating.command import parse_command
from agentv.types.errors import ProviderError
from agentv.types.protocols import SharedParts
from agentv.types.targets import ResolvedTarget

TIMEOUT_S = 30.0


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

    A command runs once in each folder: its own `cwd`, else the target's `cwd`, relative to each of `eval_dirs`.
    """
    if check is None:
        return
    timeout_s, place = check.timeout_seconds or TIMEOUT_S, ""
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
                place = f" in {folder}" if len(folders) > 1 else ""
                await run_command(
                    filled,
                    cwd=folder,
                    env=env or {},
                    timeout_s=timeout_s,
                    max_bytes=MAX_OUTPUT_BYTES,
                    inherit=inherit,
                )
    except ProviderError as error:
        message = f"the healthcheck of target {target.name!r} failed{place}: {error.failure.message}"
        failure = replace(error.failure, kind="healthcheck", stage="healthcheck", message=message, retryable=False)
        raise ProviderError(failure) from None


def _folders(eval_dirs: Sequence[str], cwd: str) -> tuple[Path, ...]:
    """Return the working folders of a command, each once."""
    return tuple(dict.fromkeys(Path(each, cwd).resolve() for each in eval_dirs))
