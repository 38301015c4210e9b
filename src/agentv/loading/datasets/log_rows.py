"""Rows of logs, and rows of datasets that log a conversation.

A logged conversation becomes a case: its messages, with the recorded answer as the reference. In tables and Parquet
files, JSON in cells is parsed, and an empty cell is not a value.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from json import JSONDecodeError
from pathlib import Path
from typing import cast

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.execution.processes.line_stream import PAGE_KEYS, split_document
from agentv.loading.datasets.rows import Row, SpanFile, open_rows
from agentv.loading.datasets.trace_rows import joined_rows
from agentv.loading.files.kinds import TABLE_DELIMITERS, TABLE_SUFFIXES, is_span_file
from agentv.loading.files.text import read_lines, read_text, shown
from agentv.loading.models.reader import kind_of
from agentv.messages.logs.fields import decoded
from agentv.messages.logs.mapping import LogMap
from agentv.messages.logs.reading import TraceStep, is_export, read_conversation
from agentv.types.errors import EvalFileError
from agentv.types.json_value import JsonObject, JsonValue, snake_case
from agentv.types.messages import Message
from agentv.types.messages_json import content_text, pretty_json
from agentv.types.problems import Problem

_OBJECT_COLUMNS = frozenset(
    "messages message_history context criteria agent_config usage metadata tags inputs outputs extra".split()  # noqa: SIM905 - a list of words
)
"""The columns whose values are objects or lists, which tables hold as JSON."""
_TEXT_COLUMNS = frozenset({"prompt", "response"})
"""The columns in which an empty text is a value."""

_QUESTION_COLUMNS = ("input", "question", "prompt")
_EXPECTED_COLUMNS = ("expected", "expected_output", "target")


def is_table(path: Path) -> bool:
    """Return True for a table or Parquet file by its name."""
    return path.suffix.lower() in TABLE_SUFFIXES


def log_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a table or Parquet file, each with its line; one that cannot be read has problems.

    Raises EvalFileError for a file that cannot be read at all, MissingExtraError for Parquet without its package.
    """
    has_only_texts = path.suffix.lower() in TABLE_DELIMITERS  # an empty text and a missing value are the same there
    for row in open_rows(path) or ():
        given = {name: value or None for name, value in row.values.items()} if has_only_texts else row.values
        yield replace(row, values=logged_values(given))


def has_whole_rows(path: Path) -> bool:
    """Return True for a log that `whole_rows` reads, as its rows are not single lines: tables, JSON, OTLP exports."""
    if is_table(path) or is_span_file(path):
        return True
    if path.suffix.lower() != ".json":
        return False
    first, *rest = [line for line in islice(read_lines(path), 2) if line.strip()] or [b""]
    is_json_lines = bool(rest) and decoded(first.decode(errors="replace").removeprefix("\ufeff")) is not None
    return not is_json_lines


def whole_rows(path: Path) -> Iterator[tuple[int, JsonObject]]:
    """Yield the values of the rows, each with its line. Raises EvalFileError at a row that cannot be read."""
    rows: Iterable[Row]
    if is_table(path):
        rows = log_rows(path)
    else:
        rows = SpanFile(path, shown(path)) if is_span_file(path) else _document_rows(path)
    for row in joined_rows(rows, shown(path)):
        if row.problems:
            raise EvalFileError(shown(path), row.problems)
        yield from ((row.line, each) for each in records_of(row.values))


def _document_rows(path: Path) -> Iterator[Row]:
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


def records_of(values: JsonObject, *, is_whole: bool = False) -> Iterator[JsonObject]:
    """Yield the records of a page that an API returned; any other object as it is.

    A page has a list of exports of known programs under a key such as `data`. If the object `is_whole`, the only one of
    its file, records of other programs count too, if they have an `id`.
    """
    page = next((values[key] for key in PAGE_KEYS if _is_page(values.get(key), is_whole=is_whole)), None)
    if isinstance(page, list) and not _RECORD_KEYS & values.keys():
        yield from (cast(JsonObject, each) for each in page)
    else:
        yield values


def _is_page(value: JsonValue, *, is_whole: bool) -> bool:
    is_list = isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) for each in value)
    return is_list and all((is_whole and "id" in each) or is_export(each) for each in cast(list[JsonObject], value))


_RECORD_KEYS = frozenset("id input question prompt response expected messages input_messages vars".split())  # noqa: SIM905 - a list of words
"""Keys of an object that is a record itself."""


def logged_values(row: JsonObject) -> dict[str, JsonValue]:
    """Return the values of a row of a table as a JSON log would have them: JSON parsed, empty cells dropped."""
    return {
        name: _cell_value(name, value)
        for name, value in row.items()
        if name in _TEXT_COLUMNS or value not in ("", None)
    }


def _cell_value(name: str, value: JsonValue) -> JsonValue:
    if isinstance(value, str) and snake_case(name) in _OBJECT_COLUMNS:
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
    if any(name in row for name in _EXPECTED_COLUMNS):
        return False
    if "response" in row:
        return "prompt" in row or "messages" in row
    messages = row.get("messages")
    is_conversation = isinstance(messages, list | tuple | Mapping) or _is_json(messages)
    return is_conversation and not any(name in row for name in _QUESTION_COLUMNS)


def _is_json(value: JsonValue) -> bool:
    return isinstance(value, str) and value.lstrip().startswith(("[", "{"))


def read_logged_row(row: JsonObject, paths: LogMap | None = None) -> LoggedRow | TraceStep:
    """Return the conversation of a row. Raises EvalFileError with every problem, at paths in the row."""
    logged = read_conversation(logged_values(row), paths=paths)
    if isinstance(logged, TraceStep):
        return logged
    given = logged.given
    history = (*given.message_history, *((Message("user", given.prompt),) if given.prompt else ()))
    last = max((place for place, each in enumerate(history) if each.role == "user"), default=-1)
    expected = given.text
    if given.ground_truth is not None:
        expected = given.ground_truth if isinstance(given.ground_truth, str) else pretty_json(given.ground_truth)
    known = {"model": given.model, "duration_ms": given.duration_ms, "context": given.context or None}
    return LoggedRow(
        messages=history[: last + 1],
        expected=expected,
        id=given.id or "",
        session_id=given.session_id,
        metadata={**given.metadata, **{name: value for name, value in known.items() if value is not None}},
    )
