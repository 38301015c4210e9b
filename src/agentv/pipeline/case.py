"""One row: ask, keep the answer, judge it, say how it went. Never raises for a case's own failure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from agentv.pipeline.answer import OnRetry, Prepared, Question, answer_case, make_question
from agentv.pipeline.applicable import applicable_evaluators
from agentv.pipeline.context import build_context, criteria_of
from agentv.pipeline.fingerprints import Fingerprints
from agentv.pipeline.plan import CaseTask
from agentv.pipeline.rows import broken_row, case_record, judged_row, unanswered_row
from agentv.pipeline.score import DEFAULT_EVALUATOR_TIMEOUT_S, SuiteTools, score_context
from agentv.pipeline.toolbox import Toolbox
from agentv.scoring.identity import evaluator_to_json, expectation_key, score_key
from agentv.types.cases import BrokenCase, EvaluatorConfig, EvaluatorLike
from agentv.types.evaluation import EvaluatorResult
from agentv.types.results import Answer, CaseRecord, CaseResult


class RowSink(Protocol):
    """Where a row's parts go as they come to be: whoever owns the run folder writes them."""

    def case(self, record: CaseRecord) -> None:
        """Keep a case before its first call."""

    def answer(self, answer: Answer) -> Answer:
        """Keep an answer before it is judged; it comes back with its number."""


@dataclass(frozen=True, slots=True)
class CaseRunner:
    """Makes rows out of tasks, with the tools of one process."""

    run_id: str
    toolbox: Toolbox
    sink: RowSink
    fingerprints: Fingerprints
    on_retry: Callable[[CaseTask], OnRetry]

    async def run(self, task: CaseTask, prepared: Prepared | None = None) -> CaseResult:
        """Return the row of a task. `prepared` is an answer that a batch already brought."""
        case = task.case
        if isinstance(case, BrokenCase):
            return broken_row(self.run_id, task, case, now=self.toolbox.clock())
        evaluators, single_form = applicable_evaluators(case, task.suite)
        spec = self.toolbox.specs.providers.get(task.target.provider)
        question = make_question(task, case, names_files=spec.has_files)
        if task.trial == 0:
            self.sink.case(case_record(question, evaluators, single_form=single_form))
        answer = self.sink.answer(
            await answer_case(question, toolbox=self.toolbox, prepared=prepared, on_retry=self.on_retry(task))
        )
        if answer.error is not None:
            return unanswered_row(self.run_id, question, answer, is_model=spec.is_model_api)
        results = await self._judge(question, answer, evaluators)
        return judged_row(
            self.run_id,
            question,
            answer,
            results,
            single_form=single_form,
            score_keys=self._score_keys(question, answer, evaluators),
            is_model=spec.is_model_api,
        )

    async def _judge(
        self, question: Question, answer: Answer, evaluators: tuple[EvaluatorLike, ...]
    ) -> tuple[EvaluatorResult, ...]:
        task, case = question.task, question.case
        context = build_context(
            case,
            answer,
            target=task.target,
            provider=self.toolbox.provider(task.target),
            prompt=question.prompt,
            criteria=criteria_of(case, task.suite),
            judge=self.toolbox.own_judge(task.target, task.known),
            now=self.toolbox.clock(),
        )
        timeout_s = task.suite.evaluator_timeout_s or DEFAULT_EVALUATOR_TIMEOUT_S
        tools = SuiteTools(self.toolbox, task.known, timeout_s, task.only_free)
        return await score_context(context, evaluators, tools=tools)

    def _score_keys(self, question: Question, answer: Answer, evaluators: tuple[EvaluatorLike, ...]) -> dict[str, str]:
        expectation = expectation_key(question.case, criteria_of(question.case, question.task.suite))
        judge = question.task.target.judge_target
        return {
            evaluator.name if isinstance(evaluator, EvaluatorConfig) else evaluator.kind: score_key(
                answer=answer.answer_key,
                expectation=expectation,
                evaluator=evaluator_to_json(evaluator),
                contents=self.fingerprints.of(evaluator),
                judge=judge,
            )
            for evaluator in evaluators
        }
