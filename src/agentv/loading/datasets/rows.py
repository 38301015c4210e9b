"""Rows of datasets: of CSV, TSV, JSON, YAML and Parquet files and of functions, read anew on every iteration."""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Protocol, cast

from msgspec import Struct

from agentv.execution.user_code import described, load_callable
from agentv.loading.datasets.parquet_sizes import MAX_ROW_BYTES, ParquetSizeError, batch_rows
from agentv.loading.files.documents import Document, JsonPath, Mark
from agentv.loading.files.json_lines import STRICT_DECODER, parse_json, quick_json
from agentv.loading.files.kinds import PARQUET_SUFFIX, TABLE_DELIMITERS, YAML_SUFFIXES
from agentv.loading.files.text import (
    BYTE_ORDER_MARK,
    MAX_BYTES,
    TOO_LARGE,
    bad_byte,
    decode,
    open_file,
    read_lines,
    read_text,
    shown,
)
from agentv.loading.models.reader import kind_of, open_yaml
from agentv.types.errors import EvalFileError, MissingExtraError, PluginError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Problem

_MAX_HEADER_PROBLEMS = 10
LIST_SUFFIXES = (".json", *YAML_SUFFIXES)


class Row(Struct, frozen=True, gc=False):
    """One row: its position and its values, or the problems that it has instead."""

    line: int
    """The line of the row in the file; for a row of a Parquet file or a function, its number, from 1."""
    values: JsonObject
    problems: tuple[Problem, ...] = ()
    document: Document | None = None
    """Has the positions of the values, if it is known."""
    at: JsonPath = ()
    """The path of the row in `document`."""
    is_whole: bool = False
    """True if the file is a single object: it may be a response of an API with a list of rows in one of its keys."""


class RowFile(Protocol):
    """A file of rows that can be read repeatedly. `shown` is its name in messages."""

    @property
    def shown(self) -> str:
        """The name in messages."""

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows in order. Raises EvalFileError for a file that cannot be read at all."""

    def count(self) -> int | None:
        """Return the number of rows; None if it is unknown, as for a function that yields rows."""


class TableFile(Struct, frozen=True):
    """A CSV or TSV file; its first row names the columns. All values are strings."""

    path: Path
    shown: str
    delimiter: str

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows, each with the line that it starts on; blank lines are skipped."""
        csv.field_size_limit(MAX_BYTES)
        line_problems: list[Problem] = []
        reader = csv.reader(self._lines(line_problems), delimiter=self.delimiter, strict=True)
        names = self._header(reader)
        width = len(names)
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                reason = _CSV_MESSAGES.get(str(error), str(error))
                yield Row(line, {}, (self._problem(line, f"not a valid row: {reason}"),))
                continue
            if line_problems:
                yield Row(line, {}, tuple(line_problems))
                line_problems.clear()
            elif len(cells) == width:
                yield Row(line, dict(zip(names, cells, strict=True)))
            elif cells:
                found = f"{len(cells)} cell{'' if len(cells) == 1 else 's'}"
                advice = f'put a cell with "{self.delimiter}" in double quotes' if len(cells) > width else None
                message = f"this row has {found}, but the first row names {width} columns"
                yield Row(line, {}, (self._problem(line, message, advice),))

    def count(self) -> int:
        """Return the number of rows, by counting line ends outside of quotes."""
        rows, is_quoted, has_text = 0, False, False
        for line in read_lines(self.path):
            has_text = has_text or bool(line.strip())
            is_quoted ^= line.count(b'"') % 2 == 1
            if not is_quoted:
                rows += has_text
                has_text = False
        return max(rows + has_text - 1, 0)

    def _lines(self, line_problems: list[Problem]) -> Iterator[str]:
        """Yield the lines as text; problems of a line that is too long or not UTF-8 are added to `line_problems`."""
        for number, line in enumerate(read_lines(self.path), 1):
            data = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
            if number == 1:
                decode(data[:2], self.shown)  # raises for UTF-16, by its byte order mark
            if len(data) > MAX_BYTES:
                line_problems.append(self._problem(number, f"this line {TOO_LARGE}; nothing after it is read"))
            try:
                yield data.decode()
            except UnicodeDecodeError as error:
                line_problems.append(bad_byte(data, error, self.shown, first_line=number))
                yield data.decode(errors="replace")

    def _header(self, reader: "Iterator[list[str]]") -> list[str]:
        """Return the names of the columns. Raises EvalFileError if there are none, or one is empty or repeated."""
        try:
            names = [name.strip() for name in next((cells for cells in reader if cells), ())]
        except csv.Error as error:
            raise EvalFileError(self.shown, (self._problem(1, f"not a valid row: {error}"),)) from None
        problems: list[Problem] = []
        earlier: set[str] = set()
        for index, name in enumerate(names):
            if not name:
                problems.append(self._problem(1, f"column {index + 1} has no name", "the first row names the columns"))
            elif name in earlier:
                problems.append(self._problem(1, f"two columns are named {name!r}"))
            earlier.add(name)
        if len(problems) > _MAX_HEADER_PROBLEMS:
            more = self._problem(1, f"{len(problems) - _MAX_HEADER_PROBLEMS:,} more columns have no name of their own")
            problems = [*problems[:_MAX_HEADER_PROBLEMS], more]
        if not names:
            problems = [self._problem(1, "the file is empty", "the first row names the columns")]
        other_delimiters = [each for each in (";", "\t", ",", "|") if each != self.delimiter]
        other = next((each for each in other_delimiters if len(names) == 1 and each in names[0]), None)
        if other is not None:
            message = f"the columns seem to be separated by {other!r}, not by {self.delimiter!r}"
            problems = [self._problem(1, message, "save it as .csv with commas, or as .tsv with tabs")]
        if problems:
            raise EvalFileError(self.shown, tuple(problems))
        return names

    def _problem(self, line: int, message: str, allowed: str | None = None) -> Problem:
        return Problem(self.shown, message, line, 1, allowed=allowed)


