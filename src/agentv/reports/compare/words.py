"""Comparisons in words: their sentences, and their measures as table cells, for all formats."""

from collections.abc import Sequence

from agentv.reports.document.blocks import Phrase, Quote
from agentv.reports.run.row_text import cell_text, row_reason
from agentv.reports.text.amounts import (
    count_text,
    difference_text,
    level_text,
    money_text,
    p_value_text,
    percent_text,
    score_text,
    seconds_text,
    tokens_text,
)
from agentv.reports.text.printable import one_line
from agentv.scoring.comparison.compare import Comparison
from agentv.scoring.comparison.measured import MeasureDifference
from agentv.scoring.comparison.sides import COST, INCOMPLETE, LATENCY, PASSED, SCORE, TOKENS, Side, evaluator_of
from agentv.scoring.results.aggregation import row_state
from agentv.scoring.statistics.power import MIN_CASES
from agentv.types.records.result import CaseResult
from agentv.types.results import CaseName, RunVerdict
from agentv.types.summaries import LEVEL

_MEASURE_NAMES = {
    SCORE: "mean score",
    PASSED: "pass rate",
    COST: "cost per case",
    LATENCY: "mean latency",
    TOKENS: "tokens",
}


_MIN_CHANCE = 0.0001
_SURE_CHANCE = 0.995
"""A p value from which a percentage would be rounded to 100 %."""


def reason_line(result: CaseResult) -> str:
    """Return the reason for a result's score on one line."""
    if row_state(result) != "pass":
        return row_reason(result)
    return "; ".join(map(one_line, result.hits)) or one_line(result.reasoning or "") or "passed"


def case_label(name: CaseName, comparison: Comparison) -> str:
    """Return a case's id, with suite, target and prompt if one of the runs has several."""
    return named_label(name, has_several(comparison))


def has_several(comparison: Comparison) -> tuple[bool, bool, bool]:
    """Return True for suite, target and prompt if one of the runs has several."""
    sides = (comparison.before, comparison.after)
    names = ([side.suites for side in sides], [side.targets for side in sides], [side.prompts for side in sides])
    suite, target, prompt = (any(len(each) > 1 for each in both) for both in names)
    return suite, target, prompt


def named_label(name: CaseName, several: tuple[bool, bool, bool]) -> str:
    """Return a case's id, with suite, target and prompt where there are several."""
    with_suite, with_target, with_prompt = several
    suite = f" ({name.suite})" if with_suite else ""
    cell = cell_text(name.target if with_target else None, name.prompt if with_prompt else None)
    return one_line(f"{name.eval_id}{suite}" + (f" · {cell}" if cell else ""))


def side_title(side: Side) -> str:
    """Return the label and name of a run, its state if it is not finished, and whether its files were edited."""
    name = side.run_json.get("name")
    title = f"{side.label}  {name}" if isinstance(name, str) and name != side.label else side.label
    return one_line(", ".join([title, *side_marks(side)]))


def side_marks(side: Side) -> list[str]:
    """Return the state of an unfinished run, and whether its files were edited; empty for most runs."""
    return list(filter(None, (unfinished_text(side.state), EDITED if side.edits else "")))


EDITED = "edited after it was written"
"""The mark of a run whose files are not as it recorded them."""


def unfinished_text(state: str) -> str:
    """Return the state of an unfinished run, such as `interrupted before its end`; empty for a finished one."""
    if state == INCOMPLETE:
        return "lacks planned results"
    if state == "running":
        return "being written"
    return "" if state == "finished" else f"{state} before its end"


def pairing_text(comparison: Comparison) -> str:
    """Return the number of cases with a score in both runs, and of pairs if there are several targets or prompts.

    For independent samples: the number of cases of each, and of sessions if several cases belong to one session.
    """
    if not comparison.is_paired:
        return f"{_sizes_text(comparison)}, unpaired"
    pairs, cases = len(comparison.cases), 0 if comparison.score is None else comparison.score.cases
    in_both = f"{count_text(cases, 'case')} scored in both"
    return in_both if pairs == cases else f"{in_both}, {count_text(pairs, 'pair')} of {pair_members(comparison)}"


def has_pairs(comparison: Comparison) -> bool:
    """Return True if a case has several pairs, one for each target or prompt."""
    return comparison.score is not None and len(comparison.cases) != comparison.score.cases


def pair_members(comparison: Comparison) -> str:
    """Return what a pair has in common on both sides, if a case has several pairs."""
    sides = (comparison.before, comparison.after)
    if not any(len(each.prompts) > 1 for each in sides):
        return "case and target"
    return "case, prompt and target" if any(len(each.targets) > 1 for each in sides) else "case and prompt"


def _sizes_text(comparison: Comparison) -> str:
    score = comparison.score
    if score is None or score.independent is None:
        return "no score before or after"
    sides, sizes = score.independent, score.sizes
    before = _size_text(sizes[0], sides.before.clusters, "before")
    return f"{before}, {_size_text(sizes[1], sides.after.clusters, 'after')}"


def _size_text(cases: int, sessions: int, when: str) -> str:
    return f"{cases:,} {when}" + (f" in {count_text(sessions, 'session')}" if sessions < cases else "")


def chance_sentence(comparison: Comparison) -> str:
    """Return how often equally good runs differ as much as these; empty if they always do, or p was corrected."""
    score = comparison.score
    if score is None or score.test is None or score.p != score.test.p or score.test.p >= _SURE_CHANCE:
        return ""
    return f"equally good runs differ this much by chance in {_percentage(score.test.p)} of comparisons"


def _percentage(p: float) -> str:
    """Return a p value as a percentage with two digits: `0.031 %`, `less than 0.01 %`."""
    if p < _MIN_CHANCE:
        return f"less than {100 * _MIN_CHANCE:g} %"
    return f"{100 * p:.2g} %"


