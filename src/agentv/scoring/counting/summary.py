"""Summary of a run's rows for gates and reports, up to date after every row."""

import math
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from agentv.scoring.counting.case_sums import Spill, case_of, session_of
from agentv.scoring.counting.groups import DEFAULT_KINDS, Groups
from agentv.scoring.counting.matrix import PlanOrder, matrix_summary
from agentv.scoring.counting.row_kinds import RowKind, kind_of
from agentv.scoring.counting.tallies import (
    JUDGED_STATES,
    Durations,
    Quantiles,
    Tally,
    TargetTally,
    latency_interval,
    percentile_us,
    pooled,
    pooled_interval,
    pooled_moments,
    target_summary,
    trial_moments,
)
from agentv.scoring.keys.identity import DigestMap
from agentv.scoring.results.aggregation import row_state
from agentv.scoring.statistics.intervals import mean_interval
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.results import RowState, RunReport, RunState, RunVerdict
from agentv.types.summaries import EvaluatorSummary, GroupSummary, Interval, MatrixSummary, NotInBaseline, TargetSummary

_PASS, _NO_VERDICT = 0, 3
_VERDICT_CODES: Mapping[RowState, int] = {"pass": _PASS, "borderline": 1, "fail": 2}

_Variant: TypeAlias = tuple[str, str, str, str]
"""Suite, case, target and prompt: what the trials of a case have in common."""


class TrialVerdicts:
    """The first verdict of each case with each target and prompt, and the flaky cases, which have several verdicts.

    Passes of cases without trials are not added and need no memory: a case that is not known passed.
    """

    def __init__(self) -> None:
        self._first = DigestMap("B")
        self._flaky: dict[_Variant, None] = {}
        self._rerun: dict[_Variant, set[int]] = {}

    def add(self, slot: ResultKey, state: RowState) -> None:
        """Add the verdict of one trial; a row without a verdict is only known."""
        key, code = _variant_of(slot), _VERDICT_CODES.get(state, _NO_VERDICT)
        name = "\0".join(key)
        first = self._first.setdefault(name, code)
        if first == _NO_VERDICT:
            self._first.put(name, code)
        elif code not in (first, _NO_VERDICT):
            self._flaky[key] = None

    def add_only(self, slot: ResultKey, state: RowState) -> None:
        """Add the only row of a case; a pass need not be added."""
        self._first.setdefault("\0".join(_variant_of(slot)), _VERDICT_CODES.get(state, _NO_VERDICT))

    def add_rerun(self, slot: ResultKey, state: RowState) -> None:
        """Add the verdict of a re-run, which makes a case flaky if it differs; a row without a verdict is ignored."""
        code = _VERDICT_CODES.get(state)
        if code is not None:
            self._rerun.setdefault(_variant_of(slot), set()).add(code)

    @property
    def flaky(self) -> tuple[str, ...]:
        """The cases with different verdicts, as `id (target)` or `id (prompt, target)`, in the order of detection."""
        rerun = [key for key, codes in self._rerun.items() if len(codes | self._counted(key)) > 1]
        return tuple(
            f"{case} ({f'{prompt}, ' if prompt else ''}{target})"
            for _, case, target, prompt in dict.fromkeys((*self._flaky, *rerun))
        )

    def _counted(self, key: _Variant) -> set[int]:
        """Return the verdict of a case's first row that counts; empty if it has none."""
        code = self._first.get("\0".join(key))
        return set() if code == _NO_VERDICT else {code or _PASS}


def _variant_of(slot: ResultKey) -> _Variant:
    return slot.suite, slot.eval_id, slot.target, slot.prompt or ""


HISTOGRAM_BINS = 10
_BIN_EDGES = tuple(n / HISTOGRAM_BINS for n in range(1, HISTOGRAM_BINS))
MAX_LISTED_ANSWER = 256 * 1024
"""The most characters of an answer that a listed row keeps, so that few long answers do not fill the memory."""
MAX_FAILING = 10
MAX_WORST = MAX_ERRORS = 5
_MAX_WAITING = 256
"""The number of waiting rows at which `settle` is called: the more rows wait, the more of them are equal."""


