"""`replay`: answers that were recorded before, from a stored run, a results file, a transcript or a log."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, cast

from msgspec import Meta, Struct
from msgspec.structs import replace

from agentv.execution.threads import call_in_thread
from agentv.messages.logs.mapping import check_field
from agentv.messages.shapes.reading import read_messages
from agentv.messages.transcripts.copilot import read_copilot
from agentv.messages.transcripts.steps import Transcript, parse_object, text_of
from agentv.providers.agents.copilot import read_usage
from agentv.providers.local.recordings import (
    SEGMENTS,
    Recording,
    TableRecording,
    index_recording,
    index_rows,
    parse_recorded,
    recorded_turn,
)
from agentv.types.errors import ConfigError, MissingExtraError, StorageError, TargetError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue, object_of, objects_of
from agentv.types.messages import Message, ToolCall
from agentv.types.messages_json import content_text
from agentv.types.protocols import ProviderTools
from agentv.types.provider import ProviderError, ProviderRequest, ProviderResponse, last_answer
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage, read_count, total_usage


class TracedAnswer(Struct, frozen=True):
    """One recorded answer. `trial` None stands for every trial."""

    case_id: str
    target: str | None
    suite: str | None
    trial: int | None
    response: ProviderResponse


def load_execution_traces(path: Path) -> tuple[TracedAnswer, ...]:
    """Return the answers of a file. Raises ProviderError, with the position, for anything but an execution trace."""
    text = path.read_text("utf-8-sig", "replace")
    return tuple(_read_trace(document, where) for where, document in _documents(text, path))


def find_traced(
    answers: tuple[TracedAnswer, ...], case_id: str, trial: int, *, target: str, suite: str | None, path: Path
) -> ProviderResponse:
    """Return the answer of a case in a trial. Raises ProviderError with kind `target_missing` if there is none."""
    of_case = [answer for answer in answers if answer.case_id == case_id and suite in (None, answer.suite)]
    targets = {answer.target for answer in of_case}
    of_target = [answer for answer in of_case if answer.target == target or len(targets) == 1]
    for recorded_trial in (trial, None):
        of_trial = [answer for answer in of_target if answer.trial == recorded_trial]
        if of_trial:
            return of_trial[-1].response
    recorded = ", ".join(sorted({f"{answer.target} in {_trial_name(answer.trial)}" for answer in of_case})) or "nothing"
    message = f"{path} has no answer for case {case_id!r} of target {target!r} in trial {trial}; recorded: {recorded}"
    raise ProviderError(Failure("target_missing", message))


def _trial_name(trial: int | None) -> str:
    return "every trial" if trial is None else f"trial {trial}"


def _documents(text: str, path: Path) -> Iterator[tuple[str, JsonObject]]:
    try:
        whole: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
        yield from ((f"{path}:{number}", _object_in(line, f"{path}:{number}")) for number, line in lines)
        return
    for document in whole if isinstance(whole, list) else [whole]:
        if not isinstance(document, Mapping):
            raise _not_a_trace(str(path), "is not a JSON object")
        yield str(path), document


def _object_in(line: str, where: str) -> JsonObject:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _not_a_trace(where, f"is not JSON: {error}") from None
    if not isinstance(value, Mapping):
        raise _not_a_trace(where, "is not a JSON object")
    return value


def _not_a_trace(where: str, what: str) -> ProviderError:
    return ProviderError(Failure("malformed_reply", f"{where}: {what}; expected an execution trace of AgentV 4"))


def _read_trace(document: JsonObject, where: str) -> TracedAnswer:
    ids = {**object_of(object_of(document.get("replay")).get("lookup_key")), **object_of(document.get("eval"))}
    case_id, trial = text_of(ids.get("test_id")), ids.get("attempt")
    spans = objects_of(object_of(document.get("trace")).get("spans"))
    if case_id is None or not spans:
        raise _not_a_trace(where, "has no eval.test_id, or no trace.spans")
    messages = tuple(_messages(spans, text_of(object_of(document["trace"]).get("root_span_id"))))
    answer = last_answer(messages)
    if answer is None:
        raise _not_a_trace(where, "has no span `chat` with the content of an answer")
    return TracedAnswer(
        case_id,
        target=text_of(ids.get("source_target")) or text_of(ids.get("target")),
        suite=text_of(ids.get("suite")),
        trial=trial if isinstance(trial, int) else None,
        response=ProviderResponse(
            answer, output_messages=messages, usage=total_usage(map(_usage, filter(_is_chat, spans))), cost_usd=0.0
        ),
    )


def _attributes(span: JsonObject) -> JsonObject:
    return object_of(span.get("attributes"))


def _is_chat(span: JsonObject) -> bool:
    return _attributes(span).get("gen_ai.operation.name") == "chat"


def _is_tool(span: JsonObject) -> bool:
    return _attributes(span).get("gen_ai.operation.name") == "execute_tool"


def _messages(spans: Sequence[JsonObject], root: str | None) -> Iterator[Message]:
    """Yield a message with the calls that belong to no model turn, if any, then one for each turn with its calls."""
    ordered = sorted(spans, key=lambda span: int(str(span.get("start_time_unix_nano") or 0)))
    calls_by_parent: dict[str | None, list[ToolCall]] = {}
    for span in filter(_is_tool, ordered):
        calls_by_parent.setdefault(text_of(span.get("parent_span_id")) or root, []).append(_call(span))
    turns = {text_of(span.get("span_id")) for span in ordered if _is_chat(span)}
    without_turn = [call for parent, calls in calls_by_parent.items() if parent not in turns for call in calls]
    if without_turn:
        yield Message("assistant", tool_calls=tuple(without_turn))
    for span in filter(_is_chat, ordered):
        content = _attributes(span).get("gen_ai.output.messages")
        own_calls = tuple(calls_by_parent.get(text_of(span.get("span_id")), ()))
        yield Message("assistant", _text(content), tool_calls=own_calls)


def _text(content: JsonValue) -> str | None:
    """Return the text of a turn, which is recorded as a text, as parts, or as messages with parts."""
    if content is None or isinstance(content, str):
        return content
    items = objects_of(content)
    if items and all("role" in item for item in items):
        messages = read_messages(cast(JsonValue, items), "gen_ai.output.messages")
        return "\n".join(filter(None, (content_text(message.content) for message in messages))) or None
    return "\n".join(str(item.get("text", item.get("content", ""))) for item in items) or None


def _call(span: JsonObject) -> ToolCall:
    attributes = _attributes(span)
    return ToolCall(
        tool=text_of(attributes.get("gen_ai.tool.name")) or text_of(span.get("name")) or "",
        input=_decode_json(attributes.get("gen_ai.tool.call.arguments")),
        output=_decode_json(attributes.get("gen_ai.tool.call.result")),
        id=text_of(attributes.get("gen_ai.tool.call.id")),
        duration_ms=_duration_ms(span),
    )


def _duration_ms(span: JsonObject) -> float | None:
    """Return the duration of a span in milliseconds; None if its times are unknown."""
    try:
        began, ended = (int(str(span.get(f"{name}_time_unix_nano"))) for name in ("start", "end"))
    except ValueError:
        return None
    return (ended - began) / 1e6 if ended >= began else None


def _decode_json(value: JsonValue) -> JsonValue:
    """Return the JSON value in a string attribute; any other value unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return cast(JsonValue, json.loads(value))
    except (ValueError, RecursionError):
        return value


