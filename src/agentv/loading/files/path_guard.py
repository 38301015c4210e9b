"""The folders that the files named by an eval file must lie in, and the search for files by pattern inside them."""

import os
import shlex
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

from agentv.loading.files.kinds import YAML_SUFFIXES
from agentv.loading.files.places import HOME_FOLDER, find_repository_root, upward_in_project

MAX_ENTRIES = 100_000
"""The maximum number of files and folders that the search for one pattern may visit."""

_WILDCARDS = frozenset("*?[")


class FileProblemError(Exception):
    """An error for a file that cannot be used; `allowed` and `suggestion` complete the message."""

    def __init__(self, message: str, *, allowed: str | None = None, suggestion: str | None = None) -> None:
        self.message, self.allowed, self.suggestion = message, allowed, suggestion
        super().__init__(message)


class PathGuard(Struct, frozen=True):
    """The root that the files of an eval file must lie in, and the folders that `--allow-path` adds; all real paths."""

    root: Path
    allowed: tuple[Path, ...] = ()

    def admits(self, real: Path) -> bool:
        """Return True if a path, with its links resolved, lies in one of the folders."""
        return any(real.is_relative_to(folder) for folder in (self.root, *self.allowed))

    def admits_path(self, path: Path) -> bool:
        """Return True if a path does not lead outside, or cannot be resolved: then it cannot be read either."""
        try:
            return self.admits(path.resolve())
        except (OSError, ValueError, RuntimeError):
            return True

    def check(self, path: Path, written: str) -> None:
        """Raise FileProblemError if a path leads outside."""
        if not self.admits_path(path):
            raise self.refusal(path.resolve(), written)

    def refusal(self, real: Path, written: str) -> FileProblemError:
        """Return the error for a path that leads outside, with the option that would allow it."""
        folder = shlex.quote(str(real if real.is_dir() else real.parent))
        return FileProblemError(
            f"{written!r} leads outside of {self.root}, to {real}",
            allowed=f"if that is intended, allow it with --allow-path {folder}",
        )


def guard_for(folder: Path, *, cwd: Path, allow_paths: Sequence[str] = ()) -> PathGuard:
    """Return the guard of an eval file in `folder`; `allow_paths` are relative to `cwd`.

    The root is the nearest folder upward that has `.git` or `.agentv`, else `cwd` if it contains the folder, else the
    folder. `~/.agentv`, which holds the workspaces of editors, does not make a whole home folder a root.
    """
    folder, cwd = folder.resolve(), cwd.resolve()
    allowed = tuple(Path(cwd, path).expanduser().resolve() for path in allow_paths)
    for place in upward_in_project(folder, find_repository_root(folder)):
        if (place / ".git").exists() or ((place / HOME_FOLDER).is_dir() and place != _home()):
            return PathGuard(place, allowed)
    return PathGuard(cwd if folder.is_relative_to(cwd) else folder, allowed)


def _home() -> Path | None:
    try:
        return Path.home().resolve()
    except RuntimeError:
        return None


def case_files(folder: Path, written: str, guard: PathGuard) -> list[Path]:
    """Return the files `NAME/case.yaml` and `NAME/case.yml` in a folder, sorted. Raises FileProblemError outside."""
    guard.check(folder, written)
    found = sorted(path for suffix in YAML_SUFFIXES for path in folder.glob(f"*/case{suffix}"))
    for path in found:
        guard.check(path, str(path))
    return found


def is_pattern(written: str) -> bool:
    """Return True if a text names files by a pattern."""
    return "*" in written


def find_matching(pattern: str, base: Path, guard: PathGuard, *, limit: int = MAX_ENTRIES) -> list[Path]:
    """Return the files that match a pattern relative to `base`, sorted; `**` stands for any number of folders.

    Wildcards do not follow links to folders. Raises FileProblemError for a pattern that is absolute or leads
    outside, for a match outside, and when the search visits more than `limit` files and folders.
    """
    parts = [part for part in pattern.replace("\\", "/").split("/") if part not in ("", ".")]
    if pattern.startswith(("/", "\\", "~")) or Path(pattern).is_absolute():
        raise FileProblemError(f"the pattern {pattern!r} must not be absolute", allowed=f"write it relative to {base}")
    first_wildcard = next(index for index, part in enumerate(parts) if _WILDCARDS & set(part))
    if ".." in parts[first_wildcard:]:
        raise FileProblemError(f"the pattern {pattern!r} has '..' after a wildcard", allowed="put '..' at its start")
    try:
        top = base.joinpath(*parts[:first_wildcard]).resolve()
        guard.check(top, pattern)
        found = sorted(_walk(top, parts[first_wildcard:], pattern, limit))
    except (OSError, ValueError, RuntimeError) as error:
        raise FileProblemError(f"the pattern {pattern!r} cannot be searched: {error}") from error
    for path in found:
        guard.check(path, str(path))
    return found


def _walk(top: Path, parts: Sequence[str], pattern: str, limit: int) -> Iterator[Path]:
    """Yield the files under `top` that match.

    Each folder is visited once, with its positions: the indices of the parts that its entries may match.
    """
    waiting = [(top, _with_skipped_wildcards(frozenset({0}), parts))]
    count = 0
    while waiting:
        folder, positions = waiting.pop()
        if not folder.is_dir():
            continue
        with os.scandir(folder) as entries:
            for entry in entries:
                count += 1
                if count > limit:
                    raise FileProblemError(
                        f"the pattern {pattern!r} makes the search visit more than {limit:,} files and folders "
                        f"under {top}",
                        allowed="name a folder closer to the files",
                    )
                reached = _positions_after(entry.name, positions, parts)
                if entry.is_dir(follow_symlinks=False):
                    if any(position < len(parts) for position in reached):
                        waiting.append((folder / entry.name, reached))
                elif len(parts) in reached and entry.is_file():
                    yield folder / entry.name


def _positions_after(name: str, positions: frozenset[int], parts: Sequence[str]) -> frozenset[int]:
    """Return the positions after an entry called `name`, with `len(parts)` among them if the whole pattern matches."""
    reached = {
        position + (parts[position] != "**")
        for position in positions
        if position < len(parts) and (parts[position] == "**" or fnmatchcase(name, parts[position]))
    }
    return _with_skipped_wildcards(frozenset(reached), parts)


def _with_skipped_wildcards(positions: frozenset[int], parts: Sequence[str]) -> frozenset[int]:
    """Add the position after each `**`, since `**` may stand for no folder."""
    reached = set(positions)
    for position in range(len(parts)):
        if position in reached and parts[position] == "**":
            reached.add(position + 1)
    return frozenset(reached)
