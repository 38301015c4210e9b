"""The cases that count against the gates of a run, found as its rows are counted."""

from bisect import insort
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.scoring.counting.row_kinds import evaluator_state
from agentv.scoring.counting.tallies import JUDGED_STATES
from agentv.scoring.gates.gates import Gate
from agentv.scoring.gates.run_verdict import ScopedGate, scopes_of_default_gate
from agentv.scoring.keys.identity import DigestMap, DigestSet
from agentv.scoring.results.aggregation import reaches, row_state
from agentv.types.evaluation import verdict_of
from agentv.types.records.result import CaseResult
from agentv.types.results import CaseId, CaseName, RowState

MAX_FAILED_CASES = 10
"""The number of cases that a report of a run shows with their texts, each with all its prompts and targets."""
MAX_NAMED_CASES = 200
"""The number of cases that a report knows by name, those with texts included."""

Part: TypeAlias = tuple[RowState, float | None]
"""State and score of the part of a row that a gate measures: the whole row, an evaluator or a criterion."""


class ListedCase(Struct, frozen=True):
    """A case that counts against a gate, or that did not pass."""

    name: CaseName
    seq: int
    """The number in results.jsonl of the result that is shown: of those that count, the first trial of the worst
    state.
    """
    failed: int = 1
    """The number of its results that count against the gate."""
    results: int = 1
    """The number of all its results."""
    before: float | None = None
    """Its mean score in the baseline, None without one."""
    seq_before: int | None = None
    """The number of a result in the baseline; None without a baseline, or for a file of scores."""
    reruns: int = 0
    """How often it failed when it was called again."""


class ListedCases(Struct, frozen=True):
    """The first cases that count against a gate, the worst first, and the number of all.

    `cases` has each of the ten worst cases with all its prompts and targets that count, next to each other; `others`
    are the ids of the next worst ones. `distinct` is the number of cases without targets and prompts, None if it was
    not stored. `is_whole_run` is True for a gate that counts every result of the run that did not pass.
    """

    cases: tuple[ListedCase, ...] = ()
    total: int = 0
    distinct: int | None = None
    is_whole_run: bool = False
    others: tuple[CaseId, ...] = ()


NO_CASES = ListedCases()


def case_name(row: CaseResult) -> CaseName:
    """Return the case of a row with its target and prompt."""
    return CaseName(row.slot.suite, row.slot.eval_id, row.slot.target, row.slot.prompt)


STATES_WORST_FIRST: tuple[RowState, ...] = ("fail", "borderline", "error", "pass", "skipped")
_STATE_RANKS = {state: rank for rank, state in enumerate(STATES_WORST_FIRST)}


def shown_first(row: CaseResult) -> tuple[int, int]:
    """Return the key of a case's results by which the first one is shown: the first trial of the worst state."""
    return shown_rank(row_state(row), row.slot.trial)


def shown_rank(state: RowState, trial: int) -> tuple[int, int]:
    """Return the key of a trial of a case by which the first one is shown: the first trial of the worst state."""
    return _STATE_RANKS[state], trial


class _Case(Struct, frozen=True):
    """One of the worst cases with its rank: its worst state, its lowest score in that state, and its place.

    The place in the eval file makes runs with the same results list the same cases.
    """

    id: CaseId
    rank: tuple[int, float, tuple[str, int, CaseId]]


_SEQ_BITS, _TRIAL_BITS = 40, 20


