"""A side of a comparison: sums by case in columns, to save memory."""

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from msgspec import Struct, field

from agentv.scoring.comparison.case_numbers import CaseIndexes, CaseKeys, CaseNumbers
from agentv.scoring.counting.tallies import JUDGED_STATES
from agentv.scoring.results.aggregation import row_state
from agentv.types.json_value import JsonObject, objects_of
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.results import CaseName, RowState
from agentv.types.usage import Usage

SCORE, PASSED = "score", "pass"
COST, LATENCY, TOKENS = "cost_usd", "latency_s", "tokens"
SPENDING = (COST, LATENCY, TOKENS)
INCOMPLETE = "incomplete"
"""The state of a side whose run finished without all of its planned results, such as one merged without a shard."""
_EVALUATOR = "evaluator:"
_NO_SCORE = -1.0
"""Ranks a row without a score as the worst of its case, so that comparisons show why it has none."""


class RowPosition(NamedTuple):
    """The position of a row in its run's results.jsonl: line number from 1, first byte, size in bytes."""

    line: int
    offset: int
    size: int


class ScoredRow(Struct, frozen=True):
    """One row of a run, with the values that are compared."""

    slot: ResultKey
    state: RowState
    measures: Mapping[str, float] = field(default_factory=dict)
    """The known values by name.

    They are the score (0..1) and whether the row passed (1.0 or 0.0) if it was judged, the score of each evaluator that
    judged, the cost in dollars, the latency in seconds, and the tokens. Cost, latency and tokens of a row with an error
    are left out.
    """
    position: RowPosition | None = None
    """None if the row was not read from a results.jsonl."""
    session: str | None = None
    evaluator_types: Mapping[str, str] = field(default_factory=dict)
    """The types of the row's evaluators by name; those of a file of scores are not known."""
    """None for a row without one; cases of one session are not independent."""
    repeats: int = 1
    """The number of results that the row stands for, each with these values; more than 1 in a baseline."""


def evaluator_measure(name: str) -> str:
    """Return the name of an evaluator's score among a row's measures."""
    return f"{_EVALUATOR}{name}"


def evaluator_of(measure: str) -> str | None:
    """Return the evaluator's name if a measure is an evaluator's score, None for other measures."""
    return measure.removeprefix(_EVALUATOR) if measure.startswith(_EVALUATOR) else None


def judged_measures(state: RowState, score: float | None) -> dict[str, float]:
    """Return the measures SCORE and PASSED of a judged row; none for any other row, since it must not count as 0."""
    if state not in JUDGED_STATES or score is None:
        return {}
    return {SCORE: score, PASSED: float(state == "pass")}


def tokens_used(*usages: Usage | None) -> float | None:
    """Return the total tokens of several usages, such as those of target and judges; None if all are unknown."""
    known = [each.total or each.input + each.output for each in usages if each is not None]
    return float(sum(known)) if known else None


def scored_row(result: CaseResult, position: RowPosition | None = None) -> ScoredRow:
    """Return the values of a result that comparisons need."""
    state = row_state(result)
    measures = judged_measures(state, result.score)
    for each in result.evaluator_results:
        if each.status not in ("error", "skipped"):
            measures[evaluator_measure(each.name)] = each.score
    spending = {
        COST: result.cost_usd,
        LATENCY: None if result.duration_ms is None else result.duration_ms / 1000,
        TOKENS: tokens_used(result.target_usage, result.judge_usage),
    }
    if state not in ("error", "skipped"):
        measures |= {name: value for name, value in spending.items() if value is not None}
    types = {each.name: each.type for each in result.evaluator_results if each.type}
    return ScoredRow(result.slot, state, measures, position, session=result.session, evaluator_types=types)


class Column(Struct):
    """Sums and counts of one measure, one element per case."""

    sums: "array[float]" = field(default_factory=lambda: array("d"))
    counts: "array[int]" = field(default_factory=lambda: array("I"))

    def add(self, index: int, value: float, repeats: int = 1) -> None:
        """Add a value of a case, which `repeats` of its results have on average."""
        missing = index + 1 - len(self.sums)
        if missing > 0:
            self.sums.frombytes(bytes(self.sums.itemsize * missing))
            self.counts.frombytes(bytes(self.counts.itemsize * missing))
        self.sums[index] += value * repeats
        self.counts[index] += repeats

    def mean(self, index: int) -> float | None:
        """Return the mean over the repeats of a case, None if no repeat has the measure."""
        count = self.count(index)
        return self.sums[index] / count if count else None

    def count(self, index: int) -> int:
        """Return the number of repeats of a case that have the measure."""
        return self.counts[index] if index < len(self.counts) else 0


_NO_COLUMN = Column()
_Name = TypeVar("_Name", str, str | None)


