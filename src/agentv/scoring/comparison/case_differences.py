"""The difference of each pair of a comparison, in columns, so that a million pairs fit into memory."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Literal, TypeAlias, overload

from msgspec import Struct

from agentv.scoring.comparison.pairs import Pair, Pairs
from agentv.scoring.comparison.sides import PASSED, SCORE
from agentv.types.results import CaseName

THRESHOLD = 0.1
"""The smallest change of a case's score, in either direction, that counts as a win or a loss."""

ROUNDING = 1e-9
"""Rounding errors in differences of mean scores are smaller than this."""

Outcome: TypeAlias = Literal["win", "loss", "tie"]
Change: TypeAlias = Literal["improved", "regressed", "same"]


class CaseDifference(Struct, frozen=True):
    """A case in both runs: its mean score and the share of its repeats that passed, before and after."""

    pair: Pair
    before: float
    after: float
    passed_before: float
    passed_after: float
    outcome: Outcome
    is_content_changed: bool

    @property
    def difference(self) -> float:
        """Score after minus score before."""
        return self.after - self.before

    @property
    def change(self) -> Change:
        """`regressed` if lost or passed only before, `improved` if won or passed only after, otherwise `same`."""
        return change_of(self.outcome, self.passed_before, self.passed_after)


class CaseDifferences(Sequence[CaseDifference]):
    """The differences of the pairs that were judged on both sides; a CaseDifference is made when it is read."""

    def __init__(self, pairs: Pairs, threshold: float = THRESHOLD) -> None:
        before, after = (side.column(SCORE) for side in (pairs.before, pairs.after))
        self._threshold = threshold
        self._columns = (before, after, pairs.before.column(PASSED), pairs.after.column(PASSED))
        self.pairs = pairs.select(
            place
            for place, (first, second) in enumerate(zip(pairs.first, pairs.second, strict=True))
            if before.count(first) and after.count(second)
        )

    def __len__(self) -> int:
        """Return the number of differences."""
        return len(self.pairs)

    @overload
    def __getitem__(self, index: int) -> CaseDifference: ...

    @overload
    def __getitem__(self, index: slice) -> "CaseDifferences": ...

    def __getitem__(self, index: int | slice) -> "CaseDifference | CaseDifferences":
        """Return a difference, or some of them."""
        if isinstance(index, slice):
            return self.select(range(len(self))[index])
        before, after, passed_before, passed_after = self._values(self.pairs.first[index], self.pairs.second[index])
        return CaseDifference(
            pair=self.pairs[index],
            before=before,
            after=after,
            passed_before=passed_before,
            passed_after=passed_after,
            outcome=outcome_of(after - before, self._threshold),
            is_content_changed=self._is_content_changed(self.pairs.first[index], self.pairs.second[index]),
        )

    def select(self, places: Iterable[int]) -> "CaseDifferences":
        """Return the differences at these places, in this order."""
        return CaseDifferences(self.pairs.select(places), self._threshold)

    @cached_property
    def differences(self) -> "array[float]":
        """The difference of each pair."""
        return array("d", (after - before for before, after, _, _ in self.values()))

    @cached_property
    def outcomes(self) -> Sequence[Outcome]:
        """The outcome of each pair."""
        return [outcome_of(each, self._threshold) for each in self.differences]

    @cached_property
    def changes(self) -> Sequence[Change]:
        """The kind of change of each pair."""
        shares = ((passed_before, passed_after) for _, _, passed_before, passed_after in self.values())
        return [change_of(outcome, *each) for outcome, each in zip(self.outcomes, shares, strict=True)]

    def with_changed_content(self) -> Iterator[CaseName]:
        """Yield the cases whose prompt, expectations or evaluators are known to differ between the runs."""
        for first, second in zip(self.pairs.first, self.pairs.second, strict=True):
            if self._is_content_changed(first, second):
                yield self.pairs.after.name_at(second)

    def values(self) -> Iterator[tuple[float, float, float, float]]:
        """Yield the scores of each pair before and after, and the shares of passed repeats before and after."""
        return map(self._values, self.pairs.first, self.pairs.second)

    def _values(self, first: int, second: int) -> tuple[float, float, float, float]:
        before, after, passed_before, passed_after = self._columns
        return (
            before.mean(first) or 0.0,
            after.mean(second) or 0.0,
            passed_before.mean(first) or 0.0,
            passed_after.mean(second) or 0.0,
        )

    def _is_content_changed(self, first: int, second: int) -> bool:
        before, after = self.pairs.before, self.pairs.after
        if before.prompt_at(first) != after.prompt_at(second):
            return False  # two prompts are compared: they differ on purpose
        old, new = before.case_key_at(first), after.case_key_at(second)
        return old is not None and new is not None and old != new


def outcome_of(difference: float, threshold: float = THRESHOLD) -> Outcome:
    """Return whether a difference of mean scores is a win, a loss or a tie."""
    if abs(difference) < threshold - ROUNDING or not difference:
        return "tie"
    return "win" if difference > 0 else "loss"


def change_of(outcome: Outcome, passed_before: float, passed_after: float) -> Change:
    """Return the change of a case from its outcome and the shares of its repeats that passed before and after."""
    if outcome == "loss" or _only_first_passed(passed_before, passed_after):
        return "regressed"
    return "improved" if outcome == "win" or _only_first_passed(passed_after, passed_before) else "same"


def _only_first_passed(first: float, second: float) -> bool:
    """Return True if more than half of the repeats passed the first time, and no more than half the second."""
    return first > 0.5 >= second  # noqa: PLR2004 - half
