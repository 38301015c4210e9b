"""Numbers of targets, evaluators and the baseline, and corrected pass rates, as text for every report format."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from agentv.reports.document.blocks import INTERVAL, Lines, Phrase, Quote
from agentv.reports.text.amounts import (
    count_text,
    difference_text,
    money_text,
    percent_interval_text,
    percent_text,
    score_interval_text,
    score_text,
    seconds_text,
    tokens_text,
)
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import Paint, Signs
from agentv.reports.text.width import clip, table, wrap_lines
from agentv.types.results import RowState, RunReport
from agentv.types.summaries import (
    BaselineSummary,
    CorrectedRate,
    EvaluatorSummary,
    Interval,
    MatrixSummary,
    TargetSummary,
    TrialSummary,
)
from agentv.types.usage import Usage

STATE_NAMES: dict[RowState, str] = {
    "pass": "pass",
    "borderline": "borderline",
    "fail": "fail",
    "error": "errors",
    "skipped": "skipped",
}
"""The states of results as column heads."""


def baseline_lines(summary: BaselineSummary, width: int | None, signs: Signs) -> list[str]:
    """Return the difference of the mean scores, the numbers of changed cases, and the finding."""
    head = f"baseline  {one_line(summary.baseline)}"
    head = head if width is None else clip(head, width, mark=signs.ellipsis)
    if summary.difference is None:
        return [head, f"          {one_line(summary.finding)}"]
    interval = summary.interval
    bounds = "" if interval is None else f" ({difference_text(interval.low)} to {difference_text(interval.high)})"
    return [
        head,
        f"          mean difference {difference_text(summary.difference)}{bounds} over {cases_text(summary)}",
        f"          {count_text(summary.regressed, 'case')} regressed, {summary.improved:,} improved",
        f"          {summary.finding}",
    ]


def cases_text(summary: BaselineSummary) -> str:
    """Return `9 cases in both, 1 only in the baseline`; a missing case may hide a regression."""
    lost = f", {summary.lost:,} only in the baseline" if summary.lost else ""
    return f"{count_text(summary.cases, 'case')} in both{lost}"


def evaluator_difference(summary: BaselineSummary, evaluator: str) -> str:
    """Return the change of an evaluator's mean; `-` if the baseline does not have it."""
    difference = summary.evaluators.get(evaluator)
    return "-" if difference is None else difference_text(difference)


CORRECTED_HEADS = ("judge: target", "pass rate", "95 % CI", "corrected", "95 % CI", "labels")


def corrected_rows(rates: Sequence[CorrectedRate]) -> list[list[str]]:
    """Return a table of pass rates by judge, raw and corrected for the judge's errors; empty without rates."""
    return [[*CORRECTED_HEADS], *map(corrected_cells, rates)] if rates else []


def corrected_lines(rates: Sequence[CorrectedRate], width: int | None, paint: Paint, signs: Signs) -> list[str]:
    """Return the sentences, the table and the notes on corrected rates, in lines of `width` cells."""
    texts = [*table(corrected_rows(rates), width, paint, mark=signs.ellipsis)]
    around = corrected_sentences(rates), corrected_notes(rates)
    sentences, notes = ([line for each in lines for line in wrap_lines(each, width)] for lines in around)
    return [*sentences, *texts, *notes]


def corrected_cells(rate: CorrectedRate) -> list[str]:
    """Return a row of the table, in the order of `CORRECTED_HEADS`."""
    return [
        f"{_judge_name(rate)}: {one_line(rate.target)}",
        f"{percent_text(rate.raw)} of {rate.judged:,}",
        percent_interval_text(rate.raw_interval),
        percent_text(rate.rate),
        percent_interval_text(rate.interval),
        f"{rate.labels:,}",
    ]


def corrected_sentences(rates: Sequence[CorrectedRate]) -> list[str]:
    """Return a sentence for each corrected rate: `helpful: judge 49.5 %, people about 68.6 % (53 labels)`.

    Every report and page shows it. The target is named if the rates are of several.
    """
    has_targets = len({rate.target for rate in rates}) > 1
    return [
        f"{_judge_name(rate)}{f', {one_line(rate.target)}' if has_targets else ''}: judge {percent_text(rate.raw)}, "
        f"people about {percent_text(rate.rate)} ({count_text(rate.labels, 'label')})"
        for rate in rates
        if rate.rate is not None
    ]


def _judge_name(rate: CorrectedRate) -> str:
    return one_line(rate.evaluator if rate.criterion == rate.evaluator else f"{rate.evaluator}, {rate.criterion}")


def corrected_notes(rates: Sequence[CorrectedRate]) -> list[str]:
    """Return why rates are not corrected, what skipped answers may change, and warnings; one line each."""
    return [note for rate in rates for note in _corrected_notes(rate)]


