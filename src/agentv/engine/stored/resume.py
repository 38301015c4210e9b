"""A stored run taken up again: which rows stand, which answers are judged anew, and what is asked."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.calling.budget import Spent
from agentv.engine.planning.plan import CaseTask, RunPlan, Stored
from agentv.engine.planning.prepared_case import result_key_of
from agentv.engine.planning.selection import matches_glob
from agentv.engine.running.case import CaseRunner
from agentv.engine.running.context import criteria_of
from agentv.engine.running.recorder import RunRecorder
from agentv.scoring.keys.identity import answer_key, keys_of, question_key
from agentv.scoring.results.aggregation import row_state
from agentv.scoring.results.applicable import applicable_evaluators
from agentv.storage.run.kept_rows import StoredRows
from agentv.storage.run.stored import StoredRun
from agentv.types.cases import BrokenCase, EvalCase
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult

Purpose: TypeAlias = Literal["resume", "retry", "rescore", "report"]
"""Finish what is missing or was edited; do chosen rows again; judge stored answers again; only count."""


class ResumePlan(Struct):
    """What a stored run still needs, and how much of it that was.

    `again` chooses the rows that a retry does again. The answers of the targets in `fresh` are not used. `retired`
    are the slots that were taken out of the run before, `gone_suites` those that it had and the plan has not.
    `spent` is what counts against the budget already.
    """

    rows: StoredRows
    purpose: Purpose = "resume"
    again: Callable[[CaseResult], bool] = lambda _row: False
    fresh: frozenset[str] = frozenset()
    retired: frozenset[ResultKey] = frozenset()
    gone_suites: tuple[str, ...] = ()
    spent: Spent | None = None
    kept: int = 0
    rejudged: int = 0
    asked: int = 0

    @property
    def calls_targets(self) -> bool:
        """Whether a target may be called."""
        return self.purpose in ("resume", "retry")

    @property
    def calls_judges(self) -> bool:
        """Whether an evaluator may be called."""
        return self.purpose != "report"

    def left_to_do(self, tasks: Iterator[CaseTask], runner: CaseRunner, recorder: RunRecorder) -> Iterator[CaseTask]:
        """Yield what is to be done of `tasks`; rows that stand are counted and told."""
        for task in tasks:
            if recorder.stop.state == "interrupted":  # nothing below waits, so that the stop itself comes later
                return
            slot = result_key_of(task)
            row = self.rows.take(slot)
            if row is not None and slot in self.retired:
                recorder.store.note("case_returned", {"slot": slot.to_json()})
            todo = self._decide(task, row, runner)
            if todo is not None:
                self.asked += todo.stored is None
                self.rejudged += todo.stored is not None
                yield todo
            elif row is not None:
                self.kept += 1
                recorder.carry(row)

    def finish(self, recorder: RunRecorder) -> None:
        """Take the rows of cases that are no longer there out of the run, once all of the plan was seen."""
        if self.purpose == "resume":
            gone = [slot for slot in self.rows.left() if slot not in self.retired]
            for slot in gone:
                recorder.store.note("case_retired", {"slot": slot.to_json()})
            if gone:
                recorder.note(f"no longer in the suites, kept and not counted: {_count(len(gone), 'row')}")
        if self.purpose != "report":
            done = f"{_count(self.asked, 'call')} of targets, {_count(self.rejudged, 'stored answer')} judged again"
            recorder.note(f"kept {_count(self.kept, 'row')} as they were; {done}")

    def _decide(self, task: CaseTask, row: CaseResult | None, runner: CaseRunner) -> CaseTask | None:
        """Return the task as it is to be done, None when its row stands (or there is nothing to do for it)."""
        match self.purpose:
            case "resume":
                return self._resumed(task, row, runner)
            case "retry":
                return self._retried(task, row, runner)
            case "rescore":
                return self._rescored(task, row, runner)
            case _:
                return None

    def _resumed(self, task: CaseTask, row: CaseResult | None, runner: CaseRunner) -> CaseTask | None:
        case = task.case
        if isinstance(case, BrokenCase):
            return None if row is not None and _is_unread(row) else self._anew(task, row)
        if task.target.name in self.fresh:
            return self._anew(task, row)
        if row is not None and self._stands(row, task, case, runner):
            return None
        stored = self._stored(task, case, row, runner)
        return self._anew(task, row) if stored is None else stored

    def _retried(self, task: CaseTask, row: CaseResult | None, runner: CaseRunner) -> CaseTask | None:
        if row is None or not self.again(row):
            return None
        if row.error is not None and row.error.stage == "evaluator" and isinstance(task.case, EvalCase):
            return self._stored(task, task.case, row, runner) or self._anew(task, row)
        return self._anew(task, row)

    def _rescored(self, task: CaseTask, row: CaseResult | None, runner: CaseRunner) -> CaseTask | None:
        if isinstance(task.case, BrokenCase) or (row is not None and not row.answer_key):
            return None
        if row is not None and self._stands(row, task, task.case, runner):
            return None
        return self._stored(task, task.case, row, runner)

    def _stands(self, row: CaseResult, task: CaseTask, case: EvalCase, runner: CaseRunner) -> bool:
        """Whether a row is what the case would give again; rows with errors stand until they are retried."""
        if not row.answer_key:
            return row.status == "error" or runner.has_nothing_to_score(task)
        if row.answer_key != _key(task, case, runner):
            return False
        if row.status == "error" and not row.score_keys:
            return True
        evaluators, _ = applicable_evaluators(case, task.suite)
        keys = keys_of(case, criteria_of(case, task.suite))
        return row.score_keys == runner.fingerprints.score_keys(task, keys, row.answer_key, evaluators)

    def _stored(self, task: CaseTask, case: EvalCase, row: CaseResult | None, runner: CaseRunner) -> CaseTask | None:
        """Return the task of judging a stored answer; None when there is none that may be used."""
        if runner.has_nothing_to_score(task):
            return None
        slot, key = result_key_of(task), _key(task, case, runner)
        # A suite that was renamed finds what was answered under its old name.
        found = (self.rows.answer(suite, key) for suite in (slot.suite, *self.gone_suites))
        answer = next((each for each in found if each is not None), None)
        if answer is None:
            return None
        before = row if answer.slot == slot else self.rows.find(answer.slot)
        generation = answer.generation if row is None else self.rows.next_generation(slot, row)
        return replace(task, generation=generation, stored=Stored(replace(answer, slot=slot), before))

    def _anew(self, task: CaseTask, row: CaseResult | None) -> CaseTask:
        return replace(task, generation=self.rows.next_generation(result_key_of(task), row))


def _key(task: CaseTask, case: EvalCase, runner: CaseRunner) -> str:
    return answer_key(question_key(case), runner.fingerprints.target_key(task.target), task.trial)


def make_resume_plan(plan: RunPlan, run: StoredRun, purpose: Purpose) -> ResumePlan:
    """Return what is left to do of a stored run under a plan. Raises StorageError when its rows cannot be read."""
    planned = {suite.suite.path for suite in plan.suites}
    gone = tuple(path for path in run.suites if path not in planned)
    return ResumePlan(StoredRows(run), purpose, retired=run.retired(), gone_suites=gone)


def _is_unread(row: CaseResult) -> bool:
    return row.error is not None and row.error.stage == "load"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


GENERATION_STARTED = "generation_started"


class RequestedGeneration(Struct, frozen=True):
    """What was asked for when rows of a finished run were to be done again, as the run's events keep it.

    `only` (`errors`, `failed`, `cases`) and `globs` say which rows a retry does, `evaluators` is the file that a
    rescore judges with, beside the `.agentv` folder. `rows` is how many lines of rows there were before.
    """

    purpose: str
    only: str = "errors"
    globs: tuple[str, ...] = ()
    evaluators: str | None = None
    rows: int = 0

    def to_event(self) -> JsonObject:
        """Return the fields of its event."""
        fields: dict[str, JsonValue] = {"purpose": self.purpose}
        if self.purpose == "retry":
            fields |= {"only": self.only, "cases": list(self.globs), "rows": self.rows}
        else:
            fields["evaluators"] = self.evaluators
        return fields


def unfinished_generation(run: StoredRun) -> RequestedGeneration | None:
    """Return the retry or rescore that was begun and did not finish, if there is one."""
    begun = None
    for event in run.events():
        if event.type == GENERATION_STARTED:
            begun = _asked(event.fields)
        elif event.type == "ended" and event.fields.get("state") == "finished":
            begun = None
    return begun


def chosen_rows(only: str, globs: Sequence[str], *, before: int | None = None) -> Callable[[CaseResult], bool]:
    """Return which rows a retry does; with `before` none that stand behind that line, which it has done already."""

    def is_chosen(row: CaseResult) -> bool:
        if before is not None and row.seq is not None and row.seq >= before:
            return False
        if only == "cases":
            return any(matches_glob(row.eval_id, glob) for glob in globs)
        return row_state(row) == "error" or (only == "failed" and row_state(row) not in ("pass", "skipped"))

    return is_chosen


def _asked(fields: JsonObject) -> RequestedGeneration | None:
    purpose, evaluators, rows = fields.get("purpose"), fields.get("evaluators"), fields.get("rows")
    globs = fields.get("cases")
    if purpose == "rescore":
        return RequestedGeneration("rescore", evaluators=evaluators if isinstance(evaluators, str) else None)
    if purpose != "retry" or not isinstance(rows, int):
        return None
    names = tuple(glob for glob in globs if isinstance(glob, str)) if isinstance(globs, list) else ()
    return RequestedGeneration("retry", str(fields.get("only")), names, rows=rows)
