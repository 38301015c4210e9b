"""What the rows of each case come to, gathered in any order: what intervals and pass@k need when cases are repeated."""

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from agentv.scoring.keys.digests import digest_of
from agentv.types.records.answer import ResultKey

_FIRST_PLACES = 8


class CaseSum(NamedTuple):
    """The judged rows of one case: how many, how many of them passed, and the sum of their scores."""

    case: int
    rows: int
    passed: int
    score_sum: float


def case_of(slot: ResultKey) -> int:
    """Return the number that stands for a row's case: all its repeats have it, by whichever target."""
    return digest_of(f"{slot.suite}\0{slot.eval_id}") or 1


class CaseSums:
    """Sums by case, 24 bytes for each of the places, of which a third to two thirds are taken.

    A hash table with open addressing: the numbers of cases are digests, as good as random.
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
        """How many cases have a row."""
        return self._taken

    def __iter__(self) -> Iterator[CaseSum]:
        """Yield the sums of each case, in no order that means anything."""
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
