"""A workspace for one result: a copy of the source to work in, and the changes made there (docs/how-to/workspaces.md).

The agent's repository is not consulted: its commits, ignore rules and configuration have no effect here.

async with open_workspace(config, name="refunds-7", base_dir=…, home=…, shared=…) as workspace:
    …                                    # an agent works in workspace.path
    captured = await workspace.capture() # then the answer is evaluated
    notes = await workspace.finish(failed=False)
"""

import hashlib
import os
import re
import threading
from array import array
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agentv.execution.folder_trees import (
    Entries,
    Entry,
    copy_file,
    copy_tree,
    find_keys,
    open_beneath,
    read_link,
    remove_tree,
    scan,
)
from agentv.execution.processes.process import Command, run_process
from agentv.execution.processes.tree import finish
from agentv.execution.workspaces.sources import WITHOUT_GIT_VARIABLES, Source, get_source, in_thread, new_folder
from agentv.types.failures import Failure
from agentv.types.protocols import SharedParts
from agentv.types.provider import ProviderError
from agentv.types.workspaces import ChangedFile, WorkspaceChanges, WorkspaceConfig

CONTEXT_LINES = 3
MAX_STEPS = 2_000_000
"""The maximum number of line comparisons for one pair of texts, about a second."""


class ComparisonBudget(Struct):
    """The remaining number of line comparisons for several pairs of texts together."""

    steps: int = 5 * MAX_STEPS


class _Edit(Struct, frozen=True):
    """Lines `old[old_start:old_end]` became `new[new_start:new_end]`; one of the two may be empty."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def unified_hunks(old: str, new: str, budget: ComparisonBudget | None = None) -> str:
    """Return the hunks that turn `old` into `new`, "" if they are equal; only LF ends a line."""
    old_lines, new_lines = _lines(old), _lines(new)
    edits = _edits(old_lines, new_lines, budget or ComparisonBudget())
    return "".join(_hunk(group, old_lines, new_lines) for group in _grouped(edits))


def _lines(text: str) -> list[str]:
    """Return the lines with their line ends, which the last line may lack."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _edits(old: Sequence[str], new: Sequence[str], budget: ComparisonBudget) -> list[_Edit]:
    """Return the edits in order; common lines at both ends are skipped."""
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    tail = next((at for at in range(shorter - head) if old[-1 - at] != new[-1 - at]), shorter - head)
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    if not middle_old and not middle_new:
        return []
    matches = _matches(middle_old, middle_new, budget)
    edits, at_old, at_new = [], 0, 0
    for match_old, match_new, length in [*matches, (len(middle_old), len(middle_new), 0)]:
        if match_old > at_old or match_new > at_new:
            edits.append(_Edit(head + at_old, head + match_old, head + at_new, head + match_new))
        at_old, at_new = match_old + length, match_new + length
    return edits


def _matches(old: Sequence[str], new: Sequence[str], budget: ComparisonBudget) -> list[tuple[int, int, int]]:
    """Return runs of equal lines as (index in old, index in new, length), in order; none if it takes too long.

    This is Myers' algorithm. Row n of `rows` holds the furthest index in `old` that n edits reach on each diagonal
    (index in old - index in new) from -n to n, of which only every other is reachable.
    """
    rows: list[array[int]] = []
    min_steps_left = budget.steps - min(budget.steps, MAX_STEPS)
    for count in range(len(old) + len(new) + 1):
        row = array("i")
        for diagonal in range(-count, count + 1, 2):
            at, _ = _entered(rows, count, diagonal)
            begun = at
            while at < len(old) and at - diagonal < len(new) and old[at] == new[at - diagonal]:
                at += 1
            row.append(at)
            budget.steps -= 1 + at - begun
            if at >= len(old) and at - diagonal >= len(new):
                return _walked_back(rows, count, len(old), len(new))
        rows.append(row)
        if budget.steps <= min_steps_left:
            break
    return []


