"""Sets and maps of keys that take nine and seventeen bytes a key."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from hashlib import blake2b

_BUCKETS = 1024


def digest_of(key: str) -> int:
    """Return the 64-bit digest that stands for a key."""
    return int.from_bytes(blake2b(key.encode(errors="replace"), digest_size=8).digest(), "big")


class DigestSet:
    """Remembers keys by 64-bit digests, sorted in buckets: a million keys take nine megabytes.

    Two of a million keys share a digest with a chance of three in a hundred million.
    """

    def __init__(self) -> None:
        self._buckets = [array("Q") for _ in range(_BUCKETS)]

    def add(self, key: str) -> bool:
        """Remember `key`; return False when it was there already."""
        digest = digest_of(key)
        bucket = self._buckets[digest % _BUCKETS]
        place = bisect_left(bucket, digest)
        if place < len(bucket) and bucket[place] == digest:
            return False
        bucket.insert(place, digest)
        return True

    def __len__(self) -> int:
        """How many keys are remembered."""
        return sum(map(len, self._buckets))


class DigestMap:
    """Remembers a number (0 to 2**64 - 1) for each of its keys, as DigestSet remembers keys."""

    def __init__(self) -> None:
        self._keys = [array("Q") for _ in range(_BUCKETS)]
        self._numbers = [array("Q") for _ in range(_BUCKETS)]

    def put(self, key: str, number: int) -> None:
        """Remember `number` for `key`, in place of an earlier one."""
        keys, numbers, place, is_there = self._find(key)
        if is_there:
            numbers[place] = number
        else:
            keys.insert(place, digest_of(key))
            numbers.insert(place, number)

    def get(self, key: str) -> int | None:
        """Return the number of `key`, None when there is none."""
        _, numbers, place, is_there = self._find(key)
        return numbers[place] if is_there else None

    def pop(self, key: str) -> int | None:
        """Return the number of `key` and forget both."""
        keys, numbers, place, is_there = self._find(key)
        if not is_there:
            return None
        keys.pop(place)
        return numbers.pop(place)

    def numbers(self) -> Iterator[int]:
        """Yield all numbers, in no order."""
        for numbers in self._numbers:
            yield from numbers

    def __len__(self) -> int:
        """How many keys are remembered."""
        return sum(map(len, self._keys))

    def _find(self, key: str) -> "tuple[array[int], array[int], int, bool]":
        digest = digest_of(key)
        keys = self._keys[digest % _BUCKETS]
        place = bisect_left(keys, digest)
        is_there = place < len(keys) and keys[place] == digest
        return keys, self._numbers[digest % _BUCKETS], place, is_there
