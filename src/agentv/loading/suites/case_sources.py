"""Sources of cases that can be iterated repeatedly: JSON Lines files read as streams, and chains of sources."""

from collections.abc import Iterator
from itertools import chain, starmap
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from agentv.loading.files.json_lines import parse_json, quick_json
from agentv.loading.files.text import BYTE_ORDER_MARK, MAX_BYTES, TOO_LARGE, decode, read_lines, shown
from agentv.loading.importers.agentv_files import problems_of
from agentv.loading.models.reader import Reader, in_order
from agentv.loading.suites.cases import CaseScope, read_case
from agentv.scoring.keys.identity import DigestSet
from agentv.types.cases import BrokenCase, CaseSource, EvalCase, Location
from agentv.types.errors import EvalFileError
from agentv.types.messages import Message, Role
from agentv.types.problems import Problem

_Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]


class _Message(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    role: Role
    content: str


class _Case(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The keys that the fast path supports; a test compares it with CaseModel."""

    id: _Name
    expected_outcome: _Name
    input_messages: Annotated[list[_Message], msgspec.Meta(min_length=1)]
    expected_messages: list[_Message] | UnsetType = UNSET
    conversation_id: str | UnsetType = UNSET
    tags: list[_Name] | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Case).decode


def read_plain(line: bytes, location: Location) -> EvalCase | None:
    """Return the case on a line; None if the line needs the full reader."""
    try:
        found = _decode(line)
    except (msgspec.DecodeError, UnicodeError):
        return None
    # A duplicate key is detected by the number of quotes. After escaped backslashes, the count cannot tell which quotes
    # belong to a string.
    if b"\\\\" in line or line.count(b'"') - line.count(b'\\"') != 2 * _count_strings(found):
        return None
    return EvalCase(
        id=found.id,
        input_messages=_messages(found.input_messages),
        expected_outcome=found.expected_outcome,
        expected_messages=_messages(found.expected_messages) if found.expected_messages else (),
        conversation_id=None if found.conversation_id is UNSET else found.conversation_id,
        tags=tuple(found.tags or ()),
        metadata={} if found.metadata is UNSET else found.metadata,
        location=location,
    )


def _messages(read: list[_Message]) -> tuple[Message, ...]:
    return tuple([Message(each.role, each.content) for each in read])


def _count_strings(case: _Case) -> int:
    """Return the number of strings on a line with this case, keys included."""
    count = 5 + 4 * len(case.input_messages)
    if case.expected_messages is not UNSET:
        count += 1 + 4 * len(case.expected_messages)
    if case.conversation_id is not UNSET:
        count += 2
    if case.tags is not UNSET:
        count += 1 + len(case.tags)
    if case.metadata is not UNSET:
        count += 1 + 2 * len(case.metadata)
    return count


LINES_CHECKED_AT_LOAD = 1_000
HEAD_BYTES = 1 << 20


class JsonLinesCases(Struct, frozen=True):
    """The cases of a JSON Lines file, one per line, read again on each iteration. `shown` is its name in messages.

    `head` caches the first cases, which are read several times before a run starts.
    """

    path: Path
    shown: str
    scope: CaseScope
    head: tuple[EvalCase | BrokenCase, ...] = ()

    @property
    def count(self) -> int | None:
        """None: the length of a stream is unknown."""
        return None

    def with_head(self, most: int) -> "JsonLinesCases":
        """Return the same cases with up to `most` of them in `head`, and no more than 1 MiB of lines."""
        head: list[EvalCase | BrokenCase] = []
        size = 0
        for number, line in self._lines(after=0):
            size += len(line)
            if size > HEAD_BYTES or len(head) == most:
                break
            head.append(self._case(number, line))
        return replace(self, head=tuple(head))

    def __iter__(self) -> Iterator[EvalCase | BrokenCase]:
        """Yield the case of each line; skip blank lines, and yield a BrokenCase for a line with problems."""
        last = self.head[-1].location if self.head else None
        return chain(self.head, starmap(self._case, self._lines(after=0 if last is None else last.line)))

    def _lines(self, *, after: int) -> Iterator[tuple[int, bytes]]:
        """Yield the non-blank lines after line `after`, with their numbers."""
        for number, line in enumerate(read_lines(self.path), 1):
            if number > after:
                data = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
                if data.strip() or len(data) > MAX_BYTES:
                    yield number, data

    def _case(self, number: int, data: bytes) -> EvalCase | BrokenCase:
        location = Location(self.scope.file, number)
        plain = read_plain(data, location) if len(data) <= MAX_BYTES and not self.scope.is_foreign else None
        if plain is not None:
            return plain
        fallback = f"line-{number}"
        if len(data) > MAX_BYTES:
            problem = Problem(self.shown, f"this line {TOO_LARGE}; nothing after it is read", number, 1)
            return BrokenCase(fallback, (problem,), location)
        try:
            text = decode(data, self.shown, first_line=number).rstrip("\r\n")
        except EvalFileError as error:
            return BrokenCase(fallback, error.problems, location)
        document = quick_json(text, self.shown, number)
        if document is not None:
            reader = self.scope.opened(Reader(document))
            case = read_case(reader, (), self.scope)
            if case is not None and not problems_of(reader):
                return case
        return self._with_places(text, number, fallback)

    def _with_places(self, text: str, number: int, fallback: str) -> EvalCase | BrokenCase:
        """Read a line with problems again, with the positions of all values."""
        location = Location(self.scope.file, number)
        document, problems = parse_json(text, self.shown, number)
        if document is None:
            return BrokenCase(fallback, problems, location)
        reader = self.scope.opened(Reader(document, problems))
        case = read_case(reader, (), self.scope)
        found = in_order(problems_of(reader))
        if case is not None and not any(problem.severity == "error" for problem in found):
            return case
        raw_id = document.at(("id",))
        return BrokenCase(raw_id if isinstance(raw_id, str) and raw_id else fallback, found, location)


class JoinedCases(Struct, frozen=True):
    """A chain of several sources. A case with a repeated id becomes a broken case that names both positions.

    `root` is the folder that the files in locations are relative to.
    """

    parts: tuple[CaseSource, ...]
    root: Path

    @property
    def count(self) -> int | None:
        """The total number of cases; None if that of a part is unknown."""
        counts = [part.count for part in self.parts]
        return None if None in counts else sum(count for count in counts if count is not None)

    def __iter__(self) -> Iterator[EvalCase | BrokenCase]:
        """Yield the cases of all parts; only a digest of each id stays in memory."""
        seen = DigestSet()
        for case in self._all():
            is_new = seen.add(case.id)
            yield case if is_new or isinstance(case, BrokenCase) else self._repeated(case)

    def _all(self) -> Iterator[EvalCase | BrokenCase]:
        return chain.from_iterable(self.parts)

    def _repeated(self, case: EvalCase) -> EvalCase | BrokenCase:
        """Return a broken case for a repeated id. The first position is searched only now, since repeats are rare."""
        location = case.location or Location("")
        first = next((earlier.location for earlier in self._all() if earlier.id == case.id), None)
        if first is None or first == location:  # another id had the same digest
            return case
        problem = repeated_id(case.id, location, first)
        return BrokenCase(case.id, (replace(problem, path=shown(self.root / location.path)),), location)


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
        allowed="ids must be unique in a suite",
    )
