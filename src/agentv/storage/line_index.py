"""Where the lines of a file begin, by a key that each has: eight bytes a line."""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path

from agentv.scoring.digests import digest_of

_BUCKETS = 1024
_PLACE_BITS = 40
_PLACE = (1 << _PLACE_BITS) - 1


class LineIndex:
    """Finds a line by its key, in files up to 1 TiB whose lines stay as they are.

    Of each line it keeps its place and 34 bits of a digest of its key (ten of them by the bucket it is in). What it
    finds it reads, and `key_of` tells whether that is what was looked for: keys that share a digest are not confused.
    """

    def __init__(self, path: Path, key_of: Callable[[bytes], str]) -> None:
        path.touch(mode=0o600)
        self._file = path.open("rb")
        self._key_of = key_of
        self._buckets = [array("Q") for _ in range(_BUCKETS)]

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def put(self, key: str, at: int) -> None:
        """Remember that the line with `key` begins at byte `at`, in place of an earlier line with that key."""
        bucket, tag = self._bucket(key)
        place, _ = self._find(key, bucket, tag)
        if place is not None:
            bucket.pop(place)
        bucket.insert(bisect_left(bucket, tag | at), tag | at)

    def get(self, key: str) -> bytes | None:
        """Return the line with a key, None when there is none."""
        return self._find(key, *self._bucket(key))[1]

    def pop(self, key: str) -> bytes | None:
        """Return the line with a key and forget it."""
        bucket, tag = self._bucket(key)
        place, line = self._find(key, bucket, tag)
        if place is not None:
            bucket.pop(place)
        return line

    def lines(self) -> Iterator[bytes]:
        """Yield all lines that are remembered, in the order of the file."""
        for at in sorted(word & _PLACE for bucket in self._buckets for word in bucket):
            yield self._line(at)

    def _bucket(self, key: str) -> "tuple[array[int], int]":
        """Return where a key is kept, and the upper bits of its entry."""
        digest = digest_of(key)
        return self._buckets[digest % _BUCKETS], digest >> _PLACE_BITS << _PLACE_BITS

    def _find(self, key: str, bucket: "array[int]", tag: int) -> tuple[int | None, bytes | None]:
        """Return the place in the bucket and the line of a key."""
        for place in range(bisect_left(bucket, tag), len(bucket)):
            if bucket[place] & ~_PLACE != tag:
                break
            line = self._line(bucket[place] & _PLACE)
            if self._key_of(line) == key:
                return place, line
        return None, None

    def _line(self, at: int) -> bytes:
        self._file.seek(at)
        return self._file.readline()