class _Worst(Struct):
    """The worst cases that count against one gate so far: by state, score and place in the eval file.

    `failed` has the number of results of each case with its prompt and target, `shown` the result to show: the first
    trial of the worst state, as one number of its state, trial and `seq`.
    """

    parts_of: Callable[[CaseResult, RowState], Iterator[Part]]
    counts: Callable[[RowState, float | None], bool]
    suite: str | None = None
    worst: list[_Case] = field(default_factory=list)
    failed: DigestMap = field(default_factory=lambda: DigestMap("I"))
    shown: DigestMap = field(default_factory=DigestMap)
    distinct: DigestSet = field(default_factory=DigestSet)
    variants: dict[tuple[str | None, str], None] = field(default_factory=dict)
    """The prompts and targets of these cases."""

    @property
    def ignores_passes(self) -> bool:
        """True if a row that passed never counts against the gate."""
        return self.parts_of is _whole_row and self.counts in (_is_not_passed, _is_error, _is_listed)

    @property
    def is_whole_run(self) -> bool:
        """True if every result of the run that did not pass counts against the gate."""
        return self.suite is None and self.parts_of is _whole_row and self.counts is _is_not_passed

    def add(self, row: CaseResult, state: RowState, seq: int) -> None:
        if self.suite not in (None, row.slot.suite):
            return
        parts = [(part, score or 0.0) for part, score in self.parts_of(row, state) if self.counts(part, score)]
        if not parts:
            return
        name = case_name(row)
        key = _key(name)
        self.failed.put(key, (self.failed.get(key) or 0) + 1)
        state_rank, score = min((_STATE_RANKS[part], score) for part, score in parts)
        trial = min(row.slot.trial, (1 << _TRIAL_BITS) - 1)
        shown = (state_rank << _TRIAL_BITS | trial) << _SEQ_BITS | seq
        if shown < self.shown.setdefault(key, shown):
            self.shown.put(key, shown)
        self.variants[name.prompt, name.target] = None
        case_id = CaseId(name.suite, name.eval_id)
        self.distinct.add("\0".join(case_id))
        self._insert(_Case(case_id, (state_rank, score, (row.file, row.line, case_id))))

    def _insert(self, case: _Case) -> None:
        if len(self.worst) == MAX_NAMED_CASES and case.rank >= self.worst[-1].rank:
            return
        earlier = next((each for each in self.worst if each.id == case.id), None)
        if earlier is not None:
            if earlier.rank <= case.rank:
                return
            self.worst.remove(earlier)
        insort(self.worst, case, key=lambda each: each.rank)
        del self.worst[MAX_NAMED_CASES:]

    def cells(self, case: _Case) -> Iterator[tuple[CaseName, int]]:
        """Yield the prompts and targets with which a case counts, each with the `seq` of the result to show."""
        for prompt, target in sorted(self.variants, key=lambda each: (each[0] or "", each[1])):
            name = CaseName(*case.id, target, prompt)
            shown = self.shown.get(_key(name))
            if shown is not None:
                yield name, shown & ((1 << _SEQ_BITS) - 1)


def _key(name: CaseName) -> str:
    return "\0".join((name.suite, name.eval_id, name.target, name.prompt or ""))


class FailingCases:
    """Lists the cases that count against each of a run's `gates`, then those against its default gates.

    A gate on a rate lists the cases that did not pass, a gate on a mean those with a score below its bound, a gate on
    errors those with an error. Gates on costs, durations and a baseline list none. `of_run` lists the cases of the run
    that did not pass, also those with an error. Of each list, the worst cases and the numbers of results are stored, so
    that the memory does not depend on the length of their rows.
    """

    def __init__(self, gates: Sequence[ScopedGate] | None) -> None:
        default = [_Worst(_whole_row, _is_not_passed, suite) for suite in scopes_of_default_gate(gates)]
        self._worst: tuple[_Worst | None, ...] = (*map(_worst_of, gates or ()), *default)
        self._run = _Worst(_whole_row, _is_listed)
        self._judged, self._errors = DigestMap("I"), DigestMap("I")
        # A row that passed can only count against the mean of a gate, or by one of its evaluators or criteria.
        self._ignores_passes = all(worst is None or worst.ignores_passes for worst in self._worst)

    def add(self, row: CaseResult, *, has_trials: bool) -> None:
        """Count a stored row. `has_trials` False says that the case has only one row with each target and prompt."""
        if row.seq is None:
            return
        state = row_state(row)
        if has_trials and state != "skipped":
            key, numbers = _key(case_name(row)), self._errors if state == "error" else self._judged
            numbers.put(key, (numbers.get(key) or 0) + 1)
        if state == "pass" and self._ignores_passes:
            return
        for worst in (self._run, *self._worst):
            if worst is not None:
                worst.add(row, state, row.seq)

    def __len__(self) -> int:
        """Return the number of gates, those that apply by default included."""
        return len(self._worst)

    def of_gate(self, index: int) -> ListedCases:
        """Return the cases that count against the gate with this index."""
        found = self._worst[index]
        return NO_CASES if found is None else self._listed(found)

    def of_run(self) -> ListedCases:
        """Return the cases of the run that did not pass: the failed ones first, those with an error last."""
        return self._listed(self._run)

    def _listed(self, found: _Worst) -> ListedCases:
        cases = tuple(
            ListedCase(name, seq, found.failed.get(_key(name)) or 1, self._trials(found, name))
            for each in found.worst[:MAX_FAILED_CASES]
            for name, seq in found.cells(each)
        )
        others = tuple(each.id for each in found.worst[MAX_FAILED_CASES:])
        return ListedCases(cases, len(found.failed), len(found.distinct), found.is_whole_run, others)

    def _trials(self, found: _Worst, name: CaseName) -> int:
        """Return how many trials of a case a gate measures: also those with an error, if errors count against it."""
        key = _key(name)
        errors = self._errors.get(key) or 0 if found.counts in (_is_error, _is_listed) else 0
        return (self._judged.get(key) or 0) + errors or 1