def _corrected_notes(rate: CorrectedRate) -> Iterator[str]:
    name = f"judge {one_line(rate.evaluator)}, target {one_line(rate.target)}"
    if rate.reason is not None:
        yield f"not corrected for errors of {name}: {rate.reason}"
    if rate.bounds is not None:
        low, high = map(percent_text, rate.bounds)
        answers = count_text(rate.skipped, "labelled answer")
        verb = "has" if rate.skipped == 1 else "have"
        yield f"{name}: {answers} {verb} no verdict; {low} if people failed all of these, {high} if they passed all"
    for warning in rate.warnings:
        yield f"{name}: {warning}"


class Figure(Struct, frozen=True):
    """A named number as text."""

    name: str
    value: str
    interval: str = ""
    """May be empty."""
    share: float | None = None
    """The value of a rate, 0..1."""


_MIN_TABLE_RESULTS = 20
_MIN_HISTOGRAM_RESULTS = 50


def has_tables(report: RunReport) -> bool:
    """Return True for a run that is large enough for tables; a smaller one has a line for each target."""
    return sum(report.counts.values()) >= _MIN_TABLE_RESULTS


def has_histogram(report: RunReport) -> bool:
    """Return True for a run that is large enough for a histogram of its scores."""
    return sum(report.histogram) >= _MIN_HISTOGRAM_RESULTS


def target_lines(report: RunReport) -> Lines:
    """Return a line for each target of a small run: `agent: 5 of 6 passed (95 % CI 43.6 to 97 %), mean 0.88, $0.15`.

    It ends with the passes of each prompt, if the run has prompts. A note below explains estimated sums.
    """
    lines: tuple[Phrase, ...] = tuple(
        (Quote(each.target), f": {_target_text(each)}", *_prompt_texts(report.matrix, each.target))
        for each in report.targets
    )
    note = estimated_note(report.targets)
    return Lines((*lines, note) if note else lines)


def _prompt_texts(matrix: MatrixSummary | None, target: str) -> Iterator[str | Quote]:
    """Yield `; passed with short 3 of 3, long 1 of 3`, or nothing without prompts."""
    cells = () if matrix is None else matrix.cells
    named = [(each, each.prompt) for each in cells if each.target == target and each.prompt is not None]
    for number, (cell, prompt) in enumerate(named):
        yield ", " if number else "; passed with "
        yield Quote(prompt)
        yield f" {cell.counts.get('pass', 0):,} of {cell.judged:,}"


def _target_text(target: TargetSummary) -> str:
    interval = target.pass_rate_interval
    counts = target.counts
    usage = usage_text(target.target_usage, is_estimated=target.is_target_estimated)
    costs, latency = _all_costs(target), seconds_text(target.latency_median_s)
    facts = (
        f"{counts.get('pass', 0):,} of {target.judged:,} passed" if target.judged else "none judged",
        f" ({INTERVAL} {percent_interval_text(interval)})" if interval is not None else "",
        f", mean {score_text(target.mean_score)}" if target.judged else "",
        *(f", {counts[state]:,} {state}" for state in ("borderline", "skipped") if counts.get(state)),
        f", {count_text(counts['error'], 'error')}" if counts.get("error") else "",
        *(f", {getattr(target, name):,} {name}" for name in ("unverified", "clamped") if getattr(target, name)),
        f", {costs}" if costs != "-" else "",
        f", median {latency}" if latency != "-" else "",
        f", {usage} tokens" if usage != "-" else "",
    )
    return "".join(facts)


def _all_costs(target: TargetSummary) -> str:
    """Return the cost of a target and its judges: `$0.15, judges $0.02`."""
    judges = cost_text(target.judge_cost_usd, target.judge_usage, is_estimated=target.is_judge_estimated)
    costs = (
        cost_text(target.target_cost_usd, target.target_usage, is_estimated=target.is_target_estimated),
        "-" if judges == "-" else f"judges {judges}",
    )
    return ", ".join(each for each in costs if each != "-") or "-"


def shown_k(targets: Sequence[TargetSummary]) -> int:
    """Return the k for which pass@k and pass^k are shown; 0 if they are not shown.

    It is the largest k above 1 for which at least half of the cases have k trials, in every target with repeated cases.
    """
    enough = [
        {trial.k for trial in target.trials if 2 * trial.cases >= target.trials[0].cases}
        for target in targets
        if target.trials
    ]
    largest_k = max(set.intersection(*enough), default=0) if enough else 0
    return largest_k if largest_k > 1 else 0


