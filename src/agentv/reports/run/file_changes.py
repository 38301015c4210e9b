"""What an agent changed in its workspace: the files and the diff of a stored answer, and their lines on a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from agentv.reports.text.amounts import count_text
from agentv.reports.text.printable import escaped, one_line
from agentv.reports.text.signs import Paint, Signs
from agentv.reports.text.width import fold, pad
from agentv.types.records.answer import Answer
from agentv.types.workspaces import ChangedFile

_FILE_START = "diff --git "
_MAX_LINE_CHARS = 2_000
_MAX_FILE_LINES = 40
_MAX_DIFF_LINES = 400

LineKind: TypeAlias = Literal["head", "hunk", "added", "removed", "same"]
_COLOURS: Mapping[LineKind, str] = {"head": "bold", "hunk": "dim", "added": "green", "removed": "red", "same": ""}


class DiffLine(Struct, frozen=True):
    """One line of a diff. Its text is safe to print, with its blanks, and cut after 2,000 characters."""

    kind: LineKind
    text: str


class FileDiff(Struct, frozen=True):
    """The part of a diff that is about one file."""

    lines: tuple[str, ...]

    def shown(self, max_lines: int | None) -> Iterator[DiffLine]:
        """Yield the first `max_lines` lines, None for all: the head of the file, then its hunks."""
        kind: LineKind = "head"
        for line in self.lines[:max_lines]:
            kind = _kind(line, kind)
            left_out = len(line) - _MAX_LINE_CHARS
            more = f"… {left_out:,} more characters" if left_out > 0 else ""
            yield DiffLine(kind, f"{escaped(line[:_MAX_LINE_CHARS])}{more}")

    def counts(self) -> tuple[int, int]:
        """Return the numbers of added and removed lines."""
        kinds = []
        kind: LineKind = "head"
        for line in self.lines:
            kind = _kind(line, kind)
            kinds.append(kind)
        return kinds.count("added"), kinds.count("removed")


def _kind(line: str, before: LineKind) -> LineKind:
    """Return the kind of a line. The `---` and `+++` of a file stand before its first hunk."""
    if line.startswith("@@"):
        return "hunk"
    if before == "head":
        return "head"
    return "added" if line.startswith("+") else "removed" if line.startswith("-") else "same"


class FileChanges(Struct, frozen=True):
    """The changed files of a workspace, the diff of each file, and its folder if that still exists."""

    files: tuple[ChangedFile, ...] = ()
    diffs: tuple[FileDiff, ...] = ()
    folder: str | None = None

    @classmethod
    def of(cls, answer: Answer | None) -> "FileChanges | None":
        """Return what an answer stores about its workspace; None without a workspace."""
        stored = None if answer is None else answer.workspace
        if stored is None:
            return None
        diff, path = stored.get("diff"), stored.get("path")
        return cls(
            files=tuple(_files(stored.get("changed"))),
            diffs=tuple(_split(diff)) if isinstance(diff, str) else (),
            folder=path if isinstance(path, str) and _may_exist(path) else None,
        )

    def pairs(self) -> Iterator[tuple[ChangedFile | None, FileDiff | None]]:
        """Yield each file with its diff, in the order of the list; each alone if they do not belong together."""
        if len(self.files) == len(self.diffs):
            yield from zip(self.files, self.diffs, strict=True)
        else:
            yield from ((each, None) for each in self.files)
            yield from ((None, each) for each in self.diffs)


def _may_exist(path: str) -> bool:
    """Return False for a folder that was not kept or was deleted; True for one of another machine, `node:path`."""
    folder = Path(path)
    return not folder.is_absolute() or folder.is_dir()


def _files(value: object) -> Iterator[ChangedFile]:
    """Yield the files of a list that another program may have changed; entries that are none are left out."""
    for each in value if isinstance(value, Sequence) and not isinstance(value, str) else ():
        try:
            yield msgspec.convert(each, ChangedFile)
        except msgspec.ValidationError:
            continue


def _split(diff: str) -> Iterator[FileDiff]:
    # Not `splitlines`, which also ends lines at characters that a file may contain.
    lines = diff.removesuffix("\n").split("\n")
    starts = [number for number, line in enumerate(lines) if line.startswith(_FILE_START)]
    for start, end in pairwise([*starts, len(lines)]):
        yield FileDiff(tuple(lines[start:end]))


def file_text(changed: ChangedFile, diff: FileDiff | None = None) -> str:
    """Return `src/total.py  +1 -1`: the path of a file, its old path, and how much changed."""
    path = f"{one_line(changed.before)} -> {one_line(changed.path)}" if changed.before else one_line(changed.path)
    added, removed = (0, 0) if diff is None else diff.counts()
    counts = [f"+{added:,}" if added else "", f"-{removed:,}" if removed else ""]
    size = "" if changed.bytes is None else f"binary, {count_text(changed.bytes, 'byte')}"
    return "  ".join(filter(None, (path, " ".join(filter(None, counts)), (size or "binary") if changed.binary else "")))


class ChangesText(Struct, frozen=True):
    """The layout of file changes as text."""

    width: int | None
    signs: Signs
    paint: Paint
    is_full: bool = False
    """True if long diffs are not cut."""
    rest_command: str = ""
    """The command that shows what is cut."""

    def files(self, changes: FileChanges) -> Iterator[str]:
        """Yield the list of the changed files; nothing if none changed."""
        if not changes.files:
            return
        yield self.paint(f"changed files: {len(changes.files):,}", "bold")
        for changed, diff in changes.pairs():
            if changed is not None:
                yield from self._behind_gutter(f"{pad(changed.status, 8)}  {file_text(changed, diff)}", "")

    def diff(self, changes: FileChanges) -> Iterator[str]:
        """Yield the lines of the diff in colours, with their blanks; of a long one the first lines of each file."""
        if not changes.diffs:
            return
        yield self.paint("diff", "bold")
        room, left_out = _MAX_DIFF_LINES, 0
        for diff in changes.diffs:
            shown = len(diff.lines) if self.is_full else min(len(diff.lines), _MAX_FILE_LINES, room)
            room -= shown
            left_out += len(diff.lines) - shown
            for line in diff.shown(shown):
                yield from self._behind_gutter(line.text, _COLOURS[line.kind])
            if shown and shown < len(diff.lines):
                yield from self._behind_gutter(f"({len(diff.lines) - shown:,} more lines of this file)", "dim")
        if left_out:
            yield f"{count_text(left_out, 'line')} not shown: {self.rest_command}"

    def _behind_gutter(self, text: str, colour: str) -> Iterator[str]:
        text = self.signs.escape_unsupported(text.expandtabs(4))
        for piece in [text] if self.width is None else fold(text, self.width - 2):
            yield f"{self.signs.gutter} {self.paint(piece, colour) if colour else piece}"
