"""Sums of the rows of each case, added in any order: for intervals and pass@k of repeated cases."""

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from agentv.scoring.keys.identity import digest_of
from agentv.types.records.answer import ResultKey

_FIRST_PLACES = 8


class CaseSum(NamedTuple):
    """The judged rows of one case: their number, how many of them passed, and the sum of their scores."""

    case: int
    rows: int
    passed: int
    score_sum: float


def case_of(slot: ResultKey) -> int:
    """Return the number that identifies a row's case; all its repeats share it, for every target."""
    return digest_of(f"{slot.suite}\0{slot.eval_id}") or 1


class CaseSums:
    """Sums by case in a hash table, 24 bytes a slot, with a third to two thirds of the slots taken.

    Open addressing needs no further hashing: the numbers of cases are digests.
    """

    def __init__(self) -> None:
        self._taken = 0
        self._make_places(_FIRST_PLACES)

    def add(self, case: int, *, passed: bool, score: float) -> None:
        """Add a judged row to its case."""
        if 3 * self._taken >= 2 * len(self._cases):
            self._grow()
        at = self._place(case)
        if not self._cases[at]:
            self._cases[at] = case
            self._taken += 1
        self._rows[at] += 1
        self._passed[at] += passed
        self._score_sums[at] += score

    def __len__(self) -> int:
        """Return the number of cases with a row."""
        return self._taken

    def __iter__(self) -> Iterator[CaseSum]:
        """Yield the sums of each case, in arbitrary order."""
        places = zip(self._cases, self._rows, self._passed, self._score_sums, strict=True)
        return (CaseSum(*place) for place in places if place[0])

    def _place(self, case: int) -> int:
        cases = self._cases
        last = len(cases) - 1
        at = case & last
        while cases[at] and cases[at] != case:
            at = (at + 1) & last
        return at

    def _make_places(self, count: int) -> None:
        self._cases = array("Q", bytes(8 * count))
        self._rows = array("I", bytes(4 * count))
        self._passed = array("I", bytes(4 * count))
        self._score_sums = array("d", bytes(8 * count))

    def _grow(self) -> None:
        sums = list(self)
        self._make_places(2 * len(self._cases))
        for case, rows, passed, score_sum in sums:
            at = self._place(case)
            self._cases[at], self._rows[at], self._passed[at], self._score_sums[at] = case, rows, passed, score_sum
