"""`replay`: answers that were recorded before, from a stored run, a results file, a transcript or a log."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, cast

from msgspec import Meta, Struct
from msgspec.structs import replace

from agentv.execution.threads import call_in_thread
from agentv.providers.agents.copilot import read_copilot, read_usage
from agentv.providers.agents.json import object_of, parse_object
from agentv.providers.agents.steps import Transcript
from agentv.providers.local.execution_traces import TracedAnswer, find_traced, load_execution_traces
from agentv.providers.local.recordings import (
    SEGMENTS,
    Recording,
    RowRecording,
    index_recording,
    index_rows,
    parse_recorded,
    recorded_turn,
)
from agentv.types.errors import ConfigError, MissingExtraError, ProviderError, TargetError
from agentv.types.failures import Failure
from agentv.types.log_shapes.mapping import check_field
from agentv.types.protocols import ProviderTools
from agentv.types.provider import ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget

ANSWERS = "answers.jsonl"
EVENTS = "events.jsonl"
LATEST = "latest"


class ReplaySettings(Struct, frozen=True):
    """The source of the recorded answers, exactly one, and the choice among them."""

    run: Annotated[
        str | None, Meta(description="Stored run: its folder, its id or the start of its id, or `latest`.")
    ] = None
    file: Annotated[
        str | None,
        Meta(
            description="JSONL file of answers, results, `{id, text | output_messages, trial?}`, or of any log; "
            "JSON, CSV, TSV or Parquet of a log."
        ),
    ] = None
    map: Annotated[
        Mapping[str, str] | None,
        Meta(description="Paths of the fields of a log with other keys, as in `{id: no, response: data.answer}`."),
    ] = None
    copilot_log: Annotated[
        str | None,
        Meta(description="Folder of a recorded session of GitHub Copilot, whose answer is that of every case."),
    ] = None
    execution_traces: Annotated[
        str | None, Meta(description="File of execution traces that AgentV 4 recorded: JSON or JSON Lines.")
    ] = None
    recorded_target: Annotated[
        str | None, Meta(description="The target whose answers are used; default: the name of this target.")
    ] = None
    recorded_suite: Annotated[
        str | None, Meta(description="The suite whose answers are used, for a file that names several.")
    ] = None

    def __post_init__(self) -> None:
        """Raise ValueError unless exactly one source is set, and for an unknown field in `map`."""
        sources = (self.run, self.file, self.copilot_log, self.execution_traces)
        if len(sources) - sources.count(None) != 1:
            raise ValueError("replay needs exactly one of run, file, copilot_log and execution_traces")
        if self.map and self.file is None:
            raise ValueError("map is for the file of a log; other recordings need none")
        for name in self.map or ():
            try:
                check_field(name, "map")
            except ConfigError as error:
                raise ValueError(str(error)) from None


class ReplayProvider:
    """Looks up answers by case id and trial. Only their positions are held in memory."""

    kind = "replay"

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:
        settings = cast(ReplaySettings, target.settings)
        self._copilot_log: ProviderResponse | None = None
        self._is_copilot_log = settings.copilot_log is not None
        self._traces: tuple[TracedAnswer, ...] | None = None
        self._is_traces = settings.execution_traces is not None
        if settings.copilot_log is not None:
            self._path = find_copilot_log(Path(target.base_dir, Path(settings.copilot_log).expanduser()))
        elif settings.file is not None or settings.execution_traces is not None:
            self._path = Path(target.base_dir, settings.file or settings.execution_traces or "")
        else:
            self._path = _run_folder(settings.run or "", Path(target.base_dir), tools) / ANSWERS
            if (self._path.parent / SEGMENTS).is_file():
                run = self._path.parent.name
                raise TargetError(
                    f"target {target.name!r}: the answers of run {run} are in segments; replay reads none"
                )
        if not self._path.is_file():
            raise TargetError(f"target {target.name!r}: there is no recording {self._path}")
        self._target = settings.recorded_target or target.name
        self._suite = settings.recorded_suite
        self._paths = settings.map
        self._opening = asyncio.Lock()
        self._recording: Recording | RowRecording | None = None
        self._tools = tools

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Return the recorded answer; a recorded failure is raised again."""
        async with self._opening:
            if self._is_copilot_log:
                if self._copilot_log is None:
                    self._copilot_log = await call_in_thread(load_copilot_log, self._path, timeout_s=None)
                return self._copilot_log
            if self._is_traces:
                if self._traces is None:
                    self._traces = await call_in_thread(load_execution_traces, self._path, timeout_s=None)
                return find_traced(
                    self._traces,
                    request.eval_case_id,
                    request.trial,
                    target=self._target,
                    suite=self._suite,
                    path=self._path,
                )
            if self._recording is None:
                self._recording = await call_in_thread(self._index, timeout_s=None)
        row = self._recording.find(request.eval_case_id, request.trial, request.prompt)
        return parse_recorded(row if request.turn is None else recorded_turn(row, request.turn), self._paths)

    def _index(self) -> Recording | RowRecording:
        """Index the recording. Raises ProviderError for one that cannot be read."""
        try:
            rows = self._tools.recorded_rows(str(self._path))
            if rows is None:
                return index_recording(self._path, self._target, self._suite, self._paths)
            return index_rows(self._path, rows, self._target, suite=self._suite, paths=self._paths)
        except (ConfigError, MissingExtraError) as error:
            raise ProviderError(Failure("config_error", str(error))) from None


def find_copilot_log(folder: Path) -> Path:
    """Return the events of a session of Copilot; the last part `latest` stands for the session changed last."""
    if folder.name == LATEST and not folder.exists():
        logs = sorted(folder.parent.glob(f"*/{EVENTS}"), key=lambda path: path.stat().st_mtime)
        return logs[-1] if logs else folder / EVENTS
    return folder / EVENTS


def load_copilot_log(path: Path) -> ProviderResponse:
    """Return what Copilot said and called in a recorded session. Raises ProviderError for an invalid line."""
    transcript = Transcript()
    for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), start=1):
        if not line.strip():
            continue
        event = parse_object(line)
        if event is None:
            raise ProviderError(Failure("malformed_reply", f"{path}:{number}: not a JSON object"))
        steps = read_usage(object_of(event.get("data"))) if event.get("type") == "session.shutdown" else ()
        for step in (*read_copilot(event, ""), *steps):
            transcript.add(step)
    if transcript.failed is not None:
        raise ProviderError(Failure("target_exit", f"recorded: {transcript.failed.message}"))
    return replace(transcript.response(), cost_usd=0.0)  # a replay costs nothing


def _run_folder(reference: str, base_dir: Path, tools: ProviderTools) -> Path:
    """Return the folder of a stored run, given by a path relative to the targets file or by any run reference."""
    as_path = base_dir / reference
    return as_path if (as_path / ANSWERS).is_file() else Path(tools.find_run(reference))