class RowCounts:
    """Counts of rows: of all, and by target, evaluator and group. The arguments are as for Summary.

    Rows that are the only ones of their cases wait until `settle`, which counts equal ones together. `failing` are the
    first rows that did not pass, `errors` the first ones with an error, `worst` those with the lowest scores among the
    judged ones that did not pass.
    """

    def __init__(
        self,
        by: Iterable[str],
        named: Collection[tuple[str, str]],
        *,
        has_shared_cases: bool,
        has_given_answers: bool,
        spill: Spill | None = None,
    ) -> None:
        self._spill = spill
        self._has_shared_cases = has_shared_cases
        self._has_given_answers = has_given_answers
        self._waiting: list[RowKind] = []
        self.all = Tally(spill)
        self.histogram = [0] * HISTOGRAM_BINS
        self.failing: list[CaseResult] = []
        self.failing_total = 0
        self.errors: list[CaseResult] = []
        self.worst: list[CaseResult] = []
        self.targets: dict[str, TargetTally] = {}
        self.evaluators: dict[tuple[str, str], Tally] = {}
        self.groups = Groups(by, named, has_given_answers=has_given_answers, spill=spill)
        self.trials = TrialVerdicts()
        self.rerun: set[ResultKey] = set()
        self.rerun_answers: set[tuple[ResultKey, int]] = set()
        self.rerun_usd = 0.0
        self.rescored = 0

    def add(self, result: CaseResult, *, has_trials: bool) -> None:
        """Count one finished row."""
        state = row_state(result)
        session = None if result.session is None else session_of(result)
        case = case_of(result.slot) if has_trials or self._has_shared_cases or session is not None else None
        target = self.targets.get(result.slot.target)
        if target is None:
            target = self.targets[result.slot.target] = TargetTally(Tally(self._spill))
        target.add(result, state, session or case, has_latency=not self._has_given_answers)
        self.rescored = max(self.rescored, result.rescored)
        if has_trials:
            self.trials.add(result.slot, state)
        elif state != "pass":
            self.trials.add_only(result.slot, state)
        if state not in ("pass", "skipped"):
            self._list_not_passed(result, state)
        kind = kind_of(result, state)
        if case is None:
            self._waiting.append(kind)
            if len(self._waiting) == _MAX_WAITING:
                self.settle()
        else:
            self.settle()
            self._count(kind, 1, case, session, has_trials=has_trials or session is not None)

    def add_rerun(self, result: CaseResult) -> None:
        """Count a row of a further answer: only as re-run, its known cost, and for flaky cases."""
        self.rerun.add(result.slot)
        self.rerun_answers.add((result.slot, result.generation))
        self.rerun_usd += result.cost_usd or 0.0
        self.trials.add_rerun(result.slot, row_state(result))

    def _list_not_passed(self, result: CaseResult, state: RowState) -> None:
        """Count a row that did not pass; store it if it is among the first ones or has one of the lowest scores."""
        self.failing_total += 1
        result = _with_short_answer(result)
        if len(self.failing) < MAX_FAILING:
            self.failing.append(result)
        if state == "error":
            if len(self.errors) < MAX_ERRORS:
                self.errors.append(result)
        elif result.score is not None:
            insort(self.worst, result, key=_score)
            del self.worst[MAX_WORST:]

    def settle(self) -> None:
        """Count the waiting rows. All sums are exact, so the totals do not depend on when rows are counted."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for kind, rows in Counter(waiting).items():
                self._count(kind, rows, None, None, has_trials=False)

    def _count(self, kind: RowKind, rows: int, case: int | None, session: int | None, *, has_trials: bool) -> None:
        """Count `rows` rows of one kind; `rows` must be 1 if `case` is given.

        `case` is None if the case has no other row, in any tally. `has_trials` False says that the case has only one
        row with each target and prompt; for a row without a prompt, the target's tally then does not need `case`. For a
        row with a session `has_trials` must be True, since a tally that gets a session also needs the case.
        """
        cluster = session or case
        self.all.add(kind.state, kind.score, rows, cluster)
        target = self.targets[kind.target]
        # Within one target, a case without trials has several rows only if there are prompts.
        has_several_rows = has_trials or kind.prompt is not None
        target.rows.add(kind.state, kind.score, rows, case=case if has_several_rows else None, session=session)
        if self._has_shared_cases or kind.prompt is not None:
            cell = target.prompts.get(kind.prompt)
            if cell is None:
                cell = target.prompts[kind.prompt] = Tally(self._spill)
            cell.add(kind.state, kind.score, rows, case=case, session=session)
        self.groups.add(kind, rows, cluster)
        for name, type_, state, score in kind.scored_evaluators():
            self._tally_of(name, type_).add(state, score, rows, cluster)
        if kind.state in JUDGED_STATES and kind.score is not None:
            self.histogram[bisect_right(_BIN_EDGES, kind.score)] += rows

    def _tally_of(self, name: str, type_: str) -> Tally:
        tally = self.evaluators.get((name, type_))
        if tally is None:  # `setdefault` would create a tally each time
            tally = self.evaluators[name, type_] = Tally(self._spill)
        return tally


class Summary:
    """Adds up rows as they finish, and computes what gates and reports need.

    The rows of `suites` are also counted separately, for the gates of each suite. `by` names the kinds of groups that
    are counted, `named` the groups that always get a tally of their own (Groups). `has_shared_cases` says that a case
    may have rows of several targets or prompts, which form one cluster.

    `order` is the order of targets and prompts in reports.

    `has_given_answers` says that the rows are a stream of given answers, and no target was called. A stream may be
    endless and bring new criteria with each line, so the maximum number of groups is lower. A criterion on a custom
    scale is listed as a group, too, with counts of 0, since its scores cannot be averaged. Percentiles are those of
    `judging_times`: for each row, the total time of its evaluators in seconds.

    With a `spill`, the sums by case and session, which intervals need, take a bounded amount of memory, except those of
    `suites`.
    """

    def __init__(
        self,
        suites: Iterable[str] = (),
        *,
        by: Iterable[str] = DEFAULT_KINDS,
        named: Collection[tuple[str, str]] = (),
        has_shared_cases: bool = True,
        has_given_answers: bool = False,
        order: PlanOrder | None = None,
        spill: Spill | None = None,
    ) -> None:
        kinds = tuple(by)
        self._order = order or PlanOrder()
        self._suites = {suite: Summary(by=kinds, named=named, has_shared_cases=has_shared_cases) for suite in suites}
        self._counts = RowCounts(
            kinds, named, has_shared_cases=has_shared_cases, has_given_answers=has_given_answers, spill=spill
        )
        self._has_given_answers = has_given_answers
        self.judging_times = Quantiles()

    def add(self, result: CaseResult, *, has_trials: bool = True) -> None:
        """Count one finished row; one with `rerun` changes no count, rate, mean or gate.

        `has_trials` False says that the case has only one row with each target and prompt, apart from re-runs.
        """
        if result.rerun is not None:
            self._counts.add_rerun(result)
            return
        self._counts.add(result, has_trials=has_trials)
        if self._has_given_answers:
            self.judging_times.add(math.fsum(each.duration_ms or 0.0 for each in result.evaluator_results) / 1000)
        if self._suites and result.slot.suite in self._suites:
            self._suites[result.slot.suite].add(result, has_trials=has_trials)

    @property
    def counts(self) -> RowCounts:
        """The counts of every row so far."""
        self._counts.settle()
        return self._counts

    @property
    def all(self) -> Tally:
        """The counts of all rows together."""
        return self.counts.all

    def of_suite(self, suite: str) -> "Summary":
        """Return the summary of one of the `suites`."""
        return self._suites[suite]

    @property
    def flaky(self) -> tuple[str, ...]:
        """The cases whose trials or re-runs have different verdicts, as `id (target)` or `id (prompt, target)`."""
        return self.counts.trials.flaky

    @property
    def unverified(self) -> int:
        """The number of rows with an unverified verdict of a judge."""
        return sum(tally.unverified for tally in self.counts.targets.values())

    @property
    def reruns(self) -> int:
        """The number of results that were re-run after they had an answer."""
        return len(self._counts.rerun)

    @property
    def rerun_answers(self) -> int:
        """The number of these re-runs: a result may be re-run several times."""
        return len(self._counts.rerun_answers)

    @property
    def rerun_usd(self) -> float:
        """The known cost of the re-runs, which no other cost includes."""
        return self._counts.rerun_usd

    @property
    def rescored(self) -> int:
        """How often answers were judged again: the highest number of any row."""
        return self._counts.rescored

    @property
    def clamped(self) -> int:
        """The number of rows with a judge's number that was clamped to 0..1."""
        return sum(tally.clamped for tally in self.counts.targets.values())

    @property
    def empty_answers(self) -> int:
        """The number of rows with an answer of nothing but white space."""
        return sum(tally.empty_answers for tally in self.counts.targets.values())

    @property
    def judge_failures(self) -> tuple[int, int]:
        """The number of rows that a judge failed to judge, and the number of rows for which a judge was called."""
        tallies = self.counts.targets.values()
        return sum(each.judge_failures for each in tallies), sum(each.judge_called for each in tallies)

    @property
    def cost_usd(self) -> float | None:
        """The total cost of targets and judges; None if the cost of any call is unknown."""
        parts = [
            part for tally in self.counts.targets.values() for part in (tally.target.cost_usd, tally.judge.cost_usd)
        ]
        return None if None in parts else math.fsum(part for part in parts if part is not None)

    def targets(self) -> tuple[TargetSummary, ...]:
        """Return one summary per target: those of the plan in its order, then others in the order of their rows."""
        tallies = self.counts.targets
        return tuple(target_summary(name, tallies[name]) for name in sorted(tallies, key=self._order.target_index))

    def evaluators(self) -> tuple[EvaluatorSummary, ...]:
        """Return one summary per evaluator; the same name with another type is another evaluator."""
        return tuple(
            EvaluatorSummary(
                name=name,
                type=type_,
                judged=tally.judged,
                mean_score=tally.mean,
                errors=tally.counts["error"],
                mean_interval=tally.mean_interval,
                pass_rate=tally.pass_rate,
                pass_rate_interval=tally.pass_rate_interval,
            )
            for (name, type_), tally in self.counts.evaluators.items()
        )

    def groups(self) -> tuple[GroupSummary, ...]:
        """Return one summary per counted group: kind by kind, in order of first appearance."""
        return self.counts.groups.summaries()

    def matrix(self) -> MatrixSummary | None:
        """Return the matrix of prompts and targets; None if there is only one combination of them."""
        targets = self.counts.targets.items()
        cells = {(prompt, name): cell for name, tally in targets for prompt, cell in tally.prompts.items()}
        costs = {
            (prompt, name): each.mean_usd for name, tally in targets for prompt, each in tally.answer_costs.items()
        }
        return matrix_summary({name: cells[name] for name in sorted(cells, key=self._order.cell_index)}, costs)

    def report(self, run_id: str, state: RunState, verdict: RunVerdict) -> RunReport:
        """Return the report of all rows so far; fields that rows do not determine are left to the caller."""
        counts = self.counts
        return RunReport(
            run_id=run_id,
            state=state,
            planned=None,
            targets=self.targets(),
            evaluators=self.evaluators(),
            groups=self.groups(),
            matrix=self.matrix(),
            histogram=tuple(counts.histogram),
            verdict=verdict,
            failing=tuple(counts.failing),
            failing_total=counts.failing_total,
            worst=tuple(counts.worst),
            errors=tuple(counts.errors),
            flaky=self.flaky,
            reruns=self.reruns,
            rescored=self.rescored,
            judging_median_s=self.judging_times.at(0.5),
            judging_p95_s=self.judging_times.at(0.95),
        )

    def score_change(self) -> None:
        """Return None: a summary is not compared with an earlier run."""

    def why_not_compared(self) -> None:
        """Return None: a summary is not compared with an earlier run."""

    @property
    def not_in_baseline(self) -> NotInBaseline:
        """No cases: a summary is not compared with an earlier run."""
        return NotInBaseline()

    def measure(self, name: str, argument: str | None, field: str | None) -> float | None:
        """Return the value of a gate's metric (METRICS); None if nothing was measured, or if a cost is unknown."""
        match name:
            case "errors":
                return float(self.all.counts["error"])
            case "cost_usd":
                return self.cost_usd
            case "p50" | "p95" | "p99":
                percentile = self._percentile_us(_share(name))
                return None if percentile is None else percentile / _us_per_unit(argument)
            case "pass_at" | "pass_hat":
                moments = self._trial_moments(name, argument)
                return moments.mean if moments.rows else None
            case _:
                return pooled(self._tallies(name, argument or ""), field or name)

    def interval(self, name: str, argument: str | None, field: str | None) -> Interval | None:
        """Return the 95 % interval of the value that `measure` returns; None with too few cases.

        Also None for a metric without an interval. Rates and means over judged rows, percentiles of latencies, pass@k
        and pass^k have one.
        """
        match name:
            case "errors" | "error_rate" | "cost_usd":
                return None
            case "p50" | "p95" | "p99" if self._has_given_answers:
                return None
            case "p50" | "p95" | "p99":
                return latency_interval(self._latencies(), _share(name), per_unit=_us_per_unit(argument))
            case "pass_at" | "pass_hat":
                return mean_interval(self._trial_moments(name, argument))
            case _:
                return pooled_interval(self._tallies(name, argument or ""), field or name)

    def names(self, kind: str) -> Collection[str]:
        """Return the names of the targets or evaluators that rows have, or of the counted groups of another kind."""
        match kind:
            case "target":
                return self.counts.targets.keys()
            case "evaluator":
                return {name for name, _ in self.counts.evaluators}
            case _:
                return self.counts.groups.names(kind)

    def moments(self, name: str, argument: str | None, field: str | None) -> ClusterMoments:
        """Return the moments of a rate or a mean over judged rows."""
        return pooled_moments(self._tallies(name, argument or ""), field or name)

    def left_out(self, kind: str, name: str) -> int:
        """Return the number of results with an error; `kind` and `name` select an evaluator, a target or a group.

        For `cost_usd`, return how many rows have no known cost.
        """
        if kind == "cost_usd":
            return sum(tally.unpriced for tally in self.counts.targets.values())
        return sum(tally.counts["error"] for tally in self._tallies(kind, name))

    def is_estimated(self, name: str) -> bool:
        """Return True for `cost_usd` if a part of it is estimated."""
        tallies = self.counts.targets.values() if name == "cost_usd" else ()
        return any(tally.target.is_estimated or tally.judge.is_estimated for tally in tallies)

    def _trial_moments(self, name: str, k: str | None) -> ClusterMoments:
        return trial_moments(
            name, int(k or 1), [each for tally in self.counts.targets.values() for each in tally.trials()]
        )

    def _tallies(self, name: str, argument: str) -> Sequence[Tally]:
        """Return the tallies that a gate measures; evaluators of one name and different types are taken together."""
        match name:
            case "target":
                return [self.counts.targets[argument].rows] if argument in self.counts.targets else []
            case "evaluator":
                return [tally for (known, _), tally in self.counts.evaluators.items() if known == argument]
            case "mean" | "pass_rate" | "error_rate":
                return [self.all]
            case _:
                found = self.counts.groups.get(name, argument)
                return [] if found is None else [found]

    def _percentile_us(self, share: float) -> float | None:
        if not self._has_given_answers:
            return percentile_us(self._latencies(), share)
        seconds = self.judging_times.at(share)
        return None if seconds is None else seconds * 1_000_000

    def _latencies(self) -> list[Durations]:
        return [tally.latencies for tally in self.counts.targets.values()]


def _with_short_answer(result: CaseResult) -> CaseResult:
    """Return the row with at most MAX_LISTED_ANSWER characters of its answer, ending with a note if it is cut."""
    answer = result.candidate_answer
    if len(answer) <= MAX_LISTED_ANSWER:
        return result
    note = f"… (cut; the stored result has all {len(answer):,} characters)"
    return replace(result, candidate_answer=f"{answer[: MAX_LISTED_ANSWER - len(note)]}{note}")


def _score(result: CaseResult) -> float:
    return result.score or 0.0


def _share(percentile: str) -> float:
    """Return the share of a percentile: 0.95 for `p95`."""
    return float(percentile.removeprefix("p")) / 100


def _us_per_unit(unit: str | None) -> float:
    """Return the number of microseconds in the unit of `duration_ms` or `duration_s`."""
    return 1_000 if unit == "duration_ms" else 1_000_000
