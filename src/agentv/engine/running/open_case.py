"""One case of a run from its call to its row, and the turns of a case that is a conversation."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.calling.answer import CallOutcome, OnLogLine, call_with_fallbacks, failed_outcome, make_answer
from agentv.engine.calling.fingerprints import Fingerprints
from agentv.engine.calling.runtime import Runtime
from agentv.engine.conversation.joining import answers_by_turn, joined_answers
from agentv.engine.conversation.speaking import Speaker, hold_conversation, speaker_of
from agentv.engine.planning.plan import AnswerWithInput, CaseTask
from agentv.engine.planning.prepared_case import PreparedCase, prepared_turn
from agentv.engine.planning.workspaces import WantedWorkspace, wanted_workspace
from agentv.engine.running.context import build_context, conversation_context
from agentv.engine.running.rows import dry_row, is_dry, judged_row, reusable_scores, unanswered_row
from agentv.engine.running.target_session import TargetSession
from agentv.engine.running.workspaces import (
    capture,
    captured_to_json,
    in_folder,
    in_saved_workspace,
    open_wanted_workspace,
    workspace_name,
)
from agentv.execution.cancelled_calls import INTERRUPTED, attached_call
from agentv.scoring.keys.identity import score_keys
from agentv.scoring.results.aggregation import row_state
from agentv.scoring.results.by_criterion import JudgedCriteria
from agentv.scoring.results.turns import missing_turn_result, skipped_turn_result, turn_name, turn_result
from agentv.types.cases import CaseTurn
from agentv.types.evaluation import EvaluationContext, EvaluatorResult
from agentv.types.events import LogLine
from agentv.types.provider import CallRecord, ProviderError, ProviderResponse
from agentv.types.records.answer import Answer
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord
from agentv.types.usage import AMOUNT_NOTES

if TYPE_CHECKING:
    from agentv.execution.workspaces.workspaces import Workspace


class RowSink(Protocol):
    """Saves cases and answers to the run folder."""

    def case(self, record: CaseRecord) -> None:
        """Save a case before its first call."""

    def answer(self, answer: Answer) -> Answer:
        """Save an answer before it is scored, and return it with its number."""


class Unrecorded:
    """The sink of answers that no run records."""

    def case(self, record: CaseRecord) -> None:
        """Do nothing."""

    def answer(self, answer: Answer) -> Answer:
        """Return the answer as it is."""
        return answer


BeforeRepeat: TypeAlias = Callable[[], Awaitable[None]] | None
"""Called before the target is called again after a failure, to reset the workspace."""


class RunTools(Struct, frozen=True):
    """The live objects of one process that all cases of a run use."""

    run_id: str
    runtime: Runtime
    sink: RowSink
    fingerprints: Fingerprints
    on_retry: Callable[[CaseTask, CallRecord, float], None]
    on_log_line: Callable[[LogLine], None] | None = None
    place_workspace: Callable[[WantedWorkspace], WantedWorkspace] | None = None
    """Returns a workspace with its sources on this machine, or raises ProviderError; None leaves it unchanged."""
    on_judged: Callable[[AnswerWithInput, JudgedCriteria, float], Awaitable[None]] | None = None
    """Gets each given answer with its judgement and the milliseconds it took, before its row is made."""


JudgedTurns: TypeAlias = dict[int, EvaluatorResult]
"""The results of turns that were judged, by their number from 1."""


class OpenCase(Struct, frozen=True):
    """A prepared case, the session of its target, and the live objects of the run."""

    tools: RunTools
    session: TargetSession
    prepared: PreparedCase

    @property
    def task(self) -> CaseTask:
        """The task of the case."""
        return self.prepared.task

    async def row(self) -> CaseResult:
        """Return the row of the case: its stored answer is judged, or its target is called."""
        task = self.task
        if task.stored is not None:
            return await self._judge_stored(task.stored.answer)
        wanted = wanted_workspace(self.prepared.case, task.suite, task.target)
        if wanted is not None:
            return await self._row_in_workspace(wanted)
        answer, judged = await self.answer()
        return await self.judge(self.tools.sink.answer(answer), judged)

    async def answer(self, before_repeat: BeforeRepeat = None) -> tuple[Answer, JudgedTurns]:
        """Return the target's answer, not saved yet, and the results of turns that had to be judged before it ended."""
        speaker = speaker_of(self.prepared.case)
        if speaker is None:
            return await self.call(self.save, before_repeat=before_repeat), {}
        conversation = Conversation(self, speaker)
        return await conversation.hold(before_repeat), conversation.judged

    async def call(self, save: Callable[[CallOutcome], object], *, before_repeat: BeforeRepeat = None) -> Answer:
        """Return the answer of the target or a fallback. An interrupted response is saved without a row."""
        runtime, show = self.tools.runtime, self.tools.on_log_line
        try:
            outcome = await call_with_fallbacks(
                self.prepared,
                self.session.provider,
                runtime,
                on_retry=partial(self.tools.on_retry, self.task),
                on_log_line=None if show is None else self._log_line_of(show),
                before_repeat=before_repeat,
            )
        except asyncio.CancelledError as error:
            call = attached_call(error)
            if call is not None:  # it has attempts, whose times count
                now = runtime.clock()
                save(failed_outcome(call, started_at=now, ended_at=now))
            raise
        return self.make_answer(outcome)

    def _log_line_of(self, show: Callable[[LogLine], None]) -> OnLogLine:
        """Return the function that shows a line of the case's log."""
        key, session = self.task.slot, self.session
        return lambda target, text: show(LogLine(key, target, session.cleaner().text(text)))

    def save(self, outcome: CallOutcome) -> Answer:
        """Return the cleaned answer of an outcome, saved before it is scored."""
        return self.tools.sink.answer(self.make_answer(outcome))

    def make_answer(self, outcome: CallOutcome) -> Answer:
        """Return the cleaned answer of an outcome, and report the notes of the response as notes of the run."""
        counts_attempts = self.session.provider.counts_attempts
        answer = make_answer(self.prepared, outcome, cleaner=self.session.cleaner(), counts_attempts=counts_attempts)
        if outcome.answered_by is not None:
            self._note(f"it failed on cases that its fallback {outcome.answered_by!r} answered")
        if isinstance(outcome.result, ProviderResponse):
            for note in outcome.result.notes:
                self._note(note)
        elif outcome.partial is not None:
            for note in outcome.partial.notes:
                if note in AMOUNT_NOTES:
                    self._note(note)
        return answer

    def _note(self, message: str) -> None:
        """Add a note about the target to the run, with secrets redacted."""
        self.tools.runtime.note(f"target {self.task.target.name!r}: {self.session.cleaner().text(message)}")

    async def judge(self, answer: Answer, judged: JudgedTurns | None = None) -> CaseResult:
        """Return the row of a saved answer. `judged` has the results of turns that were judged before, by number."""
        prepared, session, task, run_id = self.prepared, self.session, self.task, self.tools.run_id
        if answer.error is not None:
            return unanswered_row(run_id, prepared, answer, is_model=session.is_model)
        if is_dry(task, answer.answered_by, answer.request):
            return dry_row(run_id, prepared, answer)
        scoring = session.scoring(prepared)
        keys = score_keys(answer.answer_key, prepared.keys.expectation, scoring.setup_digests)
        known = {} if task.stored is None else reusable_scores(task.stored.row, keys, scoring.evaluators)
        context = self.context(answer)
        turns: tuple[EvaluatorResult, ...] = ()
        speaker = speaker_of(prepared.case)
        if speaker is not None:
            turn_keys = self.tools.fingerprints.turn_keys(prepared.case, task, answer.answer_key)
            keys = {**keys, **turn_keys}
            known_turns = {} if task.stored is None else reusable_scores(task.stored.row, turn_keys, ())
            turns = await Conversation(self, speaker, dict(judged or {})).judge(answer, known_turns)
            context = conversation_context(context, answer)
        results = (*turns, *await session.score(context, scoring.prepared_evaluators, known))
        summary = context.candidate_trace_summary
        return judged_row(
            run_id, prepared, answer, results, score_keys=keys, summary=summary, is_model=session.is_model
        )

    def context(self, answer: Answer) -> EvaluationContext:
        """Return what the evaluators of an answer see."""
        prepared = self.prepared
        return build_context(
            self.session.unanswered_context,
            prepared.case,
            answer,
            prompt=prepared.prompt,
            criteria=prepared.criteria,
            now=self.tools.runtime.clock(),
            workspace_path=prepared.request.workspace,
            is_workspace_missing=prepared.is_workspace_missing,
        )

    async def _row_in_workspace(self, wanted: WantedWorkspace) -> CaseResult:
        """Call the target in the row's own folder, capture the changes, and score before the folder is removed."""
        tools, session = self.tools, self.session
        started_at = tools.runtime.clock()
        try:
            placed = wanted if tools.place_workspace is None else tools.place_workspace(wanted)
            async with open_wanted_workspace(placed, workspace_name(self.task), tools.runtime) as workspace:
                session.redact_keys(workspace.keys)
                for note in workspace.source_notes:
                    self._note(note)
                opened = self._in_folder(workspace.path)
                answer, judged = await opened.answer(workspace.reset)
                captured, answer = await capture(workspace, answer)
                cleaner = session.cleaner()
                (fields,) = cleaner.clean_all(captured_to_json(captured, workspace, keep=wanted.config.keep))
                answer = replace(answer, workspace=fields, repaired=answer.repaired or cleaner.repaired)
                row = await opened.judge_in_workspace(tools.sink.answer(answer), workspace, judged)
                for note in captured.notes:
                    self._note(f"{self.prepared.case.id}: {note}")
                return row
        except ProviderError as error:
            return await self.judge(self.save(CallOutcome(error.failure, started_at, tools.runtime.clock())))

    async def judge_in_workspace(
        self, answer: Answer, workspace: "Workspace", judged: JudgedTurns | None = None
    ) -> CaseResult:
        """Return the row of a saved answer, scored before its workspace is removed; if interrupted, keep it."""
        try:
            row = await self.judge(answer, judged)
        except asyncio.CancelledError:
            if answer.error is None and not self.tools.runtime.machine:
                kept = workspace.keep_unscored(self._unscored_place(answer))
                self._note(f"{answer.slot.eval_id}: not scored yet; `resume` scores it in its workspace, {kept}")
            raise
        for note in await workspace.finish(failed=row_state(row) != "pass"):
            self._note(f"{answer.slot.eval_id}: {note}")
        return row

    def _unscored_place(self, answer: Answer) -> Path:
        """Return the folder that keeps the workspace of an answer of this run until the answer is scored."""
        return Path(self.tools.runtime.home, "runs", self.tools.run_id, "workspaces", f"answer-{answer.seq}")

    async def _judge_stored(self, answer: Answer) -> CaseResult:
        """Return the row of a stored answer, judged in its workspace if that was kept."""
        if answer.workspace is None:
            return await self.judge(answer)
        task, place, saved = self.task, self._unscored_place(answer), answer.workspace.get("path")
        wanted = wanted_workspace(self.prepared.case, task.suite, task.target)
        if wanted is None or not place.is_dir():
            return await replace(self, prepared=in_saved_workspace(self.prepared, saved)).judge(answer)
        from agentv.execution.workspaces.workspaces import open_kept_workspace  # noqa: PLC0415 - few runs need it

        saved_path = Path(self.tools.runtime.home, "workspaces", f"{workspace_name(task)}-{self.tools.run_id}")
        saved_path = Path(saved) if isinstance(saved, str) else saved_path
        async with open_kept_workspace(wanted.config, place, saved_path=saved_path) as workspace:
            self.session.redact_keys(workspace.keys)
            row = await self._in_folder(workspace.path).judge_in_workspace(answer, workspace)
        with suppress(OSError):  # answers that are not scored yet have theirs in the same folder
            place.parent.rmdir()
        return row

    def _in_folder(self, folder: Path) -> "OpenCase":
        """Return the case with `folder` as its workspace."""
        return replace(self, prepared=in_folder(self.prepared, folder))


