"""Coding agents as providers: build the prompt, run the command in a folder, read its events, extract the answer."""

import asyncio
import os
import re
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from agentv.execution.cancelled_calls import attach_call
from agentv.execution.folder_trees import remove_tree
from agentv.execution.processes.left_behind import temporary_folder
from agentv.execution.processes.process import Command, Outcome, run_process
from agentv.messages.transcripts.steps import (
    Failed,
    Step,
    Transcript,
    Used,
    iso_time,
    parse_object,
    short_line,
    whole_text,
)
from agentv.providers.agents.commands import describe_exit, start_failure
from agentv.templating.secrets import SecretRedactor, secret_values
from agentv.types.failures import Failure, FailureKind
from agentv.types.json_value import JsonObject, objects_of
from agentv.types.protocols import Clock, ProviderTools
from agentv.types.provider import ProviderError, ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget

LogFormat: TypeAlias = Literal["summary", "json"]

MAX_LOG_BYTES = 64 * 2**20
_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_CASE_CHARACTERS = 60


class AgentLog:
    """Writes lines as they arrive: readable lines (`summary`) or the raw events (`json`).

    Only the current user can read the file. If it cannot be written, logging stops and `problem` holds the reason: a
    failure of the log must not fail the call. Without a path nothing is written.
    """

    def __init__(self, path: Path | None, log_format: LogFormat = "summary") -> None:
        self.paths: tuple[str, ...] = ()
        self.problem: str | None = None
        self._format = log_format
        self._bytes_left = MAX_LOG_BYTES
        self._descriptor: int | None = None
        if path is None:
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            self.problem = f"no log can be written to {path.parent}: {error.strerror}"
        else:
            self.paths = (str(path),)

    def write_raw(self, line: str) -> None:
        """Write a raw line of the agent's output."""
        if self._format == "json":
            self._write(line)

    def write_line(self, at: str, text: str) -> None:
        """Write a readable line; `at` is ISO 8601."""
        if self._format == "summary":
            self._write(f"{at[11:19]} {text}")

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _write(self, line: str) -> None:
        if self._descriptor is None or self.problem is not None:
            return
        content = f"{line}\n".encode(errors="replace")
        self._bytes_left -= len(content)
        try:
            if self._bytes_left < 0:
                self.problem = f"the log ends at {MAX_LOG_BYTES / 2**20:g} MiB: {self.paths[0]}"
            else:
                os.write(self._descriptor, content)
        except OSError as error:
            self.problem = f"the log cannot be written: {error.strerror}: {self.paths[0]}"


def log_path(folder: Path, case_id: str, log_format: LogFormat, *, now: datetime) -> Path:
    """Return the path of a new log, named after the time and the case."""
    case = _UNSAFE_CHARACTERS.sub("-", case_id)[:_MAX_CASE_CHARACTERS] or "case"
    suffix = "jsonl" if log_format == "json" else "log"
    return folder / f"{now:%Y%m%dT%H%M%SZ}-{case}-{secrets.token_hex(4)}.{suffix}"


QUERY_HEADING = "[[ ## user_query ## ]]"
_INSTRUCTIONS_HEADING = "[[ ## instructions ## ]]"
_READ_FIRST = (
    "Before you do anything else, read all of the files listed above, each one to its end. If one of them is missing "
    "or cannot be read, say which one in your answer, and go on with the others."
)


def build_agent_prompt(request: ProviderRequest, *, instructions: str | None = None) -> str:
    """Return the prompt: guideline files and input files to be read first, then the question.

    `instructions` precede the question, for agents that accept no system prompt.
    """
    block = preread_block(request.guideline_files, request.input_files)
    system = f"{_INSTRUCTIONS_HEADING}\n\n{instructions}" if instructions else ""
    return "\n\n".join(part for part in (block, system, QUERY_HEADING, request.question) if part)


def preread_block(guideline_files: Iterable[str], input_files: Iterable[str]) -> str:
    """Return the instruction to read files, given as absolute paths; empty if there are none."""
    lists = [_file_list("Read all guideline files:", guideline_files), _file_list("Read all input files:", input_files)]
    lists = [part for part in lists if part]
    return "\n\n".join([*lists, _READ_FIRST]) if lists else ""


def _file_list(heading: str, paths: Iterable[str]) -> str:
    lines = [f"* [{path.name}]({path.as_uri()})" for path in map(Path, paths)]
    return "\n".join([heading, *lines]) if lines else ""


