"""Additions to an eval file: new keys and new cases, with all other bytes unchanged."""

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import yaml
from msgspec import Struct, field

from agentv.loading.files.composer import compose
from agentv.loading.files.documents import Document, Mark, shown_path
from agentv.loading.files.json_lines import parse_json
from agentv.loading.files.kinds import CASE_KEYS
from agentv.loading.files.text import BYTE_ORDER_MARK, decode, read_bytes, shown
from agentv.loading.models.eval_files import CaseModel
from agentv.loading.models.reader import Reader, raise_errors
from agentv.loading.suites.suites import read_suite
from agentv.loading.translation.importers import importers_of
from agentv.registry import Specs
from agentv.types.errors import EvalFileError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Problem

_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_WRITTEN_BREAK = re.compile("\r\n|[\n\r]")
"""A line break that added lines may end with. YAML has others, which are read, but not written."""
_LAST_BREAK = re.compile(r"(?:\r\n|[\n\r])\Z")
_BREAK_CHARACTERS = "\n\r\x85\u2028\u2029"
_STRIPPED_BLOCK = re.compile(r"[^\n\r]*?[|>]\d?-")
"""The start of a block scalar without its last line break, such as `|-`."""
_CASE_LEVEL = 3
"""The level of a case's keys, where the file's top-level keys have level 1. Deeper values are skipped."""


class NewKey(Struct, frozen=True):
    """A key to add to a case: its value, and its lines as YAML, starting at column 1."""

    key: str
    value: JsonValue
    yaml: str
    line: str
    """The value on one line of YAML: JSON, except that invisible characters have YAML's escapes."""


class _Node(Struct):
    """A value in the text of a file."""

    start: Mark
    end: int | None
    """The index after the last character of the value; None if nothing can be inserted after it."""
    is_flow: bool = False
    is_alias: bool = False
    keys: dict[str, "_Node"] = field(default_factory=dict)
    items: list["_Node"] = field(default_factory=list)
    column: int = 0
    """That of a mapping's keys or a list's items, counted from 0."""
    ends: list[int] = field(default_factory=list)
    """The ends of a mapping's values."""


def add_keys(text: str, path: str, keys: Mapping[int, NewKey]) -> str:
    """Return a suite's text with new keys; `keys` maps the index of a case to the key to add at its end.

    Raises EvalFileError if a case is an alias or cannot be extended. The caller must check that the
    rest of the file still has the same meaning: values that are aliased or merged elsewhere change there, too.
    """
    cases = _cases(text, path)
    # A list of cases at column 1 is not indented below its key; the lists in a new key are then not indented either.
    is_compact = cases.column == 0 and not cases.is_flow
    problems: list[Problem] = []
    insertions: list[tuple[int, str]] = []
    for index, new in keys.items():
        node = cases.items[index]
        if node.is_alias or not node.ends:
            message = "this case is an alias" if node.is_alias else "this case cannot be extended as it is written"
            problems.append(
                _problem(path, node=node, index=index, message=message, advice="write the case out in full")
            )
        elif node.is_flow:
            insertions.append((node.ends[-1], f", {new.key}: {new.line}"))
        else:
            insertions.append(
                _line_insertion(text, node.ends[-1], _indented_block(new.yaml, node.column, is_compact=is_compact))
            )
    if problems:
        raise EvalFileError(path, problems)
    return _with_insertions(text, insertions)


def append_items(text: str, path: str, items: Sequence[str]) -> str:
    """Return a suite's text with more cases at the end of its list. Raises EvalFileError if the file has no such list.

    Each item is a text of lines that start at column 1, the first one with `- `.
    """
    cases = _cases(text, path)
    if cases.is_flow or cases.end is None:
        message = "cases can be added only to a list whose items start with '-' on separate lines"
        raise EvalFileError(path, [Problem(path, message, *cases.start, "$.evalcases")])
    block = "".join(_indented(_lines(item), cases.column) for item in items)
    return _with_insertions(text, [_line_insertion(text, cases.end, block)])


