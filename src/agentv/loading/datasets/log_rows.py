"""Rows that are logs. In tables and Parquet files, JSON in cells is parsed, and an empty cell is not a value.

A row of a dataset that is a logged conversation gives its questions, with the recorded answer as the reference.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from json import JSONDecodeError
from pathlib import Path
from typing import cast

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.execution.processes.line_stream import PAGE_KEYS, split_document
from agentv.loading.datasets.rows import PARQUET, TABLES, Row, SpanFile, is_span_file, open_rows
from agentv.loading.files.text import read_lines, read_text, shown
from agentv.loading.models.reader import kind_of
from agentv.types.errors import EvalFileError
from agentv.types.json_value import JsonObject, JsonValue, snake_case
from agentv.types.log_shapes.fields import decoded
from agentv.types.log_shapes.mapping import LogMap
from agentv.types.log_shapes.otel import is_otlp, spans_of
from agentv.types.log_shapes.reading import TraceStep, is_export, read_conversation
from agentv.types.messages import Message
from agentv.types.messages_json import content_text, pretty_json
from agentv.types.problems import Problem

_OBJECTS = frozenset(
    "messages message_history context criteria agent_config usage metadata tags inputs outputs extra".split()  # noqa: SIM905 - a list of words
)
"""The columns whose values are objects or lists, which tables hold as JSON."""
_TEXTS = frozenset({"prompt", "response"})
"""The columns in which an empty cell is a value."""

_QUESTIONS = ("input", "question", "prompt")
_EXPECTED = ("expected", "expected_output", "target")


def is_table(path: Path) -> bool:
    """Return True for a table or Parquet file by its name."""
    return path.suffix.lower() in (*TABLES, PARQUET)


def log_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a table or Parquet file, each with its line; one that cannot be read has problems.

    Raises EvalFileError for a file that cannot be read at all, MissingExtraError for Parquet without its package.
    """
    for row in open_rows(path) or ():
        yield row._replace(values=logged_values(row.values))


def has_whole_rows(path: Path) -> bool:
    """Return True for a log that is not read line by line: a table, a JSON document or OTLP exports."""
    if is_table(path) or is_span_file(path):
        return True
    if path.suffix.lower() != ".json":
        return False
    first, *rest = [line for line in islice(read_lines(path), 2) if line.strip()] or [b""]
    return not rest or decoded(first.decode(errors="replace").removeprefix("\ufeff")) is None  # not JSON Lines


def whole_rows(path: Path) -> Iterator[tuple[int, JsonObject]]:
    """Yield the values of the rows, each with its line. Raises EvalFileError at a row that cannot be read."""
    rows = log_rows(path) if is_table(path) else SpanFile(path, shown(path)) if is_span_file(path) else _document(path)
    for row in rows:
        if row.problems:
            raise EvalFileError(shown(path), row.problems)
        try:
            yield from ((row.line, each) for each in records_of(row.values))
        except EvalFileError as error:
            raise EvalFileError(shown(path), in_line(error, shown(path), row.line)) from None


def _document(path: Path) -> Iterator[Row]:
    """Yield the records of a JSON document. Raises EvalFileError for one that is not valid."""
    try:
        for line, text in split_document(read_text(path)):
            value = json.loads(text)
            is_row = isinstance(value, dict)
            problem = Problem(shown(path), f"a row must be an object, but is {kind_of(value)}", line, 1)
            yield Row(line, value if is_row else {}, () if is_row else (problem,))
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, JSONDecodeError) else 1
        problem = Problem(shown(path), f"the file is not valid JSON: {error}", line, 1)
        raise EvalFileError(shown(path), (problem,)) from None


def in_line(error: EvalFileError, path: str, line: int) -> tuple[Problem, ...]:
    """Return the problems of a record with their line in the file."""
    return tuple(replace(each, path=path, line=line, column=1) for each in error.problems)


def records_of(values: JsonObject, *, is_whole: bool = False) -> Iterator[JsonObject]:
    """Yield the spans of an OTLP export, or the records of a page that an API returned; any other object as it is.

    The records of a page are exports of known programs; in an object that `is_whole`, all of a file, any with an `id`.
    Raises EvalFileError for an OTLP export with wrong parts.
    """
    if is_otlp(values):
        yield from spans_of(values)
        return
    page = next((values[key] for key in PAGE_KEYS if _is_page(values.get(key), is_whole=is_whole)), None)
    if isinstance(page, list) and not _OWN & values.keys():
        yield from (cast(JsonObject, each) for each in page)
    else:
        yield values


def _is_page(value: JsonValue, *, is_whole: bool) -> bool:
    is_list = isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) for each in value)
    return is_list and all((is_whole and "id" in each) or is_export(each) for each in cast(list[JsonObject], value))


_OWN = frozenset("id input question prompt response expected messages input_messages vars".split())  # noqa: SIM905 - a list of words
"""Keys of an object that is a record itself."""


def logged_values(row: JsonObject) -> dict[str, JsonValue]:
    """Return the values of a row of a table as a log has them."""
    return {name: _value(name, value) for name, value in row.items() if name in _TEXTS or value not in ("", None)}


def _value(name: str, value: JsonValue) -> JsonValue:
    if isinstance(value, str) and snake_case(name) in _OBJECTS:
        found = decoded(value)
        return value if found is None else found
    if isinstance(value, Mapping):
        return {key: item for key, item in value.items() if item is not None}
    return value


class LoggedRow(Struct, frozen=True):
    """The parts of a case that a logged conversation gives: its messages up to the user's last one, and the answer."""

    messages: tuple[Message, ...]
    expected: str = ""
    id: str = ""
    session_id: str | None = None
    metadata: JsonObject = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, JsonValue]:
        """The variables that the conversation has, in addition to the columns of the row."""
        question = content_text(self.messages[-1].content) if self.messages else ""
        return {"question": question, "expected": self.expected}


def is_logged(row: JsonObject) -> bool:
    """Return True for a row that logs a conversation: an export, `messages` without a question, `prompt` + `response`.

    A row with a column for the expected answer is not a log, unless it is an export of another program.
    """
    if is_export(row):
        return True
    if any(name in row for name in _EXPECTED):
        return False
    if "response" in row:
        return "prompt" in row or "messages" in row
    messages = row.get("messages")
    is_conversation = isinstance(messages, list | tuple | Mapping) or _is_json(messages)
    return is_conversation and not any(name in row for name in _QUESTIONS)


def _is_json(value: JsonValue) -> bool:
    return isinstance(value, str) and value.lstrip().startswith(("[", "{"))


def read_logged_row(row: JsonObject, paths: LogMap | None = None) -> LoggedRow | TraceStep:
    """Return the conversation of a row. Raises EvalFileError with every problem, at paths in the row."""
    logged = read_conversation(logged_values(row), paths=paths)
    if isinstance(logged, TraceStep):
        return logged
    given = logged.given
    said = (*given.message_history, *((Message("user", given.prompt),) if given.prompt else ()))
    last = max((place for place, each in enumerate(said) if each.role == "user"), default=-1)
    truth = given.ground_truth
    expected = given.text if truth is None else truth if isinstance(truth, str) else pretty_json(truth)
    known = {"model": given.model, "duration_ms": given.duration_ms, "context": given.context or None}
    return LoggedRow(
        messages=said[: last + 1],
        expected=expected,
        id=given.id or "",
        session_id=given.session_id,
        metadata={**given.metadata, **{name: value for name, value in known.items() if value is not None}},
    )