class AgentSettings(Struct, frozen=True, kw_only=True):
    """The settings that every coding agent has."""

    args: Annotated[tuple[str, ...], Meta(description="Additional arguments of the command, one per list item.")] = ()
    cwd: Annotated[
        str | None,
        Meta(description="Working folder, relative to the eval file; default: a fresh folder for each call."),
    ] = None
    env: Annotated[
        Mapping[str, str],
        Meta(description="Additional environment variables of the command; write secrets as ${{ VARIABLE }}."),
    ] = field(default_factory=dict)
    env_allow: Annotated[
        tuple[str, ...] | None,
        Meta(description="The only variables to inherit, besides PATH; default: the whole environment."),
    ] = None


def find_program(executable: str, *, base_dir: Path, env: Mapping[str, str], install: str) -> str:
    """Return the path of a program given by name (searched in PATH) or by path (relative to `base_dir`).

    Raises ProviderError that names the searched places and the command to `install` the program.
    """
    if os.sep in executable:
        path = base_dir / Path(executable).expanduser()
        if path.is_file() and os.access(path, os.X_OK):
            return str(path.absolute())
        problem = "is not executable" if path.exists() else "does not exist"
        raise ProviderError(_missing(f"{path} {problem}", install))
    search = env.get("PATH", os.environ.get("PATH", os.defpath))
    found = shutil.which(executable, path=search)
    if found is None:
        places = ", ".join(dict.fromkeys(place for place in search.split(os.pathsep) if place))
        raise ProviderError(_missing(f"{executable!r} is not in PATH ({places})", install))
    return str(Path(found).absolute())


def _missing(what: str, install: str) -> Failure:
    message = f"{what}; install it with `{install}`, or set `executable` to its path"
    return Failure("target_missing", message, stage="healthcheck")


ReadEvent: TypeAlias = Callable[[JsonObject, str], Iterable[Step]]
"""Converts one event and its time of arrival (ISO 8601) into steps. Never raises, whatever the event."""

MAX_STREAM_BYTES = 256 * 2**20
MAX_STORED_BYTES = 32 * 2**20
"""The limit of the output that is stored. Fragments (see AgentStream) are not stored and do not count."""

_MAX_TAIL_CHARACTERS = 2_000
_TYPE_AT_START = re.compile(r'\{"type":\s?"([^"\\]*)"')


class AgentStream:
    """Parses the output of an agent: lines, each of which is an event in JSON or plain text.

    Fragments are events with a piece of a message that a later event repeats in full; `fragment_types` are their types.
    They are skipped and not logged, since a secret that is spread over several pieces would not be found. All other
    lines are redacted before they are parsed. `tail` is the end of the output. `show` gets each readable line, uncut.
    """

    def __init__(
        self,
        read: ReadEvent,
        log: AgentLog,
        *,
        redactor: SecretRedactor,
        clock: Clock,
        fragment_types: frozenset[str] = frozenset(),
        show: Callable[[str], None] | None = None,
    ) -> None:
        self.transcript = Transcript()
        self.log = log
        self.tail = ""
        self._read = read
        self._redactor = redactor
        self._clock: Callable[[], datetime] = clock
        self._fragment_types = fragment_types
        self._show = show
        self._incomplete_line = bytearray()
        self._plain_lines: list[str] = []
        self._received_bytes = 0
        self._stored_bytes = 0

    def feed(self, chunk: bytes) -> bool:
        """Parse a chunk of output; return False if the output exceeds its limit."""
        self._received_bytes += len(chunk)
        self._incomplete_line += chunk
        if b"\n" in chunk:
            *lines, rest = self._incomplete_line.split(b"\n")
            self._incomplete_line = rest
            for line in lines:
                self._parse_line(line)
        return (
            self._received_bytes <= MAX_STREAM_BYTES
            and self._stored_bytes + len(self._incomplete_line) <= MAX_STORED_BYTES
        )

    def end(self) -> None:
        """Parse the last line, then all lines of plain text together: they may be one JSON document."""
        self._parse_line(self._incomplete_line)
        self._incomplete_line = bytearray()
        text = "\n".join(self._plain_lines)
        document = parse_object(text) or parse_object(f'{{"events": {text}}}')  # an object, or a list of events
        for event in _events_in(document or {}):
            self._add_event(event)

    def redact(self, text: str) -> str:
        """Return a text without secrets."""
        return self._redactor.redact(text)

    def note(self, text: str) -> None:
        """Write a message of agentv itself to the log."""
        line = self.redact(text)
        self.log.write_line(iso_time(self._clock()), line)
        if self._show is not None:
            self._show(line)

    def _parse_line(self, raw: bytes | bytearray) -> None:
        line = self.redact(raw.decode("utf-8", "replace").strip())
        type_at_start = _TYPE_AT_START.match(line)
        if not line or (type_at_start and type_at_start[1] in self._fragment_types):
            return
        event = parse_object(line)
        if event is None:
            self._plain_lines.append(line)
        elif event.get("type") in self._fragment_types:
            return
        self._stored_bytes += len(raw)
        self.tail = f"{self.tail}\n{line}"[-_MAX_TAIL_CHARACTERS:]
        self.log.write_raw(line)
        if event is not None:
            self._add_event(event)

    def _add_event(self, event: JsonObject) -> None:
        at = iso_time(self._clock())
        for step in self._read(event, at):
            is_estimate = isinstance(step, Used) and step.is_estimate
            if not is_estimate and not self.transcript.only_completes_call(step):
                self.log.write_line(at, short_line(step))
                if self._show is not None:
                    self._show(whole_text(step))
            self.transcript.add(step)


