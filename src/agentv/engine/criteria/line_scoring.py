"""Scoring of a stream of lines with a fixed number of workers; each saves a judgement before it takes the next line."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.calling.budget import BudgetStop
from agentv.engine.calling.given_answer import GIVEN_ANSWER
from agentv.engine.capture import Cleaner, Redactor
from agentv.engine.criteria.judged_lines import JudgedLine
from agentv.engine.criteria.log_stream import content_digest
from agentv.engine.criteria.runner import EvaluationRunner
from agentv.engine.criteria.scored_run import ScoredRun, target_of_file
from agentv.engine.criteria.stored_answers import StoredAnswer, keys_of_scores
from agentv.engine.running.recorded_report import REPORTED, reported_fields
from agentv.engine.running.recorder import JudgeFailures, StopSignal, add_note
from agentv.execution.backends.local import YIELD_INTERVAL_S
from agentv.execution.processes.line_stream import STDIN, Line, ReadLine
from agentv.loading.suites.recorded import read_log_line
from agentv.messages.logs.mapping import Extra, LogMap
from agentv.messages.logs.reading import LoggedAnswer, TraceStep
from agentv.scoring.counting.case_sums import Spill, cluster_of
from agentv.scoring.counting.groups import METADATA, Groups, kind_named, no_group_message
from agentv.scoring.counting.row_kinds import kind_of
from agentv.scoring.counting.summary import Summary
from agentv.scoring.gates.run_verdict import GATE_FAILED, Ending, ScopedGate, run_verdict, stream_summary_for
from agentv.scoring.keys.identity import DigestSet
from agentv.scoring.results.aggregation import row_state
from agentv.storage.run.first_answers import slot_name
from agentv.storage.run.spill import TemporarySpill
from agentv.storage.run.stored import open_run
from agentv.types.errors import EvalFileError, StorageError
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.events import RowKept
from agentv.types.failures import Failure
from agentv.types.json_value import JsonValue
from agentv.types.problems import Problem
from agentv.types.protocols import Clock
from agentv.types.provider import ProviderError
from agentv.types.records.answer import ResultKey, source_of
from agentv.types.records.result import CaseResult
from agentv.types.results import RunReport

SaveLine = Callable[[JudgedLine], None]
"""Gets each judged line before it is counted, for example to save it. A StorageError from it ends the stream."""


class LogReading(Struct, frozen=True):
    """How lines are read: the paths of `--map`, and the treatment of unknown keys."""

    paths: LogMap = {}
    extra: Extra = "error"


class LineSource(Protocol):
    """The lines of a stream or the stored answers of a run, in order."""

    @property
    def read(self) -> int:
        """The number of lines read so far."""

    async def next(self) -> "ReadLine | StoredAnswer | None":
        """Wait for the next line or answer and return it; None at the end."""

    def stop(self) -> None:
        """Let `next` return None from now on."""

    async def close(self) -> None:
        """Close the files."""

    def missing_key(self) -> str | None:
        """Return the sampling key if no line had it; None otherwise, or if there is no sampling key."""


class StoredLines(Struct):
    """The lines of standard input that a run has stored. Piped again, they are skipped.

    The n-th line of a case and target is its n-th trial, so that the same stream finds the same result keys. `changed`
    counts lines that have a stored key, but another answer.
    """

    slots: DigestSet = field(default_factory=DigestSet)
    answers: DigestSet = field(default_factory=DigestSet)
    changed: int = 0

    def add(self, row: CaseResult) -> None:
        """Add a stored row."""
        name = slot_name(row.slot)
        self.slots.add(name)
        self.answers.add(f"{name}\0{row.candidate_answer}")

    def find_or_add(self, slot: ResultKey, answer: str) -> bool:
        """Return True if a line with this key is stored, and count it if its answer differs; else add the key."""
        name = slot_name(slot)
        if self.slots.add(name):
            return False
        self.changed += self.answers.add(f"{name}\0{answer}")
        return True


class LineScoring(Struct):
    """The scoring of one stream, with the counts so far.

    Each judged line is passed to `save`, and is stored in `run` if there is one. `gates` None means the default gate.
    `target_field` is the field that names the target of a line; without it, the line's `target` is used, else the name
    of the file. `by` are the kinds of groups to count. `finished_sources` and `stored_lines` are the lines that a
    resume skips: those of files by source (file, line and part), those of standard input by result key.

    Counts: `answers` of lines that are answers, `steps` of other parts of traces by kind, `without_target` of lines
    without the `target_field`, `unchanged` of stored rows that were not judged again, `lost_judgements` of judgements
    that the configuration's storage did not save. `mapped_fields` are the fields of `--map` that some line has,
    `lost_files` says what is missing of the run's files at the end.
    """

    lines: LineSource | None
    runner: EvaluationRunner
    save: SaveLine
    clock: Clock
    gates: Sequence[ScopedGate] | None
    judge_failures: JudgeFailures
    reading: LogReading = LogReading()
    on_stopping: Callable[[str], None] = lambda _reason: None
    stop: StopSignal = field(default_factory=StopSignal)
    notes: dict[str, None] = field(default_factory=dict)
    lost_judgements: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    answers: int = 0
    mapped_fields: set[str] = field(default_factory=set)
    run: ScoredRun | None = None
    target_field: str | None = None
    by: Sequence[str] = ()
    summary: Summary = field(default_factory=Summary)
    groups: Groups | None = None
    spill: Spill = field(default_factory=TemporarySpill)
    metadata_keys: set[str] = field(default_factory=set)
    without_target: int = 0
    finished_sources: DigestSet | None = None
    stored_lines: StoredLines | None = None
    unchanged: int = 0
    lost_files: str | None = None
    cleaner: Cleaner = field(default_factory=lambda: Cleaner(Redactor(())))

    def __post_init__(self) -> None:
        """Set up the counts for gates and groups."""
        self._reset_counts()

    def _reset_counts(self) -> None:
        self.summary = stream_summary_for(self.gates, self.spill)
        self.groups = Groups(tuple(map(kind_named, self.by)), spill=self.spill) if self.by else None

    async def score(self, workers: int) -> None:
        """Judge every sampled line until the stream ends or is stopped; lines in flight are finished."""
        self.stop.give_up = self._stop_reading
        if self.runner.budget is not None:
            self.runner.budget.on_stop = self._stop_for_budget
        try:
            async with self.runner, asyncio.TaskGroup() as tasks:
                for _ in range(workers):
                    tasks.create_task(self._score_lines())
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group.exceptions[0].__cause__
        finally:
            if self.lines is not None:
                await self.lines.close()

    def _stop_reading(self) -> None:
        if self.lines is not None:
            self.lines.stop()
        self.on_stopping(self.stop.reason or "")

    def _stop_for_budget(self, budget_stop: BudgetStop) -> None:
        self.stop.drain(budget_stop.reason, needs=budget_stop.needs)
        self._stop_reading()
        if self.run is not None:
            self.run.store.note("budget_stop", budget_stop.to_json())

    async def _score_lines(self) -> None:
        loop = asyncio.get_running_loop()
        yielded_at = loop.time()
        lines = self.lines
        # The state is "finished" from the start, until something stops the stream.
        while lines is not None and self.stop.state == "finished" and (line := await lines.next()) is not None:
            judged = await (self._judge_again(line) if isinstance(line, StoredAnswer) else self._judge_line(line))
            if judged is not None:
                self._save_and_count(judged)
            if loop.time() - yielded_at > YIELD_INTERVAL_S:
                await asyncio.sleep(0)
                yielded_at = loop.time()

    async def _judge_line(self, line: ReadLine) -> JudgedLine | None:
        """Return a line with its judgement, or with a failure if it cannot be read or does not fit the configuration.

        Return None if the line is stored already, if it is only a step of a trace, or if the budget is spent.
        """
        source = source_of(line.file, line.number, line.part)
        if self.finished_sources is not None and not self.finished_sources.add(source):
            return None
        if not isinstance(line, Line):
            return self._failed_line(line, line.message)
        paths, extra = self.reading.paths, self.reading.extra
        try:
            logged = read_log_line(line.data, line.file, line.number, paths=paths, extra=extra)
            if isinstance(logged, TraceStep):
                self.steps[logged.kind] += 1
                return None
            self._count_answer(logged)
            given: EvaluationInput = self.cleaner.clean(logged.given)
            self.runner.check(given.criteria)
            slot = (
                None if self.run is None else self.run.take_result_key(given, self._target_of(given, line.file), source)
            )
            target = self._target_of(given, line.file) if slot is None else slot.target
            if slot is not None and self._is_stored(line, slot, given.text):
                return None
            judgement = await self.runner.judge(given)
        except EvalFileError as error:
            return self._failed_line(line, "; ".join(_render(problem, line) for problem in error.problems))
        except ProviderError:  # the budget is spent: a resume judges the line
            return None
        return JudgedLine(
            line.file,
            line.number,
            judgement.result.timestamp,
            judged=judgement.result,
            evaluators=judgement.evaluators,
            slot=slot,
            part=line.part,
            digest=content_digest(line),
            target=target,
        )

    async def _judge_again(self, stored: StoredAnswer) -> JudgedLine | None:
        """Judge a stored answer again; if its row is still valid or the budget is spent, count the row and return None.

        Scores whose key is unchanged are reused.
        """
        row, given = stored.row, stored.given
        line = JudgedLine(
            row.file,
            row.line,
            self.clock(),
            slot=row.slot,
            answer=stored.answer,
            generation=stored.generation,
            rescored=row.rescored + 1,
            part=row.part,
            digest=row.line_digest,
        )
        try:
            keys = keys_of_scores(self.runner, given, row.eval_id, stored.answer)
            reusable = {
                result.name: result
                for result in row.evaluator_results
                if result.status in ("scored", "unverified")
                and keys.get(result.name) == row.score_keys.get(result.name, "")
            }
            if not stored.must_judge and keys == row.score_keys and row.status != "error":
                self.count_stored(row)
                return None
            judgement = await self.runner.judge(given, reusable)
        except EvalFileError as error:
            message = "; ".join(problem.render() for problem in error.problems)
            return replace(line, failure=Failure("config_error", message, stage="evaluator"))
        except ProviderError:  # the budget is spent
            self.count_stored(row)
            return None
        result, evaluators = judgement.result, judgement.evaluators
        return replace(line, timestamp=result.timestamp, judged=result, evaluators=evaluators)

    def count(self, row: CaseResult) -> None:
        """Count a new row that a caller has saved."""
        self._count(row, has_trials=False)

    def count_stored(self, row: CaseResult) -> None:
        """Count a stored row that stays as it is."""
        self.unchanged += 1
        if self.run is not None:
            self.run.observe(RowKept(row))
        self._count(row, has_trials=False)

    def _is_stored(self, line: ReadLine, slot: ResultKey, answer: str = "") -> bool:
        """Return True for a line of standard input that the run has stored; remember a new line of standard input."""
        return self.stored_lines is not None and line.file == STDIN and self.stored_lines.find_or_add(slot, answer)

    def _target_of(self, given: EvaluationInput, file: str) -> str:
        if self.target_field is not None:
            name = named_value(given, self.target_field)
            if name is not None:
                return name
            self.without_target += 1
        return given.target or target_of_file(file)

    def _count_answer(self, logged: LoggedAnswer) -> None:
        self.answers += 1
        self.mapped_fields.update(logged.mapped)
        self._note(logged.notes)

    def _failed_line(self, line: ReadLine, message: str) -> JudgedLine | None:
        if self.run is not None:
            slot = self.run.unread_slot(line.file, source_of(line.file, line.number, line.part))
            if self._is_stored(line, slot):
                return None
        failure = Failure("config_error", message, stage="load")
        return JudgedLine(
            line.file,
            line.number,
            self.clock(),
            failure=failure,
            part=line.part,
            digest=content_digest(line),
            target=target_of_file(line.file),
        )

    def _save_and_count(self, line: JudgedLine) -> None:
        """Save a judged line, then count it. If it cannot be saved, stop the stream."""
        try:
            self.save(line)
            row = line.to_row() if self.run is None else self.run.add(line)
        except StorageError as error:
            if self.stop.state != "failed":
                self.stop.fail(str(error))
                self._stop_reading()
            return
        self._count(row, has_trials=False)
        self._count_judge_failures(line)
        if line.judged is not None:
            self._note(line.judged.warnings)
            lost = [error.message for error in line.judged.run_errors if error.kind == "store_error"]
            self.lost_judgements += bool(lost)
            self._note(lost)

    def _count(self, row: CaseResult, *, has_trials: bool) -> None:
        """Count a row; with `has_trials`, as one of the trials of its case.

        The summary counts all rows of a stream under one target, whatever target they name.
        """
        self.summary.add(replace(row, slot=replace(row.slot, target=GIVEN_ANSWER)), has_trials=has_trials)
        if self.groups is not None:
            self.metadata_keys.update(row.metadata)
            kind = kind_of(row, row_state(row))
            cluster = cluster_of(row, has_trials=has_trials)
            self.groups.add(kind, case=cluster, metadata=row.metadata, time=row.timestamp)

    def recount(self) -> None:
        """Count the stored rows again if cases were repeated: the rows of a case are then one cluster in intervals."""
        run = self.run
        if run is None or run.folder is None or not run.repeats_cases or self.lost_files is not None:
            return
        self._reset_counts()
        for row in open_run(run.folder).results():
            self._count(row, has_trials=True)

    def _count_judge_failures(self, line: JudgedLine) -> None:
        """Stop the stream when a judge has failed too often in succession."""
        judge = self.judge_failures.count(line.evaluators)
        if judge is not None and self.stop.state == "finished":
            self.stop.drain_for_judge(judge)
            self._stop_reading()

    def _note(self, messages: Sequence[str]) -> None:
        for message in messages:
            add_note(self.notes, message)

    def report(self, *, max_errors: int, duration_s: float, is_stored: bool) -> RunReport:
        """Return the report of all lines so far, with the verdict."""
        if self.run is not None:
            self.lost_files = self.run.why_lost()
        self.recount()
        ending = replace(self._ending(), is_stored=is_stored)
        verdict = run_verdict(self.summary, ending, gates=self.gates, max_errors=max_errors)
        if self.gates is None and verdict.exit_code == GATE_FAILED:
            self.notes[_DEFAULT_GATE] = None
        return replace(
            self.summary.report("", ending.state, verdict),
            read=self.summary.all.rows if self.lines is None else max(self.lines.read, self.summary.all.rows),
            notes=tuple(self._notes_at_end()),
            duration_s=duration_s,
            needs=self.stop.needs,
            run_id="" if self.run is None or self.run.opened_store is None else self.run.opened_store.run_id,
            folder=None if self.run is None or self.run.folder is None else str(self.run.folder),
        )

    def save_report(self, report: RunReport) -> None:
        """Save the report with the run, and close the run. Do nothing without a run. Raises StorageError."""
        if self.run is None or self.run.opened_store is None:
            return
        fields = reported_fields(
            report,
            gates=self.gates,
            reason=self._ending().reason,
            is_judge_stop=self.stop.is_judge_stop,
            has_every_row=True,
        )
        # The verdict names the failure that ended the stream; a second failure is not reported.
        with suppress(StorageError) if report.state == "failed" else nullcontext():
            self.run.opened_store.note(REPORTED, fields)
        self.run.close(report.state)

    def _notes_at_end(self) -> Iterator[str]:
        yield from self.runner.warnings
        yield from self.notes
        if self.steps:
            kinds = ", ".join(f"{count:,} {kind}{'s' if count > 1 else ''}" for kind, count in self.steps.items())
            yield f"not scored, because they are parts of a trace: {kinds}; --map response=PATH scores them too"
        if self.answers:
            for name in (name for name in self.reading.paths if name not in self.mapped_fields):
                yield f"no line has the path of --map {name}={self.reading.paths[name]}"
        if self.groups is not None and self.summary.all.rows:
            for kind in (kind for kind in map(kind_named, self.by) if not self.groups.names(kind)):
                yield no_group_message(kind, self.metadata_keys, noun="line")
        if self.without_target:
            lines = "1 line has" if self.without_target == 1 else f"{self.without_target:,} lines have"
            yield f"{lines} no {self.target_field!r}; the line's 'target', or else the file's name, is used instead"
        if self.unchanged:
            yield f"{self.unchanged:,} result{'s' if self.unchanged > 1 else ''} unchanged"
        if self.stored_lines is not None and self.lines is not None and not self.lines.read:
            yield "standard input was empty; agentv resume needs the stream that agentv score has read"
        if self.stored_lines is not None and self.stored_lines.changed:
            changed = self.stored_lines.changed
            lines = "1 skipped line has" if changed == 1 else f"{changed:,} skipped lines have"
            yield f"{lines} the id of a stored line, but another answer; pipe the same stream, from its start"
        if self.lines is not None and (key := self.lines.missing_key()) is not None:
            yield f"no line has the sampling key {key!r}: each line was sampled independently"

    def _reason_for_no_rows(self) -> str:
        if self.steps:
            return (
                f"all {self.steps.total():,} lines are parts of a trace, none its root; --map response=PATH scores them"
            )
        read = 0 if self.lines is None else self.lines.read
        return f"no line is in the sample ({read:,} read)" if read else "there are no lines"

    def _ending(self) -> Ending:
        """Return how the stream ended; it also counts as failed if the configuration's storage lost a judgement."""
        state, reason = self.stop.state, self.stop.reason
        if self.lost_files is not None and state != "interrupted":
            state, reason = "failed", self.lost_files
        if state == "finished" and self.lost_judgements:
            state, reason = "failed", f"storage lost {self.lost_judgements:,} of {self.summary.all.rows:,} judgements"
        elif state == "finished" and not self.summary.all.rows:
            reason = self._reason_for_no_rows()
        return Ending(
            state=state,
            reason=reason,
            signal_number=self.stop.signal_number,
            noun="line",
            is_judge_stop=self.stop.is_judge_stop,
            incomplete=self.lost_files,
        )


_DEFAULT_GATE = "by default every line must pass; off with --gate none or `gates: none`"


def named_value(given: EvaluationInput, name: str) -> str | None:
    """Return a field of an input or of its metadata as text; None if it is missing or empty, or a list or object."""
    if name in ("target", "model", "agent_id", "session_id", "id"):
        value: JsonValue = getattr(given, name)
    else:
        value = given.metadata.get(name.removeprefix(METADATA))
    return f"{value}" if isinstance(value, str | int | float) and value != "" else None


def _render(problem: Problem, line: Line) -> str:
    """Return a problem as text.

    If it is in the line's file, leave out the file and line, which are reported anyway, and a leading `$`.
    """
    if problem.path != line.file:
        return problem.render()
    column = f"column {problem.column}: " if problem.column > 1 else ""
    return column + replace(problem, path="", line=0).render().strip().removeprefix("$  ")
