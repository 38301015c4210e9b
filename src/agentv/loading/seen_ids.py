"""Which ids a stream has had, in 16 bytes or less for each: a million of them must not fill the memory."""

from array import array
from hashlib import blake2b

_FIRST_SLOTS = 1024


class SeenIds:
    """A set of 64-bit digests in one flat array, open addressing. Two ids may share a digest, once in 10^19 pairs."""

    def __init__(self) -> None:
        self._slots = array("Q", bytes(8 * _FIRST_SLOTS))
        self._count = 0

    def add(self, case_id: str) -> bool:
        """Add an id; return False when its digest was there already."""
        if 3 * self._count >= 2 * len(self._slots):
            self._grow()
        digest = blake2b(case_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        is_new = self._put(int.from_bytes(digest) or 1)  # 0 marks a free slot
        self._count += is_new
        return is_new

    def _put(self, digest: int) -> bool:
        mask = len(self._slots) - 1
        at = digest & mask
        while self._slots[at] != 0:
            if self._slots[at] == digest:
                return False
            at = (at + 1) & mask
        self._slots[at] = digest
        return True

    def _grow(self) -> None:
        former, self._slots = self._slots, array("Q", bytes(16 * len(self._slots)))
        for digest in former:
            if digest:
                self._put(digest)
