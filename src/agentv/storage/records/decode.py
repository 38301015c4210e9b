"""Decode lines into stored values: one typed decoder per file, which also upgrades older and exported lines."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr, replace

from agentv.storage.records.amounts import with_known_amounts
from agentv.storage.records.json_line import BlobReference, decode, reason
from agentv.storage.records.narrow import optional_text, read_integer, read_text
from agentv.types.errors import StorageError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import DataPart, FilePart, Message, Part
from agentv.types.messages_json import messages_from_json
from agentv.types.records.answer import Answer
from agentv.types.records.category import CategoryEvent
from agentv.types.records.label import Label
from agentv.types.records.result import CaseResult
from agentv.types.records.review import ReviewQueue
from agentv.types.records.run import CaseRecord, EventRecord, RunRecord
from agentv.types.stored import (
    ANSWER_SCHEMA,
    CASE_SCHEMA,
    CATEGORY_SCHEMA,
    EVENT_SCHEMA,
    LABEL_SCHEMA,
    RESULT_SCHEMA,
    REVIEW_SCHEMA,
    RUN_SCHEMA,
)

_REQUEST_KEYS = ("evaluator_provider_request", "evaluator_raw_request", "grader_raw_request")
"""The keys of a judge's request, newest first: lines are written with the first and read with any of them."""


def upgrade_answer(given: JsonObject) -> JsonObject:
    """Return an answer's record with known amounts, and defaults for the keys that the first versions did not write."""
    record = with_known_amounts(given)
    upgraded: dict[str, Any] = {"answer_key": "", "text": "", "duration_ms": 0.0, **_without_none(record)}
    if "duration_ms" in given:
        upgraded["duration_ms"] = record.get("duration_ms")  # None: an imported log has no duration
    return upgraded


def upgrade_result(record: JsonObject) -> JsonObject:
    """Return a stored or exported result's record with the keys of the current format.

    A result exported in the single form has the fields of its only evaluator at the top level, and no name for it.
    """
    record = with_known_amounts(record)
    upgraded: dict[str, Any] = {"dataset": "", "run_id": "", "score": None, "verdict": None, **_without_none(record)}
    if isinstance(upgraded.get("cached"), Mapping):
        upgraded["cached"] = True
    if "evaluator_results" in record:
        upgraded["evaluator_results"] = _evaluators(record["evaluator_results"])
    else:
        upgraded |= {"single_form": True, "evaluator_results": _only_evaluator(record)}
    return upgraded


def _only_evaluator(record: JsonObject) -> object:
    """Return the list with the only evaluator of a record in the single form; [] if nothing was judged."""
    if record.get("score") is None:
        return []
    result_keys = ("status", "duration_ms", "cost_usd", "verdict", "error")
    top = {key: value for key, value in record.items() if key not in result_keys}
    error = record.get("evaluator_error")
    if error is not None:
        top |= {"error": error, "status": "error"}
    return _evaluators([{**top, "name": "evaluator", "type": "llm_judge"}])


def _evaluators(listed: object) -> object:
    """Return evaluator results with the keys of the current format; any value that is not a list unchanged."""
    if not isinstance(listed, list):
        return listed
    return [_evaluator(each) if isinstance(each, Mapping) else each for each in listed]


def _evaluator(record: JsonObject) -> JsonObject:
    known = _without_none(record)
    upgraded: dict[str, Any] = {"type": "llm_judge", **known}
    if known.get("status", "scored") != "scored":
        upgraded.setdefault("score", 0.0)
    request = next((known[name] for name in _REQUEST_KEYS if name in known), None)
    if request is not None:
        upgraded["evaluator_provider_request"] = request
    if isinstance(known.get("error"), Mapping):
        upgraded["error"] = {"stage": "evaluator", **known["error"]}
    if "evaluator_results" in known:
        upgraded["evaluator_results"] = _evaluators(known["evaluator_results"])
    return upgraded


def _without_none(record: JsonObject) -> dict[str, Any]:
    return {key: value for key, value in record.items() if value is not None}


def check_schema(found: object, expected: str) -> None:
    """Raise StorageError unless a record's `schema` is of the expected kind and of a supported version.

    A record without a schema is accepted, because exports by other programs may lack it.
    """
    if found is None or found == expected:
        return
    kind, _, version = str(found).rpartition("-")
    expected_kind, _, expected_version = expected.rpartition("-")
    major = version.partition(".")[0]
    if kind != expected_kind or not major.isdecimal():
        raise StorageError(f"expected a record of schema {expected!r}, found {found!r}")
    if int(major) > int(expected_version):
        raise StorageError(f"schema {found!r} is newer than this agentv supports ({expected!r}); upgrade agentv")


T = TypeVar("T", bound=Struct)