def _events_in(document: JsonObject) -> list[JsonObject]:
    """Return the events of a document: the items of a list that is wrapped in `events`, or the document itself."""
    if document.keys() == {"events"}:
        return objects_of(document["events"])
    return [document] if document else []


_SERVER_ERRORS = 500
_KINDS_BY_STATUS: dict[int, FailureKind] = {401: "auth", 403: "auth", 429: "rate_limited"}


async def run_agent(command: Command, stream: AgentStream, *, name: str, timeout_s: float) -> None:
    """Run an agent to its end; `stream` then holds its steps. Raises ProviderError if there is no answer."""
    try:
        outcome = await run_process(command, timeout_s=timeout_s, listener=stream.feed)
    except OSError as error:
        advice = "shorten `args` or `system_prompt`"
        not_started = start_failure(error, command.argv, Path(command.cwd or "."), too_long=advice)
        raise ProviderError(not_started) from None
    except ValueError as error:
        raise ProviderError(Failure("bad_request", f"{name} cannot be started: {error}")) from None
    stream.end()
    errors = stream.redact(outcome.stderr.strip())
    stream.note(f"ends     exit code {outcome.exit_code} after {outcome.duration_s:.1f} s")
    if errors:
        stream.note(f"errors   {errors}")
    failure = _failure(outcome, stream, name, timeout_s)
    if failure is None:
        return
    logs = stream.log.paths
    stderr = f"; standard error ends with:\n{errors}" if errors and stream.transcript.failed is None else ""
    where = f"; log: {logs[0]}" if logs else ""
    details = {"exit_code": outcome.exit_code, "stdout": stream.tail, "stderr": errors, "log_paths": list(logs)}
    raise ProviderError(replace(failure, message=failure.message + stderr + where, details=details))


def _failure(outcome: Outcome, stream: AgentStream, name: str, timeout_s: float) -> Failure | None:
    if outcome.timed_out:
        message = f"no answer within {timeout_s:g} s; {name} and all its child processes were ended"
        return Failure("target_timeout", message, retryable=True)
    if outcome.too_large:
        message = f"{name} printed more than {MAX_STORED_BYTES / 2**20:g} MiB of events; the answer was discarded"
        return Failure("too_large", message)
    transcript = stream.transcript
    if transcript.failed is not None:
        return _reported_failure(transcript.failed, name)
    if outcome.exit_code != 0:
        return Failure("target_exit", describe_exit(outcome.exit_code))
    if transcript.answer is None and not transcript.has_calls:
        return Failure("malformed_reply", f"{name} succeeded, but its output contains no answer")
    return None


def _reported_failure(failed: Failed, name: str) -> Failure:
    """Return the failure that an agent reported."""
    kind = failed.kind or _kind_of(failed.status)
    advice = "; check its API key or login" if kind == "auth" else ""
    return Failure(kind, f"{name} failed: {failed.message.rstrip('. ')}{advice}", http_status=failed.status)


def _kind_of(status: int | None) -> FailureKind:
    if status is None:
        return "target_exit"
    return _KINDS_BY_STATUS.get(status, "server_error" if status >= _SERVER_ERRORS else "bad_request")


PROMPT_FILE = "prompt.md"


def utc_now() -> datetime:
    """Return the current time, for logs and for agents whose events have no timestamp."""
    return datetime.now(UTC)


class Agent(Struct, frozen=True, kw_only=True):
    """The definition of one agent."""

    kind: str
    executable: str
    install: str
    settings: AgentSettings
    arguments: Callable[[ProviderRequest, Path], Sequence[str]]
    """Returns the arguments for a request, and for a folder into which the agent may write side files.

    Side files hold what the agent does not print, such as its usage.
    """
    read: ReadEvent
    """As in AgentStream."""
    fragment_types: frozenset[str] = frozenset()
    """As in AgentStream."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the environment; API keys belong here, never in the arguments."""
    prompt: Callable[[ProviderRequest], str] = build_agent_prompt
    writes_prompt_file: bool = False
    """True if a fresh workspace gets `prompt.md`."""
    is_logged: bool = True
    log_dir: str | None = None
    log_format: LogFormat = "summary"
    read_side_files: Callable[[Path, ProviderResponse], Iterable[Step]] = lambda _folder, _known: ()
    """Returns further steps from the folder of side files and the response so far, after the agent has ended."""


