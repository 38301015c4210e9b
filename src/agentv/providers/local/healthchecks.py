"""The setting `healthcheck`, and the check before the first request: a URL that responds, a command that succeeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from agentv.execution.processes.process import MAX_OUTPUT_BYTES
from agentv.providers.agents.commands import run_command
from agentv.templating.command import parse_command
from agentv.types.errors import ProviderError
from agentv.types.protocols import SharedParts
from agentv.types.targets import ResolvedTarget

TIMEOUT_S = 30.0


class HttpHealthcheck(Struct, frozen=True):
    """Passes if the URL responds with a status of 2xx."""

    type: Literal["http"]
    url: str
    timeout_seconds: float | None = None

    def __post_init__(self) -> None:
        """Reject an invalid URL or timeout."""
        if not self.url.startswith(("http://", "https://")):
            raise ValueError("url must start with http:// or https://")
        _check_timeout(self.timeout_seconds)


class CommandHealthcheck(Struct, frozen=True):
    """Passes if the command exits with 0. A relative `cwd` starts from the eval file; no placeholders."""

    type: Literal["command"]
    command_template: str
    cwd: str | None = None
    timeout_seconds: float | None = None

    def __post_init__(self) -> None:
        """Reject an invalid command or timeout."""
        parse_command(self.command_template, supported=(), called="command_template")
        _check_timeout(self.timeout_seconds)


Healthcheck: TypeAlias = Annotated[
    HttpHealthcheck | CommandHealthcheck | None,
    Meta(
        description=(
            "Check before the first case: {type: http, url, timeout_seconds} or "
            "{type: command, command_template, cwd, timeout_seconds}."
        )
    ),
]
"""The setting `healthcheck` of a command or a web service."""


def _check_timeout(timeout_s: float | None) -> None:
    if timeout_s is not None and timeout_s <= 0:
        raise ValueError("timeout_seconds must be more than 0")


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
