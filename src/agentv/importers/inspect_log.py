"""Logs of inspect, `.eval` and `.json`, as the records of a stored run."""

import json
import math
import os
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Protocol, TypeAlias, cast
from zipfile import ZIP_BZIP2, ZIP_LZMA, BadZipFile, ZipFile, ZipInfo
from zlib import crc32

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.importers.inspect_scores import CountedScorer, SampleScores, read_scores, scorer_of_log
from agentv.loading.files.json_stream import JsonLimitError, JsonLimits, parse_except
from agentv.loading.files.text import MAX_BYTES, TOO_LARGE, open_file, shown
from agentv.loading.models.reader import kind_of
from agentv.messages.shapes.reading import read_messages
from agentv.scoring.keys.identity import digest
from agentv.scoring.results.aggregation import (
    case_fields,
    case_verdict,
    evaluators_score,
    row_status,
)
from agentv.types.errors import EvalFileError, MessageError, MissingExtraError
from agentv.types.failures import Failure, FailureKind
from agentv.types.json_value import JsonObject, JsonValue, list_of, object_of, objects_of
from agentv.types.messages import Message
from agentv.types.moments import read_moment, to_utc
from agentv.types.problems import Problem, Severity
from agentv.types.records.answer import Answer, AnswerRef, ResultKey
from agentv.types.records.result import CaseResult, Spent, UsageBy
from agentv.types.records.run import CaseRecord, RunRecord
from agentv.types.stored import to_ms
from agentv.types.usage import Usage
from agentv.version import __version__

_Unused: TypeAlias = Mapping[int, Sequence[str]]

SUFFIX = ".eval"
_ZSTANDARD_METHOD = 93
_LOCAL_HEADER_BYTES = 30
_CHUNK_BYTES = 1 << 16
_UNPACKED_RATIO = 200
_LEAST_UNPACKED_BYTES = 64 << 20
_MEMBER_LIMITS = JsonLimits(values=1_000_000, needed_bytes=20 << 20, left_out=3_000_000)
_LOG_LIMITS = replace(_MEMBER_LIMITS, needed_bytes=MAX_BYTES)
"""Those of a log in JSON, which holds all its samples."""
_ADVICE = "if you trust the log, add --allow-large"
_UNUSED_OF_LOGS = ("plan", "stats", "reductions")
_UNUSED_OF_SAMPLES = ("events", "events_data", "store", "error_retries", "role_usage", "timelines")
"""Objects and lists that are not read. The events are the largest part of a log."""
_HEADER: _Unused = {1: ("samples", *_UNUSED_OF_LOGS)}
_SAMPLE: _Unused = {1: _UNUSED_OF_SAMPLES}
_LISTED_SAMPLES: _Unused = {1: ("eval", "results", *_UNUSED_OF_LOGS), 3: _UNUSED_OF_SAMPLES}
_START_BYTES = 200
_MAX_SHOWN_CHARACTERS = 60
_CREATED_PATH = "$.eval.created"
_ATTACHMENT_PREFIX = "attachment://"
_RUN_STATES = {"success": "finished", "error": "failed", "cancelled": "interrupted", "started": "interrupted"}


class _Readable(Protocol):
    """A binary file."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes."""


class Sample(Struct, frozen=True):
    """One sample of a log in one epoch: its case, its answer, and its scores."""

    case: CaseRecord
    answer: Answer
    scores: SampleScores
    dataset: str

    def row(self, answer_seq: int | None, run_id: str) -> CaseResult:
        """Return the result of the sample: an error if the sample failed, else skipped if its score is not known."""
        answer, evaluators, unscored = self.answer, self.scores.results, self.scores.unscored
        fields = case_fields(evaluators)
        score = evaluators_score(evaluators) if unscored is None and answer.error is None else None
        return CaseResult(
            run_id=run_id,
            timestamp=answer.ended_at,
            slot=answer.slot,
            dataset=self.dataset,
            status="error" if answer.error is not None else "skipped" if score is None else row_status(score),
            score=score,
            verdict=None if score is None else case_verdict(score, evaluators),
            answer_key=answer.answer_key,
            answer_ref=None if answer_seq is None else AnswerRef(answer_seq),
            metadata=self.case.metadata,
            tags=self.case.tags,
            hits=fields.hits,
            misses=fields.misses,
            reasoning=unscored if score is None and answer.error is None else fields.reasoning,
            expected_aspect_count=fields.expected_aspect_count,
            candidate_answer=answer.text,
            empty_answer=answer.error is None and not answer.text.strip(),
            evaluator_results=evaluators,
            output_messages=answer.output_messages,
            usage_by=UsageBy.of(Spent.of(answer.usage, answer.cost_usd)),
            cost_usd=answer.cost_usd,
            duration_ms=answer.duration_ms,
            error=answer.error,
        )


