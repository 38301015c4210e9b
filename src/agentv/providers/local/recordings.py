"""Recorded answers in JSON lines: index their positions, and parse a line into a response."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentv.messages.logs.mapping import LogMap
from agentv.messages.logs.reading import TraceStep, is_export, read_log_id, read_logged
from agentv.messages.shapes.usages import read_usage
from agentv.providers.apis.responses import check_agreement, parse_answer, with_messages
from agentv.types.errors import EvalFileError, MessageError
from agentv.types.evaluation_input import output_messages
from agentv.types.failures import FAILURE_KINDS, Failure, FailureKind
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import messages_from_json, trace_from_json
from agentv.types.provider import ProviderError, ProviderResponse, last_answer
from agentv.types.records.result import ORIGIN

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OWN_KEYS = frozenset(
    {"text", "output_messages", "candidate_answer", "schema", "slot", "eval_id", "tool_calls", "trace"}
)
"""Keys of the answers and results that agentv writes; a line without any of them is a line of a log."""
_MAP_OPTION = re.compile(r"--map ([\w.]+)=([^\s,;?']+)")
"""An option of `agentv score` that a message recommends; replay recommends its setting `map` instead."""
_BLOB = re.compile(r"sha256:[0-9a-f]{64}")


_AnswerKey: TypeAlias = tuple[str, int | None, str | None]
"""Case id, trial and prompt of a recorded answer."""


class _Slot(msgspec.Struct):
    eval_id: str | None = None
    target: str | None = None
    trial: int | None = None
    prompt: str | None = None


class _Head(msgspec.Struct):
    """The fields that identify a row: in `slot` for answers, at the top level for results.

    The fixtures of AgentV, a TypeScript program, have them at the top level, too.
    """

    test_id: str | None = None
    source_target: str | None = None
    attempt: int | None = None
    suite: str | None = None
    eval_id: str | None = None
    target: str | None = None
    trial: int | None = None
    prompt: object = None
    generation: int = 0
    rerun: object = None
    slot: _Slot | None = None

    @property
    def identity(self) -> tuple[str | None, str | None, int | None, str | None]:
        """The target, case id, trial and prompt of the row."""
        if self.slot is not None:
            return self.slot.target, self.slot.eval_id, self.slot.trial, self.slot.prompt
        if self.test_id is not None:
            return self.source_target or self.target, self.test_id, self.attempt, None
        # The `prompt` of a log is a text, not the id of a suite's prompt.
        is_id = self.eval_id is not None and isinstance(self.prompt, str)
        return self.target, self.eval_id, self.trial, str(self.prompt) if is_id else None


# Created once, at import: msgspec crashes when two threads read a type for the first time at the same moment.
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_table_head = msgspec.json.Decoder(_Head, strict=False).decode  # in a table, numbers are strings

SEGMENTS = "segments.jsonl"
"""The file that a run has if its answers were moved elsewhere (docs/reference/run-folder.md)."""


class TableRecording(Struct, frozen=True):
    """The recorded answers of a table."""

    path: Path
    index: "AnswerIndex"
    """Indices into `rows`."""
    rows: Sequence[JsonObject]

    def find(self, case_id: str, trial: int, prompt: str | None = None) -> JsonObject:
        """Return the row of a case. Raises ProviderError as `AnswerIndex.find` does."""
        return self.rows[self.index.find(self.path, case_id, trial=trial, prompt=prompt)]


class Recording(Struct, frozen=True):
    """One file of recorded answers."""

    path: Path
    index: "AnswerIndex"
    """Byte offsets."""

    def find(self, case_id: str, trial: int, prompt: str | None = None) -> JsonObject:
        """Return the row of a case. Raises ProviderError as `AnswerIndex.find` does, or if it cannot be read."""
        position = self.index.find(self.path, case_id, trial=trial, prompt=prompt)
        try:
            with self.path.open("rb") as file:
                file.seek(position)
                row: JsonObject = msgspec.json.decode(file.readline().removeprefix(BYTE_ORDER_MARK))
            return cast(JsonObject, _with_blobs(row, self.path.parent / "blobs"))
        except (OSError, msgspec.DecodeError) as error:
            message = f"{self.path}: the answer for case {case_id!r} cannot be read: {error}"
            raise ProviderError(Failure("malformed_reply", message)) from None


class AnswerIndex(Struct, frozen=True):
    """The positions of the answers of one target; the trial None stands for every trial."""

    positions: Mapping[_AnswerKey, int]
    repeated: Mapping[_AnswerKey, tuple[int, int]]
    """Two lines of each answer that a log has several times, with other content."""

    def find(self, path: Path, case_id: str, *, trial: int, prompt: str | None) -> int:
        """Return the position of the answer of a case; one that was recorded without a prompt is used for all prompts.

        Raises ProviderError with kind `target_missing` if there is none, `config_error` if a log has several.
        """
        keys = ((case_id, trial, prompt), (case_id, None, prompt), (case_id, trial, None), (case_id, None, None))
        key = next((key for key in keys if key in self.positions), None)
        if key is None:
            trials = sorted({known for name, known, _ in self.positions if name == case_id and known is not None})
            details = f" in trial {trial}; it has trials {', '.join(map(str, trials))}" if trials else ""
            raise ProviderError(Failure("target_missing", f"{path} has no answer for case {case_id!r}{details}"))
        if (lines := self.repeated.get(key)) is not None:
            places = " and ".join(f"{path}:{line}" for line in lines)
            message = (
                f"{places}: several answers have the id {case_id!r}; keep one, or number them with `trial`, from 0"
            )
            raise ProviderError(Failure("config_error", message))
        return self.positions[key]


def index_rows(
    path: Path,
    rows: Iterable[tuple[int, JsonObject]],
    target: str,
    suite: str | None = None,
    field_paths: LogMap | None = None,
) -> TableRecording:
    """Index the rows of a table, given with their line numbers, as `index_recording` does for a file."""
    indexed: list[JsonObject] = []
    index = _Indexer(path, suite, field_paths)
    for number, row in rows:
        line = msgspec.json.encode(row)
        try:
            head = _decode_table_head(line)
        except msgspec.DecodeError as error:
            raise ProviderError(Failure("config_error", f"{path}:{number}: not a valid row: {error}")) from None
        index.add(head, line, number, len(indexed))
        indexed.append(row)
    return TableRecording(path, index.of_target(target), indexed)


class _Entry(Struct, frozen=True, gc=False):
    """One answer of a recording; `earlier` is the line of another one under the same key."""

    generation: int
    position: int
    line: int
    content: int
    earlier: int | None = None


class _Indexer:
    """Indexes recorded answers by target: of each case that with the highest generation, without re-runs."""

    def __init__(self, path: Path, suite: str | None, field_paths: LogMap | None) -> None:
        self._path, self._suite, self._field_paths = path, suite, field_paths
        self._answers: dict[str | None, dict[_AnswerKey, _Entry]] = {}

    def add(self, head: _Head, line: bytes, number: int, position: int) -> None:
        """Add the position of a line. Raises ProviderError for one without an id."""
        target, case_id, trial, prompt = head.identity
        is_logged = case_id is None
        if case_id is None:
            case_id = _log_id(line, f"{self._path}:{number}", self._field_paths)
        is_chosen = self._suite is None or head.suite in (None, self._suite)
        if case_id is None or not is_chosen or head.rerun is not None:
            return
        entries = self._answers.setdefault(target, {})
        entry = _Entry(head.generation, position, number, hash(line.strip()))
        known = entries.get((case_id, trial, prompt), entry)
        if entry.generation >= known.generation:
            is_other = is_logged and entry.content != known.content
            entries[case_id, trial, prompt] = replace(entry, earlier=known.line if is_other else known.earlier)

    def of_target(self, target: str) -> AnswerIndex:
        """Return the answers of one target."""
        entries = _choose_target(self._answers, self._path, target)
        return AnswerIndex(
            {key: entry.position for key, entry in entries.items()},
            {key: (entry.earlier, entry.line) for key, entry in entries.items() if entry.earlier is not None},
        )


def index_recording(
    path: Path,
    target: str,
    suite: str | None = None,
    field_paths: LogMap | None = None,
    counted: Iterable[tuple[int, int, bytes]] | None = None,
) -> Recording:
    """Index the positions of the answers: of the lines that count in a run (`counted`), else of all but re-runs.

    With `suite`, lines that name another suite are skipped. If several targets were recorded, only the answers of
    `target` are used. `field_paths` are the paths of the fields in a log. An incomplete last line is skipped.
    Raises ProviderError for an invalid line, and for a line without an id.
    """
    if (path.parent / SEGMENTS).is_file():
        message = f"the answers of the run {path.parent} are in segments, which cannot be read here"
        raise ProviderError(Failure("config_error", message))
    index = _Indexer(path, suite, field_paths)
    for number, offset, line in _whole_lines(path) if counted is None else counted:
        try:
            head = _decode_head(line.removeprefix(BYTE_ORDER_MARK))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ProviderError(Failure("config_error", f"{path}:{number}: not a valid row: {error}")) from None
        index.add(head, line, number, offset)
    return Recording(path, index.of_target(target))


def _whole_lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, offset and bytes of the lines of a file, without blank lines and an incomplete last one."""
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip() and (line.endswith(b"\n") or _is_whole(line)):
                yield number, offset, line
            offset += len(line)


