"""Sets and maps of keys that take nine bytes a key, plus a map's number."""

import re
import sys
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Callable, Container, Iterator
from hashlib import blake2b
from typing import Literal

_BUCKETS = 1024
_DIGEST_BITS = 64


def digest_of(key: str) -> int:
    """Return the 64-bit digest of a key."""
    return int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


_HAS_LONG_HASH = sys.hash_info.width == _DIGEST_BITS
# Python's own hash is valid for this process only, which is also the lifetime of a set.
_digest_here: Callable[[str], int] = hash if _HAS_LONG_HASH else digest_of
_TYPE_HERE = "q" if _HAS_LONG_HASH else "Q"


class DigestSet:
    """A set of keys, stored as sorted 64-bit digests in buckets: a million keys take nine megabytes.

    The probability that two of a million keys share a digest is three in a hundred million.
    """

    def __init__(self) -> None:
        self._buckets = [array(_TYPE_HERE) for _ in range(_BUCKETS)]

    def add(self, key: str) -> bool:
        """Add `key`; return False if it was there already."""
        digest = _digest_here(key)
        bucket = self._buckets[digest % _BUCKETS]
        place = bisect_left(bucket, digest)
        if place < len(bucket) and bucket[place] == digest:
            return False
        bucket.insert(place, digest)
        return True

    def __len__(self) -> int:
        """Return the number of keys."""
        return sum(map(len, self._buckets))


class DigestMap:
    """A map from keys, stored as in DigestSet, to a number each.

    `typecode` is that of an `array`: a number of up to 2**64 - 1 takes eight bytes ("Q"), one of up to 255 one ("B").
    """

    def __init__(self, typecode: Literal["Q", "I", "B"] = "Q") -> None:
        self._keys = [array("Q") for _ in range(_BUCKETS)]
        self._numbers = [array(typecode) for _ in range(_BUCKETS)]

    def put(self, key: str, number: int) -> None:
        """Store `number` for `key`, replacing an earlier one."""
        keys, numbers, place, digest = self._find(key)
        if _is_at(keys, place, digest):
            numbers[place] = number
        else:
            keys.insert(place, digest)
            numbers.insert(place, number)

    def setdefault(self, key: str, number: int) -> int:
        """Return the number of `key`; when it has none, store and return `number`."""
        keys, numbers, place, digest = self._find(key)
        if _is_at(keys, place, digest):
            return numbers[place]
        keys.insert(place, digest)
        numbers.insert(place, number)
        return number

    def get(self, key: str) -> int | None:
        """Return the number of `key`, None when there is none."""
        keys, numbers, place, digest = self._find(key)
        return numbers[place] if _is_at(keys, place, digest) else None

    def pop(self, key: str) -> int | None:
        """Remove `key` and return its number, None when there is none."""
        keys, numbers, place, digest = self._find(key)
        if not _is_at(keys, place, digest):
            return None
        keys.pop(place)
        return numbers.pop(place)

    def numbers(self) -> Iterator[int]:
        """Yield all numbers, in arbitrary order."""
        for numbers in self._numbers:
            yield from numbers

    def __len__(self) -> int:
        """Return the number of keys."""
        return sum(map(len, self._keys))

    def _find(self, key: str) -> "tuple[array[int], array[int], int, int]":
        digest = digest_of(key)
        keys = self._keys[digest % _BUCKETS]
        return keys, self._numbers[digest % _BUCKETS], bisect_left(keys, digest), digest


def _is_at(keys: "array[int]", place: int, digest: int) -> bool:
    return place < len(keys) and keys[place] == digest


LONGEST = 48
_ID = re.compile(r"[\w.-]{1,64}")
_WORD = re.compile(r"\w+")


def make_id(given: str, *, fallback: str, taken: Container[str] = ()) -> str:
    """Return `given` as an id: unchanged if it is a valid one, else as a slug, or `fallback` if no letter is left.

    An id in `taken` gets a number: `refund-2`.
    """
    given = given.strip()
    wanted = (given if _ID.fullmatch(given) else slug(given)) or fallback
    made, number = wanted, 1
    while made in taken:
        number += 1
        made = f"{wanted}-{number}"
    return made


def slug(text: str) -> str:
    """Return the first words of a text joined by dashes, at most 48 characters; letters of any script are allowed."""
    made = ""
    for word in _WORD.findall(unicodedata.normalize("NFC", text[: 4 * LONGEST]).casefold()):
        longer = f"{made}-{word}" if made else word[:LONGEST]
        if len(longer) > LONGEST:
            break
        made = longer
    return made
