"""The verdict of a run. Terminal, JUnit, Markdown, HTML and JSON all print its sentence."""

from collections.abc import Sequence
from typing import Protocol, Self

from msgspec import Struct
from msgspec.structs import replace

from agentv.scoring.counting.case_sums import Spill
from agentv.scoring.counting.matrix import PlanOrder
from agentv.scoring.counting.summary import Summary
from agentv.scoring.counting.tallies import Tally
from agentv.scoring.gates.case_units import cases_text
from agentv.scoring.gates.gates import Gate, Measurements, parse_gate
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.results import GateResult, GateState, RunState, RunVerdict
from agentv.types.summaries import NotInBaseline

PASSED = 0
GATE_FAILED = 1
STOPPED = 2
INCOMPLETE = 3
NOTHING_SELECTED = 5
SIGNALLED = 128
INTERRUPT_SIGNAL = 2

EVERY_RESULT_PASSES = parse_gate("pass_rate >= 100%")
"""The gate of a suite that has none, if other suites of the run have gates."""

_WHY_INCOMPLETE = {"failed": "the run could not continue", "running": "the run is not over"}


class ScopedGate(Struct, frozen=True):
    """A gate with its scope: the whole run, or the results of one eval file."""

    gate: Gate
    suite: str | None = None
    """The eval file, which the gate's sentence then names; None for the whole run."""
    not_evaluated: str | None = None
    """The reason why the gate does not apply to the run, None if it does.

    It is a clause such as "the selection leaves out tag 'refund'".
    """
    recorded: GateResult | None = None
    """The result that a stored run has recorded, if its rows alone do not give it."""

    def check(self, counted: "VerdictCounts") -> GateResult:
        """Check the gate on the results of its scope."""
        if self.recorded is not None:
            return self.recorded
        if self.not_evaluated is not None:
            expression = self.gate.expression
            result = GateResult(expression, "not_evaluated", None, f"{expression} ({self.not_evaluated})")
        else:
            result = self.gate.check(counted if self.suite is None else counted.of_suite(self.suite))
        return result if self.suite is None else replace(result, sentence=f"{self.suite}: {result.sentence}")

    def to_json(self) -> dict[str, JsonValue]:
        """Return the gate as it is stored with a run."""
        reason: dict[str, JsonValue] = {} if self.not_evaluated is None else {"not_evaluated": self.not_evaluated}
        return {"expression": self.gate.expression, "suite": self.suite, **reason}

    @classmethod
    def from_json(cls, fields: JsonObject) -> Self:
        """Return a stored gate. Raises GateError if its expression cannot be parsed."""
        suite, reason = fields.get("suite"), fields.get("not_evaluated")
        return cls(
            parse_gate(str(fields.get("expression"))),
            suite if isinstance(suite, str) else None,
            reason if isinstance(reason, str) else None,
        )


class VerdictCounts(Measurements, Protocol):
    """The measurements and counts that a verdict needs."""

    @property
    def all(self) -> Tally:
        """The tally over all rows."""

    @property
    def unverified(self) -> int:
        """The number of rows with an unverified verdict of a judge."""

    @property
    def reruns(self) -> int:
        """The number of results that were re-run after they had an answer."""

    @property
    def rescored(self) -> int:
        """How often answers were judged again."""

    @property
    def clamped(self) -> int:
        """The number of rows with a judge's number that was clamped to 0..1."""

    @property
    def judge_failures(self) -> tuple[int, int]:
        """The number of rows that a judge failed to judge, and of all rows for which one was called."""

    @property
    def not_in_baseline(self) -> NotInBaseline:
        """The cases that the baseline of the run does not have."""

    def of_suite(self, suite: str) -> Measurements:
        """Return the measurements over one suite's rows."""