def _is_whole(line: bytes) -> bool:
    """Return True if a last line without a line end is complete, that is, valid JSON."""
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _log_id(line: bytes, where: str, field_paths: LogMap | None) -> str | None:
    """Return the case id on a line of a log; None for a part of a longer trace. Raises ProviderError without an id."""
    row = msgspec.json.decode(line.removeprefix(BYTE_ORDER_MARK))
    name = read_log_id(row, paths=field_paths)
    if name == "":
        advice = "name its path with `map: {id: PATH}`"
        message = f"{where}: has no case id; {advice}; its keys: {', '.join(map(repr, row))}"
        raise ProviderError(Failure("config_error", message))
    return name


def _choose_target(
    positions: Mapping[str | None, dict[_AnswerKey, _Entry]], path: Path, target: str
) -> Mapping[_AnswerKey, _Entry]:
    if target in positions or len(positions) < 2:  # noqa: PLR2004 - one target, so no choice
        return positions.get(target) or next(iter(positions.values()), {})
    known = ", ".join(sorted(str(name) for name in positions))
    message = f"{path} has answers of several targets: {known}; name the one to replay under `recorded_target`"
    raise ProviderError(Failure("config_error", message))


def parse_recorded(row: JsonObject, field_paths: LogMap | None = None) -> ProviderResponse:
    """Return the answer in a row; for a log, `field_paths` are the paths of its fields.

    Raises ProviderError if the row records a failure of the target, or has no answer.
    """
    row = with_messages(row)
    error = row.get("error")
    if isinstance(error, Mapping) and error.get("stage") != "evaluator":
        kind = error.get("kind")
        known = cast(FailureKind, kind) if kind in FAILURE_KINDS else "target_missing"
        raise ProviderError(Failure(known, f"recorded: {error.get('message') or kind or error}"))
    if field_paths or _OWN_KEYS.isdisjoint(row) or (not _is_stored(row) and is_export(row)):
        return _parse_log(row, field_paths)
    recorded = {"output_messages": row.get("output_messages", row.get("messages")), "trace": row.get("trace")}
    answer = _own_answer(recorded) if _is_stored(row) else parse_answer({**recorded, **_recorded_calls(row)})
    texts = _recorded_texts(row)
    text = next(filter(None, texts), "" if texts else None)
    if text is None and not answer.output_messages:
        keys = ", ".join(map(repr, row))
        message = f"the recorded line has neither text, output_messages nor candidate_answer; its keys: {keys}"
        raise ProviderError(Failure("unexpected_shape", message))
    text = text or answer.text
    if not _is_stored(row):
        _check_agreement(row, text)
    usage_by = row.get("usage_by")
    usage = usage_by.get("target") if isinstance(usage_by, Mapping) else row.get("usage", row.get("token_usage"))
    finish_reason = row.get("finish_reason")
    reasoning = row.get("reasoning") if "text" in row else None  # in a result, it is that of the evaluators
    return replace(
        answer,
        text=text,
        usage=read_usage(usage),
        cost_usd=0.0,  # a replay costs nothing
        finish_reason=finish_reason if isinstance(finish_reason, str) else None,
        reasoning=reasoning if isinstance(reasoning, str) else None,
        origin=_origin_in(row) or _origin_in(row.get("metadata")),
    )


