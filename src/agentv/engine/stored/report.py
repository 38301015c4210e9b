"""The report of a stored run: its verdict, and numbers recounted from its rows."""

from collections.abc import Iterable, Iterator, Mapping
from typing import cast, get_args

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.running.notes import RecordedReport, load_recorded_report
from agentv.engine.stored.corrected_rates import corrected_or_note
from agentv.engine.stored.imported import imported_log
from agentv.engine.stored.stored_plan import stored_options
from agentv.engine.stored.verdicts import StoredCounts, StoredVerdict, VerdictDifference
from agentv.scoring.counting.matrix import PlanOrder
from agentv.scoring.gates.gates import parse_gate
from agentv.scoring.gates.run_verdict import ScopedGate
from agentv.storage.run.checksums import (
    CHECKSUMS,
    RecordedChecksums,
    changed_files,
    is_unchanged,
    load_checksums,
    read_checksum,
)
from agentv.storage.run.run_file import size_of
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import StorageError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.records.result import CaseResult
from agentv.types.results import RunReport, RunState

_RESULTS = "results.jsonl"
_OLDER_RUN = "this run was made by an older agentv and has no stored verdict; the default gate is applied"
_NO_CHECKSUMS = "checksums of its files: not recorded; changes to them cannot be detected"


def load_report(run: StoredRun, rows: Iterable[CaseResult] | None = None) -> RunReport:
    """Count a stored run's current rows and return its report, with the verdict that these rows give.

    Callers that iterate over the rows anyway pass them as `rows`.

    If the run recorded another verdict when it had as many rows, the verdict is exit code 3 and quotes both. Raises
    StorageError for a row that cannot be read, and for one that is stored twice.
    """
    judging = _load_judging(run)
    counts = judging.count(run.results() if rows is None else rows, has_trials=run.may_repeat_cases())
    if judging.planned is not None and counts.summary.all.rows > judging.planned:
        run.refuse_repeated_results()
    difference = _difference(run, judging, counts)
    verdict = judging.of(counts) if difference is None else difference.verdict
    corrected, correction_notes = corrected_or_note(run)
    log = imported_log(run.run.plan)
    unrecorded = _older_notes(judging) if log is None else (log.note,)
    recorded = judging.recorded or RecordedReport(verdict, judging.planned, unrecorded, 0.0)
    return replace(
        counts.summary.report(run.run_id, judging.state, verdict),
        planned=judging.planned,
        corrected=corrected,
        notes=(*recorded.notes, *correction_notes, *_file_notes(run, load_checksums(run))),
        duration_s=recorded.duration_s,
        folder=str(run.folder),
        baseline=recorded.baseline,
        is_imported=log is not None,
    )


class StoredCheck(Struct, frozen=True):
    """The check of a stored run before it is continued or merged: its notes, and rows that are not as recorded."""

    notes: tuple[str, ...] = ()
    difference: VerdictDifference | None = None


def check_stored_run(run: StoredRun) -> StoredCheck:
    """Compare a stored run with what it recorded at its end. Rows are read only if their file is not as recorded.

    A symbolic link in place of their file is not followed; a writer refuses it. Raises StorageError for a row that
    cannot be read.
    """
    recorded = load_checksums(run)
    notes = tuple(_file_notes(run, recorded))
    if (run.folder / _RESULTS).is_symlink() or is_unchanged(run, recorded, _RESULTS):
        return StoredCheck(notes)
    judging = _load_judging(run)
    if not judging.is_comparable:
        return StoredCheck(notes)
    counts = judging.count(run.results(), has_trials=run.may_repeat_cases())
    return StoredCheck(notes, _difference(run, judging, counts))


def refuse_changed_results(run: StoredRun, *, may_lack_results: bool) -> tuple[str, ...]:
    """Return the notes on a stored run's files. Raises StorageError if its rows are not those that it was judged by.

    `may_lack_results` accepts a run that has lost rows, for commands that make them again.
    """
    checked = check_stored_run(run)
    difference = checked.difference
    if difference is None or (may_lack_results and difference.is_only_missing):
        return checked.notes
    raise StorageError(
        f"run {run.run_id}: {difference.sentence} Restore {run.folder / _RESULTS} from a copy; or delete it, and "
        f"score every stored answer again with: agentv resume {run.run_id}"
    )


def _load_judging(run: StoredRun) -> StoredVerdict:
    recorded, log = load_recorded_report(run), imported_log(run.run.plan)
    return StoredVerdict(
        state=_state(run),
        planned=_planned(run) if recorded is None else recorded.planned,
        gates=_gates(run) if recorded is None or not recorded.has_gates else recorded.gates,
        max_errors=stored_options(run.run.plan).max_errors,
        recorded=recorded,
        order=plan_order(run),
        reason=None if log is None else log.why_incomplete,
        are_given=run.are_given,
    )


def plan_order(run: StoredRun) -> PlanOrder:
    """Return the order of targets and prompts in the plan of a run."""
    targets, suites = run.run.plan.get("targets"), run.run.plan.get("suites")
    names = [each.get("name") for each in _objects(targets)]
    prompts = [prompt for each in _objects(suites) for prompt in _strings(each.get("prompts"))]
    return PlanOrder(tuple(_strings(names)), tuple(dict.fromkeys(prompts)))


def _objects(value: JsonValue) -> list[JsonObject]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list | tuple) else []


def _strings(value: JsonValue) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list | tuple) else []


def _difference(run: StoredRun, judging: StoredVerdict, counts: StoredCounts) -> VerdictDifference | None:
    """Compare the recorded verdict with that of the rows. Rows that were appended later are left out."""
    if not judging.is_comparable or judging.recorded is None:
        return None
    checksum = read_checksum((judging.recorded.ended or {}).get(CHECKSUMS), _RESULTS)
    path = run.folder / _RESULTS
    if checksum is not None and size_of(path) not in (0, checksum.size):
        rows = run.results(lines=checksum.lines)
        counts = judging.count(rows, has_trials=counts.has_trials)
    return judging.difference(counts)


def _file_notes(run: StoredRun, recorded: RecordedChecksums) -> Iterator[str]:
    if recorded.are_recorded:
        yield from changed_files(run, recorded)
    else:
        yield _NO_CHECKSUMS


def _older_notes(judging: StoredVerdict) -> tuple[str, ...]:
    return (_OLDER_RUN,) if judging.gates is None and judging.state == "finished" else ()


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
