"""Cases whose trials disagree, found while rows come in any order and at nine bytes a case."""

from array import array
from bisect import bisect_left
from collections.abc import Mapping
from hashlib import blake2b

from agentv.types.results import RowState, Slot

_BUCKETS = 1024
_CODE_BITS = 2
_CODES: Mapping[RowState, int] = {"pass": 0, "borderline": 1, "fail": 2}


class TrialVerdicts:
    """Remembers of each case, by 62 bits of a digest of its names, the first verdict; and who has another as well.

    Two of a million cases share a digest with a chance of one in ten million.
    """

    def __init__(self) -> None:
        self._buckets = [array("Q") for _ in range(_BUCKETS)]
        self._flaky: dict[tuple[str, str, str], None] = {}

    def add(self, slot: Slot, state: RowState) -> None:
        """Take the verdict of one trial; a row without one says nothing."""
        code = _CODES.get(state)
        if code is None:
            return
        key = (slot.suite, slot.eval_id, slot.target)
        name = "\0".join(key).encode("utf-8", "surrogatepass")
        digest = int.from_bytes(blake2b(name, digest_size=8).digest(), "big") >> _CODE_BITS << _CODE_BITS
        bucket = self._buckets[(digest >> _CODE_BITS) % _BUCKETS]
        place = bisect_left(bucket, digest)
        if place == len(bucket) or bucket[place] >> _CODE_BITS != digest >> _CODE_BITS:
            bucket.insert(place, digest | code)
        elif bucket[place] != digest | code:
            self._flaky[key] = None

    @property
    def flaky(self) -> tuple[str, ...]:
        """The cases with different verdicts, as `id (target)`, in the order in which that came out."""
        return tuple(f"{case} ({target})" for _, case, target in self._flaky)
