"""Counts and rates over the rows of a run: groups, intervals, baselines, calibrations."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypeAlias, cast, get_args

from msgspec import Struct, field

from agentv.types.json_value import JsonValue, objects_of, strings_of
from agentv.types.usage import Usage

IntervalMethod: TypeAlias = Literal[
    "wilson",
    "clustered-wilson",
    "scaled-wilson",
    "stratified-wilson",
    "weighted-wilson",
    "student-t",
    "order-statistics",
    "linearized-t",
    "jackknife-t",
    "lang-reiczigel",
    "fisher-z",
    "cluster-t",
    "newcombe",
    "tango",
    "sign-flips",
]
"""The method of an interval; docs/explanation/numbers.md describes them."""

LEVEL = 0.95
"""The coverage of confidence intervals."""


class Interval(Struct, frozen=True):
    """A two-sided confidence interval, in the unit of its estimate."""

    low: float
    high: float
    method: IntervalMethod
    level: float = LEVEL
    """The coverage of the interval."""


class CountsByState:
    """Numbers of rows, computed from the `counts` by state of a summary."""

    __slots__ = ()
    counts: Mapping[str, int]

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return sum(self.counts.values())

    @property
    def judged(self) -> int:
        """The number of rows with a verdict."""
        return sum(self.counts.get(state, 0) for state in ("pass", "borderline", "fail"))


class GroupSummary(CountsByState, Struct, frozen=True):
    """Counts, rate and mean of the rows of one group.

    A group by `evaluator` or `criterion` counts the results of this evaluator or criterion instead of rows. Rate and
    mean are over those that are judged.
    """

    by: str
    """The kind of the group: `tag`, `dataset`, `criterion` and others."""
    name: str
    counts: Mapping[str, int]
    mean_score: float | None
    pass_rate: float | None
    mean_interval: Interval | None = None
    pass_rate_interval: Interval | None = None
    target: str | None = None
    """Set if only the rows of this target are counted."""
    prompt: str | None = None
    """Set if only the rows of this prompt are counted."""


class TrialSummary(Struct, frozen=True):
    """pass@k and pass^k: means over the cases with at least `k` judged trials."""

    k: int
    cases: int
    """The number of cases with at least `k` judged trials."""
    pass_at: float
    """The probability that any of k trials passes."""
    pass_hat: float
    """The probability that all of k trials pass."""
    pass_at_interval: Interval | None = None
    pass_hat_interval: Interval | None = None


class TargetSummary(CountsByState, Struct, frozen=True):
    """Counts and means over one target's rows. Rates and means are over the judged rows; None without any.

    Latencies are those of the target's answers.
    """

    target: str
    counts: Mapping[str, int]
    mean_score: float | None
    pass_rate: float | None
    target_cost_usd: float | None
    """None if a price is unknown."""
    judge_cost_usd: float | None
    """None if a price is unknown."""
    target_usage: Usage
    judge_usage: Usage
    latency_median_s: float | None
    latency_p95_s: float | None
    saved_usd: float = 0.0
    """The part of the costs that was not billed, because answers came from the cache."""
    is_target_estimated: bool = False
    """True if a part of the target's usage and cost was estimated from texts."""
    is_judge_estimated: bool = False
    """True if a part of the usage and cost of the judges was estimated from texts."""
    unverified: int = 0
    """The number of rows with a judge's verdict that was accepted although it may come from the judged text."""
    pass_rate_interval: Interval | None = None
    mean_interval: Interval | None = None
    latency_median_interval: Interval | None = None
    latency_p95_interval: Interval | None = None
    trials: tuple[TrialSummary, ...] = ()
    """Empty if no case is repeated."""
    clamped: int = 0
    """The number of rows with a judge's number that was a little outside 0..1."""
    latency_p5_s: float | None = None
    latency_p25_s: float | None = None
    latency_p75_s: float | None = None


class CellSummary(CountsByState, Struct, frozen=True):
    """Counts, rate and mean of the rows of one prompt with one target."""

    prompt: str | None
    """None for suites without prompts."""
    target: str
    counts: Mapping[str, int]
    mean_score: float | None
    pass_rate: float | None
    mean_interval: Interval | None = None
    pass_rate_interval: Interval | None = None
    mean_cost_usd: float | None = None
    """The mean cost of an answer, without judges; None if the cost of any answer is unknown, or there is none."""