class Ending(Struct, frozen=True):
    """The ending of a run."""

    state: RunState
    reason: str | None = None
    """Why the run did not finish, or why it finished without results."""
    planned: int | None = None
    """The planned number of results, None if it is not known."""
    invalid_rows: int = 0
    signal_number: int = INTERRUPT_SIGNAL
    is_stored: bool = True
    """True if results were stored."""
    noun: str = "result"
    """The word for a result in messages."""
    is_judge_stop: bool = False
    """True if a judge that kept failing ended the run, which is then incomplete, whatever its gates say."""
    incomplete: str | None = None
    """Another reason why no verdict can be given."""
    is_merged: bool = False
    """True for a run that was merged from shards: without all of them its gates decide nothing."""
    replaced_gates: str | None = None
    """A clause that names the gates of files that other gates replaced, None if there are none."""

    def lacks_results(self, rows: int) -> bool:
        """Return True for a finished run with fewer results than planned."""
        return self.state == "finished" and self.planned is not None and rows < self.planned


def why_mixed(differences: Sequence[str]) -> str | None:
    """Return why a run that was merged from different shards has no verdict; None without `differences`."""
    return f"the merged runs are not shards of one run: {'; '.join(differences)}" if differences else None


def run_verdict(
    counted: VerdictCounts, ending: Ending, *, gates: Sequence[ScopedGate] | None, max_errors: int = 0
) -> RunVerdict:
    """Return exit code and sentence of a run (docs/reference/gates.md).

    `gates` None is the default gate (every judged result passes), an empty sequence is no gate. A run without a judged
    result never passes. The first exit code that applies is returned: 4 (lines could not be read), 130 (interrupted;
    128 + signal), 5 (nothing selected), 1 if the judged results fail a gate and no failing judge ended the run, 3
    (incomplete), 2 (stopped early), 3 if a gate is undecided, 0. A gate that is not evaluated neither passes nor fails;
    if a scope has no other, its judged results must all pass.
    """
    rows = counted.all
    results = _check_gates(counted, gates, ending.noun)
    evaluated = [result for result in results if result.is_evaluated]
    not_passed = [result for result in evaluated if not result.passed]
    judge = _failing_judge(counted, ending.noun)
    details = _not_evaluated(results) + _with_errors_and_unverified(counted, ending.noun)
    details += _not_in_baseline(counted.not_in_baseline, results)
    details += "" if ending.replaced_gates is None else f" {ending.replaced_gates}."
    ending_note = _ending_note(ending, rows)
    if ending.invalid_rows:
        return RunVerdict(4, f"INVALID: {_count(ending.invalid_rows, 'line')} of a dataset could not be read.", results)
    if ending.state == "interrupted":
        sentence = f"INTERRUPTED: {_of_planned(rows.rows, ending)} {'stored' if ending.is_stored else 'complete'}."
        return RunVerdict(SIGNALLED + ending.signal_number, sentence, results)
    if not rows.rows and ending.state == "finished":
        why = ending.reason or "no case matches the selection"
        return RunVerdict(NOTHING_SELECTED, f"NOTHING SELECTED: {why}.", results)
    has_failed = rows.judged and any(each.state == "failed" for each in evaluated)
    lacks_shards = ending.is_merged and ending.lacks_results(rows.rows)
    if has_failed and not (ending.is_judge_stop or ending.incomplete or lacks_shards):
        return RunVerdict(GATE_FAILED, f"FAIL: {judge}{_sentences(not_passed)}.{details}{ending_note}", results)
    incomplete = _incomplete(ending, counted, results, max_errors)
    if incomplete is not None:
        return RunVerdict(INCOMPLETE, f"INCOMPLETE: {judge}{incomplete}", results)
    if ending.state == "stopped":
        why = ending.reason or "the run ended early"
        return RunVerdict(STOPPED, f"STOPPED: {why}; {_of_planned(rows.rows, ending)} complete.", results)
    if not_passed:
        return RunVerdict(INCOMPLETE, f"INCOMPLETE: {judge}{_sentences(not_passed)}.{details}", results)
    if not evaluated:
        return RunVerdict(PASSED, f"NO GATE: {_rows_passed(rows, ending.noun)}.{details}", results)
    return RunVerdict(PASSED, f"PASS: {_sentences(evaluated)}.{details}", results)


