"""The report of a stored run: its recorded verdict, and numbers recounted from its rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast, get_args

from msgspec.structs import replace

from agentv.engine.running.notes import RecordedReport, load_recorded_report
from agentv.engine.stored.corrected_rates import corrected_or_note
from agentv.engine.stored.stored_plan import stored_options
from agentv.scoring.counting.summary import Summary
from agentv.scoring.gates.gates import parse_gate
from agentv.scoring.gates.run_verdict import Ending, ScopedGate, run_verdict, summary_for
from agentv.storage.run.stored import StoredRun
from agentv.types.json_value import JsonValue
from agentv.types.records.result import CaseResult
from agentv.types.results import RunReport, RunState, RunVerdict

_OLDER_RUN = "this run was made by an older agentv and has no stored verdict; the default gate is applied"


def load_report(run: StoredRun, rows: Iterable[CaseResult] | None = None) -> RunReport:
    """Count a stored run's current rows and return its report, with the verdict that it ended with.

    Callers that iterate over the rows anyway pass them as `rows`.

    The verdict of a run without a recorded one (it was killed, is being written, or was made by an older agentv) is
    computed from its rows. Raises StorageError for a row that cannot be read.
    """
    recorded = load_recorded_report(run)
    gates = _gates(run) if recorded is None else None
    may_repeat = run.may_repeat_cases()
    summary = summary_for(gates, has_targets=may_repeat)
    invalid_rows = 0
    for row in run.results() if rows is None else rows:
        summary.add(row, has_trials=may_repeat)
        invalid_rows += row.error is not None and row.error.stage == "load"
    state = _state(run)
    corrected, correction_notes = corrected_or_note(run)
    if recorded is None:
        verdict = _computed_verdict(run, summary, gates, invalid_rows=invalid_rows)
        notes = (_OLDER_RUN,) if gates is None and state == "finished" else ()
        recorded = RecordedReport(verdict, _planned(run), notes, 0.0)
    return replace(
        summary.report(run.run_id, state, recorded.verdict),
        planned=recorded.planned,
        corrected=corrected,
        notes=(*recorded.notes, *correction_notes),
        duration_s=recorded.duration_s,
        folder=str(run.folder),
        baseline=recorded.baseline,
    )


def _computed_verdict(
    run: StoredRun, summary: Summary, gates: Sequence[ScopedGate] | None, *, invalid_rows: int
) -> RunVerdict:
    ending = Ending(state=_state(run), planned=_planned(run), invalid_rows=invalid_rows)
    return run_verdict(summary, ending, gates=gates, max_errors=stored_options(run.run.plan).max_errors)


def _state(run: StoredRun) -> RunState:
    state = run.state()
    return cast(RunState, state) if state in get_args(RunState) else "failed"


def _planned(run: StoredRun) -> int | None:
    rows = run.run.plan.get("rows")
    return rows if isinstance(rows, int) else None


def _gates(run: StoredRun) -> tuple[ScopedGate, ...] | None:
    """Return the gates of the run's plan; for an older run those of its command line, or None."""
    planned = run.run.plan.get("gates")
    if isinstance(planned, list):
        gates = [each for each in planned if isinstance(each, Mapping)]
        return tuple(ScopedGate(parse_gate(str(each.get("expression"))), _text(each.get("suite"))) for each in gates)
    options = stored_options(run.run.plan)
    return None if options.gates is None else tuple(ScopedGate(parse_gate(gate)) for gate in options.gates)


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None