def summary_sentences(comparison: Comparison) -> tuple[str, ...]:
    """Return the sentences below the table.

    They give the outcomes of pairs, the numbers of cases that pass more or less often, and the minimum detectable
    difference; independent samples have only the last.
    """
    texts = (outcomes_text(comparison), passes_text(comparison)) if comparison.is_paired else ()
    return tuple(filter(None, (chance_sentence(comparison), *texts, detectable_text(comparison))))


def outcomes_text(comparison: Comparison) -> str:
    """Return the numbers of wins, losses and ties with their threshold."""
    wins, losses, ties = (comparison.outcomes(outcome) for outcome in ("win", "loss", "tie"))
    counts = (count_text(wins, "win"), f"{losses:,} loss{'' if losses == 1 else 'es'}", count_text(ties, "tie"))
    return f"{', '.join(counts)} at a threshold of {comparison.threshold:g}"


def passes_text(comparison: Comparison) -> str:
    """Return the numbers of cases that pass more often and less often."""
    passed = comparison.passed
    return "" if passed is None else f"{passed.higher:,} pass more often, {passed.lower:,} less often"


def detectable_text(comparison: Comparison) -> str:
    """Return the minimum detectable difference of mean scores at 80 % power, or why there is none."""
    cases = 0 if comparison.score is None else comparison.score.cases
    detectable = comparison.detectable
    if detectable is not None:
        return f"minimum detectable difference at 80 % power: {detectable:.2g} ({count_text(cases, 'case')})"
    if not comparison.is_paired:
        return "too few cases, or all with the same score: the minimum detectable difference is not known"
    score = comparison.score
    sessions = cases if score is None or score.differences is None else score.differences.cases
    fewest = MIN_CASES if score is None else score.min_cases
    if cases < fewest:
        return f"{count_text(cases, 'case')}: too few to detect any difference; at least {fewest} are needed"
    if sessions < fewest:
        shown = f"{count_text(cases, 'case')} in {count_text(sessions, 'session')}"
        return f"{shown}: too few to detect any difference; at least {fewest} sessions are needed"
    if score is None or not score.difference:
        return "no score changed"
    return "the scores of all cases changed equally"


def verdict_text(verdict: RunVerdict) -> str:
    """Return the verdict of the gates with the exit code."""
    return f"{one_line(verdict.sentence)} Exit code {verdict.exit_code}."


def case_lists(comparison: Comparison) -> list[tuple[str, Sequence[CaseName]]]:
    """Return lists of cases that could not be compared, or whose content changed, each with its heading."""
    changed = list(comparison.cases.with_changed_content())
    alignment = comparison.alignment
    before, after = comparison.before, comparison.after
    return [
        (heading, names)
        for heading, names in (
            ("only before", alignment.only_before),
            ("only after", alignment.only_after),
            (
                "without a result before",
                [each.before for each in comparison.pairs_with_errors if before.error_count(each.before)],
            ),
            (
                "without a result after",
                [each.after for each in comparison.pairs_with_errors if after.error_count(each.after)],
            ),
            ("content changed", changed),
        )
        if names
    ]


MEASURE_HEADS = ("", "before", "after", "difference", "95 % CI", "p", "cases")


def _measure_name(measured: MeasureDifference) -> Phrase:
    """Return the display name of a measure."""
    evaluator = evaluator_of(measured.measure)
    return _MEASURE_NAMES[measured.measure] if evaluator is None else Quote(evaluator)


def measure_cells(comparison: Comparison) -> tuple[tuple[Phrase, ...], ...]:
    """Return one row per measure, in the order of `MEASURE_HEADS`."""
    first = [each for each in (comparison.score, comparison.passed) if each is not None]
    return tuple(_cells(each) for each in (*first, *comparison.evaluators, *comparison.spending))


def _cells(measured: MeasureDifference) -> tuple[Phrase, ...]:
    return (
        _measure_name(measured),
        _value(measured, measured.before),
        _value(measured, measured.after),
        _signed(measured, measured.difference),
        bounds_text(measured),
        p_value_text(measured.p),
        cases_text(measured),
    )


def bounds_text(measured: MeasureDifference, *, without_level: float = LEVEL) -> str:
    """Return the interval of a difference, with its level unless that is `without_level`; `-` without an interval."""
    interval = measured.interval
    if interval is None:
        return "-"
    level = "" if interval.level == without_level else f" ({level_text(interval.level)})"
    return f"{_signed(measured, interval.low).removesuffix(' pp')} to {_signed(measured, interval.high)}{level}"


def cases_text(measured: MeasureDifference) -> str:
    """Return the number of paired cases, `12`, or the sizes of independent samples, `12 / 15`."""
    if measured.independent is None:
        return f"{measured.cases:,}"
    return " / ".join(f"{size:,}" for size in measured.sizes)


def _value(measured: MeasureDifference, value: float) -> str:
    match measured.measure:
        case "pass":
            return percent_text(value)
        case "cost_usd":
            return money_text(value)
        case "latency_s":
            return seconds_text(value)
        case "tokens":
            return tokens_text(round(value))
        case _:
            return score_text(value)


def _signed(measured: MeasureDifference, value: float) -> str:
    match measured.measure:
        case "pass":
            return f"{difference_text(100 * value, decimals=1)} pp"
        case "cost_usd" | "latency_s" | "tokens":
            shown = _value(measured, abs(value))
            is_zero = shown == _value(measured, 0.0)  # at the displayed precision
            return shown if is_zero else f"{'+' if value > 0 else '-'}{shown}"
        case _:
            return difference_text(value)