class Conversation(Struct, frozen=True):
    """The conversation of an open case."""

    opened: OpenCase
    speaker: Speaker
    judged: JudgedTurns = field(default_factory=dict)
    """The turns that were judged while the conversation was held."""

    async def hold(self, before_repeat: BeforeRepeat) -> Answer:
        """Hold the conversation and return its answers as one. Only a repeat of the first turn resets the workspace.

        An interrupted conversation is saved as far as it was held.
        """
        prepared = self.opened.prepared
        stops_on_failure = prepared.case.turn_rules.on_failure == "stop" and not is_dry(prepared.task, None)

        async def call(said: Sequence[CaseTurn], before: Sequence[Answer]) -> Answer:
            return await self._call(said, before, before_repeat if len(said) == 1 else None)

        async def ends_early(said: Sequence[CaseTurn], answers: Sequence[Answer]) -> bool:
            if not stops_on_failure:
                return False
            number = len(said)
            self.judged[number] = await self._judge_turn(said, answers)
            return self.judged[number].verdict not in ("pass", None)

        return joined_answers(prepared, *await hold_conversation(self.speaker, call, ends_early))

    async def _call(self, said: Sequence[CaseTurn], before: Sequence[Answer], before_repeat: BeforeRepeat) -> Answer:
        """Return the answer to the last of the turns `said`, after the answers `before` it."""
        turn, tools = self._turn(said, before), self.opened.tools
        saved = False

        def save(outcome: CallOutcome) -> None:
            nonlocal saved
            saved = True
            tools.sink.answer(joined_answers(self.opened.prepared, said, [*before, turn.make_answer(outcome)]))

        started_at = tools.runtime.clock()
        try:
            return await turn.call(save, before_repeat=before_repeat)
        except asyncio.CancelledError:
            if before and not saved:  # the turns before it were paid for
                save(CallOutcome(INTERRUPTED, started_at, tools.runtime.clock()))
            raise

    def _turn(self, said: Sequence[CaseTurn], before: Sequence[Answer]) -> OpenCase:
        """Return the case of the last of the turns `said`."""
        texts = [answer.text for answer in before]
        turn = prepared_turn(self.opened.prepared, said, texts, form=self.opened.session.prompt_form)
        return replace(self.opened, prepared=turn)

    async def judge(self, answer: Answer, known: Mapping[str, EvaluatorResult]) -> tuple[EvaluatorResult, ...]:
        """Return the results of all turns. Turns that were judged, or are `known` by name, are not judged again."""
        answers, turns = answers_by_turn(answer), self.speaker.turns_of(answer)
        rules = self.opened.prepared.case.turn_rules
        results: list[EvaluatorResult] = []
        failed_turn = None
        for number in range(1, len(turns) + 1):
            stored = known.get(turn_name(number))
            if failed_turn is not None:
                result = skipped_turn_result(number, failed_turn)
            elif number > len(answers):
                result = missing_turn_result(number)
            elif number in self.judged:
                result = self.judged[number]
            elif stored is not None and stored.evaluator_results:
                result = stored
            else:
                result = await self._judge_turn(turns[:number], answers)
            if rules.on_failure == "stop" and result.verdict not in ("pass", None) and failed_turn is None:
                failed_turn = number
            results.append(result)
        return tuple(results)

    async def _judge_turn(self, said: Sequence[CaseTurn], answers: Sequence[Answer]) -> EvaluatorResult:
        """Return the result of the last of the turns `said`; `answers` begin with those to these turns."""
        number = len(said)
        turn = self._turn(said, answers[: number - 1])
        context = turn.context(answers[number - 1])
        members = await turn.session.score(context, turn.session.scoring(turn.prepared).prepared_evaluators, {})
        case, suite = self.opened.prepared.case, self.opened.task.suite
        return turn_result(number, members, suite.pass_score if case.pass_score is None else case.pass_score)