_CSV_MESSAGES = {"unexpected end of data": "a cell that starts in this row with a double quote is not closed"}


class ListFile(Struct, frozen=True):
    """A JSON or YAML file with a list of objects, or with one object."""

    path: Path
    shown: str

    def __iter__(self) -> Iterator[Row]:
        """Yield the objects, each with the line that it starts on."""
        if self.path.suffix == ".json":
            yield from self._json()
        else:
            reader = open_yaml(self.path)
            if reader.problems:
                raise EvalFileError(self.shown, tuple(reader.problems))
            yield from self._document_rows(reader.document)

    def count(self) -> int:
        """Return the number of rows."""
        return sum(1 for _ in self)

    def _document_rows(self, document: Document) -> Iterator[Row]:
        value = document.value
        if isinstance(value, Mapping):
            yield Row(document.start.line or 1, value, document=document, is_whole=True)
            return
        self._require_list(value)
        for index, each in enumerate(cast(Sequence[JsonValue], value)):
            mark = document.mark((index,))
            yield self._object_row(each, mark, document, (index,))

    def _json(self) -> Iterator[Row]:
        """Yield the objects of a JSON file; a broken file is parsed again, for the positions of its problems."""
        text = read_text(self.path)
        try:
            value = STRICT_DECODER.decode(text)
        except (ValueError, RecursionError):
            document, problems = parse_json(text, self.shown, 1)
            if document is None or problems:
                raise EvalFileError(self.shown, problems) from None
            yield from self._document_rows(document)
            return
        if isinstance(value, dict):
            yield Row(1, value, document=Document(self.shown, value, Mark(1, 1)), is_whole=True)
            return
        self._require_list(value)
        # The items are decoded again, one at a time, to know the line of each.
        place, line = text.index("[") + 1, text.count("\n", 0, text.index("[")) + 1
        while True:
            start = place
            while text[place] in " \t\r\n,":
                place += 1
            line += text.count("\n", start, place)
            if text[place] == "]":
                return
            each, end = STRICT_DECODER.raw_decode(text, place)
            yield self._object_row(each, Mark(line, 1), Document(self.shown, each, Mark(line, 1)), ())
            line += text.count("\n", place, end)
            place = end

    def _require_list(self, value: JsonValue) -> None:
        if not isinstance(value, list | tuple):
            problem = Problem(self.shown, f"must be a list of objects, but is {kind_of(value)}", 1, 1)
            raise EvalFileError(self.shown, (problem,))

    def _object_row(self, value: JsonValue, mark: Mark, document: Document, at: JsonPath) -> Row:
        if isinstance(value, Mapping):
            return Row(mark.line, value, document=document, at=at)
        return Row(mark.line, {}, (Problem(self.shown, f"a row must be an object, but is {kind_of(value)}", *mark),))


class SpanFile(Struct, frozen=True):
    """A JSON Lines file of OTLP exports, each of which has many spans."""

    path: Path
    shown: str

    def __iter__(self) -> Iterator[Row]:
        """Yield the exports."""
        for number, data in enumerate(read_lines(self.path), 1):
            text = decode(data.removeprefix(BYTE_ORDER_MARK), self.shown, first_line=number).rstrip("\r\n")
            if not text.strip():
                continue
            problems: tuple[Problem, ...] = ()
            document = quick_json(text, self.shown, number)
            if document is None:
                document, problems = parse_json(text, self.shown, number)
            value = None if document is None else document.value
            if document is not None and not isinstance(value, Mapping):
                problems = (Problem(self.shown, f"a row must be an object, but is {kind_of(value)}", number, 1),)
            yield Row(number, value if isinstance(value, Mapping) else {}, problems)

    def count(self) -> None:
        """Return None: an export may contain any number of conversations."""


