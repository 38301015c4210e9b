"""Healthchecks of a target before its first request: a URL that responds, or a command that succeeds."""

from collections.abc import Mapping
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
    env: Mapping[str, str] | None = None,
) -> None:
    """Raise ProviderError with kind `healthcheck` if the configured healthcheck fails; None always passes."""
    if check is None:
        return
    timeout_s = check.timeout_seconds or TIMEOUT_S
    try:
        if isinstance(check, HttpHealthcheck):
            # aiohttp is imported only if it is needed.
            from agentv.providers.apis.transport import check_url  # noqa: PLC0415

            await check_url(check.url, shared, timeout_s=timeout_s)
        else:
            filled = parse_command(check.command_template, supported=()).fill({})
            cwd = Path(target.base_dir, check.cwd or "")
            await run_command(
                filled,
                cwd=cwd,
                env=env or {},
                timeout_s=timeout_s,
                max_bytes=MAX_OUTPUT_BYTES,
                inherit=getattr(target.settings, "env_allow", None),
            )
    except ProviderError as error:
        message = f"the healthcheck of target {target.name!r} failed: {error.failure.message}"
        failure = replace(error.failure, kind="healthcheck", stage="healthcheck", message=message, retryable=False)
        raise ProviderError(failure) from None
