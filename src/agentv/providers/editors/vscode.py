"""`vscode` and `vscode-insiders`: the editor's agent, called through files (docs/reference/providers/vscode.md).

A subagent is a numbered folder with a workspace of the editor. It handles one chat message at a time; the message may
refer to several requests. A call locks the folders that it uses.
"""

import asyncio
import fcntl
import json
import os
import re
import secrets
import shlex
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeAlias, cast

from msgspec import Meta, Struct
from msgspec.structs import replace

from agentv.execution.folder_trees import open_beneath
from agentv.execution.processes.process import MAX_OUTPUT_BYTES, Launched, launch
from agentv.providers.agents.base import build_agent_prompt
from agentv.providers.agents.commands import decode, too_large
from agentv.providers.apis.responses import objects
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.protocols import Clock, ProviderTools
from agentv.types.provider import ProviderError, ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget

FOLDER_LOCK = "subagent.lock"
DISPATCH_LOCK = "dispatch.lock"
MESSAGES_FOLDER = "messages"
_SUBAGENT_NAME = re.compile(r"subagent-([1-9][0-9]*)")
Sleep: TypeAlias = Callable[[float], Awaitable[None]]
"""Waits for a number of seconds."""

POLL_S = 0.2
"""The interval in seconds at which answer files and locks are checked."""


class Exchange(Struct, frozen=True):
    """The files of one request."""

    request: Path
    unfinished: Path
    """The agent writes its answer to this file, then renames it to `answer`."""
    answer: Path


def exchange_in(folder: Path, name: str) -> Exchange:
    """Return the files of the request called `name`, in a subagent's folder of messages."""
    return Exchange(folder / f"{name}_req.md", folder / f"{name}_res.tmp.md", folder / f"{name}_res.md")


def build_prompt(request: ProviderRequest) -> str:
    """Return the prompt: the system prompt if there is one, the files to read first, then the question."""
    prompt = build_agent_prompt(request)
    if not request.system_prompt:
        return prompt
    return f"[[ ## instructions ## ]]\n\n{request.system_prompt}\n\n{prompt}"


def request_text(prompt: str, exchange: Exchange) -> str:
    """Return the content of the request file: the prompt, then how to write the answer file."""
    return f"""{prompt}

[[ ## answer_file ## ]]

Your answer counts only when it is in a file:

1. Write all of it, as Markdown, to `{exchange.unfinished}`.
2. When it is complete, rename that file to `{exchange.answer}`.

Do both in any case; if you cannot do what was asked, let the answer say why. Change neither file afterwards.
"""


def batch_text(exchanges: Sequence[Exchange]) -> str:
    """Return the content of a batch file, which lists several requests."""
    lines = "\n".join(f"{number}. {link_to(exchange.request)}" for number, exchange in enumerate(exchanges, start=1))
    return f"""Work through all of these requests, one after another, each by its own instructions:

{lines}

They have nothing to do with each other: nothing that one of them says or brings about may change the answer to another.
Where you can, give each to a subagent of its own. You are done when every request has its answer file.
"""


def chat_message(file: Path) -> str:
    """Return the chat message that makes the agent follow a request file or batch file."""
    return f"Follow the instructions in {link_to(file)}."


def link_to(file: Path) -> str:
    """Return a Markdown link to a file."""
    return f"[{file.name}]({file.as_uri()})"


def subagents(root: Path) -> list[Path]:
    """Return the existing subagent folders, in order of their numbers; without any, the path of a new `subagent-1`."""
    numbers = [int(found[1]) for path in root.glob("subagent-*") if (found := _SUBAGENT_NAME.fullmatch(path.name))]
    return [root / f"subagent-{number}" for number in sorted(numbers)] or [root / "subagent-1"]


