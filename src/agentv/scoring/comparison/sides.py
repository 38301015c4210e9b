"""One side of a comparison: the rows of a run, gathered by case in columns, so that a hundred thousand fit."""

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from agentv.scoring.comparison.rows import SCORE, Place, ScoredRow
from agentv.types.json_value import JsonObject

_BELOW_ALL = -1.0
"""Stands for the score of a row that has none: it is the first whose reason is wanted."""


class CaseName(NamedTuple):
    """What is paired: a case of a suite, answered by a target."""

    suite: str
    eval_id: str
    target: str


class _Column(Struct):
    """Sum and number of one measure, a place for each case."""

    sums: "array[float]" = field(default_factory=lambda: array("d"))
    counts: "array[int]" = field(default_factory=lambda: array("I"))

    def add(self, at: int, value: float) -> None:
        missing = at + 1 - len(self.sums)
        if missing > 0:
            self.sums.frombytes(bytes(self.sums.itemsize * missing))
            self.counts.frombytes(bytes(self.counts.itemsize * missing))
        self.sums[at] += value
        self.counts[at] += 1


class Side:
    """The rows of one run. Repeats of a case by a target are gathered: a measure of the case is the mean over them.

    `label` is how people call the run; `about` is what run.json says of it, for what differs between two runs; `state`
    is how the run ended, of which an unfinished one may lack cases.
    """

    def __init__(self, label: str, about: JsonObject | None = None, *, state: str = "finished") -> None:
        self.label = label
        self.about: JsonObject = about or {}
        self.state = state
        self._places: dict[CaseName, int] = {}
        self._targets: dict[str, None] = {}
        self._suites: dict[str, None] = {}
        self._columns: dict[str, _Column] = {}
        self._rows = array("I")
        self._broken = array("I")
        self._worst_scores = array("d")
        self._worst_places = tuple(array("Q") for _ in Place._fields)
        self._keys: dict[tuple[str, str], str] = {}

    def add(self, row: ScoredRow) -> None:
        """Gather one row. Rows that were deselected by a rule (`skipped`) are left out."""
        if row.state == "skipped":
            return
        at = self._place(CaseName(row.slot.suite, row.slot.eval_id, row.slot.target))
        self._rows[at] += 1
        self._broken[at] += row.state == "error"
        for name, value in row.measures.items():
            self._columns.setdefault(name, _Column()).add(at, value)
        score = row.measures.get(SCORE, _BELOW_ALL)
        if row.place is not None and score < self._worst_scores[at]:
            self._worst_scores[at] = score
            for numbers, number in zip(self._worst_places, row.place, strict=True):
                numbers[at] = number

    def add_case(self, suite: str, eval_id: str, case_key: str) -> None:
        """Remember the key of a case's content: question, expectations, evaluators."""
        self._keys[suite, eval_id] = case_key

    def _place(self, name: CaseName) -> int:
        at = self._places.get(name)
        if at is None:
            at = self._places[name] = len(self._rows)
            self._targets[name.target] = self._suites[name.suite] = None
            self._rows.append(0)
            self._broken.append(0)
            self._worst_scores.append(math.inf)
            for numbers in self._worst_places:
                numbers.append(0)
        return at

    @property
    def cases(self) -> Sequence[CaseName]:
        """All cases, in the order in which their first rows came."""
        return tuple(self._places)

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets of all rows."""
        return tuple(self._targets)

    @property
    def suites(self) -> tuple[str, ...]:
        """The suites of all rows."""
        return tuple(self._suites)

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of everything that was measured."""
        return tuple(self._columns)

    @property
    def case_keys(self) -> Mapping[tuple[str, str], str]:
        """The key of each case's content, by suite and id."""
        return self._keys

    def rows(self, name: CaseName) -> int:
        """How many rows a case has; 0 when there is no such case."""
        at = self._places.get(name)
        return 0 if at is None else self._rows[at]

    def broken(self, name: CaseName) -> int:
        """How many of a case's rows have no result."""
        at = self._places.get(name)
        return 0 if at is None else self._broken[at]

    def mean(self, measure: str, name: CaseName) -> float | None:
        """Return the mean of a measure over the repeats of a case, None when it was measured in none of them."""
        at, column = self._places.get(name), self._columns.get(measure)
        if at is None or column is None or at >= len(column.counts) or not column.counts[at]:
            return None
        return column.sums[at] / column.counts[at]

    def count(self, measure: str, name: CaseName) -> int:
        """Return in how many repeats of a case something was measured."""
        at, column = self._places.get(name), self._columns.get(measure)
        return 0 if at is None or column is None or at >= len(column.counts) else column.counts[at]

    def worst_row(self, name: CaseName) -> Place | None:
        """Return where the lowest-scored row of a case stands, when that is known."""
        at = self._places.get(name)
        if at is None or math.isinf(self._worst_scores[at]):
            return None
        return Place(*(numbers[at] for numbers in self._worst_places))
