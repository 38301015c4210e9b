"""Criteria-based evaluation of answers that exist already, by the same evaluators that judge live ones."""

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from agentv.engine.calling.fingerprints import put_bounded
from agentv.engine.calling.given_answer import DEFAULT_CASE_ID, GIVEN_ANSWER
from agentv.engine.criteria.answer_tasks import MAX_FITS, AnswerTasks
from agentv.engine.criteria.config import EvaluationRunConfig
from agentv.engine.criteria.judgements import as_result, save_judgement, snapshot_of
from agentv.engine.planning.plan import AnswerWithInput
from agentv.engine.running.case import CaseRunner
from agentv.engine.running.clock import make_clock
from agentv.engine.running.open_case import Unrecorded
from agentv.scoring.results.by_criterion import JudgedCriteria
from agentv.types.aggregated_result import AggregatedEvaluationResult
from agentv.types.cases import EvalCase
from agentv.types.errors import ConfigError
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.protocols import Clock
from agentv.types.records.answer import Answer, ResultKey
from agentv.types.scales import EvaluationCriteria
from agentv.types.structs import deep_copy


def as_input(given: EvaluationInput | Mapping[str, Any]) -> EvaluationInput:
    """Return an input, or make one from a dict with its keys. Raises EvalFileError, and ConfigError for others."""
    return _as(EvaluationInput, given, "input")


def as_config(given: EvaluationRunConfig | Mapping[str, Any]) -> EvaluationRunConfig:
    """Return a configuration, or make one from a dict with its keys. Raises as `as_input` does."""
    return _as(EvaluationRunConfig, given, "config")


_Given = TypeVar("_Given", EvaluationInput, EvaluationRunConfig)


def _as(kind: type[_Given], given: object, argument: str) -> _Given:
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise ConfigError(f"`{argument}` must be an {kind.__name__} or a dict with its keys, not {given!r:.80}")
    return kind.from_dict(given)


class EvaluationRunner:
    """Judges given answers by one configuration, or a dict of it, which is read once, when the runner is created.

    Use it as an async context manager to keep connections to judges open between answers; otherwise each `run` opens
    and closes its own.
    """

    def __init__(self, config: EvaluationRunConfig | Mapping[str, Any], *, clock: Clock | None = None) -> None:
        self.config = as_config(config)
        self.tasks = AnswerTasks(self.config, clock=clock or make_clock())
        self._opened: CaseRunner | None = None
        self._closed: dict[int, CaseRunner] = {}
        """The evaluators that need nothing open, made once for all answers, by the id of their plan."""

    async def __aenter__(self) -> Self:
        """Open the connections that answers share. Raises ConfigError if the runner is open already."""
        if self._opened is not None:
            raise ConfigError("this EvaluationRunner is open already; share it, or create another one")
        self._opened = self._make_cases()
        await self._opened.runtime.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.runtime.__aexit__(kind, error, trace)

    def check(self, criteria: Sequence[EvaluationCriteria] = ()) -> None:
        """Raise EvalFileError with all problems of the configuration for these criteria."""
        self.tasks.fitted(criteria)

    def warm(self) -> None:
        """Create the judge and the evaluators of an open runner now, so that the first answer does not wait for them.

        Raises AgentvError for one that cannot be created.
        """
        if self._opened is not None:
            stored = self._stored(EvaluationInput(""))
            self._opened.open_given(self.tasks.task(stored, _NOT_RECORDED), stored).warm()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of the configuration, which can be run nevertheless."""
        return self.tasks.plan.warnings

    async def run(self, given: EvaluationInput | Mapping[str, Any]) -> AggregatedEvaluationResult:
        """Return the judgement of one answer, saved by the configuration's storage. `given` may be a dict.

        Raises EvalFileError with every problem of the configuration and the criteria before anything runs; failures of
        evaluators, judges and stores are in `run_errors`.
        """
        result, _ = await self.judge(as_input(given))
        return result

    async def judge(self, given: EvaluationInput) -> tuple[AggregatedEvaluationResult, JudgedCriteria]:
        """Return the judgement of one answer as `run` does, and the results per criterion behind it."""
        started = time.perf_counter()
        snapshot, metadata = snapshot_of(given), deep_copy(self.config.metadata)
        stored = self._stored(given)
        judged = await self._judged(stored)
        duration_ms = (time.perf_counter() - started) * 1000
        kept = replace(stored, input=snapshot)
        result = as_result(self.tasks, kept, judged, duration_ms, metadata=metadata)
        return await save_judgement(self.tasks.plan.stores, result), judged

    def _stored(self, given: EvaluationInput) -> AnswerWithInput:
        """Return an input as an answer that no run records."""
        now = self.tasks.clock()
        slot = ResultKey(self.tasks.suite.path, given.id or DEFAULT_CASE_ID, given.target or GIVEN_ANSWER)
        answer = Answer(slot=slot, answer_key="", text=given.text, started_at=now, ended_at=now, duration_ms=None)
        return AnswerWithInput(answer, input=given, fitted=self.tasks.fitted(given.criteria))

    async def _judged(self, stored: AnswerWithInput) -> JudgedCriteria:
        cases = self._opened or self._closed.get(id(stored.fitted))
        task = self.tasks.task(stored, _NOT_RECORDED)
        if cases is not None:
            return await cases.open_given(task, stored).judge()
        cases = self._make_cases()
        async with cases.runtime:
            opened = cases.open_given(task, stored)
            judged = await opened.judge()
        if opened.evaluators.need_nothing_open:
            put_bounded(self._closed, id(stored.fitted), cases, most=MAX_FITS)
        return judged

    def _make_cases(self) -> CaseRunner:
        return self.tasks.runner(self.tasks.runtime(), sink=Unrecorded())


_NOT_RECORDED = EvalCase(DEFAULT_CASE_ID)
"""The case of an answer that no run records."""