def _origin_in(value: JsonValue) -> JsonObject | None:
    """Return where an answer was read from when it was recorded, of a row or of its metadata."""
    origin = value.get(ORIGIN) if isinstance(value, Mapping) else None
    return origin if isinstance(origin, Mapping) else None


def recorded_turn(row: JsonObject, number: int) -> JsonObject:
    """Return one turn of a recorded conversation, counted from 1, as a row of its own.

    Raises ProviderError with kind `target_missing` if the row has no conversation, or a shorter one.
    """
    turns, messages = row.get("turns"), row.get("output_messages")
    listed = turns if isinstance(turns, list) else []
    if not 1 <= number <= len(listed) or not isinstance(messages, list):
        length = f"has {len(listed)} turns" if listed else "is not a conversation"
        raise ProviderError(Failure("target_missing", f"no recorded answer to turn {number}: the recording {length}"))
    turn = cast(JsonObject, listed[number - 1])
    starts = [*(cast(int, cast(JsonObject, each)["start"]) for each in listed), len(messages)]
    after_question = messages[starts[number - 1] + 1 : starts[number]]
    fields = {key: turn.get(key) for key in ("text", "trace", "usage")}
    own_messages = after_question if turn.get("has_messages") else None
    return {**fields, "schema": row.get("schema"), "output_messages": own_messages}


