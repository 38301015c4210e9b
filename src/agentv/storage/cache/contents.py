"""List and clear the caches of a project."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from agentv.storage.cache.answers import ANSWER_SUFFIX, ANSWERS_FOLDER, read_head
from agentv.storage.cache.embeddings import EMBEDDINGS_FOLDER, VECTOR_SUFFIX
from agentv.storage.cache.folder import CacheFile, CacheFolder

ANSWERS, EMBEDDINGS = "answers", "embeddings"


class CacheEntry(Struct, frozen=True):
    """One file of a cache."""

    kind: str
    file: CacheFile
    at: datetime
    """The time of its answer, or of the last use of a file that does not record a time."""
    target: str | None = None
    """None if it is not recorded: for embeddings and for foreign files."""


class CacheGroup(Struct):
    """The files of one kind and target: number, bytes, oldest time and time of last use."""

    kind: str
    target: str | None
    count: int
    size: int
    oldest: datetime
    used: datetime


def cache_entries(home: Path) -> Iterator[CacheEntry]:
    """Yield all entries of the caches of a `.agentv` folder."""
    for file in CacheFolder(home / ANSWERS_FOLDER, ANSWER_SUFFIX).files():
        head = read_head(file)
        if head is None:
            yield CacheEntry(ANSWERS, file, _last_use(file))
        else:
            yield CacheEntry(ANSWERS, file, datetime.fromisoformat(str(head["at"])), str(head.get("target", "")))
    for file in CacheFolder(home / EMBEDDINGS_FOLDER, VECTOR_SUFFIX).files():
        yield CacheEntry(EMBEDDINGS, file, _last_use(file))


def cache_groups(entries: Iterable[CacheEntry]) -> tuple[CacheGroup, ...]:
    """Group entries by kind and target, sorted by both."""
    groups: dict[tuple[str, str], CacheGroup] = {}
    for entry in entries:
        used = _last_use(entry.file)
        empty = CacheGroup(kind=entry.kind, target=entry.target, count=0, size=0, oldest=entry.at, used=used)
        group = groups.setdefault((entry.kind, entry.target or ""), empty)
        group.count += 1
        group.size += entry.file.size
        group.oldest = min(group.oldest, entry.at)
        group.used = max(group.used, used)
    return tuple(groups[key] for key in sorted(groups))


def clear_entries(entries: Iterable[CacheEntry]) -> tuple[int, int]:
    """Delete entries; return the number of deleted files and their size in bytes."""
    deleted_sizes = [entry.file.size for entry in entries if entry.file.remove()]
    return len(deleted_sizes), sum(deleted_sizes)


def _last_use(file: CacheFile) -> datetime:
    return datetime.fromtimestamp(file.used_at, UTC)