class InspectLog(Struct):
    """A log: its run, its final state, and its samples, which are read one after the other."""

    run: RunRecord
    state: str
    samples: Iterator[Sample]
    planned: int
    """The planned number of samples, over all epochs."""
    notes: list[Problem] = field(default_factory=list)
    """It grows while samples are read."""


class _Header(Struct, frozen=True):
    """The parts of a log that apply to all its samples."""

    path: str
    task: str
    model: str
    created: datetime
    scorer: CountedScorer
    tags: tuple[str, ...]
    notes: list[Problem]

    def note(self, place: str, message: str, advice: str | None = None, *, severity: Severity = "warning") -> None:
        """Add a warning about the value at the path `place`, unless it is noted; an error if it asks or judges."""
        problem = Problem(self.path, message, json_path=place, allowed=advice, severity=severity)
        if problem not in self.notes:
            self.notes.append(problem)

    def object(self, place: str, value: JsonValue) -> JsonObject:
        """Return a value that is an object, else {}. Note any other value except null."""
        if value is not None and not isinstance(value, Mapping):
            self.note(place, f"must be an object, but is {kind_of(value)}; it is not carried over")
        return object_of(value)

    def number(self, place: str, value: JsonValue, *, least: float) -> float | None:
        """Return a value that is a finite number of at least `least`, else None. Note any other value except null."""
        if isinstance(value, int | float) and not isinstance(value, bool) and least <= value < math.inf:
            return value
        if value is not None:
            self.note(place, f"must be a number of at least {least:g}, but is {_short(value)}; it is not carried over")
        return None

    def time(self, place: str, value: JsonValue) -> datetime:
        """Return a time, in UTC if it has no offset. For any other value, note it and return the time of the log.

        A missing time is noted for the log, but not for a sample.
        """
        try:
            return read_moment(str(value))
        except ValueError:
            if value is not None or place == _CREATED_PATH:
                message = f"{_short(value)} is not a time in ISO 8601; {self.created.isoformat()} is recorded"
                self.note(place, message)
            return self.created