def _entered(rows: Sequence["array[int]"], count: int, diagonal: int) -> tuple[int, int]:
    """Return the index at which edit number `count` enters a diagonal, and the diagonal it comes from.

    The edit is an added line (from the diagonal above) or a removed one, whichever gets further.
    """
    if count == 0:
        return 0, 0
    row, left = rows[count - 1], (diagonal + count) // 2 - 1
    added = row[left + 1] if left + 1 < count else -1
    removed = row[left] + 1 if left >= 0 else -1
    return (added, diagonal + 1) if added >= removed else (removed, diagonal - 1)


def _walked_back(rows: Sequence["array[int]"], count: int, at_old: int, at_new: int) -> list[tuple[int, int, int]]:
    """Return the matches on the path of `count` edits that ends at these indexes, in order."""
    matches = []
    while True:
        diagonal = at_old - at_new
        start, came_from = _entered(rows, count, diagonal)
        if at_old > start:
            matches.append((start, start - diagonal, at_old - start))
        if count == 0:
            return matches[::-1]
        at_old = start if came_from > diagonal else start - 1
        at_new = at_old - came_from
        count -= 1


def _grouped(edits: Sequence[_Edit]) -> Iterator[list[_Edit]]:
    """Yield groups of edits whose context lines would touch."""
    group: list[_Edit] = []
    for edit in edits:
        if group and edit.old_start - group[-1].old_end > 2 * CONTEXT_LINES:
            yield group
            group = []
        group.append(edit)
    if group:
        yield group


def _hunk(group: Sequence[_Edit], old: Sequence[str], new: Sequence[str]) -> str:
    before = min(CONTEXT_LINES, group[0].old_start)
    after = min(CONTEXT_LINES, len(old) - group[-1].old_end)
    old_start, old_end = group[0].old_start - before, group[-1].old_end + after
    new_start, new_end = group[0].new_start - before, group[-1].new_end + after
    lines = [f"@@ -{_range(old_start, old_end)} +{_range(new_start, new_end)} @@\n"]
    at = old_start
    for edit in group:
        lines += [_line(" ", line) for line in old[at : edit.old_start]]
        lines += [_line("-", line) for line in old[edit.old_start : edit.old_end]]
        lines += [_line("+", line) for line in new[edit.new_start : edit.new_end]]
        at = edit.old_end
    lines += [_line(" ", line) for line in old[at:old_end]]
    return "".join(lines)


def _range(start: int, end: int) -> str:
    """Return a range of lines as in a hunk header, from 1; an empty range has the number of the line before it."""
    count = end - start
    first = start + 1 if count else start
    return str(first) if count == 1 else f"{first},{count}"


