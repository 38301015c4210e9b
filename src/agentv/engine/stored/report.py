"""The report of a stored run: numbers counted again from its rows, and a verdict compared with the recorded one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast, get_args

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.labels.corrected_rates import corrected_or_note
from agentv.engine.running.listed_cases import ListedInRun, with_cases
from agentv.engine.running.recorded_report import RecordedReport, load_recorded_report
from agentv.engine.stored.confirmations import stored_confirmations
from agentv.engine.stored.imported import imported_log
from agentv.engine.stored.judged_by import stored_gates, stored_replaced_gates
from agentv.engine.stored.stored_plan import stored_options
from agentv.scoring.comparison.confirmations import Confirmations
from agentv.scoring.comparison.gated import ComparedRun
from agentv.scoring.counting.matrix import PlanOrder
from agentv.scoring.counting.summary import Summary
from agentv.scoring.gates.failing_cases import FailingCases, ListedCases, WorstRows
from agentv.scoring.gates.gates import BASELINE_METRICS, CONFIRMED, parse_gate
from agentv.scoring.gates.run_verdict import (
    INCOMPLETE,
    SIGNALLED,
    Ending,
    ScopedGate,
    VerdictCounts,
    run_verdict,
    summary_for,
    why_mixed,
)
from agentv.storage.files.run_file import size_of
from agentv.storage.run.checksums import CHECKSUMS, read_checksum
from agentv.storage.run.find import find_run
from agentv.storage.run.stored import StoredRun, open_run
from agentv.storage.run.stored_check import check_stored_run, refuse_lost_list
from agentv.types.errors import ConfigError, StorageError
from agentv.types.json_value import objects_of, strings_of
from agentv.types.records.result import CaseResult
from agentv.types.results import RowState, RunReport, RunState, RunVerdict
from agentv.types.summaries import NotInBaseline

_NOT_RECORDED = "an older agentv did not record why"


class StoredCounts(Struct):
    """The counts of a stored run's results."""

    summary: Summary
    has_trials: bool
    """True if several rows may have the same case."""
    failing: FailingCases
    """The cases that count against the gates."""
    fallen: WorstRows
    """The cases that fell against the baseline."""
    invalid_rows: int = 0
    """The number of lines of a dataset that could not be read."""

    def add(self, row: CaseResult) -> None:
        """Count a row."""
        self.summary.add(row, has_trials=self.has_trials)
        if row.rerun is None:
            self.failing.add(row, has_trials=self.has_trials)
            self.fallen.add(row)
            self.invalid_rows += row.error is not None and row.error.stage == "load"

    @property
    def by_state(self) -> Mapping[str, int]:
        """The number of rows in each state."""
        counts = self.summary.all.counts
        return {state: counts[state] for state in get_args(RowState)}