def _parse_log(row: JsonObject, field_paths: LogMap | None) -> ProviderResponse:
    """Return the answer on a line of any program's log."""
    try:
        logged = read_logged(row, paths=field_paths, extra="metadata")
    except EvalFileError as error:
        problems = "; ".join(replace(each, path="the recorded line").render() for each in error.problems)
        message = _MAP_OPTION.sub(r"`map: {\1: \2}`", problems)
        raise ProviderError(Failure("unexpected_shape", message)) from None
    if isinstance(logged, TraceStep):
        raise ProviderError(Failure("unexpected_shape", f"the recorded line is a part of a trace: {logged.kind}"))
    messages = output_messages(logged.given)
    given = logged.given
    return ProviderResponse(
        given.text,
        output_messages=messages,
        usage=given.usage,
        model=given.model,
        cost_usd=0.0,
        origin=_origin_in(given.metadata),
    )


def _own_answer(recorded: JsonObject) -> ProviderResponse:
    """Return the messages and the trace of an answer in the format in which agentv stores them."""
    try:
        messages = messages_from_json(recorded["output_messages"])
        return ProviderResponse(
            last_answer(messages or ()) or "", output_messages=messages, trace=trace_from_json(recorded["trace"])
        )
    except ValueError as error:
        raise ProviderError(Failure("malformed_reply", f"the recorded answer cannot be read: {error}")) from None


def _recorded_texts(row: JsonObject) -> list[str]:
    """Return the answer of a line under each of our own keys. Raises ProviderError for one that is not a string."""
    texts: list[str] = []
    for key in ("text", "candidate_answer"):
        text = row.get(key)
        if isinstance(text, str):
            texts.append(text)
        elif text is not None:
            raise ProviderError(Failure("malformed_reply", f"the recorded answer is not a string: {str(text)[:200]}"))
    return texts


def _check_agreement(row: JsonObject, text: str) -> None:
    try:
        check_agreement(row, text, "the recorded line")
    except MessageError as error:
        raise ProviderError(Failure("unexpected_shape", str(error))) from None


def _is_stored(row: JsonObject) -> bool:
    """Return True for a line of a run folder, whose messages are written as agentv stores them."""
    return str(row.get("schema")).startswith("agentv-")


def _recorded_calls(row: JsonObject) -> JsonObject:
    """Return the tool calls that are recorded next to a text."""
    return {key: row[key] for key in ("text", "tool_calls", "toolCalls") if key in row}


def _with_blobs(value: JsonValue, folder: Path) -> JsonValue:
    """Return a row with its large values, which a stored run saves in separate files."""
    if isinstance(value, Mapping):
        reference = value.get("$blob")
        if isinstance(reference, str) and _BLOB.fullmatch(reference):
            content = (folder / reference.replace(":", "-")).read_bytes()
            is_json = str(value.get("media_type")).startswith("application/json")
            return cast(JsonValue, msgspec.json.decode(content)) if is_json else content.decode(errors="replace")
        return {key: _with_blobs(item, folder) for key, item in value.items()}
    return [_with_blobs(item, folder) for item in value] if isinstance(value, list) else value
