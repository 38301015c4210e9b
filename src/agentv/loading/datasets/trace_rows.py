"""The spans in rows of logs, joined into rows with one conversation each."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import cast

from msgspec.structs import replace

from agentv.loading.datasets.rows import Row
from agentv.telemetry.joining.answers import TracedAnswer
from agentv.telemetry.joining.joining import Joiner
from agentv.telemetry.otlp.spans import is_trace, spans_of
from agentv.types.errors import EvalFileError
from agentv.types.json_value import JsonObject
from agentv.types.problems import Problem
from agentv.types.records.answer import Origin
from agentv.types.records.result import ORIGIN


def joined_rows(rows: Iterable[Row], path: str) -> Iterator[Row]:
    """Yield rows without spans as they are, and after them a row for each answer in the spans of the others.

    A row with wrong spans has problems with their places.
    """
    with closing(Joiner()) as joiner:
        yield from _joined(rows, path, joiner)


def _joined(rows: Iterable[Row], path: str, joiner: Joiner) -> Iterator[Row]:
    for row in rows:
        if row.problems or not is_trace(row.values):
            yield row
            continue
        try:
            for span in spans_of(row.values):
                joiner.add(span, file=path, line=row.line)
        except EvalFileError as error:
            problems = (replace(each, path=path, line=row.line, column=1) for each in error.problems)
            yield Row(row.line, {}, tuple(problems))
    for answer in joiner.rest():
        if answer.error is not None and not answer.messages:
            yield Row(answer.line, {}, (Problem(path, answer.error, answer.line, 1),))
        else:
            yield Row(answer.line, _values(answer))


def _values(answer: TracedAnswer) -> JsonObject:
    """Return an answer as a line of a log, with its place and span in the metadata."""
    origin = Origin(answer.file, answer.line, trace_id=answer.trace_id, span_id=answer.span_id)
    line = answer.to_line()
    return {**line, "metadata": {**cast(JsonObject, line["metadata"]), ORIGIN: origin.to_json()}}