def _incomplete(ending: Ending, counted: VerdictCounts, results: Sequence[GateResult], max_errors: int) -> str | None:
    """Return what a run lacks, or None when it is complete."""
    rows, errors = counted.all, counted.all.counts["error"]
    if ending.incomplete is not None:
        passed = _rows_passed(rows, ending.noun)
        return f"{ending.incomplete}. {passed}.{_with_errors_and_unverified(counted, ending.noun)}"
    if ending.state in ("failed", "running"):
        progress = f" {_of_planned(rows.rows, ending)} complete." if rows.rows else ""
        return f"{ending.reason or _WHY_INCOMPLETE[ending.state]}.{progress}"
    if ending.lacks_results(rows.rows):
        return f"only {_of_planned(rows.rows, ending)} complete."
    if not rows.judged and (rows.rows or ending.state != "stopped"):
        return f"no {ending.noun} could be judged.{_with_errors_and_unverified(counted, ending.noun)}"
    if errors > max_errors:
        judged = _count(rows.judged, f"judged {ending.noun}")
        return (
            f"{_with_errors(errors, ending.noun)}; {_state_of_gates(results)} on the {judged}."
            f"{_skipped_unverified_and_rerun(counted, ending.noun)}"
        )
    return None


def _ending_note(ending: Ending, rows: Tally) -> str:
    """Return a sentence that says why a run that failed its gate ended early; empty if it finished."""
    if ending.state == "running":
        return f" The run is not over; {_of_planned(rows.rows, ending)} complete."
    if ending.state not in ("stopped", "failed"):
        return ""
    why = ending.reason or "it could not continue"
    return f" The run ended early: {why}; {_of_planned(rows.rows, ending)} complete."


def _of_planned(rows: int, ending: Ending) -> str:
    if ending.planned is None or ending.planned < rows:
        return f"{_count(rows, ending.noun)} {'is' if rows == 1 else 'are'}"
    verb = "is" if 1 in (rows, ending.planned) else "are"
    return f"{rows:,} of {_count(ending.planned, f'planned {ending.noun}')} {verb}"


def scopes_of_default_gate(gates: Sequence[ScopedGate] | None) -> tuple[str | None, ...]:
    """Return the scopes without an evaluated gate, whose results must all pass; `gates` None has none for the run."""
    if gates is None:
        return (None,)
    evaluated = {scoped.suite for scoped in gates if scoped.not_evaluated is None}
    return tuple(dict.fromkeys(scoped.suite for scoped in gates if scoped.suite not in evaluated))


def _check_gates(counted: VerdictCounts, gates: Sequence[ScopedGate] | None, noun: str) -> tuple[GateResult, ...]:
    """Return the results of the gates, and of the default gate for each scope without an evaluated one."""
    bare = [_default_gate(counted, suite, noun) for suite in scopes_of_default_gate(gates)]
    return (*(scoped.check(counted) for scoped in gates or ()), *bare)


def _default_gate(counted: VerdictCounts, suite: str | None, noun: str) -> GateResult:
    """Check that every judged result passes: of the run, or of one suite."""
    if suite is not None:
        return ScopedGate(EVERY_RESULT_PASSES, suite).check(counted)
    rows = counted.all
    state: GateState = "undecided" if not rows.judged else "passed" if rows.counts["pass"] == rows.judged else "failed"
    return GateResult(f"every judged {noun} passes", state, rows.pass_rate, _rows_passed(rows, noun))


def _rows_passed(rows: Tally, noun: str) -> str:
    rate = f" ({100 * rows.pass_rate:.4g} %)" if rows.pass_rate is not None else ""
    return f"{rows.counts['pass']:,} of {_count(rows.judged, f'judged {noun}')} passed{rate}"


def _state_of_gates(results: Sequence[GateResult]) -> str:
    evaluated = [result for result in results if result.is_evaluated]
    if not evaluated:
        return "no gate was set"
    if not all(result.passed for result in evaluated):
        return "a gate is undecided"
    return "the gate holds" if len(evaluated) == 1 else "all gates hold"


