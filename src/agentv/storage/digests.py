"""A set of keys that takes nine bytes a key."""

from array import array
from bisect import bisect_left
from hashlib import blake2b

_BUCKETS = 1024


class DigestSet:
    """Remembers keys by 64-bit digests, sorted in buckets: a million keys take nine megabytes.

    Two of a million keys share a digest with a chance of three in a hundred million.
    """

    def __init__(self) -> None:
        self._buckets = [array("Q") for _ in range(_BUCKETS)]

    def add(self, key: str) -> bool:
        """Remember `key`; return False when it was there already."""
        digest = int.from_bytes(blake2b(key.encode(errors="replace"), digest_size=8).digest(), "big")
        bucket = self._buckets[digest % _BUCKETS]
        place = bisect_left(bucket, digest)
        if place < len(bucket) and bucket[place] == digest:
            return False
        bucket.insert(place, digest)
        return True

    def __len__(self) -> int:
        """How many keys are remembered."""
        return sum(map(len, self._buckets))