def _cases(text: str, path: str) -> _Node:
    """Return the list of cases. Raises EvalFileError when this file does not contain them."""
    events = yaml.parse(text, Loader=yaml.CSafeLoader)
    next(events)  # stream start
    next(events)  # document start
    root = _node(next(events), events, text, 0)
    found = next((root.keys[key] for key in CASE_KEYS if key in root.keys), None)
    if found is not None and found.items:
        return found
    message = "the cases of this suite are not in this file"
    place = root.start if found is None else found.start
    raise EvalFileError(path, [Problem(path, message, *place, "$.evalcases", "name the file that contains them")])


def _problem(path: str, node: _Node, index: int, message: str, advice: str) -> Problem:
    return Problem(path, message, *node.start, shown_path(("evalcases", index)), advice)


def _node(event: yaml.Event, events: Iterator[yaml.Event], text: str, level: int) -> _Node:
    """Return the value that starts with an event; consume its events."""
    start = cast(yaml.Mark, event.start_mark)
    node = _Node(Mark(start.line + 1, start.column + 1), cast(yaml.Mark, event.end_mark).index, column=start.column)
    if isinstance(event, yaml.AliasEvent):
        node.is_alias = True
    elif isinstance(event, yaml.ScalarEvent):
        node.end = _scalar_end(event, text)
    elif isinstance(event, yaml.SequenceStartEvent):
        node.is_flow = bool(event.flow_style)
        _fill_sequence(node, events, text, level + 1)
    elif isinstance(event, yaml.MappingStartEvent):
        node.is_flow = bool(event.flow_style)
        _fill_mapping(node, events, text, level + 1, start=start.index)
    return node


def _fill_sequence(node: _Node, events: Iterator[yaml.Event], text: str, level: int) -> None:
    item = None
    while not isinstance(event := next(events), yaml.SequenceEndEvent):
        item = _node(event, events, text, level)
        if level < _CASE_LEVEL:
            node.items.append(item)
    if node.is_flow:
        node.end = cast(yaml.Mark, event.end_mark).index
    elif item is not None:
        node.end = item.end


def _fill_mapping(node: _Node, events: Iterator[yaml.Event], text: str, level: int, *, start: int) -> None:
    """Add the entries of a mapping to its node; `start` is its index in the text."""
    value = None
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        if value is None and not text.startswith("?", start):  # after `? ` a key is not in the column of the mapping
            node.column = cast(yaml.Mark, event.start_mark).column
        name = event.value if isinstance(event, yaml.ScalarEvent) else ""
        _node(event, events, text, level)
        value = _node(next(events), events, text, level)
        if level <= _CASE_LEVEL and value.end is not None:
            node.ends.append(value.end)
        if level < _CASE_LEVEL:
            node.keys[name] = value
    if node.is_flow:
        node.end = cast(yaml.Mark, event.end_mark).index
    elif value is not None:
        node.end = value.end


def _scalar_end(event: yaml.ScalarEvent, text: str) -> int | None:
    """Return where a scalar ends. Blank lines after a block scalar are not part of it, unless it keeps them (`|+`).

    Return None for a block scalar at the end of the file without a line break, which an addition would change.
    """
    start, end = cast(yaml.Mark, event.start_mark).index, cast(yaml.Mark, event.end_mark).index
    if event.style not in ("|", ">"):
        return end
    if text[end - 1] not in _BREAK_CHARACTERS:
        return end if _STRIPPED_BLOCK.match(text, start) else None
    if event.value.endswith("\n\n") or event.value == "\n":
        return end
    while True:
        width = 2 if text[end - 2 : end] == "\r\n" else 1
        if text[end - width - 1] not in _BREAK_CHARACTERS:
            return end
        end -= width


def _line_insertion(text: str, end: int, block: str) -> tuple[int, str]:
    """Return where to insert a block, after the line that contains `end`, and the block with the same line break."""
    is_line_start = end > 0 and text[end - 1] in _BREAK_CHARACTERS
    next_break = _BREAK.search(text, end)
    place = end
    if not is_line_start:
        place = next_break.end() if next_break else len(text)
    before = _LAST_BREAK.search(text, max(0, place - 2), place) or _WRITTEN_BREAK.search(text)
    newline = before[0] if before else "\n"
    lines = block.replace("\n", newline)
    return place, lines if is_line_start or next_break else newline + lines