def _worst_of(scoped: ScopedGate) -> _Worst | None:
    """Return the collector for a gate, None for a gate that lists no cases."""
    gate = scoped.gate
    counts = _rule(gate)
    return None if counts is None else _Worst(_parts_of(gate), counts, scoped.suite)


def _rule(gate: Gate) -> Callable[[RowState, float | None], bool] | None:
    """Return the function that says if a part of a row counts against a gate; None if no single result does."""
    measured = gate.field or gate.name
    if measured in ("errors", "error_rate"):
        return _is_error if gate.operator in ("<=", "<", "==") else None
    if gate.operator not in (">=", ">", "=="):
        return None
    if measured in ("pass_rate", "pass_at", "pass_hat"):
        return _is_not_passed
    if measured == "mean":
        return lambda state, score: state in JUDGED_STATES and score is not None and not reaches(score, gate.bound)
    return None


def _is_error(state: RowState, _score: float | None) -> bool:
    return state == "error"


def _is_not_passed(state: RowState, _score: float | None) -> bool:
    return state in ("borderline", "fail")


def _is_listed(state: RowState, _score: float | None) -> bool:
    return state in ("borderline", "fail", "error")


def _whole_row(row: CaseResult, state: RowState) -> Iterator[Part]:
    yield state, row.score


def _parts_of(gate: Gate) -> Callable[[CaseResult, RowState], Iterator[Part]]:
    """Return the function that yields the parts of a row that a gate measures."""
    if gate.metric.takes != "name":
        return _whole_row
    name = gate.argument or ""

    def parts(row: CaseResult, state: RowState) -> Iterator[Part]:
        match gate.name:
            case "evaluator":
                yield from ((evaluator_state(each), each.score) for each in row.evaluator_results if each.name == name)
            case "criterion":
                criteria = (each for result in row.evaluator_results for each in result.results)
                for each in criteria:
                    if each.criterion_name == name and each.value is not None and each.error is None:
                        yield verdict_of(each.value), each.value
            case "tag" if name not in row.tags:
                return
            case "dataset" if name != row.dataset:
                return
            case "target" if name != row.slot.target:
                return
            case "prompt" if name != row.slot.prompt:
                return
            case _:
                yield state, row.score

    return parts


class WorstRows:
    """Finds the number of the worst row of each of the named cases, as rows are counted."""

    def __init__(self, names: Collection[CaseName]) -> None:
        self._worst: dict[CaseName, tuple[float, int]] = {}
        self._names = frozenset(names)

    def add(self, row: CaseResult) -> None:
        """Count a stored row; rows of other cases are ignored."""
        if self._names and row.seq is not None and (name := case_name(row)) in self._names:
            rank = (row.score if row.score is not None else -1.0), row.seq
            self._worst[name] = min(rank, self._worst.get(name, rank))

    def current(self, listed: ListedCases) -> ListedCases:
        """Return listed cases with the numbers of their rows now; cases without a row are left out."""
        cases = tuple(replace(each, seq=self._worst[each.name][1]) for each in listed.cases if each.name in self._worst)
        return replace(listed, cases=cases)
