"""Lines -> stored values: one typed decoder per file, and what brings older and exported lines up to it."""

import re
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from agentv.storage.records.case_messages import case_messages_from_record
from agentv.storage.records.json_line import decode
from agentv.storage.records.schema import check_schema
from agentv.storage.records.upgrade import upgrade_answer, upgrade_result
from agentv.types.json_value import JsonObject
from agentv.types.messages_json import messages_from_json
from agentv.types.records.answer import Answer
from agentv.types.records.fields import (
    ANSWER_SCHEMA,
    CASE_SCHEMA,
    EVENT_SCHEMA,
    LABEL_SCHEMA,
    RESULT_SCHEMA,
    RUN_SCHEMA,
)
from agentv.types.records.label import Label
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord, EventRecord, RunRecord

T = TypeVar("T", bound=Struct)

_OTHER_FORM = re.compile(rb'"error":\{|_raw_request":')
"""A failure inside a line says less than the value, and a judge's request has had other names."""


class LineDecoder(Generic[T]):
    """Reads the lines of one file. Raises StorageError for a newer schema, ValueError for a broken line.

    A line in the present form is decoded in one step. `upgrade` changes the dict of any other line first; `finish`
    reads what msgspec does not.
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
        """Read a line."""
        if _OTHER_FORM.search(line):
            return self.of_record(decode(line))
        try:
            value = self._decode(line)
        except msgspec.ValidationError:
            return self.of_record(decode(line))
        except RecursionError as error:
            raise ValueError("it is nested too deeply to be read") from error
        return self._finished(value)

    def of_record(self, record: JsonObject) -> T:
        """Read the dict that a line holds."""
        check_schema(record.get("schema"), self._schema)
        try:
            return self._finished(msgspec.convert(self._upgrade(record), self._kind))
        except msgspec.ValidationError as error:
            raise ValueError(_sentence(str(error))) from error

    def _finished(self, value: T) -> T:
        found: str = value.schema  # type: ignore[attr-defined]  # every stored shape has one
        if found != self._schema:
            check_schema(found, self._schema)
            force_setattr(value, "schema", self._schema)
        self._finish(value)
        return value


_AT = re.compile(r"(.*) - at `\$\.?(.*)`")
_BEYOND = re.compile(r"Expected `float` (<=|>=) .*")


def _sentence(message: str) -> str:
    """Return what msgspec found wrong with the field first, as `score: expected a score from 0 to 1`."""
    at = _AT.fullmatch(message)
    what, where = (at[1], at[2]) if at else (message, "")
    what = "expected a score from 0 to 1" if _BEYOND.fullmatch(what) else what[:1].lower() + what[1:]
    return f"{where}: {what}" if where else what


def _read_answer_messages(value: Answer | CaseResult) -> None:
    written: Any = value.output_messages
    if written is not None:
        force_setattr(value, "output_messages", messages_from_json(written))


def _read_case_messages(value: CaseRecord) -> None:
    for name in ("input_messages", "expected_messages"):
        written: Any = getattr(value, name)
        force_setattr(value, name, case_messages_from_record(written))


RESULTS: Final = LineDecoder(CaseResult, RESULT_SCHEMA, upgrade=upgrade_result, finish=_read_answer_messages)
ANSWERS: Final = LineDecoder(Answer, ANSWER_SCHEMA, upgrade=upgrade_answer, finish=_read_answer_messages)
CASES: Final = LineDecoder(CaseRecord, CASE_SCHEMA, finish=_read_case_messages)
LABELS: Final = LineDecoder(Label, LABEL_SCHEMA)
RUNS: Final = LineDecoder(RunRecord, RUN_SCHEMA)


class EventDecoder:
    """Reads the lines of events.jsonl, whose own fields stand beside those that every event has."""

    def of_line(self, line: bytes) -> EventRecord:
        """Read a line."""
        return self.of_record(decode(line))

    def of_record(self, record: JsonObject) -> EventRecord:
        """Read the dict that a line holds."""
        check_schema(record.get("schema"), EVENT_SCHEMA)
        fields = {key: value for key, value in record.items() if key not in ("schema", "seq", "time", "type")}
        try:
            return msgspec.convert({"seq": 0, **record, "fields": fields}, EventRecord)
        except msgspec.ValidationError as error:
            raise ValueError(_sentence(str(error))) from error


EVENTS: Final = EventDecoder()
