"""What is said of a comparison, whatever format says it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from agentv.reports.run.row_text import row_reason
from agentv.reports.text.amounts import count_text
from agentv.reports.text.printable import one_line
from agentv.scoring.comparison.compare import CaseDifference, Comparison
from agentv.scoring.comparison.sides import CaseName, Side
from agentv.scoring.results.aggregation import row_state
from agentv.scoring.statistics.power import FEWEST_CASES
from agentv.types.records.result import CaseResult
from agentv.types.results import RunVerdict


class Reasons(NamedTuple):
    """Why a case got its scores, before and after; None where only scores were kept."""

    before: str | None
    after: str | None


FindReasons: TypeAlias = Callable[[CaseDifference], Reasons]


def reason_of(result: CaseResult) -> str:
    """Return on one line why a row was judged as it was."""
    if row_state(result) != "pass":
        return row_reason(result)
    return "; ".join(map(one_line, result.hits)) or one_line(result.reasoning or "") or "passed"


def case_label(name: CaseName, comparison: Comparison) -> str:
    """Return a case's id, with suite and target where one of the runs has several."""
    sides = (comparison.before, comparison.after)
    suite = f" ({name.suite})" if any(len(side.suites) > 1 for side in sides) else ""
    target = f" {name.target}" if any(len(side.targets) > 1 for side in sides) else ""
    return one_line(f"{name.eval_id}{suite}{target}")


def side_title(side: Side) -> str:
    """Return how a run is called, with the name that it was given, and that it did not come to its end."""
    name = side.about.get("name")
    called = f"{side.label}  {name}" if isinstance(name, str) and name != side.label else side.label
    unfinished = unfinished_text(side.state)
    return one_line(f"{called}, {unfinished}" if unfinished else called)


def unfinished_text(state: str) -> str:
    """Return how far a run is that is not finished: `interrupted before its end`; empty for a finished one."""
    if state == "running":
        return "being written"
    return "" if state == "finished" else f"{state} before its end"


def paired_text(comparison: Comparison) -> str:
    """Return in how many cases both runs were judged, and how often where several targets were asked."""
    pairs, cases = len(comparison.cases), 0 if comparison.score is None else comparison.score.cases
    targets = "" if pairs == cases else f", {pairs:,} with each of their targets"
    return f"{count_text(cases, 'case')} judged in both{targets}"


def moves_text(comparison: Comparison) -> str:
    """Return how many cases were won, lost and tied."""
    wins, losses, ties = (comparison.outcomes(outcome) for outcome in ("win", "loss", "tie"))
    lost = f"{losses:,} loss{'' if losses == 1 else 'es'}"
    return f"{count_text(wins, 'win')}, {lost}, {count_text(ties, 'tie')} at a threshold of {comparison.threshold:g}"


def passes_text(comparison: Comparison) -> str:
    """Return how many cases pass more often, and how many less often."""
    passed = comparison.passed
    return "" if passed is None else f"{passed.higher:,} pass more often, {passed.lower:,} less often"


def detectable_text(comparison: Comparison) -> str:
    """Return the smallest difference of mean scores that these cases could have shown."""
    cases = 0 if comparison.score is None else comparison.score.cases
    least = comparison.detectable
    if least is not None:
        return f"{count_text(cases, 'case')} show a difference of {least:.2g} or more in 80 of 100 comparisons"
    if cases < FEWEST_CASES:
        return f"{count_text(cases, 'case')} cannot show any difference; it takes {FEWEST_CASES} at least"
    score = comparison.score
    return "all cases moved by the same" if score is not None and score.difference else "no case moved"


def verdict_text(verdict: RunVerdict) -> str:
    """Return the verdict of the gates, as every report of a run ends."""
    return f"{one_line(verdict.sentence)} Exit code {verdict.exit_code}."


def counterpart_notes(comparison: Comparison) -> list[tuple[str, Sequence[CaseName]]]:
    """Return the lists of cases that stand aside: what is the matter with them, and their names."""
    changed = [case.pair.after for case in comparison.cases if case.is_changed]
    alignment = comparison.alignment
    before, after = comparison.before, comparison.after
    return [
        (what, names)
        for what, names in (
            ("only before", alignment.only_before),
            ("only after", alignment.only_after),
            ("without a result before", [each.before for each in comparison.broken if before.broken(each.before)]),
            ("without a result after", [each.after for each in comparison.broken if after.broken(each.after)]),
            ("content changed since", changed),
        )
        if names
    ]