def _indented_block(block: str, column: int, *, is_compact: bool) -> str:
    """Return a block indented to a column; with `is_compact`, the lines after the first lose two spaces.

    A list in the block, which is indented by two spaces below its key, then starts in the column of the key.
    """
    first, *others = _lines(block)
    return _indented([first, *(line[2:] if is_compact and line else line for line in others)], column)


def _lines(block: str) -> list[str]:
    return block.removesuffix("\n").split("\n")


def _indented(lines: Iterable[str], column: int) -> str:
    return "".join(f"{' ' * column}{line}\n" if line else "\n" for line in lines)


def _with_insertions(text: str, insertions: Iterable[tuple[int, str]]) -> str:
    """Return the text with each addition inserted at its index."""
    pieces: list[str] = []
    before = 0
    for index, addition in sorted(insertions):
        pieces += [text[before:index], addition]
        before = index
    return "".join([*pieces, text[before:]])


def _json_line(new: NewKey) -> str:
    """Return the value as JSON on one line: `line` is not valid JSON if it has escapes of YAML."""
    plain = json.dumps(new.value, ensure_ascii=False)
    return plain if plain == new.line else json.dumps(new.value)


class CasesFile(Struct, frozen=True):
    """An eval file that contains its cases."""

    path: Path
    data: bytes
    """The bytes that were read."""
    cases: tuple[JsonObject, ...]
    """In the file's order."""
    allow_paths: tuple[str, ...] = ()
    """Folders outside of the project in which the eval file may also name files."""

    def with_keys(self, keys: Mapping[int, NewKey], specs: Specs) -> bytes:
        """Return the file's bytes with a key added to some cases, by their index; all other bytes are unchanged.

        Raises EvalFileError when the result would not be the same suite with these keys and nothing else.
        """
        if self.path.suffix == ".jsonl":
            return self._json_lines_with(keys)
        text = add_keys(self._text(), shown(self.path), keys)
        expected = list(self.cases)
        for index, new in keys.items():
            expected[index] = {**expected[index], new.key: new.value}
        return self._checked(text, expected, specs)

    def with_cases(self, items: Sequence[JsonObject], yaml: Sequence[str], specs: Specs) -> bytes:
        """Return the file's bytes with more cases at the end; `yaml` has the same items as YAML, starting at column 1.

        Raises EvalFileError as `with_keys` does.
        """
        if self.path.suffix == ".jsonl":
            lines = [f"{json.dumps(item, ensure_ascii=False)}\n".encode() for item in items]
            for number, line in enumerate(lines, len(_split(self.data)) + 1):
                _check_line(line, shown(self.path), number)
            return b"".join((self.data, b"" if self.data.endswith(b"\n") or not self.data else b"\n", *lines))
        text = append_items(self._text(), shown(self.path), yaml)
        return self._checked(text, [*self.cases, *items], specs)

    def _text(self) -> str:
        return decode(self.data, shown(self.path))

    def _checked(self, text: str, expected: Sequence[JsonValue], specs: Specs) -> bytes:
        """Return a new text as bytes, after checking that it is the expected suite."""
        name = shown(self.path)
        document, _ = compose(text, name)
        top, _ = compose(self._text(), name)
        if document is None or top is None:
            advice = "write its cases as plain YAML, one key per line"
            raise EvalFileError(name, [Problem(name, "this file cannot be extended as it is written", allowed=advice)])
        key = _cases_key(top)
        got = document.at((key,))
        is_rest_equal = _without_key(top.value, key) == _without_key(document.value, key)
        if not is_rest_equal or got != list(expected):
            raise EvalFileError(name, [_shared_value_problem(top, key, got, expected)])
        mark = BYTE_ORDER_MARK if self.data.startswith(BYTE_ORDER_MARK) else b""
        data = mark + text.encode()
        raise_errors(name, read_suite(self.path, specs, content=data, allow_paths=self.allow_paths).problems)
        return data

    def _json_lines_with(self, keys: Mapping[int, NewKey]) -> bytes:
        lines = _split(self.data)
        numbers = [number for number, line in enumerate(lines) if line.removeprefix(BYTE_ORDER_MARK).strip()]
        for index, new in keys.items():
            number = numbers[index]
            lines[number] = self._json_line_with(lines[number], number + 1, new)
        return b"".join(lines)

    def _json_line_with(self, line: bytes, number: int, new: NewKey) -> bytes:
        end = line.rstrip().removesuffix(b"}").rstrip()
        space = " " if b'": ' in line else ""
        added = f',{space}"{new.key}":{space}{_json_line(new)}'.encode()
        extended = end + added + line[len(end) :]
        _check_line(extended, shown(self.path), number)
        return extended