def _line(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"


MAX_TEXT_BYTES = 2**20
"""A file larger than this is named in the diff without its changes."""

MAX_DIFF_CHARS = 2**20
MAX_CHANGED = 2_000
_BINARY_CHECK_BYTES = 8_000
_CHUNK = 2**18

FindRoot = Callable[[str], Path]
"""Returns the folder that holds the file at a path, as it was at the time of a snapshot."""


class FolderSnapshot(Struct, frozen=True):
    """A scanned folder."""

    entries: Entries
    root_of: FindRoot
    """Returns the folder from which the bytes of a path can be read."""

    def read(self, path: str, max_bytes: int) -> bytes | None:
        """Return the first bytes of a file, or the target of a link; None if it cannot be read."""
        root = self.root_of(path)
        if self.entries[path].is_link:
            try:
                return os.fsencode(read_link(root / path))
            except OSError:
                return None
        descriptor = open_beneath(root, path)
        if descriptor is None:
            return None
        with os.fdopen(descriptor, "rb") as file:
            return file.read(max_bytes)

    def digest(self, path: str) -> bytes | None:
        """Return the SHA-256 of a file's content; None for links and unreadable files."""
        descriptor = None if self.entries[path].is_link else open_beneath(self.root_of(path), path)
        if descriptor is None:
            return None
        with os.fdopen(descriptor, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()


class Change(Struct, frozen=True):
    """One changed path."""

    path: str
    old_path: str
    """Differs from `path` if it was renamed."""
    old: Entry | None
    """None if the path was added."""
    new: Entry | None
    """None if the path was deleted."""

    @property
    def sides(self) -> tuple[str, str]:
        """The names of the two versions in a diff."""
        old = _quoted(f"a/{self.old_path}") if self.old else "/dev/null"
        return old, _quoted(f"b/{self.path}") if self.new else "/dev/null"


def find_changes(before: FolderSnapshot, after: FolderSnapshot) -> list[Change]:
    """Return the changes in order of paths. A file that was only moved is one change."""
    changes = []
    for path in sorted({*before.entries, *after.entries}):
        old, new = before.entries.get(path), after.entries.get(path)
        if old and new and old.is_link != new.is_link:
            changes += [Change(path, path, old, None), Change(path, path, None, new)]
        elif old is None or new is None or not _is_same(path, before, after):
            changes.append(Change(path, path, old, new))
    return _with_renames(changes, before, after)


def _is_same(path: str, before: FolderSnapshot, after: FolderSnapshot) -> bool:
    old, new = before.entries[path], after.entries[path]
    if old.git_mode != new.git_mode or old.size != new.size:
        return False
    if old.stamp == new.stamp and not old.is_racy:
        return True
    if old.is_link:
        return before.read(path, _CHUNK) == after.read(path, _CHUNK)
    return before.digest(path) == after.digest(path)


def _with_renames(changes: Sequence[Change], before: FolderSnapshot, after: FolderSnapshot) -> list[Change]:
    """Combine each deleted file with an added one of the same content, if there is one."""
    sizes = {change.new.size for change in changes if change.old is None and change.new is not None}
    deleted: dict[bytes, list[Change]] = {}  # by digest of the content
    for change in changes:
        if change.new is None and change.old is not None and change.old.size in sizes and change.old.size:
            digest = before.digest(change.path)
            if digest is not None:
                deleted.setdefault(digest, []).append(change)
    combined, renamed = [], set()
    for change in changes:
        same_content = deleted.get(after.digest(change.path) or b"") if deleted and change.old is None else None
        if same_content:
            source = same_content.pop(0)
            renamed.add(source.path)
            combined.append(replace(change, old_path=source.path, old=source.old))
        else:
            combined.append(change)
    return [change for change in combined if not (change.new is None and change.path in renamed)]


def capture(changes: Sequence[Change], before: FolderSnapshot, after: FolderSnapshot) -> WorkspaceChanges:
    """Return changes as they are stored: a list of the first 2,000, and a diff of up to 1 MiB."""
    diff = _Diff(before, after)
    changed = tuple(diff.add(change) for change in changes[:MAX_CHANGED])
    unlisted = len(changes) - len(changed)
    notes = [f"{unlisted} more changed files are not listed"] if unlisted else []
    if diff.left_out + unlisted:
        notes.append(f"the diff is too large: {diff.left_out + unlisted} of {len(changes)} changed files are left out")
        diff.parts.append(f"# {notes[-1]}\n")
    return WorkspaceChanges("".join(diff.parts), changed, tuple(notes))


class _Diff:
    """A diff that is built file by file. `left_out` counts the files that do not fit."""

    def __init__(self, before: FolderSnapshot, after: FolderSnapshot) -> None:
        self.parts: list[str] = []
        self.left_out = 0
        self._before = before
        self._after = after
        self._room = MAX_DIFF_CHARS
        self._budget = ComparisonBudget()

    def add(self, change: Change) -> ChangedFile:
        """Append one file's diff if there is room, and return its list entry."""
        max_bytes = MAX_TEXT_BYTES + 1 if self._room else _BINARY_CHECK_BYTES
        old = self._before.read(change.old_path, max_bytes) if change.old else b""
        new = self._after.read(change.path, max_bytes) if change.new else b""
        binary = any(b"\0" in (content or b"")[:_BINARY_CHECK_BYTES] for content in (old, new))
        if self._room:
            self._append(change, old, new, binary=binary)
        else:
            self.left_out += 1
        return _listed(change, binary=binary)

    def _append(self, change: Change, old: bytes | None, new: bytes | None, *, binary: bool) -> None:
        head = _head(change)
        body = self._body(change, old, new, binary=binary)
        if len(head) + len(body) > self._room:
            body = _without_hunks(change, "differ; too large to show")
        if len(head) + len(body) > self._room:
            self._room = 0
            self.left_out += 1
            return
        self.parts.append(head + body)
        self._room -= len(head) + len(body)

    def _body(self, change: Change, old: bytes | None, new: bytes | None, *, binary: bool) -> str:
        if old is None or new is None:
            return _without_hunks(change, "differ; they cannot be read")
        if old == new and len(old) <= MAX_TEXT_BYTES:
            return ""
        if binary:
            return _without_hunks(change, "differ", binary=True)
        if max(len(old), len(new)) > MAX_TEXT_BYTES:
            return _without_hunks(change, "differ; too large to show")
        hunks = unified_hunks(old.decode(errors="replace"), new.decode(errors="replace"), self._budget)
        return "--- {}\n+++ {}\n".format(*change.sides) + hunks


def _listed(change: Change, *, binary: bool) -> ChangedFile:
    if change.new is None:
        return ChangedFile(change.path, "deleted", binary=binary)
    if change.old is None:
        return ChangedFile(change.path, "added", change.new.size, binary=binary)
    if change.old_path != change.path:
        return ChangedFile(
            path=change.path, status="renamed", bytes=change.new.size, before=change.old_path, binary=binary
        )
    return ChangedFile(change.path, "modified", change.new.size, binary=binary)


def _head(change: Change) -> str:
    lines = [f"diff --git {_quoted(f'a/{change.old_path}')} {_quoted(f'b/{change.path}')}"]
    if change.old is None and change.new is not None:
        lines.append(f"new file mode {change.new.git_mode}")
    elif change.new is None and change.old is not None:
        lines.append(f"deleted file mode {change.old.git_mode}")
    elif change.old and change.new and change.old.git_mode != change.new.git_mode:
        lines += [f"old mode {change.old.git_mode}", f"new mode {change.new.git_mode}"]
    if change.old_path != change.path:
        lines += ["similarity index 100%", f"rename from {_quoted(change.old_path)}"]
        lines += [f"rename to {_quoted(change.path)}"]
    return "".join(f"{line}\n" for line in lines)


def _without_hunks(change: Change, what: str, *, binary: bool = False) -> str:
    return f"{'Binary files' if binary else 'Files'} {' and '.join(change.sides)} {what}\n"


def _quoted(path: str) -> str:
    """Return a path as git writes it: an ambiguous one is quoted, with escapes."""
    if path.isprintable() and not set(path) & set('"\\'):
        return path
    escaped = (
        char if char.isprintable() and char not in '"\\' else "".join(f"\\{byte:03o}" for byte in os.fsencode(char))
        for char in path
    )
    return f'"{"".join(escaped)}"'


WORK = "work"
"""The folder of a workspace in its temporary folder, which has files of ours besides."""
COMMAND_TIMEOUT_S = 600.0
"""The timeout of `setup` and of `teardown`."""

_NAME_LENGTH = 100
_OUTPUT_TAIL = 2_000


@asynccontextmanager
async def open_workspace(
    config: WorkspaceConfig, *, name: str, base_dir: Path, home: Path, shared: SharedParts, machine: str = ""
) -> AsyncIterator["Workspace"]:
    """Make a workspace, set it up, and remove it at the end of the block or save it in `home`/workspaces.

    A saved workspace is named after `name`; `machine` is the cluster node on which it is saved. A block that ends
    before `finish` counts as failed. Raises ProviderError: `config_error`, `target_missing` (git), `target_exit` or
    `target_timeout` (setup).
    """
    source = await get_source(config, base_dir=base_dir, home=home, shared=shared)
    place = new_folder()
    workspace = Workspace(config, source, place, home / "workspaces" / _saved_name(name, place), machine)
    try:
        await workspace.set_up()
        yield workspace
    finally:
        await finish(workspace.close())


@asynccontextmanager
async def open_kept_workspace(config: WorkspaceConfig, place: Path, *, saved_path: Path) -> AsyncIterator["Workspace"]:
    """Open the workspace of an answer that was not scored yet, kept in `place`; it ends like that of a new answer."""
    folder = place / WORK
    keys = await in_thread(lambda _: find_keys(folder, scan(folder)))
    workspace = Workspace(config, Source(folder, scratch=place, keys=keys), place, saved_path, machine="")
    try:
        yield workspace
    finally:
        await finish(workspace.close())


def _saved_name(name: str, place: Path) -> str:
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:_NAME_LENGTH]
    return f"{plain or 'row'}-{place.name.rpartition('-')[2]}"


class Workspace:
    """The workspace of one result. The agent works in `path`.

    `saved_path` is where the workspace may be saved, None with `keep: never`. `place` is the temporary folder that
    holds `path` and copies of the files that `setup` made.
    """

    def __init__(self, config: WorkspaceConfig, source: Source, place: Path, saved_path: Path, machine: str) -> None:
        self.path = place / WORK
        self.saved_path = None if config.keep == "never" else saved_path
        self._machine = machine
        self._config = config
        self._source = source
        self.keys = source.keys
        """The keys of well-known services in the files that the agent finds, to be redacted in its output."""
        self._place = place
        self._before = FolderSnapshot({}, lambda _: source.folder)
        self._unscored_place: Path | None = None
        self._is_torn_down = False
        self._is_finished = False

    @property
    def source_notes(self) -> tuple[str, ...]:
        """What the source does not have."""
        return self._source.notes

    @property
    def saved_location(self) -> str:
        """Where messages say that the workspace is saved: its path, or `node:path` on a cluster node."""
        return f"{self._machine}:{self.saved_path}" if self._machine else str(self.saved_path)

    async def set_up(self) -> None:
        """Copy the source and run `setup`, whose changes are not captured."""
        try:
            copied = await in_thread(self._copy)
        except OSError as error:
            raise ProviderError(
                Failure("config_error", f"workspace: the source could not be copied: {error}")
            ) from error
        self._before = FolderSnapshot(copied, lambda _: self._source.folder)
        if self._config.setup is None:
            return
        failure = await self._run(self._config.setup, "setup")
        if failure is not None:
            raise ProviderError(failure)
        self._before = await self._snapshot_after_setup()

    async def reset(self) -> None:
        """Remove everything and set up again, including `setup`, for instance before a second attempt.

        Raises the errors of `set_up`. Does not run `teardown`.
        """
        leftovers = (self.path, self._place / "set-up")
        if not await in_thread(lambda _: all(remove_tree(folder) for folder in leftovers)):
            raise ProviderError(Failure("config_error", f"workspace: {self.path} could not be emptied"))
        await self.set_up()

    def _copy(self, stop: threading.Event) -> Entries:
        copy_tree(self._source.folder, self.path, stop)
        return scan(self.path)

    async def _snapshot_after_setup(self) -> FolderSnapshot:
        """Return a snapshot after `setup`, with copies of the files it created or changed."""
        now = await self._snapshot()
        changes = await in_thread(lambda _: find_changes(self._before, now))
        made = frozenset(change.path for change in changes if change.new is not None)
        folder = self._place / "set-up"

        def save(_: threading.Event) -> None:
            for path in made:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                copy_file(self.path / path, folder / path)

        await in_thread(save)
        self.keys |= await in_thread(lambda _: find_keys(folder, made))
        return FolderSnapshot(now.entries, lambda path: folder if path in made else self._source.folder)

    async def _snapshot(self) -> FolderSnapshot:
        """Return a snapshot without new files that the source's own `.gitignore` covers."""
        entries = await in_thread(lambda _: scan(self.path))
        ignored = await self._source.ignored(entries.keys() - self._before.entries.keys())
        return FolderSnapshot(
            {path: entry for path, entry in entries.items() if path not in ignored}, lambda _: self.path
        )

    async def capture(self) -> WorkspaceChanges:
        """Return the changes since the setup, regardless of commits made meanwhile."""
        now = await self._snapshot()
        return await in_thread(lambda _: capture(find_changes(self._before, now), self._before, now))

    async def finish(self, *, failed: bool) -> tuple[str, ...]:
        """Run `teardown`, then save or remove the workspace; return notes for the user.

        If it is cancelled, `close` completes it, except for a `teardown` that has begun.
        """
        notes = []
        if self._config.teardown is not None and self._exists() and not self._is_torn_down:
            self._is_torn_down = True
            failure = await self._run(self._config.teardown, "teardown")
            notes += [failure.message] if failure is not None else []
        if self._config.keep == "always" or (self._config.keep == "failed" and failed):
            notes += await in_thread(self._save)
        if not await in_thread(lambda _: remove_tree(self._place)):
            notes.append(f"workspace: {self._place} could not be removed")
        self._is_finished = True
        return tuple(notes)

    def keep_unscored(self, place: Path) -> Path:
        """Keep the workspace in `place` when it is closed, without `teardown`: its answer will be scored later.

        Return the path that it will have.
        """
        self._unscored_place = place
        return place / WORK

    async def close(self) -> None:
        """Finish as failed, unless `finish` completed or the answer is yet to be scored."""
        if self._is_finished:
            return
        if self._unscored_place is None or not self._exists():
            await self.finish(failed=True)
            return
        self._unscored_place.mkdir(parents=True, exist_ok=True)
        if self._unscored_place != self._place:
            await in_thread(partial(self._move, self._unscored_place / WORK))
            await in_thread(lambda _: remove_tree(self._place))
        self._is_finished = True

    def _exists(self) -> bool:
        """Return True if the folder still exists and was not replaced by a link."""
        return self.path.is_dir() and not self.path.is_symlink()

    def _save(self, stop: threading.Event) -> list[str]:
        if self.saved_path is None or not self._exists():
            return ["workspace: cannot be saved, its folder no longer exists"]
        try:
            self.saved_path.parent.mkdir(parents=True, exist_ok=True)
            self._move(self.saved_path, stop)
        except OSError as error:
            return [f"workspace: could not be saved to {self.saved_path}: {error}"]
        # With `keep: always` the answer already has the path; with `failed` it is known only after the evaluation.
        return [f"workspace: saved to {self.saved_location}"] if self._config.keep == "failed" else []

    def _move(self, destination: Path, stop: threading.Event) -> None:
        """Move the folder. Raises OSError if it can be neither renamed nor copied."""
        try:
            self.path.rename(destination)
        except OSError:  # another file system; a partial copy may exist
            remove_tree(destination)
            copy_tree(self.path, destination, stop)

    async def _run(self, script: str, key: str) -> Failure | None:
        """Run the shell command under `setup` or `teardown`; return its failure, or None on success."""
        command = Command(argv=(*WITHOUT_GIT_VARIABLES, "/bin/sh", "-c", script), cwd=str(self.path))
        try:
            outcome = await run_process(command, timeout_s=COMMAND_TIMEOUT_S)
        except (OSError, ValueError) as error:
            return Failure("config_error", f"workspace {key} could not be started: {error}")
        output = outcome.stderr.strip() or outcome.stdout[-_OUTPUT_TAIL:].decode(errors="replace").strip()
        output = f"; output:\n{output}" if output else ""
        if outcome.timed_out:
            message = f"workspace {key} took longer than {COMMAND_TIMEOUT_S:g} s and was ended{output}"
            return Failure("target_timeout", message)
        if outcome.too_large or outcome.exit_code != 0:
            what = "printed too much" if outcome.too_large else f"failed with exit code {outcome.exit_code}"
            return Failure("target_exit", f"workspace {key} {what}{output}", details={"exit_code": outcome.exit_code})
        return None