class BestCell(Struct, frozen=True):
    """The cell with the highest mean score, compared with the one with the second-highest."""

    prompt: str | None
    target: str
    next_prompt: str | None
    next_target: str
    cases: int
    """The number of cases that were judged in both cells; the comparison is over these."""
    difference: float | None
    """The difference of the mean scores; None without common cases."""
    interval: Interval | None
    p: float
    """The two-sided p-value of a paired permutation test, corrected by Holm's method for the comparisons with all other
    cells.
    """
    is_significant: bool
    """True if every other cell is significantly lower."""
    lower: tuple[tuple[str | None, str], ...] = ()
    """Prompt and target of each cell that is significantly lower."""


class MatrixSummary(Struct, frozen=True):
    """The prompts and targets of a run, both in the order of their first rows, and the cells that have rows."""

    prompts: tuple[str | None, ...]
    targets: tuple[str, ...]
    cells: tuple[CellSummary, ...]
    best: BestCell | None = None
    """None if fewer than two cells have a judged row."""

    def cell(self, prompt: str | None, target: str) -> CellSummary | None:
        """Return a cell, None if no row has that prompt and target."""
        return next((each for each in self.cells if (each.prompt, each.target) == (prompt, target)), None)

    def is_best(self, cell: CellSummary) -> bool:
        """Return True for the cell that is significantly better than all others."""
        best = self.best
        return best is not None and best.is_significant and (best.prompt, best.target) == (cell.prompt, cell.target)


class EvaluatorSummary(Struct, frozen=True):
    """Mean score of one evaluator over the rows it judged, its pass rate, and how often it failed to judge."""

    name: str
    type: str
    judged: int
    mean_score: float | None
    errors: int
    mean_interval: Interval | None = None
    pass_rate: float | None = None
    pass_rate_interval: Interval | None = None


class MeasuredRate(Struct, frozen=True):
    """A share of rows."""

    value: float
    rows: int
    """The number of rows."""
    effective_n: float
    """The effective sample size of the rows, as those of one case are correlated."""

    @property
    def variance(self) -> float:
        """The squared standard error, value * (1 - value) / effective_n."""
        return self.value * (1 - self.value) / self.effective_n


class Confusion(Struct, frozen=True):
    """Answers counted by the verdicts of the judge and of people."""

    both_pass: int = 0
    judge_alone: int = 0
    """Only the judge passed these answers."""
    people_alone: int = 0
    """Only people passed these answers."""
    both_fail: int = 0

    @property
    def answers(self) -> int:
        """The number of all answers."""
        return self.both_pass + self.judge_alone + self.people_alone + self.both_fail

    @property
    def people_pass(self) -> int:
        """The number of answers that people judged as passing."""
        return self.both_pass + self.people_alone

    @property
    def people_fail(self) -> int:
        """The number of answers that people judged as failing."""
        return self.judge_alone + self.both_fail


class Calibration(Struct, frozen=True):
    """The accuracy of a judge, measured on answers that people judged too."""

    evaluator: str
    criterion: str
    setups: tuple[str, ...]
    """The digests of the evaluator's settings, prompts and judges, as in score keys; the calibration is valid for these
    setups only.
    """
    run_id: str
    labelled_at: datetime
    """The time of the newest label."""
    annotators: int
    cases: int
    confusion: Confusion
    sensitivity: MeasuredRate | None
    specificity: MeasuredRate | None
    kappa: float | None = None


CorrectionSource: TypeAlias = Literal["labels", "calibration"]
"""What a rate is corrected by: labels of this run, or the calibration of its judge on another one."""


class CorrectedRate(Struct, frozen=True):
    """A judge's pass rate of one target's answers, raw and corrected for the judge's errors."""

    evaluator: str
    criterion: str
    target: str
    judged: int
    raw: float
    raw_interval: Interval | None
    labels: int
    """The number of labelled answers: of this run, or of the calibration."""
    rate: float | None = None
    """None if the labels do not allow a correction."""
    interval: Interval | None = None
    reason: str | None = None
    """The reason why the labels do not allow a correction."""
    source: CorrectionSource = "calibration"
    skipped: int = 0
    """The number of labelled answers that people skipped or were unsure about."""
    bounds: tuple[float, float] | None = None
    """The rate if people failed all skipped answers, and if they passed all of them; None without any."""
    is_picked: bool = False
    """True if the labelled answers were not drawn at random, so that they may differ from the others."""
    warnings: tuple[str, ...] = ()
    """Reasons to doubt the rate, and labels that are not counted."""


