"""What a stored run came to: the verdict as it was told, and the numbers counted from the rows again."""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast, get_args

from agentv.engine.running.notes import RunNotes, load_notes
from agentv.engine.stored.corrected_rates import corrected_or_note
from agentv.engine.stored.stored_plan import stored_options
from agentv.scoring.counting.summary import Summary
from agentv.scoring.gates.gates import parse_gate
from agentv.scoring.gates.run_verdict import Ending, ScopedGate, run_verdict, summary_for
from agentv.storage.run.stored import StoredRun
from agentv.types.json_value import JsonValue
from agentv.types.records.result import CaseResult
from agentv.types.results import RunReport, RunState, RunVerdict

_OLDER_RUN = "an older agentv made this run and kept no verdict; it is judged by the default gate"


def load_report(run: StoredRun, rows: Iterable[CaseResult] | None = None) -> RunReport:
    """Count a stored run's current rows and return its report, with the verdict that it ended with.

    `rows` are these rows, for whoever looks at each of them on its way.

    A run that did not say how it ended (it was killed, is being written, or is of an older agentv) is judged by the
    same function from its rows. Raises StorageError for a row that cannot be read.
    """
    told = load_notes(run)
    gates = _gates(run) if told is None else None
    is_repeated = run.may_repeat_cases()
    summary = summary_for(gates, has_targets=is_repeated)
    unread = 0
    for row in run.results() if rows is None else rows:
        summary.add(row, has_trials=is_repeated)
        unread += row.error is not None and row.error.stage == "load"
    state = _state(run)
    corrected, uncorrected = corrected_or_note(run)
    if told is None:
        verdict = _judge(run, summary, gates, unread=unread)
        notes = (_OLDER_RUN,) if gates is None and state == "finished" else ()
        told = RunNotes(verdict, _planned(run), notes, 0.0)
    return RunReport(
        run_id=run.run_id,
        state=state,
        planned=told.planned,
        targets=summary.targets(),
        evaluators=summary.evaluators(),
        groups=summary.groups(),
        corrected=corrected,
        histogram=tuple(summary.counts.histogram),
        verdict=told.verdict,
        failing=tuple(summary.counts.failing),
        failing_total=summary.counts.failing_total,
        flaky=summary.flaky,
        notes=(*told.notes, *uncorrected),
        duration_s=told.duration_s,
        folder=str(run.folder),
        baseline=told.baseline,
    )


def _judge(run: StoredRun, summary: Summary, gates: Sequence[ScopedGate] | None, *, unread: int) -> RunVerdict:
    ending = Ending(state=_state(run), planned=_planned(run), invalid_rows=unread)
    return run_verdict(summary, ending, gates=gates, max_errors=stored_options(run.run.plan).max_errors)


def _state(run: StoredRun) -> RunState:
    state = run.state()
    return cast(RunState, state) if state in get_args(RunState) else "failed"


def _planned(run: StoredRun) -> int | None:
    rows = run.run.plan.get("rows")
    return rows if isinstance(rows, int) else None


def _gates(run: StoredRun) -> tuple[ScopedGate, ...] | None:
    """Return the gates that the run was planned with; of an older run those of its command line, if it had any."""
    kept = run.run.plan.get("gates")
    if isinstance(kept, list):
        asked = [each for each in kept if isinstance(each, Mapping)]
        return tuple(ScopedGate(parse_gate(str(each.get("expression"))), _text(each.get("suite"))) for each in asked)
    options = stored_options(run.run.plan)
    return None if options.gates is None else tuple(ScopedGate(parse_gate(gate)) for gate in options.gates)


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None
