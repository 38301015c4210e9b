"""Additions to the cases of a YAML file: text is put between what stands there, and no character of that is touched.

libyaml's events say where every value ends; nothing is written anew, so comments, order, quotes and line breaks stay.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import yaml
from msgspec import Struct, field

from agentv.loading.documents import Mark, shown_path
from agentv.loading.file_kinds import CASE_KEYS
from agentv.types.errors import EvalFileError
from agentv.types.problems import Problem

_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_WRITTEN_BREAK = re.compile("\r\n|[\n\r]")
_LAST_BREAK = re.compile(r"(?:\r\n|[\n\r])\Z")
_BREAKS = "\n\r\x85\u2028\u2029"
_STRIPPED = re.compile(r"[^\n\r]*?[|>]\d?-")
_CASE_LEVEL = 3
"""Values that are deeper than those of a case are only walked over."""


class Entry(NamedTuple):
    """A new key of a case: `block` is its lines from column 1 on, `flow` its value on one line."""

    key: str
    block: str
    flow: str


class _Node(Struct):
    """A value in the text: where it starts and where its last character is followed by something else.

    `end` is None when nothing can be put behind it.
    """

    start: Mark
    end: int | None
    is_flow: bool = False
    is_alias: bool = False
    keys: dict[str, "_Node"] = field(default_factory=dict)
    items: list["_Node"] = field(default_factory=list)
    column: int = 0
    ends: list[int] = field(default_factory=list)


def add_entries(text: str, path: str, entries: Mapping[int, Entry]) -> str:
    """Return a suite's text with a new key at the end of some cases, named by their index.

    Raises EvalFileError for a case that is an alias, or whose end cannot take more. Whether the rest of the file still
    means the same is for the caller to check: what is aliased or merged elsewhere changes there, too.
    """
    cases = _cases(text, path)
    compact = cases.column == 0 and not cases.is_flow
    problems: list[Problem] = []
    put: list[tuple[int, str]] = []
    for index, entry in entries.items():
        node = cases.items[index]
        if node.is_alias or not node.ends:
            what = "this case is an alias" if node.is_alias else "nothing can be added to this case as it is written"
            problems.append(_problem(path, node, index, what, "write it out"))
        elif node.is_flow:
            put.append((node.ends[-1], f", {entry.key}: {entry.flow}"))
        else:
            put.append(_on_lines(text, node.ends[-1], _shifted(entry.block, node.column, compact=compact)))
    if problems:
        raise EvalFileError(path, problems)
    return _with(text, put)


def append_items(text: str, path: str, items: Sequence[str]) -> str:
    """Return a suite's text with more cases at the end of its list. Raises EvalFileError when it has none of its own.

    An item is its lines from column 1 on, the first with `- ` at its start.
    """
    cases = _cases(text, path)
    if cases.is_flow or cases.end is None:
        message = "cases can be added only to a list whose items start with '-' on lines of their own"
        raise EvalFileError(path, [Problem(path, message, *cases.start, "$.evalcases")])
    block = "".join(_indented(_lines(item), cases.column) for item in items)
    return _with(text, [_on_lines(text, cases.end, block)])


def _cases(text: str, path: str) -> _Node:
    """Return the list of cases. Raises EvalFileError when they do not stand here."""
    events = yaml.parse(text, Loader=yaml.CSafeLoader)
    next(events)
    next(events)
    root = _node(next(events), events, text, 0)
    found = next((root.keys[key] for key in CASE_KEYS if key in root.keys), None)
    if found is not None and found.items:
        return found
    message = "the cases of this suite are not written here, where they could be added to"
    place = root.start if found is None else found.start
    raise EvalFileError(path, [Problem(path, message, *place, "$.evalcases", "name the file that they stand in")])


def _problem(path: str, node: _Node, index: int, message: str, advice: str) -> Problem:
    return Problem(path, message, *node.start, shown_path(("evalcases", index)), advice)


def _node(event: yaml.Event, events: Iterator[yaml.Event], text: str, level: int) -> _Node:
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
        _fill_mapping(node, events, text, level + 1, at=start.index)
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


def _fill_mapping(node: _Node, events: Iterator[yaml.Event], text: str, level: int, *, at: int) -> None:
    value = None
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        if value is None and not text.startswith("?", at):  # `? key` starts where its sign does
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
    """Return where a scalar ends. Blank lines below a block text are not its own, unless it keeps them (`|+`).

    A block text that ends with the file, without a line break, would get one if anything followed: None.
    """
    start, end = cast(yaml.Mark, event.start_mark).index, cast(yaml.Mark, event.end_mark).index
    if event.style not in ("|", ">"):
        return end
    if text[end - 1] not in _BREAKS:
        return end if _STRIPPED.match(text, start) else None
    if event.value.endswith("\n\n") or event.value == "\n":
        return end
    while text[end - (width := 2 if text[end - 2 : end] == "\r\n" else 1) - 1] in _BREAKS:
        end -= width
    return end


def _on_lines(text: str, end: int, block: str) -> tuple[int, str]:
    """Return where lines go that follow the line on which a value ends, and the lines with that line's own break."""
    at_start = end > 0 and text[end - 1] in _BREAKS
    found = _BREAK.search(text, end)
    place = end if at_start else found.end() if found else len(text)
    before = _LAST_BREAK.search(text, max(0, place - 2), place) or _WRITTEN_BREAK.search(text)
    newline = before[0] if before else "\n"
    lines = block.replace("\n", newline)
    return place, lines if at_start or found else newline + lines


def _shifted(block: str, column: int, *, compact: bool) -> str:
    """Return a block at a column. Where the file's own list of cases stands under its key's column, so does this."""
    first, *others = _lines(block)
    return _indented([first, *(line[2:] if compact and line else line for line in others)], column)


def _lines(block: str) -> list[str]:
    return block.removesuffix("\n").split("\n")


def _indented(lines: Iterable[str], column: int) -> str:
    return "".join(f"{' ' * column}{line}\n" if line else "\n" for line in lines)


def _with(text: str, put: Iterable[tuple[int, str]]) -> str:
    """Return the text with others put in, each at its index."""
    pieces: list[str] = []
    before = 0
    for index, addition in sorted(put):
        pieces += [text[before:index], addition]
        before = index
    return "".join([*pieces, text[before:]])