class NotInBaseline(Struct, frozen=True):
    """The cases of a run that its baseline does not have, each counted once for each of its targets and prompts."""

    total: int = 0
    cases: int = 0
    """Their number without targets and prompts."""
    passed: int = 0
    failed: int = 0
    """The number of those that were judged and did not pass; the others have an error."""
    has_prompts: bool = False
    selectors: tuple[str, ...] = ()
    """The options that leave out the targets and prompts that cannot be compared, such as `--target`."""
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    """Why gates for change cannot measure the run ("") or one of its eval files, by file."""
    failed_cases: tuple[tuple[str, str], ...] = ()
    """Suite and id of the first ten cases that were judged and did not pass."""


class BaselineSummary(Struct, frozen=True):
    """A run compared with its baseline, over the cases that were judged in both."""

    baseline: str
    cases: int
    """The number of cases that were judged in both."""
    finding: str
    """A phrase: how many cases fell and rose, and better, worse, or no significant difference."""
    difference: float | None = None
    """The mean score of this run minus that of the baseline; None if no case is in both."""
    interval: Interval | None = None
    improved: int = 0
    regressed: int = 0
    evaluators: Mapping[str, float] = field(default_factory=dict)
    """The difference of the mean scores for each evaluator, by name."""
    lost: int = 0
    """The number of the baseline's cases that this run does not have."""
    added: NotInBaseline = NotInBaseline()
    """The cases that the baseline does not have."""


def baseline_to_json(summary: BaselineSummary) -> dict[str, JsonValue]:
    """Return a baseline comparison as JSON, for reports and the run's own records."""
    found, added = summary.interval, summary.added
    return {
        "baseline": summary.baseline,
        "cases": summary.cases,
        "finding": summary.finding,
        "difference": summary.difference,
        "interval": None
        if found is None
        else {"low": found.low, "high": found.high, "level": found.level, "method": found.method},
        "improved": summary.improved,
        "regressed": summary.regressed,
        "evaluators": dict(summary.evaluators),
        "lost": summary.lost,
        "added": {
            "total": added.total,
            "cases": added.cases,
            "passed": added.passed,
            "failed": added.failed,
            "has_prompts": added.has_prompts,
            "selectors": list(added.selectors),
            "unmeasured": dict(added.unmeasured),
            "failed_cases": [{"suite": suite, "eval_id": eval_id} for suite, eval_id in added.failed_cases],
        },
    }


def baseline_from_json(record: JsonValue) -> BaselineSummary | None:
    """Return a stored baseline comparison, None when there is none; missing counts are 0, missing numbers None."""
    if not isinstance(record, Mapping):
        return None
    cases, improved, regressed, lost = (_integer(record.get(key)) for key in ("cases", "improved", "regressed", "lost"))
    evaluators = record.get("evaluators")
    named = evaluators if isinstance(evaluators, Mapping) else {}
    return BaselineSummary(
        baseline=str(record.get("baseline", "")),
        cases=cases,
        finding=str(record.get("finding", "")),
        difference=_number(record.get("difference")),
        interval=_interval(record.get("interval")),
        improved=improved,
        regressed=regressed,
        evaluators={name: number for name, value in named.items() if (number := _number(value)) is not None},
        lost=lost,
        added=_added(record.get("added")),
    )


def _added(record: JsonValue) -> NotInBaseline:
    """Return what a run has and its baseline has not; empty for a run of an older version."""
    if not isinstance(record, Mapping):
        return NotInBaseline()
    total, cases, passed, failed = (_integer(record.get(key)) for key in ("total", "cases", "passed", "failed"))
    unmeasured, failed_cases = record.get("unmeasured"), objects_of(record.get("failed_cases"))
    return NotInBaseline(
        total=total,
        cases=cases,
        passed=passed,
        failed=failed,
        has_prompts=record.get("has_prompts") is True,
        selectors=strings_of(record.get("selectors")),
        unmeasured={key: str(why) for key, why in unmeasured.items()} if isinstance(unmeasured, Mapping) else {},
        failed_cases=tuple((str(each.get("suite", "")), str(each.get("eval_id", ""))) for each in failed_cases),
    )


def _interval(record: JsonValue) -> Interval | None:
    if not isinstance(record, Mapping):
        return None
    low, high, method = _number(record.get("low")), _number(record.get("high")), record.get("method")
    if low is None or high is None or method not in get_args(IntervalMethod):
        return None
    return Interval(low, high, cast(IntervalMethod, method), _number(record.get("level")) or LEVEL)


def _number(value: JsonValue) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _integer(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0