def _usage(span: JsonObject) -> Usage | None:
    attributes = _attributes(span)
    sent, received = (attributes.get(f"gen_ai.usage.{name}_tokens") for name in ("input", "output"))
    if sent is None and received is None:
        return None
    return Usage(input=read_count(sent), output=read_count(received), total=read_count(sent) + read_count(received))


ANSWERS = "answers.jsonl"
EVENTS = "events.jsonl"
LATEST = "latest"


class ReplaySettings(Struct, frozen=True):
    """The settings of a `replay` target: exactly one source of answers, and a selection of its answers."""

    run: Annotated[
        str | None, Meta(description="Stored run: its folder, its id or the start of its id, or `latest`.")
    ] = None
    file: Annotated[
        str | None,
        Meta(
            description="File of answers: JSONL of results or of `{id, text | output_messages, trial?}`, or a log as "
            "JSONL, JSON, CSV, TSV or Parquet."
        ),
    ] = None
    map: Annotated[
        Mapping[str, str] | None,
        Meta(description="Path to each field in a log with other keys, such as `{id: number, response: data.answer}`."),
    ] = None
    copilot_log: Annotated[
        str | None,
        Meta(description="Folder of a recorded session of GitHub Copilot; its answer is used for every case."),
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
            raise ValueError("map can only be used with file")
        for name in self.map or ():
            try:
                check_field(name, "map")
            except ConfigError as error:
                raise ValueError(str(error)) from None

    def files(self, base_dir: str) -> tuple[str, ...]:
        """Return the path of the recording; () for a stored run. A relative path starts from `base_dir`."""
        if self.copilot_log is not None:
            return (str(find_copilot_log(Path(base_dir, Path(self.copilot_log).expanduser()))),)
        file = self.file or self.execution_traces
        return () if file is None else (str(Path(base_dir, file)),)

    @property
    def runs(self) -> tuple[str, ...]:
        """The stored runs from which answers are read."""
        return () if self.run is None else (self.run,)


class ReplayProvider:
    """Looks up answers by case id and trial. For a stored run or JSONL file, memory holds only their positions."""

    kind = "replay"

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:
        settings = cast(ReplaySettings, target.settings)
        self._copilot_log: ProviderResponse | None = None
        self._is_copilot_log = settings.copilot_log is not None
        self._traces: tuple[TracedAnswer, ...] | None = None
        self._is_traces = settings.execution_traces is not None
        if files := settings.files(target.base_dir):
            self._path = Path(files[0])
        else:
            self._path = _run_folder(settings.run or "", Path(target.base_dir), tools) / ANSWERS
            if (self._path.parent / SEGMENTS).is_file():
                run = self._path.parent.name
                raise TargetError(
                    f"target {target.name!r}: the answers of run {run} are in segments, which replay cannot read"
                )
        if not self._path.is_file():
            raise TargetError(f"target {target.name!r}: there is no recording {self._path}")
        self._target = settings.recorded_target or target.name
        self._suite = settings.recorded_suite
        self._field_paths = settings.map
        self._loading = asyncio.Lock()
        self._recording: Recording | TableRecording | None = None
        self._tools = tools

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Return the recorded answer; a recorded failure is raised again."""
        async with self._loading:
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
        return parse_recorded(row if request.turn is None else recorded_turn(row, request.turn), self._field_paths)

    def _index(self) -> Recording | TableRecording:
        """Index the recording. Raises ProviderError for one that cannot be read."""
        try:
            rows = self._tools.recorded_rows(str(self._path))
            if rows is None:
                counted = self._tools.counted_lines(str(self._path))
                return index_recording(self._path, self._target, self._suite, self._field_paths, counted)
            return index_rows(self._path, rows, self._target, suite=self._suite, field_paths=self._field_paths)
        except (ConfigError, MissingExtraError, StorageError) as error:
            raise ProviderError(Failure("config_error", str(error))) from None


def find_copilot_log(folder: Path) -> Path:
    """Return the events file of a Copilot session. The folder name `latest` selects the session that changed last."""
    if folder.name == LATEST and not folder.exists():
        logs = sorted(folder.parent.glob(f"*/{EVENTS}"), key=lambda path: path.stat().st_mtime)
        return logs[-1] if logs else folder / EVENTS
    return folder / EVENTS


def load_copilot_log(path: Path) -> ProviderResponse:
    """Return a recorded Copilot session as a response. Raises ProviderError for an invalid line."""
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