class VerdictBasis(Struct, frozen=True):
    """All that decides the verdict of a stored run, except its rows."""

    state: RunState
    planned: int | None
    """The number of rows."""
    gates: Sequence[ScopedGate] | None
    max_errors: int
    recorded: RecordedReport | None = None
    order: PlanOrder = PlanOrder()
    confirmations: Confirmations | None = None
    reason: str | None = None
    """Why the run did not finish, if its plan records it."""
    has_given_answers: bool = False
    """True if the answers existed before the run, which called no target."""
    mixed: tuple[str, ...] = ()
    """The differences between the shards that the run was merged from."""
    is_merged: bool = False
    replaced_gates: str | None = None
    """The gates of files that `--gate` replaced."""

    def count(self, rows: Iterable[CaseResult], *, has_trials: bool) -> StoredCounts:
        """Return the counts of rows."""
        summary = summary_for(
            self.gates, has_shared_cases=has_trials, has_given_answers=self.has_given_answers, order=self.order
        )
        fallen = [case.name for listed in self._recorded_cases for case in listed.cases]
        counts = StoredCounts(summary, has_trials, FailingCases(self.gates), WorstRows(fallen))
        for row in rows:
            counts.add(row)
        return counts

    def verdict(self, counts: StoredCounts) -> RunVerdict:
        """Return the verdict on counted rows."""
        summary = counts.summary
        # An unreadable line of a log is an error like any other; an unreadable line of a dataset makes the run invalid.
        ending = self._ending(0 if self.has_given_answers else counts.invalid_rows)
        if self.state == "finished" and self.planned and not summary.all.rows:
            ending = replace(ending, state="failed", reason="none of its planned results is stored")
        counted, gates = self._with_recorded_regressions(summary), self._with_recorded_changes()
        return run_verdict(counted, ending, gates=gates, max_errors=self.max_errors)

    @property
    def _recorded_cases(self) -> tuple[ListedCases, ...]:
        return () if self.recorded is None else self.recorded.listed_cases

    def listed_cases(self, counts: StoredCounts) -> ListedInRun:
        """Return the cases to name; those that count against a gate as recorded if they fell, others as counted."""
        recorded = [counts.fallen.current(listed) for listed in self._recorded_cases]
        of_gates = tuple(
            recorded[index] if index < len(recorded) and recorded[index].cases else counts.failing.of_gate(index)
            for index in range(len(counts.failing))
        )
        return ListedInRun(counts.failing.of_run(), of_gates)

    def _ending(self, invalid_rows: int) -> Ending:
        ending = Ending(
            state=self.state,
            reason=self.reason,
            planned=self.planned,
            invalid_rows=invalid_rows,
            noun="line" if self.has_given_answers else "result",
            incomplete=why_mixed(self.mixed),
            is_merged=self.is_merged,
            replaced_gates=self.replaced_gates,
        )
        recorded = self.recorded
        if recorded is None or recorded.ended is None:
            return ending
        # Older versions recorded neither the gates nor the reason; a finished run has no reason.
        has_reason = recorded.has_gates or self.state == "finished"
        signal_number = _signal_of(recorded.verdict, ending)
        return replace(
            ending,
            reason=recorded.reason if has_reason else _NOT_RECORDED,
            signal_number=signal_number,
            is_judge_stop=recorded.is_judge_stop,
        )

    @property
    def is_comparable(self) -> bool:
        """True if the run recorded a verdict by these gates on all of its rows."""
        recorded = self.recorded
        if recorded is None or recorded.ended is None:
            return False
        if recorded.has_gates:
            return recorded.counts is not None
        expressions = None if self.gates is None else [each.gate.expression for each in self.gates]
        known = [each.expression for each in recorded.verdict.gates]
        return self.state == "finished" and expressions in (None, known)

    def difference(self, counts: StoredCounts) -> "VerdictDifference | None":
        """Return the difference between the recorded verdict and that of the rows, or None.

        Numbers are compared, not sentences: rows by state, outcomes of gates, exit code.
        """
        if self.recorded is None or not self.is_comparable:
            return None
        found, recorded = self.verdict(counts), self.recorded.verdict
        recorded_counts = self.recorded.counts or {}
        numbers = (*_state_differences(counts.by_state, recorded_counts), *_gate_differences(found, recorded))
        if not numbers and found.exit_code == recorded.exit_code:
            return None
        return VerdictDifference(found, recorded, numbers, _only_lacks_rows(counts.by_state, recorded_counts))

    def _with_recorded_changes(self) -> Sequence[ScopedGate] | None:
        """Return the gates, those on the baseline with their recorded results, as it is not part of the run.

        The re-runs of suspected regressions are part of it, and are counted again.
        """
        if self.gates is None or self.recorded is None:
            return self.gates
        results = self.recorded.verdict.gates
        return [
            replace(gate, recorded=results[index])
            if gate.gate.name in BASELINE_METRICS - {CONFIRMED} and index < len(results)
            else gate
            for index, gate in enumerate(self.gates)
        ]

    def _with_recorded_regressions(self, summary: Summary) -> VerdictCounts:
        """Return the counts for a verdict, with what the run recorded when it was compared with its baseline."""
        baseline = None if self.recorded is None else self.recorded.baseline
        added = NotInBaseline() if baseline is None else baseline.added
        return ComparedRun(summary, None, self.confirmations, added)


