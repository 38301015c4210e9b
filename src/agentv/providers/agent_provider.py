"""A coding agent as a provider: its command is run in a folder, its events are read, its answer taken from them."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.execution.folder_trees import remove_tree
from agentv.execution.processes import Command
from agentv.providers.agent_log import AgentLog, LogFormat, log_path
from agentv.providers.agent_program import find_program
from agentv.providers.agent_prompt import build_agent_prompt
from agentv.providers.agent_run import run_agent
from agentv.providers.agent_settings import AgentSettings
from agentv.providers.agent_steps import Step
from agentv.providers.agent_stream import AgentStream, ReadEvent
from agentv.templating.secrets import Striker, secret_values
from agentv.types.protocols import Clock, ProviderTools
from agentv.types.provider import ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget

PROMPT_FILE = "prompt.md"


def utc_now() -> datetime:
    """Return the present moment, for logs and for agents whose events have no time of their own."""
    return datetime.now(UTC)


class Agent(Struct, frozen=True, kw_only=True):
    """What is particular to one agent.

    `arguments` are made of a request and a folder for files on the side, from which `left_behind` reads steps when the
    agent has ended. `noise` are the types of events that only repeat others piece by piece. `env` is added to the
    environment; keys go there, never among the arguments. `leaves_prompt`: a fresh workspace gets `prompt.md`.
    """

    kind: str
    executable: str
    install: str
    settings: AgentSettings
    arguments: Callable[[ProviderRequest, Path], Sequence[str]]
    read: ReadEvent
    noise: frozenset[str] = frozenset()
    env: Mapping[str, str] = field(default_factory=dict)
    prompt: Callable[[ProviderRequest], str] = build_agent_prompt
    leaves_prompt: bool = False
    is_logged: bool = True
    log_dir: str | None = None
    log_format: LogFormat = "summary"
    left_behind: Callable[[Path], Iterable[Step]] = lambda _: ()


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
        """Raise ProviderError with kind `target_missing` when the agent is not installed."""
        self._find()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Return the agent's answer, with what it did on the way as output messages."""
        if request.system_prompt is None:
            request = replace(request, system_prompt=self._target.system_prompt)
        prompt = self._agent.prompt(request)
        log = self._open_log(request)
        try:
            async with _fresh_folder(self.kind) as folder:
                command = Command(
                    argv=(self._find(), *self._agent.arguments(request, folder)),
                    cwd=str(self._cwd(request, folder, prompt)),
                    env=self._env,
                    stdin=prompt.encode(errors="replace"),
                )
                stream = self._stream(log)
                timeout_s = request.timeout_s or self._target.try_timeout_s
                await run_agent(command, stream, name=self.kind, timeout_s=timeout_s)
                for step in self._agent.left_behind(folder):
                    stream.transcript.add(step)
        finally:
            log.close()
        response = stream.transcript.response()
        return replace(
            response,
            exit_code=0,
            log_paths=log.paths,
            notes=(*response.notes, *([log.problem] if log.problem else [])),
            request={"argv": list(command.argv), "cwd": command.cwd, "prompt": prompt},
        )

    def _find(self) -> str:
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

    def _stream(self, log: AgentLog) -> AgentStream:
        striker = Striker({*self._target.secrets, *secret_values({**os.environ, **self._env})})
        return AgentStream(self._agent.read, log, striker=striker, clock=self._clock, noise=self._agent.noise)

    def _cwd(self, request: ProviderRequest, folder: Path, prompt: str) -> Path:
        """Return where the agent works; a fresh workspace is made when it is told no place."""
        if request.workspace is not None:
            return Path(request.workspace)
        if self._agent.settings.cwd:
            return Path(request.eval_dir or self._target.base_dir, self._agent.settings.cwd)
        fresh = folder / "workspace"
        fresh.mkdir()
        if self._agent.leaves_prompt:
            (fresh / PROMPT_FILE).write_text(prompt, encoding="utf-8", errors="replace")
        return fresh


@asynccontextmanager
async def _fresh_folder(kind: str) -> AsyncIterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=f"agentv-{kind}-"))
    try:
        yield folder
    finally:
        await asyncio.to_thread(remove_tree, folder)
