"""Sources of cases that can be iterated repeatedly, and the order of cases that depend on others."""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from agentv.loading.files.documents import Document
from agentv.loading.files.json_lines import parse_json, quick_json
from agentv.loading.files.text import BYTE_ORDER_MARK, MAX_BYTES, TOO_LARGE, decode, read_lines, shown
from agentv.loading.models.reader import Reader, kind_of
from agentv.loading.suites.cases import CaseScope, ReadRow, RowRules, is_case, make_read_row, read_case, without_content
from agentv.scoring.keys.identity import DigestSet
from agentv.types.cases import CASES_CHECKED_AHEAD, BrokenCase, CaseSource, EvalCase, ListedCases, Location
from agentv.types.errors import EvalFileError, nearest
from agentv.types.messages import Message, Role
from agentv.types.problems import Problem
from agentv.types.structs import blank

DependencyProblem: TypeAlias = Callable[[EvalCase, int, str], Problem]
"""Returns a problem with the given message at the given entry of a case's `depends_on`."""


def in_order_of_dependencies(source: "JoinedCases", problem_at: DependencyProblem) -> tuple[CaseSource, list[Problem]]:
    """Return the cases, each moved behind the cases that it depends on, and the problems of dependencies.

    A stream is read whole only if one of its first 1,000 cases depends on another. A case that depends on itself, also
    through others, is a problem.
    """
    inspected = islice(source.with_repeats(), CASES_CHECKED_AHEAD)
    if not any(isinstance(case, EvalCase) and case.depends_on for case in inspected):
        return source, []
    cases = list(source)
    by_id = {case.id: case for case in cases if isinstance(case, EvalCase)}
    problems = [problem for case in by_id.values() for problem in _unknown_dependencies(case, by_id, problem_at)]
    ordered: dict[int, EvalCase | BrokenCase] = {}
    for case in cases:
        circle = _add_after_dependencies(case, by_id, ordered)
        if circle:
            first = by_id[circle[0]]
            message = f"the cases {' -> '.join(circle)} depend on each other in a circle"
            problems.append(_dependency_problem(first, first.depends_on.index(circle[1]), message, problem_at))
            break
    return (source if problems else ListedCases(tuple(ordered.values()))), problems


def _unknown_dependencies(
    case: EvalCase, by_id: Mapping[str, EvalCase], problem_at: DependencyProblem
) -> list[Problem]:
    found = []
    for index, name in enumerate(case.depends_on):
        if name not in by_id:
            problem = _dependency_problem(
                case, index, f"it depends on {name!r}, which is not a case of the suite", problem_at
            )
            found.append(replace(problem, suggestion=nearest(name, by_id.keys() - {case.id})))
    return found


def _dependency_problem(case: EvalCase, index: int, message: str, problem_at: DependencyProblem) -> Problem:
    return problem_at(case, index, f"case {case.id!r}: {message}")


def _add_after_dependencies(
    first: EvalCase | BrokenCase, by_id: Mapping[str, EvalCase], ordered: dict[int, EvalCase | BrokenCase]
) -> list[str]:
    """Add a case to `ordered` after those that it depends on; return the ids of a circle, if there is one."""
    path: list[EvalCase | BrokenCase] = [first]
    while path:
        case = path[-1]
        names = case.depends_on if isinstance(case, EvalCase) else ()
        needed = (by_id[name] for name in names if name in by_id)
        next_needed = next((each for each in needed if id(each) not in ordered), None)
        if next_needed is None:
            ordered[id(case)] = case
            path.pop()
        elif any(next_needed is each for each in path):
            start = next(index for index, each in enumerate(path) if each is next_needed)
            return [each.id for each in (*path[start:], next_needed)]
        else:
            path.append(next_needed)
    return []


_Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]