class VerdictDifference(Struct, frozen=True):
    """A verdict that was recorded, and the different verdict that the rows give."""

    found: RunVerdict
    """The verdict that the rows give."""
    recorded: RunVerdict
    """The verdict that was recorded."""
    numbers: tuple[str, ...]
    """The numbers that differ."""
    only_lacks_rows: bool
    """True if rows are missing, and no state has more rows than recorded."""

    @property
    def sentence(self) -> str:
        """Both verdicts, and the numbers that differ."""
        found, recorded = (f"{each.sentence} (exit code {each.exit_code})" for each in (self.found, self.recorded))
        numbers = f" Different: {', '.join(self.numbers)}." if self.numbers else ""
        return (
            f"the stored results do not give the recorded verdict. They give: {found}; recorded at the end: "
            f"{recorded}.{numbers}"
        )

    @property
    def verdict(self) -> RunVerdict:
        """The verdict of a report: INCOMPLETE, with both verdicts in its sentence."""
        return RunVerdict(INCOMPLETE, f"INCOMPLETE: {self.sentence}", self.found.gates)


def _signal_of(recorded: RunVerdict, ending: Ending) -> int:
    """Return the number of the signal that interrupted a run; only the exit code records the signal."""
    number = recorded.exit_code - SIGNALLED
    return number if number > 0 else ending.signal_number


def _state_differences(found: Mapping[str, int], recorded: Mapping[str, int]) -> Iterator[str]:
    """Yield the states whose number of rows is not as recorded."""
    for state, count in recorded.items():
        if found.get(state) != count:
            yield f"{state} {found.get(state, 0):,} (recorded {count:,})"


def _gate_differences(found: RunVerdict, recorded: RunVerdict) -> Iterator[str]:
    """Yield the gates whose outcome is not as recorded."""
    for gate, recorded_gate in zip(found.gates, recorded.gates, strict=False):
        if gate.state != recorded_gate.state:
            yield f"gate {gate.expression!r} {_STATES[gate.state]} (recorded {_STATES[recorded_gate.state]})"


def _only_lacks_rows(found: Mapping[str, int], recorded: Mapping[str, int]) -> bool:
    is_within = all(count <= recorded.get(state, 0) for state, count in found.items())
    return is_within and sum(found.values()) < sum(recorded.values())


_STATES = {"passed": "passed", "failed": "failed", "undecided": "undecided", "not_evaluated": "not evaluated"}
_RESULTS = "results.jsonl"
_OLDER_RUN = "this run was made by an older agentv and has no stored verdict; the default gate is applied"
_OLDER_RERUNS = "an older agentv re-ran results of this run and counted the newest answers; now the first answers count"


def load_report(run: StoredRun, rows: Iterable[CaseResult] | None = None) -> RunReport:
    """Count a stored run's current rows and return its report, with the verdict that these rows give.

    Callers that iterate over the rows anyway pass them as `rows`. If the run recorded a different verdict, the verdict
    is INCOMPLETE (exit code 3) and quotes both; rows appended since are left out of this comparison. Raises
    StorageError for a row that cannot be read or is stored twice.
    """
    basis, checked = _load_basis(run), check_stored_run(run)
    try:
        counts = basis.count(run.results() if rows is None else rows, has_trials=run.may_repeat_cases())
        for rerun in run.reruns():
            counts.add(rerun)
    except StorageError as error:
        raise checked.explained(error) from None
    if basis.planned is not None and counts.summary.all.rows > basis.planned:
        run.refuse_repeated_results()
    difference = _difference(run, basis, counts)
    verdict = basis.verdict(counts) if difference is None else difference.verdict
    corrected, correction_notes = corrected_or_note(run)
    log = imported_log(run.run.plan)
    default_notes = _older_notes(basis) if log is None else (log.note,)
    if run.newest_results() is not None:
        correction_notes = (_OLDER_RERUNS, *correction_notes)
    recorded = basis.recorded or RecordedReport(verdict, basis.planned, default_notes, 0.0)
    counted = counts.summary.report(run.run_id, basis.state, verdict)
    return replace(
        with_cases(counted, basis.listed_cases(counts), run=run, baseline=_baseline(run)),
        planned=basis.planned,
        corrected=corrected,
        notes=(*recorded.notes, *correction_notes, *checked.notes),
        duration_s=recorded.duration_s,
        folder=str(run.folder),
        baseline=recorded.baseline,
        is_imported=log is not None,
    )


def _baseline(run: StoredRun) -> StoredRun | None:
    """Return the stored run that a run was compared with, if it still exists; None for a file of scores."""
    reference = stored_options(run.run.plan).baseline
    if reference is None or Path(reference).is_file():
        return None
    try:
        return open_run(find_run(run.folder.parent.parent, reference))
    except (ConfigError, StorageError):
        return None


