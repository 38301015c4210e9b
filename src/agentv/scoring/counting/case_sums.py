"""Sums over the rows of each case or session, from which intervals and pass@k of repeated cases are computed."""

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
"""The maximum number of cases that a table with a `Spill` holds in memory."""
_PARTS = 64
_PART_SHIFT = 58
"""A spill is read in 64 parts. The highest six bits of a case number, a 64-bit digest, are the number of its part."""
_ENTRY = struct.Struct("=QIId")
"""A CaseSum in a spill."""


class CaseSum(NamedTuple):
    """The judged rows of one case: their number, how many of them passed, and the sum of their scores.

    `case` is the number of a case (case_of), or of a session (session_of).
    """

    case: int
    rows: int
    passed: int
    score_sum: float


class Spill(Protocol):
    """Storage outside of memory, such as a file, for sums over the cases of a long stream."""

    def write(self, data: bytes) -> int | None:
        """Append data and return its offset; None if it cannot be written."""

    def read(self, offset: int, size: int) -> bytes:
        """Return data that was written. May raise OSError."""


class _SpilledChunk(NamedTuple):
    """Sorted entries in a spill."""

    spill: Spill
    offset: int
    """The position of their first byte."""
    starts: "array[int]"
    """The index of each part's first entry, and at the end the number of entries."""


def case_of(slot: ResultKey) -> int:
    """Return the number that identifies a row's case; its rows with all targets, prompts and trials share it."""
    # 0 marks an empty entry of CaseSums, and a duration without a case.
    return digest_64(f"{slot.suite}\0{slot.eval_id}") or 1


def session_of(row: CaseResult) -> int | None:
    """Return the number that identifies a row's session; None for a row without one."""
    return None if row.session is None else _session_number(row.session)


def _session_number(session: str) -> int:
    return digest_64(f"session\0{session}") or 1


def cluster_of_slot(slot: ResultKey, session: str | None) -> int:
    """Return the number of a session, without one that of the case: rows with the same number are not independent."""
    return case_of(slot) if session is None else _session_number(session)


def cluster_of(row: CaseResult, *, has_trials: bool = True) -> int | None:
    """Return the number of a row's session, else of its case: rows with the same number are not independent.

    `has_trials` False says that the case has no other rows; the result is then None for a row without a session.
    """
    session = session_of(row)
    return session or (case_of(row.slot) if has_trials else None)


class CaseSums:
    """A hash table of sums by case, with 24 bytes per entry, that grows when two thirds of its entries are in use.

    It uses open addressing. The case numbers are digests and serve as their own hashes. With a `spill`, at most
    `MAX_HELD` cases are in memory: a full table is moved to the spill as a sorted chunk. Reading adds up all chunks.
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
        """Return the sums of a case; None if no row was added to it."""
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
        """Return True if any row was added."""
        return self._held_count > 0 or bool(self._chunks)

    def __len__(self) -> int:
        """Return the number of cases to which a row was added."""
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
        """Yield the sums of the cases of one part, from all chunks and from `held_sums`, the sorted sums in memory."""
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
        """Move the sums in memory to the spill. If this fails, these and all later sums stay in memory."""
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
        """Return the index of a case's entry, or of the empty entry that it would get."""
        cases = self._cases
        mask = len(cases) - 1  # the length is a power of two
        index = case & mask
        while cases[index] and cases[index] != case:
            index = (index + 1) & mask
        return index

    def _allocate(self, count: int) -> None:
        """Replace the table by one with `count` empty entries."""
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
    """Return the unbiased estimate of the probability that any of `k` trials passes, if `passed` of `trials` passed.

    1 - C(trials - passed, k) / C(trials, k): the share of all choices of k trials that contain a pass. None with fewer
    than k trials, or for k below 1. Chen et al. 2021, arXiv:2107.03374.

    >>> pass_at(2, passed=1, trials=4)
    0.5
    """
    if not 0 < k <= trials:
        return None
    return 1 - math.comb(trials - passed, k) / math.comb(trials, k)


def pass_hat(k: int, passed: int, trials: int) -> float | None:
    """Return the unbiased estimate of the probability that all of `k` trials pass, if `passed` of `trials` passed.

    C(passed, k) / C(trials, k), pass^k: the share of all choices of k trials in which all pass. None with fewer than k
    trials, or for k below 1. Yao et al. 2024, arXiv:2406.12045.

    >>> pass_hat(2, passed=3, trials=4)
    0.5
    """
    if not 0 < k <= trials:
        return None
    return math.comb(passed, k) / math.comb(trials, k)
