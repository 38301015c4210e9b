"""Files attached to messages: found, checked, read, and classified as text, binary or guideline."""

import functools
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from agentv.loading.files.path_guard import FileProblemError, PathGuard
from agentv.loading.files.places import upward
from agentv.types.errors import nearest
from agentv.types.messages import FilePart

if TYPE_CHECKING:
    from mimetypes import MimeTypes

_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")


def matches_any(path: str, patterns: Iterable[str]) -> bool:
    """Return True if a whole relative path with `/` matches one of the patterns."""
    return any(_matches(path, _tokens(pattern)) for pattern in patterns)


@cache
def _tokens(pattern: str) -> tuple[str, ...]:
    return tuple(_TOKEN.findall(pattern.replace("\\", "/").removeprefix("./").removeprefix("/")))


def _matches(path: str, tokens: tuple[str, ...]) -> bool:
    """Return True if the tokens match the whole path.

    All positions where the tokens so far may end are followed at once; a regular expression with many `**` would take
    exponential time.
    """
    ends = {0}
    for token in tokens:
        ends = {end for start in ends for end in _token_ends(path, start, token)}
    return len(path) in ends


def _token_ends(path: str, start: int, token: str) -> Iterable[int]:
    """Return the positions where a token that begins at `start` may end."""
    match token:
        case "**/":
            folders = (index + 1 for index in range(start + 1, len(path)) if path[index] == "/")
            return (start, *folders)
        case "**":
            return range(start, len(path) + 1)
        case "*":
            end = path.find("/", start)
            return range(start, (len(path) if end < 0 else end) + 1)
        case "?":
            return (start + 1,) if path[start : start + 1] not in ("", "/") else ()
        case _:
            return (start + len(token),) if path.startswith(token, start) else ()


_BINARY_FAMILIES = ("image/", "audio/", "video/", "font/")
_BINARY_TYPES = frozenset({"application/pdf", "application/zip", "application/gzip", "application/octet-stream"})
_TEXT_TYPES = frozenset({"image/svg+xml"})
_SNIFFED_BYTES = 8192
_CACHED_FILES = 256


class FileFinder(Struct, frozen=True):
    """A reader of the files that one suite names.

    A path is tried in the eval file's folder, in its parents up to the repository root, in the root, and in the working
    directory.
    """

    base_dir: Path
    repository_root: Path
    cwd: Path
    guard: PathGuard
    """Only regular files that it admits are read."""
    guideline_patterns: tuple[str, ...] = ()
    _cache: dict[str, FilePart] = field(default_factory=dict)

    def attach(self, raw_path: str) -> FilePart:
        """Return the file that `raw_path` names. Raises FileProblemError."""
        if raw_path not in self._cache:
            if len(self._cache) >= _CACHED_FILES:
                self._cache.clear()
            self._cache[raw_path] = self._read(raw_path, self.find(raw_path))
        return self._cache[raw_path]

    def find(self, raw_path: str) -> Path:
        """Return the real path of the file that `raw_path` names. Raises FileProblemError."""
        outside: Path | None = None
        for candidate in self._candidates(raw_path):
            try:
                real = candidate.resolve()
                mode = real.stat().st_mode
            except (OSError, ValueError, RuntimeError):
                continue
            if not self.guard.admits(real):
                outside = outside or real
            elif not stat.S_ISREG(mode):
                raise FileProblemError(f"{raw_path!r} is not a regular file")
            else:
                return real
        if outside is not None:
            raise self.guard.refusal(outside, raw_path)
        raise self._missing(raw_path)

    def _roots(self) -> Iterator[Path]:
        yield from upward(self.base_dir, self.repository_root)
        yield self.repository_root
        yield self.cwd

    def _candidates(self, raw_path: str) -> Iterator[Path]:
        if raw_path.startswith("/"):
            yield Path(raw_path)
        for root in self._roots():
            yield root / raw_path.lstrip("/")

    def _missing(self, raw_path: str) -> FileProblemError:
        searched = ", ".join(str(root) for root in dict.fromkeys(self._roots()))
        folder = (self.base_dir / raw_path.lstrip("/")).parent
        siblings = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
        name = nearest(Path(raw_path).name, siblings)
        near = os.path.join(os.path.dirname(raw_path), name) if name else None  # noqa: PTH118, PTH120 - keeps "./"
        return FileProblemError(
            f"the file {raw_path!r} does not exist", allowed=f"searched in {searched}", suggestion=near
        )

    def _read(self, raw_path: str, real: Path) -> FilePart:
        try:
            data = real.read_bytes()
        except OSError as error:
            raise FileProblemError(f"{raw_path!r} cannot be read: {error.strerror}") from None
        media_type, _ = _media_types().guess_type(real.name)
        text = None if _is_binary(data, media_type) else _decoded_text(data, raw_path)
        return FilePart(
            path=raw_path,
            real_path=str(real),
            text=text,
            sha256=hashlib.sha256(data).hexdigest(),
            size=len(data),
            media_type=media_type or ("application/octet-stream" if text is None else "text/plain"),
            is_guideline=self.is_guideline(real),
        )

    def is_guideline(self, real: Path) -> bool:
        """Return True if a file matches a guideline pattern, relative to the repository root."""
        is_inside = real.is_relative_to(self.repository_root)
        relative = real.relative_to(self.repository_root).as_posix() if is_inside else real.as_posix().lstrip("/")
        return matches_any(relative, self.guideline_patterns)


def _is_binary(data: bytes, media_type: str | None) -> bool:
    if b"\x00" in data[:_SNIFFED_BYTES]:
        return True
    if media_type is None or media_type in _TEXT_TYPES:
        return False
    return media_type.startswith(_BINARY_FAMILIES) or media_type in _BINARY_TYPES


def _decoded_text(data: bytes, raw_path: str) -> str:
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        message = f"{raw_path!r} is not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}"
        raise FileProblemError(message, allowed="save it as UTF-8") from None


@functools.cache
def _media_types() -> "MimeTypes":
    """Return Python's MIME types, loaded with the first file, since this reads the lists of the system."""
    from mimetypes import MimeTypes  # noqa: PLC0415 - loaded with the first file

    return MimeTypes()
