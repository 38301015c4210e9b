"""A conversation with a target: each turn is called with the answers before it, and judged on its own."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.calling.answer import CallOutcome
from agentv.engine.conversation.joining import answers_by_turn, joined_answers
from agentv.engine.conversation.speaking import Speaker, hold_conversation
from agentv.engine.planning.prepared_case import prepared_turn
from agentv.engine.running.rows import (
    is_dry,
)
from agentv.execution.cancelled_calls import INTERRUPTED
from agentv.scoring.results.turns import (
    missing_turn_result,
    skipped_turn_result,
    turn_name,
    turn_result,
)
from agentv.types.cases import CaseTurn
from agentv.types.evaluation import EvaluatorResult
from agentv.types.records.answer import Answer

if TYPE_CHECKING:
    from agentv.engine.running.open_case import BeforeRepeat, OpenCase

JudgedTurns: TypeAlias = dict[int, EvaluatorResult]
"""The results of turns that were judged, by their number from 1."""


class Conversation(Struct, frozen=True):
    """The conversation of an open case. `judged` are the turns that were judged while it was held."""

    opened: "OpenCase"
    speaker: Speaker
    judged: JudgedTurns = field(default_factory=dict)

    async def hold(self, before_repeat: "BeforeRepeat") -> Answer:
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

    async def _call(self, said: Sequence[CaseTurn], before: Sequence[Answer], before_repeat: "BeforeRepeat") -> Answer:
        """Return the answer to the last of the turns `said`, after the answers `before` it."""
        turn, runner = self._turn(said, before), self.opened.runner
        saved = False

        def save(outcome: CallOutcome) -> None:
            nonlocal saved
            saved = True
            runner.sink.answer(joined_answers(self.opened.prepared, said, [*before, turn.make_answer(outcome)]))

        started_at = runner.runtime.clock()
        try:
            return await turn.call(save, before_repeat=before_repeat)
        except asyncio.CancelledError:
            if before and not saved:  # the turns before it were paid for
                save(CallOutcome(INTERRUPTED, started_at, runner.runtime.clock()))
            raise

    def _turn(self, said: Sequence[CaseTurn], before: Sequence[Answer]) -> "OpenCase":
        """Return the case of the last of the turns `said`."""
        texts = [answer.text for answer in before]
        quotes_paths_only = self.opened.session.quotes_paths_only
        turn = prepared_turn(self.opened.prepared, said, texts, quotes_paths_only=quotes_paths_only)
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
        members = await turn.score(context, turn.session.scoring(turn.prepared).prepared_evaluators, {})
        case, suite = self.opened.prepared.case, self.opened.task.suite
        return turn_result(number, members, suite.pass_score if case.pass_score is None else case.pass_score)