def refuse_changed_results(run: StoredRun, *, may_lack_results: bool) -> tuple[str, ...]:
    """Return the notes on a stored run's files. Raises StorageError if its rows do not give the recorded verdict.

    `may_lack_results` accepts a run that has lost rows, for commands that make them again. Rows are not read if their
    file is as recorded, nor from a symbolic link, which cannot be opened for writing anyway.
    """
    refuse_lost_list(run)
    checked = check_stored_run(run)
    is_as_recorded = checked.has_checksums and _RESULTS not in checked.changed
    if is_as_recorded or (run.folder / _RESULTS).is_symlink():
        return checked.notes
    basis = _load_basis(run)
    counts = basis.count(run.results(), has_trials=run.may_repeat_cases()) if basis.is_comparable else None
    difference = None if counts is None else _difference(run, basis, counts)
    if difference is None or (may_lack_results and difference.only_lacks_rows):
        return checked.notes
    raise StorageError(
        f"run {run.run_id}: {difference.sentence} Restore {run.folder / _RESULTS} from a copy; or delete it, and "
        f"score every stored answer again with: agentv resume {run.run_id}"
    )


def _load_basis(run: StoredRun) -> VerdictBasis:
    recorded, log = load_recorded_report(run), imported_log(run.run.plan)
    gates = _gates(run) if recorded is None or not recorded.has_gates else recorded.gates
    return VerdictBasis(
        state=_state(run),
        planned=run.planned(),
        gates=gates,
        max_errors=stored_options(run.run.plan).max_errors,
        recorded=recorded,
        order=plan_order(run),
        confirmations=_confirmations(run, gates),
        reason=None if log is None else log.why_incomplete,
        has_given_answers=run.has_given_answers,
        mixed=strings_of(run.run.plan.get("mixed")),
        is_merged=bool(run.run.parents),
        replaced_gates=stored_replaced_gates(run.run.plan),
    )


def _confirmations(run: StoredRun, gates: Sequence[ScopedGate] | None) -> Confirmations | None:
    """Return the confirmations of a run's suspected regressions; None if no gate asks for them."""
    is_needed = any(scoped.gate.name == CONFIRMED and scoped.not_evaluated is None for scoped in gates or ())
    return stored_confirmations(run) if is_needed else None


def plan_order(run: StoredRun) -> PlanOrder:
    """Return the order of targets and prompts in the plan of a run."""
    targets, suites = run.run.plan.get("targets"), run.run.plan.get("suites")
    names = [each.get("name") for each in objects_of(targets)]
    prompts = [prompt for each in objects_of(suites) for prompt in strings_of(each.get("prompts"))]
    return PlanOrder(tuple(strings_of(names)), tuple(dict.fromkeys(prompts)))


def _difference(run: StoredRun, basis: VerdictBasis, counts: StoredCounts) -> VerdictDifference | None:
    """Compare the recorded verdict with that of the rows. Rows that were appended later are left out.

    None for a run of an older version if the newest answers, which counted there, give the recorded verdict.
    """
    if not basis.is_comparable or basis.recorded is None:
        return None
    checksum = read_checksum((basis.recorded.ended or {}).get(CHECKSUMS), _RESULTS)
    path, lines = run.folder / _RESULTS, None
    if checksum is not None and size_of(path) not in (0, checksum.size):
        lines = checksum.lines
        counts = basis.count(run.results(lines=lines), has_trials=counts.has_trials)
    difference = basis.difference(counts)
    newest = None if difference is None else run.newest_results(lines=lines)
    if newest is None or basis.difference(basis.count(newest, has_trials=counts.has_trials)) is not None:
        return difference
    return None


def _older_notes(basis: VerdictBasis) -> tuple[str, ...]:
    return (_OLDER_RUN,) if basis.gates is None and basis.state == "finished" else ()


def _state(run: StoredRun) -> RunState:
    state = run.state()
    return cast(RunState, state) if state in get_args(RunState) else "failed"


def _gates(run: StoredRun) -> tuple[ScopedGate, ...] | None:
    """Return the gates of the run's plan; for an older run those of its command line, or None."""
    gates = stored_gates(run.run.plan)
    if gates is not None:
        return gates
    options = stored_options(run.run.plan)
    return None if options.gates is None else tuple(ScopedGate(parse_gate(gate)) for gate in options.gates)