def _not_evaluated(results: Sequence[GateResult]) -> str:
    """Return a sentence that lists the gates that do not apply to the run; empty if all do."""
    left = [result for result in results if not result.is_evaluated]
    return f" Not evaluated: {_sentences(left)}." if left else ""


def _not_in_baseline(added: NotInBaseline, results: Sequence[GateResult]) -> str:
    """Return how many cases the baseline does not have, how they ended, and what to do if gates are undecided."""
    if not added.total:
        return ""
    errors = added.total - added.passed - added.failed
    ended = f"{added.passed:,} passed, {added.failed:,} failed{f', {errors:,} with errors' if errors else ''}"
    number = cases_text(added.total, added.cases, has_prompts=added.has_prompts)
    said = f" {number} {'is' if added.cases == 1 else 'are'} not in the baseline: {ended}."
    if added.selectors and any(each.state == "undecided" for each in results):
        said += f" Save one that has them with: agentv baseline save; or leave them out with {added.selectors[0]}."
    return said


def _sentences(results: Sequence[GateResult]) -> str:
    return "; ".join(result.sentence for result in results)


def _failing_judge(counted: VerdictCounts, noun: str) -> str:
    """Return the start of a verdict that says how often judges failed, as they may be the cause; empty if never."""
    failures, called = counted.judge_failures
    return f"the judge failed on {failures:,} of {_count(called, noun)}; " if failures else ""


def _with_errors_and_unverified(counted: VerdictCounts, noun: str) -> str:
    """Return the end of a verdict: the numbers of results with errors, skipped, unverified and re-run."""
    errors = counted.all.counts["error"]
    said = f" {_with_errors(errors, noun)}." if errors else ""
    return said + _skipped_unverified_and_rerun(counted, noun)


def _skipped_unverified_and_rerun(counted: VerdictCounts, noun: str) -> str:
    """Return what a reader must know of results that count, and of those that do not."""
    skipped, reruns, rescored = counted.all.counts["skipped"], counted.reruns, counted.rescored
    said = f" {_count(skipped, noun)} {'was' if skipped == 1 else 'were'} skipped." if skipped else ""
    if counted.unverified:
        said += f" {_count(counted.unverified, noun)} {'is' if counted.unverified == 1 else 'are'} unverified."
    if counted.clamped:
        said += f" {_count(counted.clamped, noun)} {'has' if counted.clamped == 1 else 'have'} a clamped score."
    if reruns:
        said += f" {_count(reruns, noun)} {'was' if reruns == 1 else 'were'} re-run; first answers count."
    return said + (f" Answers were rescored {_count(rescored, 'time')}." if rescored else "")


def _with_errors(number: int, noun: str) -> str:
    return f"{_count(number, noun)} with {'an error' if number == 1 else 'errors'}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def summary_for(
    gates: Sequence[ScopedGate] | None,
    *,
    has_shared_cases: bool,
    has_given_answers: bool = False,
    order: PlanOrder | None = None,
) -> Summary:
    """Return a summary that also counts each suite with gates of its own; other arguments are as for Summary."""
    suites = {scoped.suite for scoped in gates or () if scoped.suite is not None}
    return Summary(
        suites, named=_names(gates), has_shared_cases=has_shared_cases, has_given_answers=has_given_answers, order=order
    )


def stream_summary_for(gates: Sequence[ScopedGate] | None, spill: Spill | None = None) -> Summary:
    """Return a summary of a stream of existing answers; with a `spill` it takes bounded memory."""
    return Summary(by=("criterion",), named=_names(gates), has_shared_cases=False, has_given_answers=True, spill=spill)


def _names(gates: Sequence[ScopedGate] | None) -> frozenset[tuple[str, str]]:
    """Return kind and name of each group that a gate names."""
    named = (scoped.gate for scoped in gates or () if scoped.gate.metric.takes == "name")
    return frozenset((gate.name, gate.argument or "") for gate in named)
