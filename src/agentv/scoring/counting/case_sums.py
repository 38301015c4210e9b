"""Sums over the rows of each case, from which intervals and pass@k of repeated cases are computed."""

import math
import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from agentv.scoring.keys.identity import digest_64
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult

_INITIAL_CAPACITY = 8
MAX_HELD = 2048
"""The cases that a table with a `Spill` holds in memory."""
_PARTS = 64
_PART_SHIFT = 58
"""A spill is read in 64 parts: the first six bits of a case number, a 64-bit digest, are the number of its part."""
_ENTRY = struct.Struct("=QIId")
"""A CaseSum in a spill."""


class CaseSum(NamedTuple):
    """The judged rows of one case: their number, how many of them passed, and the sum of their scores."""

    case: int
    rows: int
    passed: int
    score_sum: float


class Spill(Protocol):
    """Storage outside of memory, such as a file, for sums over the cases of a long stream."""

    def write(self, data: bytes) -> int | None:
        """Append data and return its offset; None if it cannot be written."""

    def read(self, offset: int, size: int) -> bytes:
        """Return data that was written."""


class _SpilledChunk(NamedTuple):
    """Sorted entries in a spill. `starts` has the index of each part's first entry, then the number of entries."""

    spill: Spill
    offset: int
    starts: "array[int]"


def case_of(slot: ResultKey) -> int:
    """Return the number that identifies a row's case; all its repeats share it, for every target."""
    return digest_64(f"{slot.suite}\0{slot.eval_id}") or 1


def session_of(row: CaseResult) -> int | None:
    """Return the number that identifies a row's session, None if it has none."""
    return None if row.session is None else digest_64(f"session\0{row.session}") or 1


def cluster_of(row: CaseResult, *, has_trials: bool = True) -> int | None:
    """Return the number of the cluster of dependent rows to which a row belongs: its session, else its case.

    None for a row without a session whose case has no other rows (`has_trials` False).
    """
    session = session_of(row)
    return session or (case_of(row.slot) if has_trials else None)


