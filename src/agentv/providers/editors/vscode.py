"""`vscode` and `vscode-insiders`: the editor's agent, called through files (docs/reference/providers/vscode.md)."""

import asyncio
import os
import secrets
import shlex
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, cast

from msgspec import Meta, Struct
from msgspec.structs import replace

from agentv.providers.editors.folders import Sleep, claim, read_workspace_template, subagents
from agentv.providers.editors.sessions import Editor, Job, dispatch, make_job, settle, wait_for
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.protocols import Clock, ProviderTools
from agentv.types.provider import ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget

SUBAGENT_ROOT = "~/.agentv/vscode-agents"


class VscodeSettings(Struct, frozen=True):
    """The settings of a `vscode` target."""

    command: Annotated[
        str | None,
        Meta(description="Editor command, optionally with arguments. Default: code or code-insiders."),
    ] = None
    workspace_template: Annotated[
        str | None,
        Meta(description="Folder or .code-workspace file that the agents see, relative to the targets file."),
    ] = None
    wait: Annotated[bool, Meta(description="Wait for the answer; false only submits the request.")] = True
    dry_run: Annotated[bool, Meta(description="Start nothing; return the request without an answer.")] = False
    subagent_root: Annotated[
        str, Meta(description="Folder of subagent-1, subagent-2, …; each handles one request at a time.")
    ] = SUBAGENT_ROOT
    env_allow: Annotated[
        tuple[str, ...] | None,
        Meta(description="The only variables that the editor's command inherits, besides PATH; default: all."),
    ] = None

    def __post_init__(self) -> None:
        """Reject an invalid command; the message starts with the setting's name."""
        try:
            words = shlex.split(self.command) if self.command is not None else ["code"]
        except ValueError as error:
            raise ValueError(f"command cannot be parsed: {error}") from None
        if not words:
            raise ValueError("command is empty")


def utc_now() -> datetime:
    """Return the current time, for the names of requests."""
    return datetime.now(UTC)


def make_vscode(target: ResolvedTarget, tools: ProviderTools) -> "VscodeProvider":
    """Make the provider for VS Code."""
    return VscodeProvider(target, tools, kind="vscode", command="code")


def make_vscode_insiders(target: ResolvedTarget, tools: ProviderTools) -> "VscodeProvider":
    """Make the provider for VS Code Insiders."""
    return VscodeProvider(target, tools, kind="vscode-insiders", command="code-insiders")