@asynccontextmanager
async def claim_folders(root: Path, *, at_most: int, sleep: Sleep) -> AsyncIterator[list[Path]]:
    """Wait until a subagent folder is free, and lock up to `at_most` free folders until the end of the block.

    Yields the locked folders. Raises OSError if a folder or lock file cannot be made.
    """
    descriptors: dict[Path, int] = {}
    try:
        while not (descriptors := _lock_free_folders(root, at_most)):
            await sleep(POLL_S)
        yield list(descriptors)
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)


def _lock_free_folders(root: Path, at_most: int) -> dict[Path, int]:
    """Lock up to `at_most` free folders and return the descriptors of the locks."""
    descriptors: dict[Path, int] = {}
    for folder in subagents(root):
        if len(descriptors) == at_most:
            break
        (folder / MESSAGES_FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = _try_lock(folder / FOLDER_LOCK)
        if descriptor is not None:
            descriptors[folder] = descriptor
    return descriptors


def _try_lock(path: Path) -> int | None:
    """Lock a file and return its descriptor; None if another call holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:  # a file system without locks
        os.close(descriptor)
        raise
    os.ftruncate(descriptor, 0)
    os.write(descriptor, json.dumps({"pid": os.getpid()}).encode())
    return descriptor


@asynccontextmanager
async def dispatch_lock(root: Path, sleep: Sleep) -> AsyncIterator[None]:
    """Hold the lock under which a window is opened and a chat message sent to it.

    The editor gives a message to the last active window, so another call must not open one in between.
    """
    while (descriptor := _try_lock(root / DISPATCH_LOCK)) is None:
        await sleep(POLL_S)
    try:
        yield
    finally:
        os.close(descriptor)


def read_answer(exchange: Exchange, max_bytes: int) -> tuple[str, tuple[str, ...]]:
    """Return the text of the answer file and notes about it.

    Raises ProviderError unless it is a readable regular file of at most `max_bytes`.
    """
    descriptor = open_beneath(exchange.answer.parent, exchange.answer.name)
    if descriptor is None:
        raise ProviderError(Failure("malformed_reply", f"{exchange.answer} is not a regular file that can be read"))
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ProviderError(too_large("the answer file", max_bytes))
    return decode(content, "the answer file")


def read_workspace_template(path: Path) -> JsonObject:
    """Return the content of a `.code-workspace` file with absolute folders.

    If `path` is a folder, return a workspace with only that folder. Raises ProviderError with kind `config_error` if
    the file cannot be read or is not a workspace.
    """
    if path.is_dir():
        return {"folders": [{"path": str(path)}]}
    try:
        value: JsonValue = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        advice = "it must be a folder, or a .code-workspace file without comments"
        raise ProviderError(
            Failure("config_error", f"workspace_template {path} cannot be read: {error}; {advice}")
        ) from None
    if not isinstance(value, Mapping) or not isinstance(value.get("folders", []), list):
        raise ProviderError(
            Failure(
                "config_error",
                f"workspace_template {path} is not a workspace: it must be an object whose `folders` is a list",
            )
        )
    return {**value, "folders": [_absolute(entry, path.parent) for entry in objects(value.get("folders"))]}


def _absolute(entry: JsonObject, base: Path) -> JsonObject:
    path = entry.get("path")
    return {**entry, "path": str((base / path).resolve())} if isinstance(path, str) else entry


def write_workspace(folder: Path, template: JsonObject, workspace: str | None) -> Path:
    """Write a subagent's `.code-workspace` and return its path.

    The file lists the subagent's folder, then `workspace`, then the folders of the template. If its content is
    unchanged, it is not written again, since the editor would reload it.
    """
    own: list[JsonValue] = [{"path": "."}, *([{"path": workspace}] if workspace is not None else [])]
    content = json.dumps({**template, "folders": [*own, *objects(template.get("folders"))]}, indent=2) + "\n"
    path = folder / f"{folder.name}.code-workspace"
    if not path.is_file() or path.read_text(encoding="utf-8") != content:
        path.write_text(content, encoding="utf-8")
    return path


_MAX_COMMAND_S = 30.0
"""The longest wait for a command of the editor, in seconds; an editor in the foreground does not return."""

_LOG = "editor.log"
_MAX_TAIL_BYTES = 2_000
SUBAGENT_ROOT = "~/.agentv/vscode-agents"


class Editor(Struct, frozen=True):
    """The command of an editor."""

    command: tuple[str, ...]
    template: JsonObject
    """A workspace that its agents see in addition to their own folders."""
    inherit: tuple[str, ...] | None = None
    """The only variables that the command inherits besides PATH; None passes on all."""

    def open_command(self, workspace: Path) -> tuple[str, ...]:
        """Return the command that opens a window on a workspace."""
        return (*self.command, str(workspace))

    def chat_command(self, file: Path) -> tuple[str, ...]:
        """Return the command that sends a request file or batch file to the agent in the last active window."""
        options = ("--reuse-window", "--mode", "agent", "--add-file", str(file))
        return (*self.command, "chat", *options, chat_message(file))


class Job(Struct):
    """One request in progress, in the folder of a subagent."""

    request: ProviderRequest
    folder: Path
    exchange: Exchange
    prompt: str
    command: tuple[str, ...]
    """The editor's command that sends the request."""
    process: Launched | None = None
    """None until the command is started."""
    outcome: ProviderResponse | Failure | None = None
    """None until there is an answer or a failure."""

    @property
    def log(self) -> Path:
        """The file to which the output of all commands of the subagent is appended."""
        return self.folder / _LOG

    def metadata(self) -> JsonObject:
        """Return what is stored about the request: its subagent, command, files and prompt."""
        return {
            "subagent": self.folder.name,
            "command": list(self.command),
            "request_file": str(self.exchange.request),
            "answer_file": str(self.exchange.answer),
            "prompt": self.prompt,
        }

    def update(self) -> None:
        """Set the outcome if the answer exists or the editor's command has failed."""
        # A broken link counts as an answer, so that it is reported instead of waited for.
        if self.exchange.answer.exists() or self.exchange.answer.is_symlink():
            try:
                text, notes = read_answer(self.exchange, MAX_OUTPUT_BYTES)
            except ProviderError as error:
                self.outcome = error.failure
                return
            logs = (str(self.exchange.request), str(self.exchange.answer))
            self.outcome = ProviderResponse(text, request=self.metadata(), log_paths=logs, notes=notes)
        elif self.process is not None and self.process.exit_code:
            self.outcome = editor_failure(self.process.exit_code, self.log)

    def partial_answer(self) -> ProviderResponse | None:
        """Return the text that the agent has written so far; None if there is none or it cannot be read."""
        if not self.exchange.unfinished.exists():
            return None
        try:
            text, _ = read_answer(replace(self.exchange, answer=self.exchange.unfinished), MAX_OUTPUT_BYTES)
        except ProviderError:
            return None
        logs = (str(self.exchange.request), str(self.exchange.unfinished))
        return ProviderResponse(text, request=self.metadata(), log_paths=logs) if text.strip() else None

    def timeout_failure(self, timeout_s: float) -> Failure:
        """Return the failure of a request that was not answered within `timeout_s`."""
        partial = f"; partial answer: {self.exchange.unfinished.name}" if self.exchange.unfinished.exists() else ""
        message = (
            f"no answer within {timeout_s:g} s: {self.exchange.answer} did not appear{partial}{log_tail(self.log)}"
        )
        return Failure("target_timeout", message, retryable=True)


def make_job(editor: Editor, folder: Path, request: ProviderRequest, name: str) -> Job:
    """Return the job of a request in a subagent's folder, without writing its files, whose names begin with `name`."""
    exchange = exchange_in(folder / MESSAGES_FOLDER, name)
    return Job(
        request=request,
        folder=folder,
        exchange=exchange,
        prompt=build_prompt(request),
        command=editor.chat_command(exchange.request),
    )


async def dispatch(editor: Editor, jobs: Sequence[Job], *, name: str, sleep: Sleep) -> None:
    """Write the requests of one subagent and send them to the editor in one chat message.

    All jobs have the same folder; a batch file there is named after `name`. Raises ProviderError if the editor cannot
    be started or the command that opens its window fails, OSError if files cannot be written. A failure of the command
    for the chat message is noticed later, by `Job.update` or, if the answer is not waited for, by `wait_until_ended`.
    """
    folder = jobs[0].folder
    for job in jobs:
        job.exchange.request.write_text(request_text(job.prompt, job.exchange), encoding="utf-8", errors="replace")
    file = jobs[0].exchange.request
    if len(jobs) > 1:
        file = folder / MESSAGES_FOLDER / f"{name}_batch.md"
        file.write_text(batch_text([job.exchange for job in jobs]), encoding="utf-8")
    workspace = write_workspace(folder, editor.template, jobs[0].request.workspace)
    async with dispatch_lock(folder.parent, sleep):
        await wait_until_ended(_start(editor, editor.open_command(workspace), folder), folder / _LOG, sleep)
        started = _start(editor, editor.chat_command(file), folder)
    for job in jobs:
        job.command, job.process = editor.chat_command(file), started


def _start(editor: Editor, command: Sequence[str], folder: Path) -> Launched:
    try:
        return launch(command, cwd=folder, log=folder / _LOG, inherit=editor.inherit)
    except OSError as error:
        raise ProviderError(Failure("target_missing", f"cannot start {command[0]!r}: {error.strerror}")) from None


async def wait_until_ended(process: Launched, log: Path, sleep: Sleep) -> None:
    """Wait until a command of the editor has ended, at most 30 seconds. Raises ProviderError if it failed."""
    try:
        async with asyncio.timeout(_MAX_COMMAND_S):
            while process.exit_code is None:
                await sleep(POLL_S / 4)
    except TimeoutError:
        return  # the editor runs in the foreground
    if process.exit_code:
        raise ProviderError(editor_failure(process.exit_code, log))


async def wait_for_outcomes(jobs: Sequence[Job], *, sleep: Sleep) -> None:
    """Wait until every job has an outcome, without a time limit."""
    while True:
        for job in jobs:
            if job.outcome is None:
                job.update()
        if all(job.outcome is not None for job in jobs):
            return
        await sleep(POLL_S)


def editor_failure(exit_code: int, log: Path) -> Failure:
    """Return the failure of an editor's command that exited with an error."""
    message = f"the editor's command failed with exit code {exit_code}{log_tail(log)}"
    return Failure("target_exit", message, details={"exit_code": exit_code})


def log_tail(log: Path) -> str:
    """Return the end of the log as the end of a message; "" if the log is empty or cannot be read."""
    try:
        text = log.read_bytes()[-_MAX_TAIL_BYTES:].decode(errors="replace").strip()
    except OSError:
        return ""
    return f"; the end of {log}:\n{text}" if text else ""


class VscodeSettings(Struct, frozen=True):
    """The settings of a `vscode` or `vscode-insiders` target."""

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
        str, Meta(description="Folder of subagent-1, subagent-2, …; each handles one chat message at a time.")
    ] = SUBAGENT_ROOT
    env_allow: Annotated[
        tuple[str, ...] | None,
        Meta(description="The only variables that the editor's command inherits, besides PATH; default: all."),
    ] = None

    def __post_init__(self) -> None:
        """Reject an invalid command; the message starts with the setting's name."""
        if self.command is None:
            return
        try:
            words = shlex.split(self.command)
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
        """The number of concurrent requests: one per existing subagent, at least one."""
        return len(subagents(self._root))

    async def healthcheck(self) -> None:
        """Raise ProviderError if the editor is not installed or the workspace template cannot be read.

        With `dry_run` nothing is checked.
        """
        if not self._settings.dry_run:
            self._editor()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Return the answer of an editor's agent to one case; its text is empty with `dry_run` or without `wait`.

        Raises ProviderError, with the text that the agent has written so far in `partial`.
        """
        if self._settings.dry_run:
            return self._dry_answer(request)
        (job,), timeout_s = await self._finished_jobs([request])
        answer = job.outcome or job.timeout_failure(timeout_s)
        if isinstance(answer, Failure):
            raise ProviderError(answer, partial=job.partial_answer())
        return answer

    async def invoke_batch(self, requests: Sequence[ProviderRequest]) -> Mapping[str, ProviderResponse | Failure]:
        """Return the answer or failure of each case, by id. Raises ProviderError if the batch fails as a whole.

        The cases are distributed over the free subagents, which get one chat message each, one after another. If the
        time limit is over before it is a subagent's turn, its cases are missing from the result. Every failure may be
        due to the other cases, so each is retryable: by a request of its own.
        """
        if self._settings.dry_run:
            return {request.eval_case_id: self._dry_answer(request) for request in requests}
        jobs, timeout_s = await self._finished_jobs(requests)
        outcomes = {job.request.eval_case_id: job.outcome or job.timeout_failure(timeout_s) for job in jobs}
        return {
            case_id: replace(outcome, retryable=True) if isinstance(outcome, Failure) else outcome
            for case_id, outcome in outcomes.items()
        }

    async def _finished_jobs(self, requests: Sequence[ProviderRequest]) -> tuple[list[Job], float]:
        """Return the jobs once all have an outcome or the time limit is over, and the limit in seconds.

        Raises ProviderError if the editor or the folders cannot be used, or no subagent was free in time.
        """
        editor = self._editor()
        timeout_s = requests[0].timeout_s or self._target.try_timeout_s
        deadline = asyncio.timeout(timeout_s)
        jobs: list[Job] = []
        try:
            async with deadline, claim_folders(self._root, at_most=len(requests), sleep=self._sleep) as folders:
                await self._run_jobs(editor, requests, folders, jobs)
        except TimeoutError:
            if not deadline.expired():  # not our time limit
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
        """Distribute the requests over folders, and wait for their outcomes.

        Each job is added to `jobs` before its request is sent, so that the caller has the jobs even after a timeout.
        """
        name = self._request_name()
        for first, folder in enumerate(folders):
            requests_of_folder = requests[first :: len(folders)]
            batch = [
                make_job(editor, folder, self._with_system_prompt(request), f"{name}-{index}")
                for index, request in enumerate(requests_of_folder)
            ]
            jobs += batch
            await dispatch(editor, batch, name=name, sleep=self._sleep)
        if self._settings.wait:
            await wait_for_outcomes(jobs, sleep=self._sleep)
            return
        for job in jobs:
            if job.process is not None:
                await wait_until_ended(job.process, job.log, self._sleep)
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
        """Return the editor. Raises ProviderError if it is not installed or the workspace template cannot be read."""
        path = self._settings.workspace_template
        template = {} if path is None else read_workspace_template(self._base_dir / Path(path).expanduser())
        return Editor((self._program(), *self._command[1:]), template, self._settings.env_allow)

    def _program(self) -> str:
        """Return the path of the editor's program. Raises ProviderError if it is not installed.

        A command with a slash is a path relative to the targets file; any other is searched in PATH.
        """
        program = self._command[0]
        if os.sep in program:
            path = self._base_dir / Path(program).expanduser()
            found = str(path) if path.is_file() and os.access(path, os.X_OK) else None
            problem = f"{path} is not an executable program"
        else:
            found = shutil.which(program)
            problem = f"{program!r} is not in PATH ({os.environ.get('PATH', '')})"
        if found is None:
            advice = "install the editor's command line, or set `command` to its path"
            raise ProviderError(Failure("target_missing", f"{problem}; {advice}", stage="healthcheck"))
        return found