class CaseSums:
    """A hash table of sums by case, with 24 bytes per entry and a load factor of one to two thirds.

    It uses open addressing. The case numbers are digests and serve as their own hashes. With a `spill`, at most
    `MAX_HELD` cases are in memory: others go to the spill as sorted chunks, which are added up when they are read.
    """

    def __init__(self, spill: Spill | None = None) -> None:
        self._spill = spill
        self._max_held = sys.maxsize if spill is None else MAX_HELD
        self._chunks: list[_SpilledChunk] = []
        self._held_count = 0
        self._allocate(_INITIAL_CAPACITY)

    def add(self, case: int, *, passed: bool, score: float) -> None:
        """Add a judged row to its case."""
        if 3 * self._held_count >= 2 * len(self._cases):
            self._grow()
        if self._held_count >= self._max_held:
            self._spill_held()
        index = self._find_index(case)
        if not self._cases[index]:
            self._cases[index] = case
            self._held_count += 1
        self._rows[index] += 1
        self._passed[index] += passed
        self._score_sums[index] += score

    def get(self, case: int) -> CaseSum | None:
        """Return the sums of a case, None if it has no row."""
        if self._chunks:
            sums = self._part_sums(case >> _PART_SHIFT, sorted(self._held_sums()))
            return next((each for each in sums if each.case == case), None)
        index = self._find_index(case)
        if not self._cases[index]:
            return None
        return CaseSum(case, self._rows[index], self._passed[index], self._score_sums[index])

    def copy(self) -> "CaseSums":
        """Return an independent table with the same sums."""
        copy = CaseSums(self._spill)
        copy._max_held, copy._held_count, copy._chunks = self._max_held, self._held_count, [*self._chunks]
        copy._cases, copy._rows = self._cases[:], self._rows[:]
        copy._passed, copy._score_sums = self._passed[:], self._score_sums[:]
        return copy

    def __bool__(self) -> bool:
        """Return True if any case has a row."""
        return self._held_count > 0 or bool(self._chunks)

    def __len__(self) -> int:
        """Return the number of cases with a row."""
        return sum(1 for _ in self) if self._chunks else self._held_count

    def __iter__(self) -> Iterator[CaseSum]:
        """Yield the sums of each case, in arbitrary order."""
        if not self._chunks:
            return self._held_sums()
        held_sums = sorted(self._held_sums())
        return (each for part in range(_PARTS) for each in self._part_sums(part, held_sums))

    def _held_sums(self) -> Iterator[CaseSum]:
        """Yield the sums in memory."""
        entries = zip(self._cases, self._rows, self._passed, self._score_sums, strict=True)
        return (CaseSum(*entry) for entry in entries if entry[0])

    def _part_sums(self, part: int, held_sums: list[CaseSum]) -> Iterator[CaseSum]:
        """Yield the sums of the cases of one part, in the chunks and in `held_sums`, the sorted sums in memory."""
        first, end = (bisect_left(held_sums, (each << _PART_SHIFT,)) for each in (part, part + 1))
        sums = {each.case: each for each in held_sums[first:end]}
        for chunk in self._chunks:
            start, stop = chunk.starts[part : part + 2]
            data = chunk.spill.read(chunk.offset + start * _ENTRY.size, (stop - start) * _ENTRY.size)
            for case, rows, passed, score_sum in _ENTRY.iter_unpack(data):
                earlier = sums.get(case, _NO_ROWS)
                sums[case] = CaseSum(case, earlier.rows + rows, earlier.passed + passed, earlier.score_sum + score_sum)
        return iter(sums.values())

    def _spill_held(self) -> None:
        """Move the sums in memory to the spill. If it cannot be written, these and all later sums stay in memory."""
        held_sums = sorted(self._held_sums())
        data = b"".join(_ENTRY.pack(*each) for each in held_sums)
        offset = None if self._spill is None else self._spill.write(data)
        if self._spill is None or offset is None:
            self._max_held = sys.maxsize
            return
        starts = array("I", [bisect_left(held_sums, (part << _PART_SHIFT,)) for part in range(_PARTS + 1)])
        self._chunks.append(_SpilledChunk(self._spill, offset, starts))
        self._held_count = 0
        self._allocate(len(self._cases))

    def _find_index(self, case: int) -> int:
        cases = self._cases
        last = len(cases) - 1
        index = case & last
        while cases[index] and cases[index] != case:
            index = (index + 1) & last
        return index

    def _allocate(self, count: int) -> None:
        self._cases = array("Q", bytes(8 * count))
        self._rows = array("I", bytes(4 * count))
        self._passed = array("I", bytes(4 * count))
        self._score_sums = array("d", bytes(8 * count))

    def _grow(self) -> None:
        sums = self._held_sums()  # lazy, but bound to the arrays before they are replaced
        self._allocate(2 * len(self._cases))
        for case, rows, passed, score_sum in sums:
            index = self._find_index(case)
            self._cases[index], self._rows[index], self._passed[index], self._score_sums[index] = (
                case,
                rows,
                passed,
                score_sum,
            )


_NO_ROWS = CaseSum(0, 0, 0, 0.0)


def pass_at(k: int, passed: int, trials: int) -> float | None:
    """Return the probability that any of `k` trials of a case passes, from `passed` of its `trials`; unbiased.

    1 - C(trials - passed, k) / C(trials, k): the share of all choices of k trials that contain a pass. None with fewer
    than k trials. Chen et al. 2021, arXiv:2107.03374.

    >>> pass_at(2, passed=1, trials=4)
    0.5
    """
    if not 0 < k <= trials:
        return None
    return 1 - math.comb(trials - passed, k) / math.comb(trials, k)


def pass_hat(k: int, passed: int, trials: int) -> float | None:
    """Return the probability that all of `k` trials of a case pass (pass^k), from `passed` of its `trials`; unbiased.

    C(passed, k) / C(trials, k): the share of all choices of k trials in which all pass. None with fewer than k trials.
    Yao et al. 2024, arXiv:2406.12045.

    >>> pass_hat(2, passed=3, trials=4)
    0.5
    """
    if not 0 < k <= trials:
        return None
    return math.comb(passed, k) / math.comb(trials, k)
