"""The one function that says how a run ended. Terminal, JUnit, Markdown, HTML and JSON print its sentence."""

from collections.abc import Sequence
from typing import Protocol

from agentv.scoring.gates import Gate, Measurements
from agentv.scoring.summary import Tally
from agentv.types.results import GateResult, RunState, RunVerdict

PASSED = 0
GATE_FAILED = 1
STOPPED = 2
INCOMPLETE = 3
NOTHING_SELECTED = 5
SIGNALLED = 128
INTERRUPT_SIGNAL = 2


class Counted(Measurements, Protocol):
    """A summary as the verdict needs it."""

    @property
    def all(self) -> Tally:
        """The tally over all rows."""


def run_verdict(
    counted: Counted,
    *,
    gates: Sequence[Gate] | None,
    state: RunState,
    reason: str | None = None,
    max_errors: int = 0,
    invalid_rows: int = 0,
    signal_number: int = INTERRUPT_SIGNAL,
    planned: int | None = None,
) -> RunVerdict:
    """Return exit code and sentence of a run (product.md, "Exit codes").

    `reason` says why a run was stopped or could not go on. `gates` None is the default gate (every judged row passes),
    an empty sequence is no gate. `planned` is how many rows there should be, if that is known. A run with no cleanly
    judged row never passes. Order: 4 (lines that could not be read), 5, 130, then 1 if the judged rows already fail
    the gate, then 3, then 2.
    """
    rows, errors = counted.all, counted.all.counts["error"]
    results = _check_gates(counted, gates)
    broken = [result for result in results if not result.passed]
    if invalid_rows:
        return RunVerdict(4, f"INVALID: {_count(invalid_rows, 'line')} of a dataset could not be read.", results)
    if state == "interrupted":
        sentence = f"INTERRUPTED: {_count(rows.judged, 'row')} judged so far."
        return RunVerdict(SIGNALLED + signal_number, sentence, results)
    if not rows.rows and state in ("finished", "stopped"):
        return RunVerdict(NOTHING_SELECTED, "NOTHING SELECTED: no case matches what was asked for.", results)
    if rows.judged and broken:
        return RunVerdict(GATE_FAILED, f"FAIL: {_and(broken)}.{_beside(errors)}", results)
    if state == "failed":
        return RunVerdict(INCOMPLETE, f"INCOMPLETE: {reason or 'the run could not go on'}.{_beside(errors)}", results)
    if state == "finished" and planned is not None and rows.rows < planned:
        return RunVerdict(INCOMPLETE, f"INCOMPLETE: only {rows.rows:,} of {planned:,} planned rows were made.", results)
    if not rows.judged:
        return RunVerdict(INCOMPLETE, f"INCOMPLETE: no row could be judged.{_beside(errors)}", results)
    if errors > max_errors:
        return RunVerdict(
            INCOMPLETE,
            f"INCOMPLETE: {_count(errors, 'row')} without a result; {_state_of_gates(results)} on the "
            f"{rows.judged} judged.",
            results,
        )
    if state == "stopped":
        return RunVerdict(STOPPED, f"STOPPED: {reason}; {_count(rows.judged, 'row')} judged.", results)
    return RunVerdict(PASSED, f"PASS: {_and(results) or _rows_passed(rows)}.{_beside(errors)}", results)


def _check_gates(counted: Counted, gates: Sequence[Gate] | None) -> tuple[GateResult, ...]:
    if gates is not None:
        return tuple(gate.check(counted) for gate in gates)
    rows = counted.all
    passed = rows.judged > 0 and rows.counts["pass"] == rows.judged
    value = rows.pass_rate
    return (GateResult("every judged row passes", passed=passed, value=value, sentence=_rows_passed(rows)),)


def _rows_passed(rows: Tally) -> str:
    rate = f" ({100 * rows.pass_rate:.4g} %)" if rows.pass_rate is not None else ""
    return f"{rows.counts['pass']} of {_count(rows.judged, 'judged row')} passed{rate}"


def _state_of_gates(results: Sequence[GateResult]) -> str:
    return "the gate holds" if results and all(result.passed for result in results) else "no gate was asked for"


def _and(results: Sequence[GateResult]) -> str:
    return "; ".join(result.sentence for result in results)


def _beside(errors: int) -> str:
    return f" {_count(errors, 'row')} without a result." if errors else ""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
