"""The lines of logs with the spans in them joined: each answer that traces hold is a line of its own."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime

from agentv.execution.processes.line_stream import Line, LostLine, ReadLine
from agentv.messages.logs.fields import logged_moment
from agentv.storage.records.json_line import decode_value
from agentv.telemetry.joining.answers import TracedAnswer
from agentv.telemetry.joining.joining import Joiner, JoinOptions
from agentv.telemetry.joining.records import JoinedRecord, RecordJoiner
from agentv.telemetry.otlp.binary import FIRST_FIELD, read_export
from agentv.telemetry.otlp.spans import is_trace, spans_of
from agentv.telemetry.otlp.wire import WireError
from agentv.types.errors import EvalFileError
from agentv.types.input_notes import InputNote
from agentv.types.json_value import JsonObject
from agentv.types.messages_json import compact_json

_MARKS = (
    *(b'"resourceSpans"', b'"resource_spans"', b'"resourceLogs"', b'"resource_logs"'),
    *(b'"span_id"', b'"span_kind"', b'"batches"', b'"operationName"'),
    *(b'"run_type"', b'"traceId"', b'"trace_id"', b'"htmlPath"', b'"observations"'),
)
"""What a line with spans, or with a record of a trace, has."""
_MOST_PLACES = 100_000


class TraceLines:
    """Takes the spans out of lines, and returns the answers that they make as lines in our own keys."""

    def __init__(self, options: JoinOptions, files: Sequence[str]) -> None:
        self._joiner = Joiner(options)
        self._records = RecordJoiner(self._joiner.report, is_endless=options.is_endless)
        self._joins_records = options.joins_records
        self._numbers = {file: number for number, file in enumerate(files)}
        self._lines = AnswerLines()

    def take(self, line: ReadLine) -> ReadLine | None:
        """Return a line that has no spans as it is; a line with wrong spans is lost; None for one with spans."""
        if not isinstance(line, Line):
            return line
        if line.data[:1] == FIRST_FIELD:
            return self.take_binary(line.data, line.file, line.number)
        if not any(mark in line.data for mark in _MARKS):
            return line
        try:
            value = decode_value(line.data)
        except ValueError:  # reported when the line is read
            return line
        if not isinstance(value, dict):
            return line
        if is_trace(value):
            return self._take_export(value, line.file, line.number)
        is_taken = self._joins_records and self._records.take(value, file=line.file, line=line.number)
        return None if is_taken else line

    def take_binary(self, data: bytes, file: str, number: int) -> LostLine | None:
        """Take the spans of an export in protocol buffers, which counts as a line; return it if it is lost."""
        try:
            export = read_export(data)
        except WireError as error:
            return LostLine(file, number, f"not an OTLP export in protocol buffers: {error}")
        return self._take_export(export, file, number)

    def _take_export(self, value: JsonObject, file: str, number: int) -> LostLine | None:
        try:
            spans = spans_of(value)
        except EvalFileError as error:
            faults = "; ".join(f"{problem.json_path} {problem.message}" for problem in error.problems)
            return LostLine(file, number, faults)
        for span in spans:
            self._joiner.add(span, file=file, line=number, file_number=self._numbers.get(file, 0))
        return None

    def ready(self) -> list[ReadLine]:
        """Return the answers of a stream's traces that have ended."""
        return [*map(self._lines.line_of, self._joiner.ready()), *map(_line_of_record, self._records.ready())]

    def rest(self) -> Iterator[ReadLine]:
        """Yield the answers of all other traces."""
        yield from map(self._lines.line_of, self._joiner.rest())
        yield from map(_line_of_record, self._records.rest())

    def close(self) -> None:
        """Forget all spans."""
        self._joiner.close()
        self._records.close()

    @property
    def counts(self) -> tuple[int, int]:
        """The number of spans and of traces."""
        return self._joiner.report.spans, self._joiner.report.traces

    def notes(self) -> Iterator[InputNote]:
        """Yield what the user should know of the traces."""
        yield from self._joiner.report.notes()


def _line_of_record(record: JoinedRecord) -> Line:
    return Line(record.file, record.line, compact_json(record.value).encode(errors="replace"))


class AnswerLines:
    """Makes lines in our own keys of answers, and numbers those of one place."""

    def __init__(self) -> None:
        self._parts: OrderedDict[tuple[str, int], int] = OrderedDict()

    def line_of(self, answer: TracedAnswer) -> ReadLine:
        """Return an answer as a line; one that failed or cannot be read is a lost line."""
        place = answer.file, answer.line
        part = self._parts.pop(place, 0) + 1
        self._parts[place] = part
        if len(self._parts) > _MOST_PLACES:
            self._parts.popitem(last=False)
        data = compact_json(answer.to_line()).encode(errors="replace")
        if answer.error is not None:
            return LostLine(
                *place,
                answer.error,
                part,
                trace_id=answer.trace_id,
                span_id=answer.span_id,
                ended_at=_moment(answer.finished_ns),
                data=data,
            )
        return Line(
            *place,
            data,
            part,
            trace_id=answer.trace_id,
            span_id=answer.span_id,
            is_open=answer.is_open,
        )


def _moment(time_ns: int) -> datetime | None:
    """Return the time as the log line of an answer has it; None without one."""
    with suppress(ValueError):
        return logged_moment(time_ns) if time_ns else None
    return None