class AgentProvider:
    """Runs an agent's command once for each call."""

    def __init__(self, target: ResolvedTarget, tools: ProviderTools, agent: Agent, *, clock: Clock = utc_now) -> None:
        self._target = target
        self._agent = agent
        self._clock = clock
        self._env = {**agent.settings.env, **agent.env}
        folder = None if agent.log_dir is None else Path(target.base_dir, agent.log_dir).absolute()
        self._logs = folder or Path(tools.home, "logs", agent.kind).absolute()

    @property
    def kind(self) -> str:
        """The canonical provider name."""
        return self._agent.kind

    async def healthcheck(self) -> None:
        """Raise ProviderError with kind `target_missing` if the agent is not installed."""
        self._find_program()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Return the agent's answer, with its steps as output messages."""
        if request.system_prompt is None:
            request = replace(request, system_prompt=self._target.system_prompt)
        prompt = self._agent.prompt(request)
        log = self._open_log(request)
        try:
            async with _fresh_folder(self.kind) as folder:
                return await self._run(request, prompt, folder, log)
        finally:
            log.close()

    async def _run(self, request: ProviderRequest, prompt: str, folder: Path, log: AgentLog) -> ProviderResponse:
        """Return the agent's answer. A ProviderError or CancelledError holds the response so far."""
        command = Command(
            argv=(self._find_program(), *self._agent.arguments(request, folder)),
            cwd=str(self._cwd(request, folder, prompt)),
            env=self._env,
            inherit=self._agent.settings.env_allow,
            stdin=prompt.encode(errors="replace"),
        )
        stream = self._make_stream(log, request.on_log_line if self._agent.is_logged else None)

        def response_so_far(exit_code: int | None) -> ProviderResponse:
            for step in self._agent.read_side_files(folder, stream.transcript.response()):
                stream.transcript.add(step)
            response = stream.transcript.response()
            return replace(
                response,
                exit_code=exit_code,
                log_paths=log.paths,
                notes=(*response.notes, *([log.problem] if log.problem else [])),
                request={"argv": list(command.argv), "cwd": command.cwd, "prompt": prompt},
            )

        try:
            await run_agent(command, stream, name=self.kind, timeout_s=request.timeout_s or self._target.try_timeout_s)
        except ProviderError as error:
            exit_code = (error.failure.details or {}).get("exit_code")
            partial = response_so_far(exit_code if isinstance(exit_code, int) else None)
            raise ProviderError(error.failure, partial=None if stream.transcript.is_empty else partial) from None
        except asyncio.CancelledError as error:
            stream.end()
            partial = response_so_far(None)
            attach_call(error, None if stream.transcript.is_empty else partial)
            raise
        return response_so_far(0)

    def _find_program(self) -> str:
        agent = self._agent
        return find_program(
            agent.executable, base_dir=Path(self._target.base_dir), env=self._env, install=agent.install
        )

    def _open_log(self, request: ProviderRequest) -> AgentLog:
        agent = self._agent
        if not agent.is_logged:
            return AgentLog(None)
        path = log_path(self._logs, request.eval_case_id, agent.log_format, now=self._clock())
        return AgentLog(path, agent.log_format)

    def _make_stream(self, log: AgentLog, show: Callable[[str], None] | None) -> AgentStream:
        env_secrets = secret_values({**os.environ, **self._env}, public=self._target.public_env)
        redactor = SecretRedactor({*self._target.secrets, *env_secrets})
        agent, clock = self._agent, self._clock
        return AgentStream(
            agent.read, log, redactor=redactor, clock=clock, fragment_types=agent.fragment_types, show=show
        )

    def _cwd(self, request: ProviderRequest, folder: Path, prompt: str) -> Path:
        """Return the agent's working folder; a fresh one is made if none is configured."""
        if request.workspace is not None:
            return Path(request.workspace)
        if self._agent.settings.cwd:
            return Path(request.eval_dir or self._target.base_dir, self._agent.settings.cwd)
        fresh = folder / "workspace"
        fresh.mkdir()
        if self._agent.writes_prompt_file:
            (fresh / PROMPT_FILE).write_text(prompt, encoding="utf-8", errors="replace")
        return fresh


@asynccontextmanager
async def _fresh_folder(kind: str) -> AsyncIterator[Path]:
    folder = temporary_folder(kind)
    try:
        yield folder
    finally:
        await asyncio.to_thread(remove_tree, folder)