def _in_order_of(first: Iterable[object], names: Iterable[_Name]) -> list[_Name]:
    """Return names in the order in which they are in `first`; names that are not there come last, in their order."""
    ranks = {name: rank for rank, name in enumerate(first)}
    return sorted(names, key=lambda name: ranks.get(name, len(ranks)))


class _Extremes:
    """The position of the row with the lowest score of each case; with `sign` -1, of the highest."""

    def __init__(self, sign: int = 1) -> None:
        self._sign = sign
        self._scores = array("d")
        self._positions: tuple[array[int], ...] = (array("I"), array("Q"), array("I"))

    def add(self, index: int, score: float, position: RowPosition) -> None:
        """Remember a row of a case if its score is the extreme one so far."""
        missing = index + 1 - len(self._scores)
        if missing > 0:
            self._scores.extend([math.inf] * missing)
            for numbers in self._positions:
                numbers.frombytes(bytes(numbers.itemsize * missing))
        if self._sign * score < self._scores[index]:
            self._scores[index] = self._sign * score
            for numbers, number in zip(self._positions, position, strict=True):
                numbers[index] = number

    def score(self, index: int) -> float:
        """Return the extreme score of a case that has one."""
        return self._sign * self._scores[index]

    def position(self, index: int) -> RowPosition | None:
        """Return the position of a case's row, None without one."""
        if index >= len(self._scores) or math.isinf(self._scores[index]):
            return None
        return RowPosition(*(numbers[index] for numbers in self._positions))


