"""Read lines of a log, or the records of a file; every problem has the file and line."""

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from agentv.loading.files.json_lines import parse_json, quick_json
from agentv.loading.files.text import BYTE_ORDER_MARK, MAX_BYTES, TOO_LARGE, decode, read_lines, read_text, shown
from agentv.messages.logs.mapping import Extra, LogMap
from agentv.messages.logs.reading import LoggedLine, read_logged
from agentv.telemetry.joining.joining import join_spans
from agentv.telemetry.otlp.spans import is_trace, spans_of
from agentv.types.errors import EvalFileError
from agentv.types.fields import Problems
from agentv.types.json_value import JsonValue
from agentv.types.problems import Problem

MAX_LINE_BYTES = MAX_BYTES
"""The maximum length of one line."""


def read_log_line(
    data: bytes, file: str, number: int, *, paths: LogMap | None = None, extra: Extra = "error"
) -> LoggedLine:
    """Return the answer on a line of a log, of a span as if it were the only one. Raises EvalFileError."""
    text = decode(data, file, first_line=number)
    document = quick_json(text, file, number)
    if document is None:
        document, problems = parse_json(text, file, number)
        if document is None or problems:
            raise EvalFileError(file, problems)
    try:
        return read_logged(_joined(document.value), paths=paths, extra=extra)
    except EvalFileError as error:
        problems = tuple(replace(each, path=file, line=number, column=1) for each in error.problems)
        raise EvalFileError(file, problems) from None


def _joined(value: JsonValue) -> JsonValue:
    """Return the answer in a line of spans as a line in our own keys; any other value as it is."""
    if not isinstance(value, dict) or not is_trace(value):
        return value
    answers, report = join_spans(spans_of(value))
    if len(answers) == 1 and answers[0].error is None:
        return answers[0].to_line()
    problems = Problems("span")
    why = next((note.text for note in report.notes()), "no call of a model")
    what = f"has {len(answers)} answers" if answers else f"has no answer: {why}"
    problems.add("$", answers[0].error or what if answers else what)
    problems.raise_any()
    return value


MAX_PIECE_CHARACTERS = 6_000
"""The maximum length of a piece of text; a longer record of a table or log is not split."""

_HEADING_START = re.compile(r"#{1,6} ")
_TABLES = {".csv": ",", ".tsv": "\t"}


class Record(NamedTuple):
    """A line of a JSON Lines file, a row of a table, or a piece of a text."""

    place: str
    """The position of the record, such as `faq.md:12`."""
    text: str


def read_records_of(path: Path) -> Iterator[Record]:
    """Yield the records of a file, without blank ones. Raises EvalFileError with the position of an invalid record."""
    return (record for record in _records(path) if record.text.strip())


def _records(path: Path) -> Iterator[Record]:
    if path.suffix == ".jsonl":
        yield from _json_lines(path)
    elif path.suffix in _TABLES:
        yield from _rows(path, _TABLES[path.suffix])
    else:
        for line, text in pieces(read_text(path)):
            yield Record(f"{shown(path)}:{line}", text)


def _json_lines(path: Path) -> Iterator[Record]:
    name = shown(path)
    for number, data in enumerate(read_lines(path), 1):
        if len(data) > MAX_BYTES:
            raise EvalFileError(name, [Problem(name, f"this line {TOO_LARGE}", number, 1)])
        line = decode(data.removeprefix(BYTE_ORDER_MARK), name, first_line=number).rstrip("\r\n")
        if not line.strip():
            continue
        document, problems = parse_json(line, name, number)
        if document is None or problems:
            raise EvalFileError(name, problems)
        value = document.value
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
        yield Record(f"{name}:{number}", text)


def _rows(path: Path, delimiter: str) -> Iterator[Record]:
    name = shown(path)
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if None in row or None in row.values():  # csv's marks for too many or too few columns
                message = f"this row does not have the {len(reader.fieldnames or ())} columns of the first line"
                raise EvalFileError(name, [Problem(name, message, reader.line_num, 1)])
            yield Record(f"{name}:{reader.line_num}", json.dumps(row, ensure_ascii=False, indent=2))
    except csv.Error as error:
        raise EvalFileError(name, [Problem(name, f"not a valid table: {error}", reader.line_num, 1)]) from None


def pieces(text: str) -> Iterator[tuple[int, str]]:
    """Yield a text in pieces of at most 6,000 characters, each with the number of its first line.

    A piece ends before a heading if possible, else after a paragraph, else after a line.
    """
    blocks: list[str] = []
    start = size = 0
    for number, block in _blocks(text):
        is_new_part = bool(_HEADING_START.match(block)) and size > MAX_PIECE_CHARACTERS // 2
        if blocks and (is_new_part or size + len(block) > MAX_PIECE_CHARACTERS):
            yield start, "".join(blocks).rstrip()
            blocks, size = [], 0
        if not blocks:
            start = number
        blocks.append(block)
        size += len(block)
    if blocks:
        yield start, "".join(blocks).rstrip()


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield paragraphs with the blank lines after them, each with its first line's number; split long ones."""
    block, start = "", 1
    is_after_blank_line = False
    for number, line in enumerate(io.StringIO(text.replace("\r\n", "\n"), newline="\n"), 1):
        is_new_paragraph = is_after_blank_line and line.strip()
        is_too_long = len(block) + len(line) > MAX_PIECE_CHARACTERS
        if block and (is_new_paragraph or is_too_long or _HEADING_START.match(line)):
            yield from _split_block(start, block)
            block = ""
        if line.strip() and not block:
            start = number
        is_after_blank_line = not line.strip()
        block += line if block or not is_after_blank_line else ""
    yield from _split_block(start, block)


def _split_block(start: int, block: str) -> Iterator[tuple[int, str]]:
    for at in range(0, len(block), MAX_PIECE_CHARACTERS):
        yield start, block[at : at + MAX_PIECE_CHARACTERS]