class LineDecoder(Generic[T]):
    """Decodes the lines of one file. Raises StorageError for another or newer schema, ValueError for an invalid line.

    A line in the current format is decoded in one step; the dict of any other line goes through `upgrade` first.
    `finish` converts the fields that msgspec does not.
    """

    def __init__(
        self,
        kind: type[T],
        schema: str,
        *,
        upgrade: Callable[[JsonObject], JsonObject] = lambda record: record,
        finish: Callable[[T], None] = lambda _value: None,
    ) -> None:
        self._kind = kind
        self._schema = schema
        self._decode = msgspec.json.Decoder(kind).decode
        self._upgrade = upgrade
        self._finish = finish

    def of_line(self, line: bytes) -> T:
        """Return the value of a line."""
        # Always upgraded: stored failures omit keys, and older versions named a judge's request differently.
        if b'"error":{' in line or b'_raw_request":' in line:
            return self.of_record(decode(line))
        try:
            value = self._decode(line)
        except msgspec.ValidationError:
            return self.of_record(decode(line))
        except RecursionError as error:
            raise ValueError(reason(error)) from error
        return self._finished(value)

    def of_record(self, record: JsonObject) -> T:
        """Return the value of a line that was parsed into a dict."""
        check_schema(record.get("schema"), self._schema)
        try:
            return self._finished(msgspec.convert(self._upgrade(record), self._kind))
        except msgspec.ValidationError as error:
            raise ValueError(_sentence(str(error))) from error

    def _finished(self, value: T) -> T:
        found: str = value.schema  # type: ignore[attr-defined]  # every stored type has one
        if found != self._schema:
            check_schema(found, self._schema)
            force_setattr(value, "schema", self._schema)
        self._finish(value)
        return value


_MESSAGE_AND_PATH = re.compile(r"(.*) - at `\$\.?(.*)`")
_OUT_OF_RANGE = re.compile(r"Expected `float` (<=|>=) .*")


def _sentence(message: str) -> str:
    """Return msgspec's message with the field first, as in `score: expected a score from 0 to 1`."""
    at = _MESSAGE_AND_PATH.fullmatch(message)
    what, where = (at[1], at[2]) if at else (message, "")
    what = "expected a score from 0 to 1" if _OUT_OF_RANGE.fullmatch(what) else what[:1].lower() + what[1:]
    return f"{where}: {what}" if where else what


def _convert_output_messages(value: Answer | CaseResult) -> None:
    for holder in (value, value.partial):
        written: Any = None if holder is None else holder.output_messages
        if holder is not None and written is not None:
            force_setattr(holder, "output_messages", messages_from_json(written))


def case_messages_from_record(value: JsonValue) -> tuple[Message, ...]:
    """Return a case's messages. Raises ValueError for a value that is not a message."""
    return tuple(map(_with_files, messages_from_json(value) or ()))


def _with_files(message: Message) -> Message:
    """Return a message with FileParts in place of the stored file parts."""
    if not isinstance(message.content, tuple):
        return message
    return replace(message, content=tuple(_file_from_part(part) for part in message.content))


def _file_from_part(part: Part) -> Part:
    if not isinstance(part, DataPart) or part.type != "file" or "real_path" not in part.value:
        return part
    binary = part.value.get("binary")
    source: JsonObject = part.value if not isinstance(binary, Mapping) else BlobReference(binary).described()
    return FilePart(
        path=read_text(part.value, "path"),
        real_path=read_text(part.value, "real_path"),
        text=None if binary is not None else optional_text(part.value, "text"),
        sha256=read_text(source, "sha256"),
        size=read_integer(source, "bytes"),
        media_type=read_text(source, "media_type"),
        is_guideline=part.value.get("is_guideline") is True,
    )


def _convert_case_messages(value: CaseRecord) -> None:
    for name in ("input_messages", "expected_messages"):
        written: Any = getattr(value, name)
        force_setattr(value, name, case_messages_from_record(written))


RESULTS: Final = LineDecoder(CaseResult, RESULT_SCHEMA, upgrade=upgrade_result, finish=_convert_output_messages)
ANSWERS: Final = LineDecoder(Answer, ANSWER_SCHEMA, upgrade=upgrade_answer, finish=_convert_output_messages)
CASES: Final = LineDecoder(CaseRecord, CASE_SCHEMA, finish=_convert_case_messages)
LABELS: Final = LineDecoder(Label, LABEL_SCHEMA)
CATEGORIES: Final = LineDecoder(CategoryEvent, CATEGORY_SCHEMA)
QUEUES: Final = LineDecoder(ReviewQueue, REVIEW_SCHEMA)
RUNS: Final = LineDecoder(RunRecord, RUN_SCHEMA)


class EventDecoder:
    """Decodes the lines of events.jsonl, in which an event's own fields are keys beside the common ones."""

    def __init__(self) -> None:
        # msgspec crashes when two threads use a type for the first time at once, so its first decoder is made here.
        msgspec.json.Decoder(EventRecord)

    def of_line(self, line: bytes) -> EventRecord:
        """Return the event of a line."""
        return self.of_record(decode(line))

    def of_record(self, record: JsonObject) -> EventRecord:
        """Return the event of a line that was parsed into a dict."""
        check_schema(record.get("schema"), EVENT_SCHEMA)
        fields = {key: value for key, value in record.items() if key not in ("schema", "seq", "time", "type")}
        try:
            return msgspec.convert({"seq": 0, **record, "fields": fields}, EventRecord)
        except msgspec.ValidationError as error:
            raise ValueError(_sentence(str(error))) from error


EVENTS: Final = EventDecoder()