class VscodeProvider:
    """Writes requests into subagents' folders, notifies the editor, and waits for the answer files."""

    supports_batch = True

    def __init__(
        self,
        target: ResolvedTarget,
        _tools: ProviderTools,
        *,
        kind: str,
        command: str,
        clock: Clock = utc_now,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        settings = cast(VscodeSettings, target.settings)
        self.kind = kind
        self._target = target
        self._settings = settings
        self._command = shlex.split(settings.command or command)
        self._base_dir = Path(target.base_dir).absolute()
        self._root = self._base_dir / Path(settings.subagent_root).expanduser()
        self._clock = clock
        self._sleep = sleep

    @property
    def max_workers(self) -> int:
        """The number of concurrent requests: one per existing subagent."""
        return len(subagents(self._root))

    async def healthcheck(self) -> None:
        """Raise ProviderError if the editor is not installed or its workspace template cannot be read."""
        if not self._settings.dry_run:
            self._editor()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Return the answer of an editor's agent to one case; an error holds what the agent has written so far."""
        if self._settings.dry_run:
            return self._dry_answer(request)
        (job,), timeout_s = await self._finished_jobs([request])
        answer = job.outcome or job.timed_out(timeout_s)
        if isinstance(answer, Failure):
            raise ProviderError(answer, partial=job.unfinished())
        return answer

    async def invoke_batch(self, requests: Sequence[ProviderRequest]) -> Mapping[str, ProviderResponse | Failure]:
        """Return the answers to many cases, distributed over all free subagents, with one message per subagent."""
        if self._settings.dry_run:
            return {request.eval_case_id: self._dry_answer(request) for request in requests}
        jobs, timeout_s = await self._finished_jobs(requests)
        return {job.request.eval_case_id: job.outcome or job.timed_out(timeout_s) for job in jobs}

    async def _finished_jobs(self, requests: Sequence[ProviderRequest]) -> tuple[list[Job], float]:
        """Return the jobs of requests after the time limit or their ends, and the limit in seconds."""
        editor = self._editor()
        timeout_s = requests[0].timeout_s or self._target.try_timeout_s
        deadline = asyncio.timeout(timeout_s)
        jobs: list[Job] = []
        try:
            async with deadline, claim(self._root, at_most=len(requests), sleep=self._sleep) as folders:
                await self._run_jobs(editor, requests, folders, jobs)
        except TimeoutError:
            if not deadline.expired():
                raise
        except OSError as error:
            message = f"the subagents' folders under {self._root} cannot be used: {error}"
            raise ProviderError(Failure("config_error", message)) from None
        if not jobs:
            message = f"no subagent under {self._root} was free within {timeout_s:g} s"
            raise ProviderError(Failure("target_timeout", message, retryable=True))
        return jobs, timeout_s

    async def _run_jobs(
        self, editor: Editor, requests: Sequence[ProviderRequest], folders: Sequence[Path], jobs: list[Job]
    ) -> None:
        """Distribute the requests over folders, add them to `jobs`, and wait for their outcomes."""
        name = self._request_name()
        for number, folder in enumerate(folders):
            share = requests[number :: len(folders)]
            batch = [
                make_job(editor, folder, self._with_system_prompt(one), f"{name}-{index}")
                for index, one in enumerate(share)
            ]
            jobs += batch
            await dispatch(editor, batch, name=name, sleep=self._sleep)
        if self._settings.wait:
            await wait_for(jobs, sleep=self._sleep)
            return
        for job in jobs:
            if job.editor is not None:
                await settle(job.editor, job.log, self._sleep)
            job.outcome = ProviderResponse("", request=job.metadata())

    def _dry_answer(self, request: ProviderRequest) -> ProviderResponse:
        """Return the request that would be sent; nothing is started or written."""
        editor = Editor(tuple(self._command), {})
        job = make_job(editor, subagents(self._root)[0], self._with_system_prompt(request), self._request_name())
        return ProviderResponse("", request={"dry_run": True, **job.metadata()})

    def _with_system_prompt(self, request: ProviderRequest) -> ProviderRequest:
        """Return the request, with the target's system prompt if it has none."""
        if request.system_prompt is not None:
            return request
        return replace(request, system_prompt=self._target.system_prompt)

    def _request_name(self) -> str:
        return f"{self._clock():%Y%m%d%H%M%S}-{secrets.token_hex(4)}"

    def _editor(self) -> Editor:
        """Return the editor. Raises ProviderError if it is not installed or its workspace cannot be read."""
        template = self._settings.workspace_template
        read = {} if template is None else read_workspace_template(self._base_dir / Path(template).expanduser())
        return Editor((self._program(), *self._command[1:]), read, self._settings.env_allow)

    def _program(self) -> str:
        """Return the path of the editor's program, given by name in PATH or by path relative to the targets file."""
        written = self._command[0]
        if os.sep in written:
            path = self._base_dir / Path(written).expanduser()
            found = str(path) if path.is_file() and os.access(path, os.X_OK) else None
            where = f"{path} is not an executable program"
        else:
            found = shutil.which(written)
            where = f"{written!r} is not in PATH ({os.environ.get('PATH', '')})"
        if found is None:
            advice = "install the editor's command line, or set `command` to its path"
            raise ProviderError(Failure("target_missing", f"{where}; {advice}", stage="healthcheck"))
        return found