class _PlainMessage(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    role: Role
    content: str


_PlainMessages: TypeAlias = Annotated[list[_PlainMessage], msgspec.Meta(min_length=1)]


class _PlainCase(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The keys that `read_plain`, the fast path, supports; a test compares them with CaseModel."""

    id: _Name
    expected_outcome: _Name
    input: _PlainMessages | UnsetType = UNSET
    input_messages: _PlainMessages | UnsetType = UNSET
    expected: list[_PlainMessage] | UnsetType = UNSET
    expected_messages: list[_PlainMessage] | UnsetType = UNSET
    conversation_id: str | UnsetType = UNSET
    tags: list[_Name] | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET


_decode_case = msgspec.json.Decoder(_PlainCase).decode
_BLANK_CASE = blank(EvalCase)


def read_plain(line: bytes, location: Location) -> EvalCase | None:
    """Return the case on a line; None if the line needs the full reader."""
    try:
        found = _decode_case(line)
    except (msgspec.DecodeError, UnicodeError):
        return None
    question, expected = found.input or found.input_messages, found.expected or found.expected_messages or []
    is_given_once = UNSET in (found.input, found.input_messages) and UNSET in (found.expected, found.expected_messages)
    if not question or not is_given_once:
        return None
    # A duplicate key is detected by the number of quotes. After escaped backslashes, the count cannot tell which quotes
    # belong to a string.
    if b"\\\\" in line or line.count(b'"') - line.count(b'\\"') != 2 * _count_strings(found):
        return None
    return replace(
        _BLANK_CASE,
        id=found.id,
        input_messages=_messages(question),
        expected_outcome=found.expected_outcome,
        expected_messages=_messages(expected),
        conversation_id=None if found.conversation_id is UNSET else found.conversation_id,
        tags=tuple(found.tags or ()),
        metadata={} if found.metadata is UNSET else found.metadata,
        location=location,
    )


def _messages(read: list[_PlainMessage]) -> tuple[Message, ...]:
    return tuple([Message(each.role, each.content) for each in read])


def _count_strings(case: _PlainCase) -> int:
    """Return the number of strings on a line with this case, keys included."""
    count = 4
    for listed in (case.input, case.input_messages, case.expected, case.expected_messages):
        if listed is not UNSET:
            count += 1 + 4 * len(listed)
    if case.conversation_id is not UNSET:
        count += 2
    if case.tags is not UNSET:
        count += 1 + len(case.tags)
    if case.metadata is not UNSET:
        count += 1 + 2 * len(case.metadata)
    return count


HEAD_BYTES = 1 << 20
"""The maximum size of the lines whose cases `JsonLinesCases` caches."""


class JsonLinesCases(Struct, frozen=True):
    """The cases of a JSON Lines file, one per line, read again on each iteration."""

    path: Path
    shown: str
    """The name of the file in messages."""
    rules: RowRules
    """How to make a case of a line without input messages, which is a row of a dataset."""
    head: tuple[EvalCase | BrokenCase, ...] = ()
    """The first cases, cached because they are read several times before a run starts."""

    @property
    def scope(self) -> CaseScope:
        """The names and files that the cases may refer to."""
        return self.rules.scope

    @property
    def count(self) -> int | None:
        """Return None: the length of a stream is unknown."""
        return None

    def read_head(self, most: int) -> tuple[list[ReadRow], "JsonLinesCases"]:
        """Read the first `most` lines, and return each as a case with its warnings.

        Also return the same source with those cases in `head` that are in the first 1 MiB of lines; all others are
        returned without their content.
        """
        read: list[ReadRow] = []
        head: list[EvalCase | BrokenCase] = []
        size = 0
        for number, line, plain in islice(self._lines(after=0), most):
            row = self._read_line(number, line) if plain is None else ReadRow(plain)
            size += len(line)
            read.append(row if size <= HEAD_BYTES else without_content(row))
            if size <= HEAD_BYTES and row.case is not None:
                head.append(row.case)
        return read, replace(self, head=tuple(head))

    def __iter__(self) -> Iterator[EvalCase | BrokenCase]:
        """Yield the case of each line; skip blank lines, and yield a BrokenCase for a line with problems."""
        yield from self.head
        last = self.head[-1].location if self.head else None
        for number, line, plain in self._lines(after=0 if last is None else last.line):
            case = plain or self._read_line(number, line).case
            if case is not None:
                yield case

    def count_rows(self) -> int:
        """Return the number of lines that are not blank."""
        return sum(1 for line in read_lines(self.path) if not line.isspace())

    def _lines(self, *, after: int) -> Iterator[tuple[int, bytes, EvalCase | None]]:
        """Yield the non-blank lines after line `after`, with their numbers and their cases if `read_plain` reads them.

        It reads none if cases are translated, or completed by parts of the suite.
        """
        file, parts = self.scope.file, self.scope.parts
        may_be_plain = not (self.scope.is_foreign or (parts is not None and parts.vary_by_case))
        for number, line in enumerate(read_lines(self.path), 1):
            if number > after:
                data = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
                is_short = len(data) <= MAX_BYTES
                if data and not (is_short and data.isspace()):
                    yield number, data, read_plain(data, Location(file, number)) if may_be_plain and is_short else None

    def _read_line(self, number: int, data: bytes) -> ReadRow:
        """Return the case of a line that `read_plain` does not read."""
        location = Location(self.scope.file, number)
        default_id = f"line-{number}"
        if len(data) > MAX_BYTES:
            problem = Problem(self.shown, f"this line {TOO_LARGE}; nothing after it is read", number, 1)
            return ReadRow(BrokenCase(default_id, (problem,), location))
        try:
            text = decode(data, self.shown, first_line=number).rstrip("\r\n")
        except EvalFileError as error:
            return ReadRow(BrokenCase(default_id, error.problems, location))
        document = quick_json(text, self.shown, number)
        if document is not None:
            read = self._read_document(document)
            if isinstance(read.case, EvalCase) and not read.warnings:
                return read
        # Parsed again, since problems need the positions of values.
        document, problems = parse_json(text, self.shown, number)
        if document is None:
            return ReadRow(BrokenCase(default_id, problems, location))
        return self._read_document(document, problems)

    def _read_document(self, document: Document, problems: tuple[Problem, ...] = ()) -> ReadRow:
        """Return the case in a parsed line: a case, a row of a dataset, or a BrokenCase."""
        values, line = document.value, document.start.line
        if isinstance(values, Mapping) and (self.scope.is_foreign or is_case(values)):
            reader = self.scope.translated(Reader(document, problems))
            location = Location(self.scope.file, line)
            return make_read_row(read_case(reader, (), self.scope), reader.all_problems(), location, values.get("id"))
        if isinstance(values, Mapping):
            from agentv.loading.datasets.rows import Row  # noqa: PLC0415
            from agentv.loading.suites.dataset_cases import read_row  # noqa: PLC0415 - most lines are cases

            return read_row(Row(line, values, problems=problems, document=document), self.shown, self.rules)
        problem = Problem(self.shown, f"must be an object, but is {kind_of(values)}", line, 1)
        return ReadRow(BrokenCase(f"line-{line}", (*problems, problem), Location(self.scope.file, line)))


class UnknownCases(Struct, frozen=True):
    """The cases of a function that is not called: their number is unknown, and none is yielded."""

    @property
    def count(self) -> int | None:
        """Return None: the number is unknown."""
        return None

    def __iter__(self) -> Iterator[EvalCase | BrokenCase]:
        """Yield nothing."""
        return iter(())


class JoinedCases(Struct, frozen=True):
    """A chain of several sources. A case with a repeated id becomes a broken case that names both positions."""

    parts: tuple[CaseSource, ...]
    root: Path
    """The folder that the files in locations are relative to."""

    @property
    def count(self) -> int | None:
        """The total number of cases; None if that of a part is unknown."""
        counts = [part.count for part in self.parts]
        return None if None in counts else sum(count for count in counts if count is not None)

    def __iter__(self) -> Iterator[EvalCase | BrokenCase]:
        """Yield the cases of all parts; only a digest of each id stays in memory."""
        seen = DigestSet()
        for case in self.with_repeats():
            is_new = seen.add(case.id)
            yield case if is_new or isinstance(case, BrokenCase) else self._repeated(case)

    def count_rows(self) -> int | None:
        """Count the rows of all parts without making cases of them; None if a part cannot be counted."""
        total = 0
        for part in self.parts:
            count = part.count
            if count is None:
                counter = getattr(part, "count_rows", None)
                count = None if counter is None else counter()
            if count is None:
                return None
            total += count
        return total

    def with_repeats(self) -> Iterator[EvalCase | BrokenCase]:
        """Yield the cases of all parts as they are, also those with a repeated id."""
        return chain.from_iterable(self.parts)

    def _repeated(self, case: EvalCase) -> EvalCase | BrokenCase:
        """Return a broken case for a repeated id. The first position is searched only now, since repeats are rare."""
        location = case.location or Location("")
        first = next((earlier.location for earlier in self.with_repeats() if earlier.id == case.id), None)
        if first is None or first == location:  # another id had the same digest
            return case
        problem = repeated_id(case.id, location, first)
        return BrokenCase(case.id, (replace(problem, path=shown(self.root / location.path)),), location)


_ROW_HASH = re.compile("[0-9a-f]{12}")
_EQUAL_ROWS = "; rows without an id get the same one if they are equal"


def repeated_id(case_id: str, place: Location, first: Location, column: int = 1) -> Problem:
    """Return the problem of an id that is used twice, with both positions."""
    where = f"line {first.line}" if first.path == place.path else f"{first.path}, line {first.line}"
    message = f"the id {case_id!r} is used twice, first in {where}"
    return Problem(
        path=place.path,
        message=message,
        line=place.line,
        column=column,
        json_path="$.id",
        allowed=f"ids must be unique in a suite{_EQUAL_ROWS if _ROW_HASH.fullmatch(case_id) else ''}",
    )