def open_cases(path: Path, specs: Specs, *, allow_paths: tuple[str, ...] = ()) -> CasesFile:
    """Open an eval file for additions; `allow_paths` are as for CasesFile.

    Raises EvalFileError when it is unreadable or its cases are in another file.
    """
    data, name = read_bytes(path), shown(path)
    if path.suffix == ".jsonl":
        return CasesFile(path, data, tuple(_json_cases(data, name)), allow_paths)
    document, problems = compose(decode(data, name), name)
    if document is None:
        raise EvalFileError(name, problems)
    program = importers_of(specs).program_of(document.value)
    if program:
        message = f"this is an eval file of {program}, to which no keys or cases can be added"
        advice = "convert it first: agentv convert FILE -o OUT --to agentv"
        raise EvalFileError(name, [Problem(name, message, *document.start, "$", advice)])
    key = _cases_key(document)
    cases = document.at((key,))
    if not isinstance(cases, list):
        place = document.mark((key,))
        advice = "name the JSON Lines file that contains them, or move them into this file"
        problem = Problem(name, "the cases of this suite are in other files", *place, f"$.{key}", advice)
        raise EvalFileError(name, [problem])
    return CasesFile(path, data, tuple(case for case in cases if isinstance(case, Mapping)), allow_paths)


def _json_cases(data: bytes, name: str) -> list[JsonObject]:
    cases: list[JsonObject] = []
    for number, line in enumerate(_split(data.removeprefix(BYTE_ORDER_MARK)), 1):
        if line.strip():
            document, problems = parse_json(decode(line, name, first_line=number).rstrip("\r\n"), name, number)
            if document is None or not isinstance(document.value, Mapping):
                raise EvalFileError(name, problems or [Problem(name, "a line must be a JSON object", number, 1)])
            cases.append(document.value)
    return cases


def _split(data: bytes) -> list[bytes]:
    """Return the lines with their ends; as always in JSON Lines, only a newline ends a line."""
    return io.BytesIO(data).readlines()


def _check_line(line: bytes, name: str, number: int) -> None:
    """Raise EvalFileError if a line is not a valid case."""
    document, problems = parse_json(decode(line, name, first_line=number).rstrip("\r\n"), name, number)
    reader = Reader(document or Document(name, {}), problems)
    reader.read(CaseModel)
    raise_errors(name, reader.problems)


def _cases_key(document: Document) -> str:
    value = document.value
    return next((key for key in CASE_KEYS if isinstance(value, Mapping) and key in value), CASE_KEYS[0])


def _without_key(value: JsonValue, key: str) -> JsonValue:
    return {name: inner for name, inner in value.items() if name != key} if isinstance(value, Mapping) else value


def _shared_value_problem(document: Document, key: str, got: JsonValue, expected: Sequence[JsonValue]) -> Problem:
    """Return the problem of an addition that also changed another case, through an anchor or merge key."""
    listed = got if isinstance(got, list) else []
    index = next((i for i, (a, b) in enumerate(zip(listed, expected, strict=False)) if a != b), 0)
    place = document.mark((key, index))
    advice = "write out the values that this case takes from an anchor, alias or merge key"
    message = "an addition to another case would also change this one"
    return Problem(document.path, message, *place, f"$.{key}[{index}]", advice)