def target_figures(target: TargetSummary, k: int) -> Iterator[Figure]:
    """Yield the numbers of a target: pass rate, mean, pass@k and pass^k, states, cost, latency and tokens."""
    yield Figure("pass rate", rate_text(target), _share_interval(target.pass_rate_interval), share=target.pass_rate)
    yield Figure("mean score", score_text(target.mean_score), _score_interval(target.mean_interval))
    for trial in target.trials:
        if trial.k == k:
            yield from _trial_figures(trial)
    for state, name in STATE_NAMES.items():
        if state != "skipped" or target.counts.get(state):
            yield Figure(name, f"{target.counts.get(state, 0):,}")
    if target.unverified:
        yield Figure("unverified", f"{target.unverified:,}")
    if target.clamped:
        yield Figure("clamped", f"{target.clamped:,}")
    target_usage, judge_usage = target.target_usage, target.judge_usage
    is_target_estimated, is_judge_estimated = target.is_target_estimated, target.is_judge_estimated
    yield Figure("cost", cost_text(target.target_cost_usd, target_usage, is_estimated=is_target_estimated))
    yield Figure("judges' cost", cost_text(target.judge_cost_usd, judge_usage, is_estimated=is_judge_estimated))
    if target.saved_usd:
        yield Figure("not billed", money_text(target.saved_usd))
    yield Figure("median", seconds_text(target.latency_median_s), _time_interval(target.latency_median_interval))
    yield Figure("p95", seconds_text(target.latency_p95_s), _time_interval(target.latency_p95_interval))
    yield Figure("tokens", usage_text(target_usage, is_estimated=is_target_estimated))
    yield Figure("judges' tokens", usage_text(judge_usage, is_estimated=is_judge_estimated))


def evaluator_figures(evaluator: EvaluatorSummary, baseline: BaselineSummary | None) -> Iterator[Figure]:
    """Yield the numbers of an evaluator: mean, difference from the baseline if there is one, and errors."""
    mean = f"{score_text(evaluator.mean_score)} of {evaluator.judged:,}"
    yield Figure("mean score", mean, _score_interval(evaluator.mean_interval))
    if baseline is not None:
        yield Figure("difference", evaluator_difference(baseline, evaluator.name))
    yield Figure("errors", f"{evaluator.errors:,}")


def _trial_figures(trial: TrialSummary) -> Iterator[Figure]:
    """Yield pass@k and pass^k over the cases that have k trials."""
    of_cases = f"of {count_text(trial.cases, 'case')}"
    yield Figure(
        f"pass@{trial.k}", f"{percent_text(trial.pass_at)} {of_cases}", _share_interval(trial.pass_at_interval)
    )
    yield Figure(
        f"pass^{trial.k}", f"{percent_text(trial.pass_hat)} {of_cases}", _share_interval(trial.pass_hat_interval)
    )


def _share_interval(interval: Interval | None) -> str:
    return "" if interval is None else percent_interval_text(interval)


def _score_interval(interval: Interval | None) -> str:
    return "" if interval is None else score_interval_text(interval)


def _time_interval(interval: Interval | None) -> str:
    return "" if interval is None else f"{seconds_text(interval.low)} to {seconds_text(interval.high)}"


BASELINE_HEADS = ("metric", "difference", "95 % CI", "cases improved", "cases regressed")


def baseline_cells(summary: BaselineSummary) -> tuple[str, ...]:
    """Return the comparison with the baseline, in the order of `BASELINE_HEADS`; empty without common cases."""
    if summary.difference is None:
        return ()
    interval = summary.interval
    return (
        f"mean score of {cases_text(summary)}",
        difference_text(summary.difference),
        "-" if interval is None else f"{difference_text(interval.low)} to {difference_text(interval.high)}",
        f"{summary.improved:,}",
        f"{summary.regressed:,}",
    )


def rate_text(target: TargetSummary) -> str:
    """Return the pass rate with its denominator."""
    return f"{percent_text(target.pass_rate)} of {target.judged:,}" if target.judged else "none judged"


def usage_text(usage: Usage | None, *, is_estimated: bool = False) -> str:
    """Return the total tokens of a usage, marked if they are partly estimated; `-` without tokens."""
    if usage is None or usage == Usage():
        return "-"
    return f"{ESTIMATED if is_estimated else ''}{tokens_text(usage.total or usage.input + usage.output)}"


def cost_text(dollars: float | None, usage: Usage, *, is_estimated: bool = False) -> str:
    """Return a cost, marked if it is partly estimated; `-` if it is unknown, or if nothing was used or paid."""
    if dollars is None or (not dollars and usage == Usage()):
        return "-"
    return f"{ESTIMATED if is_estimated else ''}{money_text(dollars)}"


ESTIMATED = "~"
"""Marks sums of dollars and tokens of which a part is estimated."""


def estimated_note(targets: Sequence[TargetSummary]) -> str:
    """Return the explanation of the mark of estimated sums, for the line below a table; empty if none is marked."""
    if not any(target.is_target_estimated or target.is_judge_estimated for target in targets):
        return ""
    return f"{ESTIMATED} partly estimated: not every call reported what it used"
