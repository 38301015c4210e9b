"""Every combination of a run's ending, results and gates, against the order of exit codes in docs/reference/gates.md.

"Order: 4, 5, 130, then 1 if the cleanly judged results already fail the gate, then 3, then 2. A run with no cleanly
judged result never passes." `expected` repeats this rule, written from the text and not from the code.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count, product

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.rows import make_row

from agentv.scoring.counting.summary import Summary
from agentv.scoring.gates.gates import BASELINE_METRICS, METRICS, parse_gate
from agentv.scoring.gates.run_verdict import Ending, ScopedGate, run_verdict
from agentv.types.failures import Failure
from agentv.types.records.result import CaseResult
from agentv.types.results import RunState, RunVerdict

BROKEN = Failure("evaluator_error", "the judge gave no JSON", stage="evaluator")
SCORES = {"p": 1.0, "b": 0.7, "f": 0.0}
"""Rows are written as letters: pass, borderline, fail, error, skipped."""

ROWS = ("", "p", "ppp", "b", "pb", "f", "pf", "e", "eeee", "s", "ps", "es", "pe", "peeee", "be", "fe", "feeee", "pbfes")
GATES = {
    "default": None,
    "none": (),
    "holds": ("mean >= 0",),
    "fails": ("mean > 1",),
    "holds but for errors": ("errors <= 0",),
    "not evaluated": ("~mean > 1",),
    "holds, and one is not evaluated": ("~mean > 1", "mean >= 0"),
    "fails, and one is not evaluated": ("mean > 1", "~mean >= 0"),
    "cannot be measured": ("tag(unknown).mean >= 0",),
    "holds, and one cannot be measured": ("mean >= 0", "tag(unknown).mean >= 0"),
    "fails, and one cannot be measured": ("tag(unknown).mean >= 0", "mean > 1"),
}
"""The gates by situation; one that begins with `~` is not evaluated."""
ENDS: tuple[tuple[RunState, int], ...] = (
    ("finished", 2),
    ("stopped", 2),
    ("interrupted", 2),
    ("interrupted", 15),
    ("failed", 2),
    ("running", 2),
)


@dataclass(frozen=True)
class Situation:
    state: RunState
    signal: int
    rows: str
    gates: str
    max_errors: int
    invalid: int
    missing: int | None

    @cache  # noqa: B019 - as many as the table has
    def verdict(self) -> RunVerdict:
        expressions = GATES[self.gates]
        planned = None if self.missing is None else len(self.rows) + self.missing
        ending = Ending(self.state, reason="why", planned=planned, invalid_rows=self.invalid, signal_number=self.signal)
        gates = None if expressions is None else [_scoped(each) for each in expressions]
        return run_verdict(summary_of(self.rows), ending, gates=gates, max_errors=self.max_errors)


def _scoped(expression: str) -> ScopedGate:
    gate = parse_gate(expression.lstrip("~"))
    return ScopedGate(gate, not_evaluated="it does not apply" if expression.startswith("~") else None)


def rows_of(letters: str) -> Iterator[CaseResult]:
    """Yield the rows. Those without a result have their own ids, so that the others are the same without them."""
    numbers = defaultdict[bool, Iterator[int]](count)
    for letter in letters:
        name = f"{'broken' if letter == 'e' else 'case'}{next(numbers[letter == 'e'])}"
        if letter == "s":
            yield make_row(name, score=None, is_skipped=True)
        elif letter == "e":
            yield make_row(name, score=None, error=BROKEN)
        else:
            yield make_row(name, score=SCORES[letter])


@cache
def summary_of(letters: str) -> Summary:
    summary = Summary()
    for row in rows_of(letters):
        summary.add(replace(row, duration_ms=1500.0))
    return summary


def expected(of: Situation) -> tuple[int, str]:
    counts = Counter(of.rows)
    judged = counts["p"] + counts["b"] + counts["f"]
    gate_fails = {
        "default": counts["p"] < judged,
        "not evaluated": counts["p"] < judged,
        "fails": True,
        "fails, and one cannot be measured": True,
        "fails, and one is not evaluated": True,
        "holds but for errors": counts["e"] > 0,
    }
    judged_fail = judged > 0 and gate_fails.get(of.gates, False)
    is_short = of.state == "finished" and (of.missing or 0) > 0
    has_no_clean_row = judged == 0 and not (of.state == "stopped" and not of.rows)
    in_order = [
        (4, "INVALID", of.invalid > 0),
        (5, "NOTHING SELECTED", of.state == "finished" and not of.rows),
        (128 + of.signal, "INTERRUPTED", of.state == "interrupted"),
        (1, "FAIL", judged_fail),
        (3, "INCOMPLETE", of.state in ("failed", "running") or is_short or has_no_clean_row),
        (3, "INCOMPLETE", counts["e"] > of.max_errors),
        (2, "STOPPED", of.state == "stopped"),
        (3, "INCOMPLETE", "cannot be measured" in of.gates),
        (0, "NO GATE" if of.gates == "none" else "PASS", True),
    ]
    return next((code, word) for code, word, holds in in_order if holds)


SITUATIONS = [
    Situation(state, signal, rows, gates, max_errors, invalid, missing)
    for (state, signal), rows, gates, max_errors, invalid, missing in product(
        ENDS, ROWS, GATES, (0, 2), (0, 1), (None, 0, 3)
    )
]


def test_every_situation_has_its_exit_code_and_sentence() -> None:
    wrong = []
    for situation in SITUATIONS:
        verdict = situation.verdict()
        actual = verdict.exit_code, verdict.sentence.split(":")[0]
        if actual != expected(situation):
            wrong.append((situation, actual, expected(situation)))
    assert wrong == []


def test_the_table_has_every_exit_code_under_every_gate() -> None:
    for gates in GATES:
        codes = {each.verdict().exit_code for each in SITUATIONS if each.gates == gates}
        has_unmet_gate = "fails" in gates or "cannot" in gates
        never_fails = gates in ("none", "cannot be measured") or gates.startswith("holds")
        can_fail = not never_fails or gates == "holds but for errors"
        assert codes == {4, 5, 130, 143, 3, 2} | ({1} if can_fail else set()) | (set() if has_unmet_gate else {0})


def test_only_fully_judged_runs_under_a_gate_that_holds_pass() -> None:
    for situation in SITUATIONS:
        verdict = situation.verdict()
        if verdict.sentence.startswith("PASS"):
            assert set(situation.rows) & set("pbf")
            assert any(gate.passed for gate in verdict.gates)
            assert {gate.state for gate in verdict.gates} <= {"passed", "not_evaluated"}


gate_lists = st.none() | st.lists(
    st.sampled_from(["mean >= 0", "errors >= 0", "error_rate <= 100%", "cost_usd <= 5", "regressions <= 0"])
)


@given(
    rows=st.text("es", min_size=1, max_size=30),
    gates=gate_lists,
    max_errors=st.integers(0, 50),
    state=st.sampled_from(["finished", "stopped", "failed", "running"]),
)
def test_a_run_whose_every_row_failed_to_execute_never_passes(
    rows: str, gates: list[str] | None, max_errors: int, state: RunState
) -> None:
    scoped = None if gates is None else [ScopedGate(parse_gate(each)) for each in gates]
    verdict = run_verdict(summary_of(rows), Ending(state), gates=scoped, max_errors=max_errors)
    assert verdict.exit_code == 3
    assert verdict.sentence.startswith("INCOMPLETE")


@given(judged=st.text("pbfs", max_size=20), errors=st.integers(0, 20), at=st.integers(0, 20))
def test_rows_with_a_failed_judge_change_no_metric_and_are_reported(judged: str, errors: int, at: int) -> None:
    clean, broken = summary_of(judged), summary_of(judged[:at] + "e" * errors + judged[at:])
    for metric in MEASUREMENTS:
        assert broken.measure(*metric) == clean.measure(*metric), metric
        assert broken.interval(*metric) == clean.interval(*metric), metric
    assert broken.all.counts["error"] == errors
    verdict = run_verdict(broken, Ending("finished"), gates=(), max_errors=errors)
    assert (f"{errors} result" in verdict.sentence and " with " in verdict.sentence) is (errors > 0)


MEASUREMENTS = [
    (gate.name, gate.argument, gate.field)
    for gate in (
        parse_gate(f"{form.replace('K', '2').replace('NAME', name)} >= 0")
        for name in ("t", "tone", "s", "unknown")
        for metric, described in METRICS.items()
        if metric not in ("errors", "error_rate", "cost_usd", *BASELINE_METRICS)
        for form in described.forms(metric)
    )
]