def is_inspect_json(path: Path) -> bool:
    """Return True for a log of inspect in JSON, whose first keys are `version` and `status`."""
    with open_file(path) as file:
        start = file.read(_START_BYTES)
    return re.match(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:\s*"\w+"\s*,', start) is not None


def read_inspect_log(path: Path, *, limited: bool = True) -> InspectLog:
    """Return a log of inspect. Its samples are converted one by one, when they are iterated.

    If `limited`, a part of the log that unpacks to too many bytes or has too many values is an error. Reading the log
    and iterating its samples raise EvalFileError for a file that is not a log, is damaged or exceeds a limit, and
    MissingExtraError for a log compressed with Zstandard if `zstandard` is not installed.
    """
    log, samples = _read_zip(path, limited=limited) if path.suffix == SUFFIX else _read_json(path, limited=limited)
    spec = object_of(log.get("eval"))
    if not isinstance(spec.get("task"), str) or not isinstance(spec.get("model"), str):
        raise _log_error(path, "the log names no task or no model")
    tags = tuple(str(tag) for tag in list_of(spec.get("tags")))
    header = _Header(
        path=shown(path),
        task=str(spec["task"]),
        model=str(spec["model"]),
        created=datetime.fromtimestamp(0, UTC),
        scorer=CountedScorer(scorer_of_log(log)),
        tags=tags,
        notes=[],
    )
    header = replace(header, created=header.time(_CREATED_PATH, spec.get("created")))
    dataset = header.object("$.eval.dataset", spec.get("dataset"))
    config = header.object("$.eval.config", spec.get("config"))
    epochs = header.number("$.eval.config.epochs", config.get("epochs"), least=1) or 1
    sample_ids = list_of(dataset.get("sample_ids"))
    planned = (len(sample_ids) or _count(header, "$.eval.dataset.samples", dataset.get("samples"))) * int(epochs)
    status = str(log.get("status") or "started")
    error = object_of(log.get("error")).get("message")
    if error:
        header.note("$.error", f"the eval failed: {error}")
    return InspectLog(
        run=_run_record(header, spec, planned, sample_ids, results=log.get("results"), status=status, error=error),
        state=_RUN_STATES.get(status, "interrupted"),
        samples=(_sample(header, sample) for sample in samples),
        planned=planned,
        notes=header.notes,
    )


def _run_record(
    header: _Header,
    spec: JsonObject,
    planned: int,
    sample_ids: list[JsonValue],
    *,
    results: JsonValue,
    status: str,
    error: JsonValue,
) -> RunRecord:
    """Return the record of the run. Its id depends only on the log, so that a second conversion is recognized.

    A log that `inspect score` has changed has the same ids, but other results.
    """
    identity = digest([spec.get("eval_id"), spec.get("run_id"), header.task, header.model, results])
    created = to_utc(header.created)
    run_id = f"{created:%Y%m%dT%H%M%S}.{created.microsecond // 1000:03}-{identity[:6]}"
    suite: JsonObject = {
        "path": header.task,
        "sha256": digest([header.task, spec.get("task_version"), sample_ids]),
        "cases": len(sample_ids),
    }
    version = str(object_of(spec.get("packages")).get("inspect_ai") or "")
    plan: JsonObject = {
        "rows": planned,
        "suites": [suite],
        "targets": [{"name": header.model}],
        "imported": {
            "program": "inspect",
            "version": version,
            "file": header.path,
            "status": status,
            "error": error if isinstance(error, str) else None,
        },
    }
    return RunRecord(
        run_id=run_id, name=header.task, tags=header.tags, created_at=created, agentv_version=__version__, plan=plan
    )


def _sample(header: _Header, sample: JsonObject) -> Sample:
    """Return a sample as a case with its answer and scores.

    Raises EvalFileError for a sample without an id, and for a token count that is not a whole number of at least 0.
    """
    if not isinstance(sample.get("id"), str | int):
        raise _log_error(header.path, "a sample has no id", "samples")
    eval_id = str(sample["id"])
    place = f"samples/{eval_id}"
    epoch = header.number(f"{place}.epoch", sample.get("epoch"), least=1)
    attachments = header.object(f"{place}.attachments", sample.get("attachments"))
    inputs = _messages(header, f"{place}.input", _with_attachments(sample.get("input"), attachments))
    conversation = _messages(header, f"{place}.messages", _with_attachments(sample.get("messages"), attachments))
    targets = [str(item) for item in _as_list(sample.get("target")) if item not in ("", None)]
    slot = ResultKey(header.task, eval_id, header.model, int(epoch or 1) - 1)
    metadata: dict[str, JsonValue] = dict(header.object(f"{place}.metadata", sample.get("metadata")))
    if sample.get("limit"):
        metadata["inspect_limit"] = sample["limit"]
    scores = read_scores(_scores(header, place, sample), header.scorer, f"{place}.scores", header.note)
    if scores.other_values:
        metadata["inspect_scores"] = scores.other_values
    expected = tuple(Message("assistant", text) for text in targets)
    case_key = digest([header.task, eval_id, [[message.role, message.content] for message in inputs], targets])
    case = CaseRecord(
        case_key=case_key,
        suite=header.task,
        eval_id=eval_id,
        file=header.path,
        question="\n\n".join(str(message.content) for message in inputs if message.content is not None),
        input_messages=inputs,
        expected_messages=expected,
        reference_answer="\n".join(targets) if targets else None,
        tags=header.tags,
        metadata=metadata,
    )
    return Sample(case, _answer(header, sample, conversation, slot=slot, attachments=attachments), scores, header.task)


def _scores(header: _Header, place: str, sample: JsonObject) -> JsonObject:
    """Return the scores of a sample by scorer. Logs of the first version have one `score`, without its scorer."""
    if sample.get("scores") is None and sample.get("score") is not None:
        return {header.scorer.name or "score": header.object(f"{place}.score", sample["score"])}
    given = header.object(f"{place}.scores", sample.get("scores"))
    return {name: header.object(f"{place}.scores.{name}", score) for name, score in given.items()}


def _answer(
    header: _Header, sample: JsonObject, conversation: tuple[Message, ...], slot: ResultKey, attachments: JsonObject
) -> Answer:
    """Return the answer of a sample; its text is empty if the sample failed."""
    place = f"samples/{slot.eval_id}"
    output = header.object(f"{place}.output", _with_attachments(sample.get("output"), attachments))
    stop_reason = next((choice.get("stop_reason") for choice in objects_of(output.get("choices"))), None)
    found = sample.get("error")
    error: JsonObject = {"message": found} if isinstance(found, str) else header.object(f"{place}.error", found)
    usage, cost = _usage(header, place, sample, sum(message.role == "assistant" for message in conversation))
    total_s = header.number(f"{place}.total_time", sample.get("total_time"), least=0)
    output_messages = _from_first_answer(conversation)
    return Answer(
        slot=slot,
        answer_key=digest([header.path, slot.eval_id, slot.trial, sample.get("uuid")]),
        text="" if error else str(output.get("completion") or ""),
        output_messages=output_messages or None,
        finish_reason=None if stop_reason is None else str(stop_reason),
        usage=usage,
        cost_usd=cost,
        started_at=header.time(f"{place}.started_at", sample.get("started_at")),
        ended_at=header.time(f"{place}.completed_at", sample.get("completed_at")),
        duration_ms=to_ms(total_s or 0),
        error=_failure(error) if error else None,
    )


def _failure(error: JsonObject) -> Failure:
    message = str(error.get("message") or "the sample failed")
    kind: FailureKind = "cancelled" if message.startswith("CancelledError") else "plugin_error"
    return Failure(kind, message)


def _from_first_answer(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages from the first answer of the agent on."""
    start = next((at for at, message in enumerate(messages) if message.role == "assistant"), len(messages))
    return messages[start:]


def _usage(header: _Header, place: str, sample: JsonObject, requests: int) -> tuple[Usage | None, float | None]:
    """Return the tokens and the cost of all models together; each is None if it is not known.

    `requests` is the number of requests to record.
    """
    place = f"{place}.model_usage"
    models = header.object(place, sample.get("model_usage"))
    if not models:
        return None, None
    parts = {f"{place}.{name}": header.object(f"{place}.{name}", part) for name, part in models.items()}

    def total(key: str) -> int:
        return sum(_count(header, f"{at}.{key}", part.get(key)) for at, part in parts.items())

    cached, written = total("input_tokens_cache_read"), total("input_tokens_cache_write")
    usage = Usage(
        input=total("input_tokens") + cached + written,
        output=total("output_tokens"),
        cached_input=cached,
        reasoning=total("reasoning_tokens"),
        total=total("total_tokens"),
        requests=requests,
    )
    costs = [cost for part in parts.values() if isinstance(cost := part.get("total_cost"), int | float)]
    return usage, math.fsum(costs) if len(costs) == len(parts) else None


def _messages(header: _Header, place: str, value: JsonValue) -> tuple[Message, ...]:
    """Return a list of messages; a text is one message of the user. If any cannot be read, note that and return ()."""
    if isinstance(value, str):
        return (Message("user", value),)
    if value is not None and not isinstance(value, list):
        message = f"must be a text or a list of messages, but is {kind_of(value)}; it is not carried over"
        header.note(place, message, severity="error")
    try:
        return read_messages([_chat_message(item) for item in list_of(value)], place)
    except MessageError as error:
        header.note(place, f"the messages are not carried over: {error}", severity="error")
        return ()


def _chat_message(message: JsonValue) -> JsonValue:
    """Return a message of inspect in the form that `read_messages` reads; anything else unchanged."""
    if not isinstance(message, Mapping):
        return message
    converted: dict[str, JsonValue] = {"role": message.get("role"), "content": message.get("content")}
    parts = message.get("content")
    if isinstance(parts, list):
        converted["content"] = [_chat_part(object_of(part)) for part in parts]
    calls = [object_of(call) for call in list_of(message.get("tool_calls"))]
    if calls:
        converted["tool_calls"] = [
            {"id": call.get("id"), "tool": call.get("function"), "input": call.get("arguments")} for call in calls
        ]
    if message.get("tool_call_id") is not None:
        converted["tool_call_id"] = message["tool_call_id"]
    error = message.get("error")
    tool_error = (error.get("message") or error) if isinstance(error, Mapping) else error
    if tool_error:
        content = {"content": converted["content"]} if converted["content"] else {}
        converted["content"] = {"error": tool_error, **content}
    return converted


def _chat_part(part: JsonObject) -> JsonObject:
    if part.get("type") == "reasoning":
        return {"type": "reasoning", "text": part.get("reasoning")}
    return part


def _with_attachments(value: JsonValue, attachments: JsonObject) -> JsonValue:
    """Return a value with each reference `attachment://HASH` replaced by the text that inspect stores separately."""
    if isinstance(value, str):
        if value.startswith(_ATTACHMENT_PREFIX):
            return attachments.get(value.removeprefix(_ATTACHMENT_PREFIX), value)
        return value
    if isinstance(value, Mapping):
        return {key: _with_attachments(item, attachments) for key, item in value.items()}
    return [_with_attachments(item, attachments) for item in value] if isinstance(value, list) else value


def _read_json(path: Path, *, limited: bool) -> tuple[JsonObject, Iterator[JsonObject]]:
    header = object_of(_read_text(path, _HEADER, limited=limited))
    value = object_of(_read_text(path, _LISTED_SAMPLES, limited=limited))
    samples = value.get("samples")
    if samples is not None and not isinstance(samples, list):
        raise _log_error(path, f"must be a list, but is {kind_of(samples)}", "$.samples")
    return header, iter([_sample_object(path, f"$.samples[{at}]", sample) for at, sample in enumerate(samples or [])])


def _read_text(path: Path, unused: _Unused, *, limited: bool) -> JsonValue:
    """Return the needed parts of a log in JSON."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if limited and size > MAX_BYTES:
            raise _log_error(path, f"{TOO_LARGE}; {_ADVICE}")
        return _parsed(path, "the log", _chunks(file), unused, _LOG_LIMITS if limited else None)


def _read_zip(path: Path, *, limited: bool) -> tuple[JsonObject, Iterator[JsonObject]]:
    """Return the header of a log, and its samples, each read when it is needed.

    A log that inspect has not finished has no header.json, but a journal.
    """
    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
            member = next((name for name in ("header.json", "_journal/start.json") if name in names), None)
            if member is None:
                raise _log_error(path, "it has neither header.json nor _journal/start.json")
            if sum(info.compress_size for info in archive.infolist()) > path.stat().st_size:
                raise _log_error(path, "it is damaged: its members overlap")
            header = object_of(_member(archive, member, path, _HEADER, limited=limited))
    except (BadZipFile, OSError) as error:
        raise _log_error(path, f"not a log of inspect: {error}") from None
    return header, _samples(path, limited=limited)


def _samples(path: Path, *, limited: bool) -> Iterator[JsonObject]:
    with ZipFile(path) as archive:
        # A name may occur twice; _member returns the last member of that name.
        names = dict.fromkeys(name for name in archive.namelist() if re.fullmatch(r"samples/.*\.json", name))
        for name in names:
            yield _sample_object(path, name, _member(archive, name, path, _SAMPLE, limited=limited))


def _sample_object(path: Path, place: str, value: JsonValue) -> JsonObject:
    if not isinstance(value, Mapping):
        raise _log_error(path, f"a sample must be an object, but is {kind_of(value)}", place)
    return value


def _member(archive: ZipFile, name: str, path: Path, unused: _Unused, *, limited: bool) -> JsonValue:
    """Return the needed parts of a member of a ZIP file.

    Raises EvalFileError if it is damaged or exceeds a limit, MissingExtraError if it needs `zstandard`.
    """
    info = archive.getinfo(name)
    most = max(_LEAST_UNPACKED_BYTES, _UNPACKED_RATIO * info.compress_size)
    if limited and info.file_size > most:
        message = f"{name} unpacks to {info.file_size:,} bytes; at most {most:,} are read: 200 times its packed size, "
        raise _log_error(path, f"{message}or 64 MiB if that is more; {_ADVICE}")
    try:
        return _parsed(path, name, _unpacked(archive, info, path), unused, _MEMBER_LIMITS if limited else None)
    except (BadZipFile, OSError, zlib.error, RuntimeError, EOFError, struct.error) as error:
        # RuntimeError: the member is encrypted, or its compression method is unknown
        raise _log_error(path, f"{name} is damaged or cannot be unpacked: {error}") from None


def _unpacked(archive: ZipFile, info: ZipInfo, path: Path) -> Iterator[bytes]:
    """Yield the content of a member in chunks; never more than its stated size."""
    if info.compress_type != _ZSTANDARD_METHOD:
        if info.compress_type in (ZIP_BZIP2, ZIP_LZMA):  # zipfile unpacks them with no limit for a chunk
            raise BadZipFile("it must be stored, or packed with Deflate or Zstandard")
        with archive.open(info) as file:
            yield from _chunks(file)
        return
    try:
        from zstandard import ZstdDecompressor, ZstdError  # noqa: PLC0415 - an optional package
    except ImportError:
        raise MissingExtraError("a log of inspect (.eval)", "inspect") from None
    size, checksum = 0, 0
    try:
        with ZstdDecompressor().stream_reader(cast("IO[bytes]", _Packed(archive, info))) as reader:
            for chunk in _chunks(reader):
                size, checksum = size + len(chunk), crc32(chunk, checksum)
                if size > info.file_size:
                    break
                yield chunk
    except ZstdError as error:
        raise _log_error(path, f"{info.filename} is damaged: {error}") from None
    if size != info.file_size or checksum != info.CRC:
        raise _log_error(path, f"{info.filename} is damaged: its length or checksum is wrong")


def _chunks(file: _Readable) -> Iterator[bytes]:
    return iter(lambda: file.read(_CHUNK_BYTES), b"")


class _Packed:
    """The packed bytes of a member, which `zipfile` does not return for a method that it does not know."""

    def __init__(self, archive: ZipFile, info: ZipInfo) -> None:
        if archive.fp is None:
            raise BadZipFile("the file is closed")
        self._file = archive.fp
        self._left = info.compress_size
        self._file.seek(info.header_offset)
        header = self._file.read(_LOCAL_HEADER_BYTES)
        if len(header) < _LOCAL_HEADER_BYTES:
            raise BadZipFile(f"{info.filename} is truncated")
        name_length, extra_length = struct.unpack("<HH", header[26:30])
        self._file.seek(info.header_offset + _LOCAL_HEADER_BYTES + name_length + extra_length)

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` of the bytes that are left."""
        data = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data


def _parsed(path: Path, name: str, chunks: Iterable[bytes], unused: _Unused, limits: JsonLimits | None) -> JsonValue:
    """Return the needed parts of JSON; NaN, which stands for an unknown score, becomes null."""
    try:
        return parse_except(chunks, unused, limits)
    except JsonLimitError as error:
        raise _log_error(path, f"{name} is too large: {error}; {_ADVICE}") from None
    except (ValueError, RecursionError) as error:
        raise _log_error(path, f"{name} is not valid JSON: {error}") from None


def _log_error(path: Path | str, message: str, place: str = "$") -> EvalFileError:
    name = shown(path) if isinstance(path, Path) else path
    return EvalFileError(name, (Problem(name, message, json_path=place),))


def _count(header: _Header, place: str, value: JsonValue) -> int:
    """Return a count; 0 for null. Raises EvalFileError for any other value."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if value is None:
        return 0
    raise _log_error(header.path, f"must be a whole number of at least 0, but is {_short(value)}", place)


def _short(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}…"


def _as_list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else [value]