class ParquetFile(Struct, frozen=True):
    """A Parquet file, read in batches; rows are numbered from 1. Dates and times become ISO 8601 texts."""

    path: Path
    shown: str

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows."""
        number = 0
        for batch in self._reader():
            if batch.nbytes > MAX_ROW_BYTES and batch.num_rows == 1:
                message = f"row {number + 1} has {batch.nbytes:,} bytes; at most {MAX_ROW_BYTES >> 20} MiB are read"
                raise EvalFileError(self.shown, (Problem(self.shown, message),))
            columns = [(name, batch.column(name)) for name in batch.schema.names]
            for index in range(batch.num_rows):
                number += 1
                yield Row(number, {name: plain_value(column[index].as_py()) for name, column in columns})

    def count(self) -> int:
        """Return the number of rows."""
        return sum(batch.num_rows for batch in self._reader())

    def _reader(self) -> "Iterator[Batch]":
        try:
            from arro3.io import read_parquet  # noqa: PLC0415 - an optional package
        except ImportError:
            raise MissingExtraError("a Parquet file", "parquet") from None
        try:
            with open_file(self.path) as file:
                rows = batch_rows(file)
        except ParquetSizeError as error:
            problem = Problem(self.shown, f"not a valid Parquet file: {error}")
            raise EvalFileError(self.shown, (problem,)) from None
        try:
            yield from cast("Iterator[Batch]", read_parquet(str(self.path), batch_size=rows))
        except BaseException as error:  # the package is in Rust, and its panics are not subclasses of Exception
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            problem = Problem(self.shown, f"not a valid Parquet file: {error}")
            raise EvalFileError(self.shown, (problem,)) from None


class Scalar(Protocol):
    """A value of a column."""

    def as_py(self) -> object:
        """Return the value as a Python object."""


class Schema(Protocol):
    """The columns of a batch."""

    names: list[str]


class Batch(Protocol):
    """Some rows of a Parquet file, by column."""

    num_rows: int
    nbytes: int
    schema: Schema

    def column(self, name: str) -> Sequence[Scalar]:
        """Return a column."""


def plain_value(value: object) -> JsonValue:
    """Return a value of a column as JSON."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {str(key): plain_value(item) for key, item in value.items()}
        case list() | tuple():
            return [plain_value(item) for item in value]
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal():
            return float(value)
        case bytes():
            return value.decode(errors="replace")
        case _:
            return str(value)


def open_rows(path: Path) -> RowFile | None:
    """Return the reader of a file of rows, by its suffix; None for JSON Lines and for unknown suffixes."""
    suffix = path.suffix.lower()
    if suffix in TABLE_DELIMITERS:
        return TableFile(path, shown(path), TABLE_DELIMITERS[suffix])
    if suffix in LIST_SUFFIXES:
        return ListFile(path, shown(path))
    return ParquetFile(path, shown(path)) if suffix == PARQUET_SUFFIX else None


class ListedRows(Struct, frozen=True):
    """Rows in memory, from a function that returned a list. Rows are numbered from 1."""

    shown: str
    items: tuple[object, ...]

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows."""
        return (_item_row(number, item, self.shown) for number, item in enumerate(self.items, 1))

    def count(self) -> int:
        """Return the number of rows."""
        return len(self.items)


class CalledRows(Struct, frozen=True):
    """Rows that a function yields; it is called again on every iteration."""

    path: Path
    name: str
    shown: str

    def __iter__(self) -> Iterator[Row]:
        """Call the function and yield its rows. Raises EvalFileError if it fails."""
        number = 0
        iterator = iter(_call_function(self.path, self.name, self.shown))
        while True:
            try:
                item = next(iterator)
            except StopIteration:
                return
            except Exception as error:
                raise _function_error(self.shown, error) from error
            number += 1
            yield _item_row(number, item, self.shown)

    def count(self) -> int | None:
        """Return None: counting would run the function."""
        return None


def function_rows(path: Path, name: str) -> ListedRows | CalledRows:
    """Call a function and return its rows: a list in memory, or rows for which it is called again on every iteration.

    Raises EvalFileError if the function cannot be loaded, fails, or returns something else.
    """
    label = f"{shown(path)}:{name}"
    found = _call_function(path, name, label)
    return ListedRows(label, tuple(found)) if isinstance(found, Sequence) else CalledRows(path, name, label)


def _call_function(path: Path, name: str, label: str) -> Iterable[object]:
    try:
        function = cast(Callable[[], object], load_callable(f"{path.name}:{name}", path.parent))
        found = function()
    except PluginError as error:
        raise EvalFileError(label, (Problem(label, str(error)),)) from error
    except Exception as error:
        raise _function_error(label, error) from error
    if isinstance(found, str | bytes | Mapping) or not isinstance(found, Iterable):
        message = f"must return rows, a list or a generator of objects, but returns a {type(found).__name__}"
        raise EvalFileError(label, (Problem(label, message),))
    return found


def _function_error(label: str, error: Exception) -> EvalFileError:
    return EvalFileError(label, (Problem(label, f"failed: {described(error)}"),))


def _item_row(number: int, item: object, label: str) -> Row:
    if isinstance(item, Mapping):
        return Row(number, {str(key): plain_value(value) for key, value in item.items()})
    message = f"a row must be an object, but is {kind_of(cast(JsonValue, item))}"
    return Row(number, {}, (Problem(label, message, number, 1),))
