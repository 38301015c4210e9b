"""Sessions of an editor: open a window on a subagent's folder, send requests to its agent, await the answers."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agentv.execution.processes.process import MAX_OUTPUT_BYTES, Launched, launch
from agentv.providers.editors.folders import (
    MESSAGES,
    PAUSE_S,
    Exchange,
    Sleep,
    batch_text,
    build_prompt,
    chat_message,
    exchange_in,
    one_at_a_time,
    read_answer,
    request_text,
    write_workspace,
)
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject
from agentv.types.provider import ProviderRequest, ProviderResponse

OPEN_S = 30.0
"""The time to wait for a window to open; an editor that stays in the foreground never returns."""

_LOG = "editor.log"
_LOG_TAIL = 2_000


class Editor(Struct, frozen=True):
    """The command of an editor, and the workspace that its agents see in addition to their own folders.

    `inherit` names the only variables that the command inherits besides PATH; None passes on all.
    """

    command: tuple[str, ...]
    template: JsonObject
    inherit: tuple[str, ...] | None = None

    def open_command(self, workspace: Path) -> tuple[str, ...]:
        """Return the command that opens a window on a workspace."""
        return (*self.command, str(workspace))

    def chat_command(self, file: Path) -> tuple[str, ...]:
        """Return the command that sends a request file to the agent in the last active window."""
        options = ("--reuse-window", "--mode", "agent", "--add-file", str(file))
        return (*self.command, "chat", *options, chat_message(file))


class Job(Struct):
    """One request in progress. `outcome` is None until there is an answer or a failure."""

    request: ProviderRequest
    folder: Path
    exchange: Exchange
    prompt: str
    command: tuple[str, ...]
    editor: Launched | None = None
    outcome: ProviderResponse | Failure | None = None

    @property
    def log(self) -> Path:
        """The file that receives the output of the editor's command."""
        return self.folder / _LOG

    def metadata(self) -> JsonObject:
        """Return the prompt, the files and the command of the request."""
        return {
            "subagent": self.folder.name,
            "command": list(self.command),
            "request_file": str(self.exchange.request),
            "answer_file": str(self.exchange.answer),
            "prompt": self.prompt,
        }

    def update(self) -> None:
        """Set the outcome if the answer exists or the editor's command has failed."""
        if self.exchange.answer.exists() or self.exchange.answer.is_symlink():
            try:
                text, notes = read_answer(self.exchange, MAX_OUTPUT_BYTES)
            except ProviderError as error:
                self.outcome = error.failure
                return
            logs = (str(self.exchange.request), str(self.exchange.answer))
            self.outcome = ProviderResponse(text, request=self.metadata(), log_paths=logs, notes=notes)
        elif self.editor is not None and self.editor.exit_code:
            self.outcome = failed(self.editor.exit_code, self.log)

    def unfinished(self) -> ProviderResponse | None:
        """Return what the agent has written of its answer so far; None if that is nothing, or cannot be read."""
        if not self.exchange.unfinished.exists():
            return None
        try:
            text, _ = read_answer(replace(self.exchange, answer=self.exchange.unfinished), MAX_OUTPUT_BYTES)
        except ProviderError:
            return None
        logs = (str(self.exchange.request), str(self.exchange.unfinished))
        return ProviderResponse(text, request=self.metadata(), log_paths=logs) if text.strip() else None

    def timed_out(self, timeout_s: float) -> Failure:
        """Return the failure of a request without an answer in time."""
        partial = f"; partial answer: {self.exchange.unfinished.name}" if self.exchange.unfinished.exists() else ""
        message = (
            f"no answer within {timeout_s:g} s: {self.exchange.answer} did not appear{partial}{log_tail(self.log)}"
        )
        return Failure("target_timeout", message, retryable=True)


def make_job(editor: Editor, folder: Path, request: ProviderRequest, name: str) -> Job:
    """Return the job of a request in a subagent's folder; nothing is written yet."""
    exchange = exchange_in(folder / MESSAGES, name)
    return Job(
        request=request,
        folder=folder,
        exchange=exchange,
        prompt=build_prompt(request),
        command=editor.chat_command(exchange.request),
    )


async def dispatch(editor: Editor, jobs: Sequence[Job], *, name: str, sleep: Sleep) -> None:
    """Write the requests of one subagent and send them to the editor in one chat message.

    Raises ProviderError if the editor's command fails, OSError if files cannot be written.
    """
    folder = jobs[0].folder
    for job in jobs:
        job.exchange.request.write_text(request_text(job.prompt, job.exchange), encoding="utf-8", errors="replace")
    file = jobs[0].exchange.request
    if len(jobs) > 1:
        file = folder / MESSAGES / f"{name}_batch.md"
        file.write_text(batch_text([job.exchange for job in jobs]), encoding="utf-8")
    workspace = write_workspace(folder, editor.template, jobs[0].request.workspace)
    async with one_at_a_time(folder.parent, sleep):
        await settle(_start(editor, editor.open_command(workspace), folder), folder / _LOG, sleep)
        started = _start(editor, editor.chat_command(file), folder)
    for job in jobs:
        job.command, job.editor = editor.chat_command(file), started


def _start(editor: Editor, command: Sequence[str], folder: Path) -> Launched:
    try:
        return launch(command, cwd=folder, log=folder / _LOG, inherit=editor.inherit)
    except OSError as error:
        raise ProviderError(Failure("target_missing", f"cannot start {command[0]!r}: {error.strerror}")) from None


async def settle(started: Launched, log: Path, sleep: Sleep) -> None:
    """Wait until a command has ended, at most 30 seconds. Raises ProviderError if it failed."""
    try:
        async with asyncio.timeout(OPEN_S):
            while started.exit_code is None:
                await sleep(PAUSE_S / 4)
    except TimeoutError:
        return
    if started.exit_code:
        raise ProviderError(failed(started.exit_code, log))


async def wait_for(jobs: Sequence[Job], *, sleep: Sleep) -> None:
    """Wait until every job has an outcome."""
    while True:
        for job in jobs:
            if job.outcome is None:
                job.update()
        if all(job.outcome is not None for job in jobs):
            return
        await sleep(PAUSE_S)


def failed(exit_code: int, log: Path) -> Failure:
    """Return the failure of an editor's command."""
    message = f"the editor's command failed with exit code {exit_code}{log_tail(log)}"
    return Failure("target_exit", message, details={"exit_code": exit_code})


def log_tail(log: Path) -> str:
    """Return the end of the editor command's output, as the end of a message."""
    try:
        text = log.read_bytes()[-_LOG_TAIL:].decode(errors="replace").strip()
    except OSError:
        return ""
    return f"; the end of {log}:\n{text}" if text else ""
