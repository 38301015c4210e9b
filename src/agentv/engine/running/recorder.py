"""The recorder of a run: each event is saved to the store first, then counted and reported to observers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field, structs
from msgspec.structs import replace

from agentv.engine.calling.budget import BudgetStop
from agentv.engine.planning.plan import CaseTask, RowCount, RunPlan
from agentv.engine.planning.selection import why_nothing_selected
from agentv.engine.running.recorded_report import reported_fields
from agentv.evaluators.watched_files import WatchedFiles
from agentv.loading.files.places import is_folder_path
from agentv.loading.suites.suites import relative_name
from agentv.reports.text.amounts import money_text
from agentv.scoring.counting.summary import Summary
from agentv.scoring.gates.failing_cases import FailingCases
from agentv.scoring.gates.run_verdict import INTERRUPT_SIGNAL, Ending, run_verdict, summary_for, why_mixed
from agentv.scoring.results.aggregation import row_state
from agentv.types.errors import StorageError
from agentv.types.evaluation import EvaluatorResult
from agentv.types.events import (
    AnswerArrived,
    CaseOpened,
    LogLine,
    Observer,
    RetryNoted,
    RowBegun,
    RowFinished,
    RowKept,
    RowLeft,
    RowRerun,
    RunEvent,
    RunNote,
)
from agentv.types.failures import Failure
from agentv.types.protocols import ResultStore, why_lost
from agentv.types.provider import CallRecord
from agentv.types.records.answer import Answer, ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.records.run import REPORTED, CaseRecord
from agentv.types.results import RunReport, RunState

if TYPE_CHECKING:
    from agentv.engine.planning.baseline import BaselineComparison
    from agentv.engine.running.listed_cases import ListedInRun
    from agentv.scoring.comparison.confirmations import Confirmations


MAX_NOTES = 100
"""The maximum number of different notes that a run reports."""


def add_note(notes: dict[str, None], message: str) -> str | None:
    """Add a new message, or, after `MAX_NOTES` messages, that there are more. Return what was added, else None."""
    if len(notes) >= MAX_NOTES:
        message = "there are more notes than can be shown"
    if message in notes:
        return None
    notes[message] = None
    return message


UNLISTED = -1
"""The `seq` of a row that a node has finished, but whose segment (a file of rows) the driver has not listed yet."""
LONG_WAIT_S = 10.0
"""The shortest pause before a retry that is reported to the user."""


JUDGES_CHANGED = "judges_changed"
"""The event of a run during which files of evaluators were changed, with their digests at its start."""

JUDGE_STOP = "judge_stop"
"""The event of a run that a failing judge stopped; a resume judges the answers that this judge did not score."""


def judge_outcomes(results: Iterable[EvaluatorResult]) -> list[tuple[str, Failure | None]]:
    """Return each judge that these evaluators or their members called, with its failure or None."""
    outcomes: list[tuple[str, Failure | None]] = []
    for result in results:
        if result.evaluator_results:
            outcomes += judge_outcomes(result.evaluator_results)
        if not result.judge_calls and result.error is None:
            continue  # it called no judge
        failed_judge = None if result.error is None else (result.error.details or {}).get("judge")
        judges = dict.fromkeys(call.judge for call in result.judge_calls)
        outcomes += [(judge, None) for judge in judges if judge != failed_judge]
        if isinstance(failed_judge, str) and result.error is not None and result.error.kind == "judge_error":
            outcomes.append((failed_judge, result.error))
    return outcomes


class JudgeFailures(Struct):
    """Counts, for each judge of a run, how often it failed in a row."""

    limit: int
    """This many failures in a row end the run."""
    in_a_row: dict[str, int] = field(default_factory=dict)

    def count(self, results: Iterable[EvaluatorResult]) -> "JudgeStop | None":
        """Count the failures of the judges of one answer; return a JudgeStop if a judge reaches the limit."""
        for judge, failure in judge_outcomes(results):
            failures = self.in_a_row[judge] = 0 if failure is None else self.in_a_row.get(judge, 0) + 1
            if failure is not None and failures == self.limit:
                return JudgeStop(judge, failures, failure.message)
        return None


class JudgeStop(Struct, frozen=True):
    """A judge that failed too often in a row, with the message of its last failure."""

    judge: str
    failures: int
    error: str

    @property
    def reason(self) -> str:
        """The reason for the end of the run, for its verdict."""
        times = "1 failure of a judge" if self.failures == 1 else f"{self.failures} failures of one judge in a row"
        return f"{times}: {self.error}"


class StopSignal(Struct):
    """A request to end a run early. Draining finishes the rows in flight; an interrupt cancels them."""

    state: RunState = "finished"
    """The state in which the run will end: "finished" unless something stops it."""
    reason: str | None = None
    signal_number: int = INTERRUPT_SIGNAL
    give_up: Callable[[], object] = lambda: None
    """Cancels the rows in flight."""
    needs: str = ""
    """The option that a resume requires."""
    on_drain: Callable[[], object] = lambda: None
    """Called when draining begins."""
    is_judge_stop: bool = False
    """True if a judge that kept failing ended the run."""

    def drain(self, reason: str, *, needs: str = "", state: RunState = "stopped") -> None:
        """Start no new rows."""
        if self.reason is None:
            self.state, self.reason, self.needs = state, reason, needs
            self.on_drain()

    def drain_for_judge(self, judge_stop: JudgeStop) -> None:
        """Start no new rows because a judge keeps failing; the run then counts as failed."""
        if self.reason is None:
            self.is_judge_stop = True
            self.drain(judge_stop.reason, state="failed")

    def interrupt(self, reason: str, signal_number: int = INTERRUPT_SIGNAL) -> None:
        """Start no new rows and cancel those in flight."""
        self.state, self.reason, self.signal_number = "interrupted", reason, signal_number
        self.give_up()

    def crash(self, state: RunState) -> None:
        """Set the state of a run that ended unexpectedly."""
        if self.state == "finished":
            self.state = state

    def fail(self, reason: str) -> None:
        """Set the state of a run that cannot continue."""
        self.state, self.reason = "failed", reason


class EventDispatcher(dict[type[RunEvent], list[Observer]]):
    """The observers of each kind of event, found once; events without an observer need not be created."""

    def __init__(self, observers: Sequence[Observer] = ()) -> None:
        super().__init__()
        self._observers = observers

    def __missing__(self, kind: type[RunEvent]) -> list[Observer]:
        """Find the observers of a kind of event."""
        return self.setdefault(kind, [observer for observer in self._observers if _observes(observer, kind)])


class RunRecorder(Struct):
    """The owner of a run's store, observers and counts."""

    plan: RunPlan
    store: ResultStore
    observers: list[Observer]
    stop: StopSignal
    summary: Summary = field(default_factory=Summary)
    invalid_rows: int = 0
    """The number of lines that could not be read."""
    not_passed: int = 0
    notes: dict[str, None] = field(default_factory=dict)
    has_trials: bool = False
    comparison: "BaselineComparison | None" = None
    confirmations: "Confirmations | None" = None
    listed_cases: "ListedInRun | None" = None
    """The cases that the report names; set by `report` if there may be any."""
    _failing: FailingCases = field(default_factory=lambda: FailingCases(()))
    planned: int | None = None
    """The number of rows. That of a stream is known, from `row_count`, once the tasks of all targets are made."""
    planned_in_all_shards: int | None = None
    """The number of rows of all shards of the run together; for a stream, known when `planned` is."""
    lost_files: str | None = None
    """What is missing from the store at the end."""
    watched_files: WatchedFiles = field(default_factory=WatchedFiles)
    """The files of evaluators."""
    changed_files: str | None = None
    """The `watched_files` that were changed during the run."""
    is_merged: bool = False
    """True if the run was merged from shards."""
    row_count: RowCount = field(default_factory=RowCount)
    _counted_targets: int = 0
    _dispatcher: EventDispatcher = field(default_factory=EventDispatcher)
    _judge_failures: JudgeFailures = field(default_factory=lambda: JudgeFailures(1))

    def __post_init__(self) -> None:
        """Set up the counts for gates and for the comparison with a baseline."""
        self._dispatcher = EventDispatcher(self.observers)
        self._judge_failures = JudgeFailures(self.plan.options.judge_failures)
        self._failing = FailingCases(self.plan.gates)
        if self.plan.baseline is not None:
            from agentv.engine.planning.baseline import BaselineComparison  # noqa: PLC0415 - few runs have a baseline

            self.comparison = BaselineComparison(self.plan.baseline)
            if self.plan.confirms_regressions:
                from agentv.scoring.comparison.confirmations import Confirmations  # noqa: PLC0415

                self.confirmations = Confirmations()
        self.planned = self.plan.planned
        self.summary = summary_for(
            self.plan.gates, has_shared_cases=self.plan.has_several_rows_per_trial, order=self.plan.order
        )

    def count_planned(self, tasks: Iterator[CaseTask]) -> Iterator[CaseTask]:
        """Yield the tasks of one target; after those of the last target the number of planned rows is known."""
        yield from tasks
        self._counted_targets += 1
        if self._counted_targets == len(self.plan.targets):
            self.planned, self.planned_in_all_shards = self.plan.planned_rows(self.row_count)

    def note_trials(self, tasks: Iterator[CaseTask]) -> Iterator[CaseTask]:
        """Yield all tasks, finished or not, and note whether any case has several trials."""
        for task in tasks:
            self.has_trials = self.has_trials or task.trials > 1
            yield task

    def begin(self, tasks: Iterator[CaseTask | None]) -> Iterator[CaseTask | None]:
        """Yield tasks to the workers and report each as begun, until the run is stopped.

        A None, at which a worker lets the event loop do other work, is yielded unchanged.
        """
        for task in tasks:
            if self.stop.reason is not None:
                return
            if task is None:
                yield None
                continue
            self.has_trials = self.has_trials or task.trials > 1
            if self._dispatcher[RowBegun]:
                self.emit(RowBegun(task.slot))
            yield task

    @property
    def shows_log_lines(self) -> bool:
        """True if an observer shows the lines of logs."""
        return bool(self._dispatcher[LogLine])

    @property
    def shows_answers(self) -> bool:
        """True if an observer takes answers as they arrive."""
        return bool(self._dispatcher[AnswerArrived])

    @property
    def needs_whole_rows(self) -> bool:
        """True unless all observers of finished rows can do without large fields (`needs_whole_rows = False`)."""
        return any(getattr(observer, "needs_whole_rows", True) for observer in self._dispatcher[RowFinished])

    def emit(self, event: RunEvent) -> None:
        """Pass an event to its observers. An observer whose output is gone (a closed pipe) is removed."""
        for observer in self._dispatcher[type(event)]:
            try:
                observer.notify(event)
            except OSError:
                self.observers.remove(observer)
                self._dispatcher.clear()

    def note(self, message: str, *, is_problem: bool = False, is_urgent: bool = False) -> None:
        """Report a message to the user, once. After `MAX_NOTES` messages, report only that there are more."""
        added = add_note(self.notes, message)
        if added is not None:
            self.emit(RunNote(added, is_problem, is_urgent))

    def case(self, record: CaseRecord) -> None:
        """Save a case before its first call."""
        if self.comparison is not None:
            self.comparison.add_case(record)
        self.store.append_case(record)
        if self._dispatcher[CaseOpened]:
            self.emit(CaseOpened(record))

    def answer(self, answer: Answer) -> Answer:
        """Save an answer before it is scored, unless the budget refused the call."""
        if answer.error is not None and answer.error.kind == "budget":
            return answer
        saved = self.store.append_answer(answer)
        if self._dispatcher[AnswerArrived]:
            self.emit(AnswerArrived(saved))
        return saved

    def row(self, result: CaseResult) -> None:
        """Save, count and report a finished row. A row that the budget refused is left for a resume.

        A row with `rerun` is saved and reported as a re-run; it is in no rate, and `--fail-fast` does not count it.
        A row with a `seq` is stored already. An UNLISTED one is ignored: it is passed again once its segment is listed.
        """
        saved = self.save(result)
        if saved is None:
            return
        self.count(saved)
        if saved.rerun is None and self.plan.options.fail_fast is not None:
            self._count_for_fail_fast(saved, self.plan.options.fail_fast)

    def save(self, result: CaseResult) -> CaseResult | None:
        """Save a finished row and return it, to be counted; None for a row that is not stored, or not yet."""
        if result.seq == UNLISTED:
            return None
        if result.error is not None and result.error.kind == "budget":
            self.emit(RowLeft(result.slot))
            return None
        saved = self.store.append(result) if result.seq is None else result
        judge_stop = self._judge_failures.count(saved.evaluator_results)
        if judge_stop is not None:
            self._stop_for_judge(judge_stop)
        return saved

    def count(self, saved: CaseResult) -> None:
        """Count and report a row that `save` returned."""
        self._count(saved)
        self.emit(RowFinished(saved) if saved.rerun is None else RowRerun(saved))

    def count_stored(self, result: CaseResult) -> None:
        """Count and report a row that is in the store already and is still valid; a re-run is only counted as such."""
        self._count(result)
        if result.rerun is None:
            self.emit(RowKept(result))

    def _count(self, result: CaseResult) -> None:
        self.summary.add(result, has_trials=self.has_trials)
        if self.confirmations is not None:
            self.confirmations.add(result)
        if result.rerun is not None:
            return
        self._failing.add(result, has_trials=self.has_trials)
        if self.comparison is not None:
            self.comparison.add(result)
        if result.error is not None and result.error.stage == "load":
            self.invalid_rows += 1

    def _count_for_fail_fast(self, result: CaseResult, limit: int) -> None:
        if row_state(result) in ("pass", "skipped"):
            return
        self.not_passed += 1
        if self.not_passed >= limit:
            results = "1 result" if self.not_passed == 1 else f"{self.not_passed} results"
            self.stop.drain(f"{results} did not pass (--fail-fast)")

    def _stop_for_judge(self, judge_stop: JudgeStop) -> None:
        """Stop the run before its next target call, because a judge failed too often in a row."""
        if self.stop.reason is None:
            self.store.note(JUDGE_STOP, structs.asdict(judge_stop))
            self.stop.drain_for_judge(judge_stop)

    def stop_for_budget(self, budget_stop: BudgetStop) -> None:
        """Stop the run because the next call does not fit into its budget."""
        self.stop.drain(budget_stop.reason, needs=budget_stop.needs)
        self.store.note("budget_stop", budget_stop.to_json())

    def on_retry(self, task: CaseTask, call: CallRecord, wait_s: float) -> None:
        """Report that the call of a task is retried."""
        self.retry(task.slot, call.kind, call.error, wait_s)

    def retry(self, row: ResultKey, kind: str, error: str | None, wait_s: float) -> None:
        """Report that the call of a row is retried. Report a long wait to the user before it begins."""
        if wait_s >= LONG_WAIT_S:
            wait = f"waiting {wait_s:,.0f} s before the next attempt"
            self.note(f"target {row.target!r}: {error}; {wait}", is_urgent=True)
        self.emit(RetryNoted(row.target, row.eval_id, kind, wait_s))

    def check_files(self) -> None:
        """Set `lost_files` and `changed_files`, and end the run as failed if there are any."""
        self.lost_files = why_lost(self.store)
        if self.lost_files is None and (changed := self.watched_files.changed()):
            root = Path(self.plan.suites[0].suite.repository_root)
            digests = {relative_name(Path(path), root): self.watched_files.digest(path) for path in changed}
            self.store.note(JUDGES_CHANGED, {"files": digests})
            self.changed_files = (
                f"files of evaluators were changed while the run was in progress: {', '.join(digests)}; an agent may "
                "have changed its own judge. Restore them, then run `agentv resume` and `agentv retry --errors`"
            )
        why = self.lost_files or self.changed_files
        if why is not None and self.stop.state != "interrupted":
            self.stop.fail(why)

    def report(self, duration_s: float) -> RunReport:
        """Return the report of all rows so far, with the verdict."""
        if self.summary.rerun_usd:
            self.note(f"re-runs cost {money_text(self.summary.rerun_usd)} more than the costs of the targets")
        empty = self.summary.empty_answers
        if empty:
            self.note(f"{empty:,} answers are empty" if empty > 1 else "1 answer is empty")
        counted, baseline = (
            (self.summary, None)
            if self.comparison is None
            else self.comparison.compared(self.summary, self.confirmations)
        )
        max_errors = self.plan.options.max_errors
        verdict = run_verdict(counted, self.ending(), gates=self.plan.gates, max_errors=max_errors)
        report = self._with_cases(self.summary.report(self.store.run_id, self.stop.state, verdict))
        return replace(
            report,
            planned=self.planned,
            notes=tuple(self.notes),
            duration_s=duration_s,
            folder=None if self.lost_files and not is_folder_path(Path(self.store.folder or "")) else self.store.folder,
            needs=self.stop.needs,
            baseline=baseline,
        )

    def ending(self) -> Ending:
        """Return how the run ended, for its verdict."""
        return Ending(
            state=self.stop.state,
            reason=self.stop.reason or self._why_no_rows(),
            planned=self.planned,
            invalid_rows=self.invalid_rows,
            signal_number=self.stop.signal_number,
            is_judge_stop=self.stop.is_judge_stop,
            incomplete=self.lost_files or self.changed_files or why_mixed(self.plan.mixed),
            is_merged=self.is_merged,
            replaced_gates=self.plan.replaced_gates,
        )

    def _with_cases(self, report: RunReport) -> RunReport:
        """Return the report with the cases that did not pass or made a gate fail, as far as they can be read back."""
        if not report.failing_total and all(gate.state != "failed" for gate in report.verdict.gates):
            return report
        from agentv.engine.running.listed_cases import contents_of, listed_in_run, with_cases  # noqa: PLC0415
        from agentv.storage.run.stored import open_run  # noqa: PLC0415 - a run that passes reads nothing back

        folder = self.plan.baseline_folder

        compared = None if self.comparison is None else self.comparison.latest
        self.listed_cases = listed_in_run(self.plan.gates, self._failing, compared, self.confirmations)
        try:
            run, baseline = contents_of(self.store), None if folder is None else open_run(Path(folder))
            return report if run is None else with_cases(report, self.listed_cases, run=run, baseline=baseline)
        except (OSError, StorageError) as error:
            self.note(f"the cases that did not pass cannot be read: {error}", is_problem=True)
            return report

    def _why_no_rows(self) -> str | None:
        """Return why nothing was selected, None if a result was counted or the run was not to its end."""
        if not self.plan.suites:
            return "no eval files found"
        if self.summary.all.rows or self.planned != 0:
            return None
        return why_nothing_selected([plan.suite for plan in self.plan.suites], self.plan.options)

    def save_report(self, report: RunReport, *, has_every_row: bool) -> None:
        """Save the report with the run, so that later reports can be compared with it.

        `has_every_row` is False if the run may have stored rows that were not counted.
        """
        fields = reported_fields(
            report,
            gates=self.plan.gates,
            listed_cases=() if self.listed_cases is None else self.listed_cases.of_gates,
            reason=self.stop.reason,
            is_judge_stop=self.stop.is_judge_stop,
            has_every_row=has_every_row,
            planned_in_all_shards=self.planned_in_all_shards,
        )
        try:
            self.store.note(REPORTED, fields)
        except StorageError as error:
            if self.stop.state != "failed":  # otherwise an earlier write failed, and the verdict says so
                self.note(f"the verdict is not saved with the run: {error}", is_problem=True)


def _observes(observer: Observer, kind: type[RunEvent]) -> bool:
    """Return True if an observer takes a kind of event.

    An observer without the attribute `event_types` takes all kinds but the lines of logs and the cases.
    """
    kinds = getattr(observer, "event_types", None)
    return kind in kinds if isinstance(kinds, tuple) else kind not in (LogLine, CaseOpened)