class Side:
    """The rows of one run, grouped by CaseName: a measure of a case is the mean over its repeats.

    `label` is the run's display name, `run_json` the content of its run.json. `state` is how the run ended: an
    unfinished run may lack cases. `edits` are all that shows that the run's files were edited after it was written.
    `numbers` are those of the other sides of the comparison. A case with its target has an index, in the order of its
    first row; the methods whose names end with `_at` take it.
    """

    def __init__(
        self,
        label: str,
        run_json: JsonObject | None = None,
        *,
        state: str = "finished",
        edits: tuple[str, ...] = (),
        numbers: CaseNumbers | None = None,
    ) -> None:
        self.label = label
        self.run_json: JsonObject = run_json or {}
        self.state = state
        self.edits = edits
        self.numbers = CaseNumbers() if numbers is None else numbers
        self._indexes = CaseIndexes()
        self._cases = array("I")
        self._targets_of_cases = array("I")
        self._target_numbers: dict[str, int] = {}
        self._target_names: list[str] = []
        # Ordered sets: only the keys count.
        self._suites: dict[str, None] = {}
        self._prompts: dict[str | None, None] = {}
        self._planned_prompts: dict[str | None, None] = {}
        self._columns: dict[str, Column] = {}
        self._evaluator_types: dict[tuple[str, str], None] = {}
        self._rows = array("I")
        self._errors = array("I")
        self._worst = _Extremes()
        self._best = _Extremes(sign=-1)
        self._keys = CaseKeys()
        self._sessions: dict[int, str] = {}

    def empty_copy(self) -> "Side":
        """Return a side of the same run, with its case keys but without rows, to be filled with a group of rows."""
        copy = Side(self.label, self.run_json, state=self.state, edits=self.edits, numbers=self.numbers)
        copy._keys = self._keys
        copy._planned_prompts = self._planned_prompts
        return copy

    def add(self, row: ScoredRow) -> None:
        """Add one row; a skipped row is ignored."""
        if row.state == "skipped":
            return
        index = self._added_index(row.slot)
        if row.session is not None:
            self._sessions[index] = row.session
        self._rows[index] += row.repeats
        self._errors[index] += row.repeats if row.state == "error" else 0
        self._evaluator_types.update(dict.fromkeys(row.evaluator_types.items()))
        for name, value in row.measures.items():
            self._columns.setdefault(name, Column()).add(index, value, row.repeats)
        if row.position is not None:
            self._add_position(index, row.measures.get(SCORE, _NO_SCORE), row.position)

    def _add_position(self, index: int, score: float, position: RowPosition) -> None:
        """Remember the row if it has the lowest or the highest score of its case; the only one is the lowest alone."""
        first = self._worst.position(index)
        if first is not None:
            if self._best.position(index) is None:
                self._best.add(index, self._worst.score(index), first)
            self._best.add(index, score, position)
        self._worst.add(index, score, position)

    def add_case(self, suite: str, eval_id: str, case_key: str, *, prompt: str | None = None) -> None:
        """Record the key of a case's content (messages, expectations, evaluators), which all targets share."""
        self._keys.set(self.numbers.add(suite, eval_id, prompt), case_key)
        self._planned_prompts[prompt] = None

    def _added_index(self, slot: ResultKey) -> int:
        """Return the index of a case in the columns; a new case is added to them."""
        case = self.numbers.add(slot.suite, slot.eval_id, slot.prompt)
        target = self._target_numbers.setdefault(slot.target, len(self._target_names))
        if target == len(self._target_names):
            self._target_names.append(slot.target)
        index = self._indexes.get(case, target)
        if index is None:
            index = len(self._rows)
            self._indexes.set(case, target, index)
            self._cases.append(case)
            self._targets_of_cases.append(target)
            self._suites[slot.suite] = None
            self._prompts[slot.prompt] = None
            self._rows.append(0)
            self._errors.append(0)
        return index

    def index_of(self, name: CaseName) -> int | None:
        """Return the index of a case, None if the side has no row of it."""
        case = self.numbers.find(name.suite, name.eval_id, name.prompt)
        target = self._target_numbers.get(name.target)
        return None if case is None or target is None else self._indexes.get(case, target)

    def name_at(self, index: int) -> CaseName:
        """Return the name of a case."""
        suite, eval_id, prompt = self.numbers.parts(self._cases[index])
        return CaseName(suite, eval_id, self._target_names[self._targets_of_cases[index]], prompt)

    @property
    def case_count(self) -> int:
        """The number of cases."""
        return len(self._cases)

    @property
    def cases(self) -> Sequence[CaseName]:
        """All cases, in the order of their first rows."""
        return tuple(self.names())

    def names(self) -> Iterator[CaseName]:
        """Yield the names of all cases, in the order of their first rows."""
        return map(self.name_at, range(self.case_count))

    def eval_ids(self) -> set[str]:
        """Return the ids of all cases."""
        return {self.numbers.parts(case)[1] for case in self._cases}

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets of all rows, in the order of the run's plan if it is known."""
        plan = self.run_json.get("plan")
        planned = [each.get("name") for each in objects_of(plan.get("targets") if isinstance(plan, Mapping) else None)]
        return tuple(_in_order_of(planned, self._target_names))

    @property
    def suites(self) -> tuple[str, ...]:
        """The suites of all rows."""
        return tuple(self._suites)

    @property
    def prompts(self) -> tuple[str | None, ...]:
        """The prompts of all rows, in the order of the cases; None for rows of suites without prompts."""
        return tuple(_in_order_of(self._planned_prompts, self._prompts))

    @property
    def evaluator_types(self) -> Mapping[str, tuple[str, ...]]:
        """The types of the evaluators of all rows by name: several if cases have other evaluators of one name."""
        found: dict[str, tuple[str, ...]] = {}
        for name, type_ in self._evaluator_types:
            found[name] = (*found.get(name, ()), type_)
        return found

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the measures that any row has."""
        return tuple(self._columns)

    def case_key(self, name: CaseName) -> str | None:
        """Return the key of a case's content, None if it is not known."""
        case = self.numbers.find(name.suite, name.eval_id, name.prompt)
        return None if case is None else self._keys.get(case)

    def case_key_at(self, index: int) -> str | None:
        """Return the key of a case's content, None if it is not known."""
        return self._keys.get(self._cases[index])

    def prompt_at(self, index: int) -> str | None:
        """Return the prompt of a case."""
        return self.numbers.parts(self._cases[index])[2]

    def session(self, name: CaseName) -> str | None:
        """Return the session of a case, None if it has none."""
        index = self.index_of(name)
        return None if index is None else self.session_at(index)

    def session_at(self, index: int) -> str | None:
        """Return the session of a case, None if it has none."""
        return self._sessions.get(index)

    def row_count(self, name: CaseName) -> int:
        """Return the number of rows of a case, those with an error included; 0 if there is no such case."""
        index = self.index_of(name)
        return 0 if index is None else self._rows[index]

    def error_count(self, name: CaseName) -> int:
        """Return the number of a case's rows that have an error."""
        index = self.index_of(name)
        return 0 if index is None else self.error_count_at(index)

    def error_count_at(self, index: int) -> int:
        """Return the number of a case's rows that have an error."""
        return self._errors[index]

    def column(self, measure: str) -> Column:
        """Return the sums of a measure by the index of the case; empty if no row has the measure."""
        return self._columns.get(measure, _NO_COLUMN)

    def mean(self, measure: str, name: CaseName) -> float | None:
        """Return the mean of a measure over the repeats of a case, None if no repeat has it."""
        index = self.index_of(name)
        return None if index is None else self.column(measure).mean(index)

    def measured_count(self, measure: str, name: CaseName) -> int:
        """Return the number of repeats of a case that have a measure."""
        index = self.index_of(name)
        return 0 if index is None else self.column(measure).count(index)

    def worst_row(self, name: CaseName) -> RowPosition | None:
        """Return the position of the row of a case that has the lowest score, or no score.

        None if no row of the case has a position.
        """
        index = self.index_of(name)
        return None if index is None else self._worst.position(index)

    def best_row(self, name: CaseName) -> RowPosition | None:
        """Return the position of the row of a case that has the highest score, as `worst_row` that of the lowest."""
        index = self.index_of(name)
        return None if index is None else self._best.position(index) or self._worst.position(index)
