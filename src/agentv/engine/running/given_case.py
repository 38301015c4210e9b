"""An answer that was given with its input, and is judged by criteria: from its judgement to its row."""

import time
from collections.abc import Mapping
from functools import cached_property, partial

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.calling.fingerprints import Fingerprints, StoredEvaluators, put_bounded
from agentv.engine.calling.given_answer import context_of_input, question_of
from agentv.engine.calling.resilience import ResilientProvider
from agentv.engine.calling.runtime import MAX_EVALUATORS, Runtime
from agentv.engine.planning.plan import AnswerWithInput, CaseTask
from agentv.engine.planning.prepared_case import PreparedCase
from agentv.engine.running.case_records import case_record
from agentv.engine.running.open_case import RunTools
from agentv.engine.running.rows import Outcome, judged_row, reusable_scores
from agentv.engine.running.target_session import Session
from agentv.evaluators.isolation import PreparedEvaluator, make_evaluator
from agentv.scoring.keys.identity import canonical_json, digest, evaluator_to_json, score_keys
from agentv.scoring.keys.notes import SettingsClass
from agentv.scoring.results.aggregation import row_status
from agentv.scoring.results.by_criterion import FittedPlan, JudgedCriteria, judged_criteria
from agentv.scoring.tools.trace_summary import trace_summary
from agentv.types.cases import EvalCase, EvaluatorConfig, EvaluatorLike
from agentv.types.evaluation import EvaluatorResult, PromptInputs
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.provider import ProviderRequest
from agentv.types.records.answer import Answer, Origin
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord

_NO_REQUEST = ProviderRequest(question="")
"""The request of an answer that was given: no target is called."""


class FittedEvaluators:
    """The evaluators of one fitted plan, ready to judge any number of answers by its criteria."""

    def __init__(self, fitted: FittedPlan, session: "GivenSession") -> None:
        self.fitted = fitted
        self._session = session
        tools = session.tools
        self.prepared = tuple(
            PreparedEvaluator(
                each.config,
                make=partial(tools.make_evaluator, each.given),
                timeout_s=each.config.timeout_s or tools.timeout_s,
            )
            for each in fitted.evaluators
        )

    @property
    def concurrency(self) -> int:
        """The number of evaluators that judge one answer at once; 1 if each of them returns at once."""
        live = (each.live for each in self.prepared)
        returns_at_once = all(evaluator is not None and getattr(evaluator, "inline", False) for evaluator in live)
        return 1 if returns_at_once else self.fitted.concurrency

    @property
    def need_nothing_open(self) -> bool:
        """True if each evaluator judges all answers; an object that was given does, unless there is a judge to call."""
        has_judge = self._session.names_judge
        return all(
            each.live is not None or not (has_judge or isinstance(fitted.given, EvaluatorConfig))
            for each, fitted in zip(self.prepared, self.fitted.evaluators, strict=True)
        )

    def make(self) -> None:
        """Make the evaluators now, instead of for the first answer. Raises AgentvError."""
        for each in self.prepared:
            make_evaluator(each)

    @cached_property
    def evaluators(self) -> tuple[EvaluatorLike, ...]:
        """The configs of the evaluators, and those that were given as objects."""
        return tuple(
            each.config if isinstance(each.given, EvaluatorConfig) else each.given for each in self.fitted.evaluators
        )

    @cached_property
    def setup_digests(self) -> Mapping[str, str]:
        """The digest of all that an evaluator's scores depend on except answer and expectations, by its name."""
        return {
            each.config.name: self._session.setup_digest(evaluator)
            for each, evaluator in zip(self.fitted.evaluators, self.evaluators, strict=True)
        }

    @cached_property
    def stored_form(self) -> StoredEvaluators:
        """The evaluators as stored with a case; long ones are shortened."""
        settings_class = self._session.settings_class
        json: JsonValue = [_shortened(entry) for entry in self._entries(None)]
        in_key: JsonValue = self._entries(settings_class)
        return StoredEvaluators(json, in_key, canonical_json(in_key), settings_class)

    def _entries(self, settings_class: SettingsClass | None) -> list[dict[str, JsonValue]]:
        # Without criteria each evaluator scores a criterion of its own name, which is not declared anywhere.
        names = self.fitted.names
        return [
            {key: value for key, value in entry.items() if key != "criterion" or value in names}
            for entry in (evaluator_to_json(evaluator, settings_class) for evaluator in self.evaluators)
        ]


_LONG_SETTINGS = 2_000
"""The maximum length of an evaluator as JSON, in characters; of a longer one a case stores name, type and hash."""


def _shortened(entry: dict[str, JsonValue]) -> JsonObject:
    """Return an evaluator as JSON; if it is long, only its name, its type and a hash of the whole."""
    if len(canonical_json(entry)) <= _LONG_SETTINGS:
        return entry
    return {"name": entry["name"], "type": entry["type"], "sha256": digest(entry)}


class GivenSession(Session):
    """The session of answers that no target is called for. Their judge is the `judge` of the task's target."""

    def __init__(self, task: CaseTask, runtime: Runtime, fingerprints: Fingerprints) -> None:
        super().__init__(task, runtime, fingerprints)
        self._task = task
        self._fitted: dict[int, FittedEvaluators] = {}

    @property
    def names_judge(self) -> bool:
        """True if there is a judge for evaluators that do not name one."""
        return self._target.judge is not None

    @cached_property
    def judge(self) -> ResilientProvider | None:
        """The judge for evaluators that do not name one; None if there is none. Raises AgentvError."""
        name = self._target.judge
        return None if name is None else self._runtime.provider(self._known.get(name))

    def evaluators(self, fitted: FittedPlan) -> FittedEvaluators:
        """Return the evaluators of a plan, cached for the next answer with the same criteria."""
        known = self._fitted.get(id(fitted))
        if known is None:
            known = FittedEvaluators(fitted, self)
            put_bounded(self._fitted, id(fitted), known, most=MAX_EVALUATORS)
        return known

    def settings_class(self, type_: str) -> type | None:
        """Return the settings class of a type of evaluators; None for a type given from Python."""
        return self._fingerprints.settings_class(type_)

    def setup_digest(self, evaluator: EvaluatorLike) -> str:
        """Return the digest of all that an evaluator's scores depend on except answer and expectations."""
        return self._fingerprints.setup_digest(evaluator, self._task)


class GivenCase(Struct, frozen=True):
    """A given answer with the session that judges it, and the live objects of the run."""

    tools: RunTools
    session: GivenSession
    prepared: PreparedCase
    stored: AnswerWithInput

    @property
    def evaluators(self) -> FittedEvaluators:
        """The evaluators, fitted to the criteria of the input."""
        return self.session.evaluators(self.stored.fitted)

    def warm(self) -> None:
        """Create the judge and the evaluators now, instead of for the first answer. Raises AgentvError."""
        _ = self.session.judge
        self.evaluators.make()

    async def row(self) -> CaseResult:
        """Return the row of the answer, which is saved before it is judged. Scores that are still valid are reused."""
        answer = self._saved_answer()
        keys = self._score_keys(answer)
        started = time.perf_counter()
        judged = await self.judge(reusable_scores(self.stored.row, keys, self.evaluators.evaluators))
        if self.tools.on_judged is not None:
            duration_ms = (time.perf_counter() - started) * 1000
            await self.tools.on_judged(replace(self.stored, answer=answer), judged, duration_ms)
        return self._row_of(answer, judged, keys)

    def recorded(self, judged: JudgedCriteria) -> CaseResult:
        """Return the row of an answer that was judged before it is saved."""
        answer = self._saved_answer()
        return self._row_of(answer, judged, self._score_keys(answer))

    def _saved_answer(self) -> Answer:
        answer = self.stored.answer
        return answer if answer.seq is not None else self.tools.sink.answer(answer)

    def record(self) -> CaseRecord:
        """Return the record of the case that the answer belongs to."""
        record, session_id = case_record(self.prepared, self.evaluators.stored_form), self.stored.input.session_id
        return record if session_id is None else replace(record, session_id=session_id)

    def _score_keys(self, answer: Answer) -> dict[str, str]:
        """Return the key of each evaluator's score of an answer."""
        return score_keys(answer.answer_key, self.prepared.keys.expectation, self.evaluators.setup_digests)

    async def judge(self, known: Mapping[str, EvaluatorResult] | None = None) -> JudgedCriteria:
        """Return the results per criterion. Evaluators whose results are `known`, by name, do not judge again."""
        fitted, evaluators = self.stored.fitted, self.evaluators
        context = context_of_input(
            self.stored.input, fitted.criteria, judge=self.session.judge, now=self.tools.runtime.clock()
        )
        results = await self.session.score(
            context, evaluators.prepared, known or {}, concurrency=evaluators.concurrency
        )
        return judged_criteria(fitted, results)

    def _row_of(self, answer: Answer, judged: JudgedCriteria, keys: Mapping[str, str]) -> CaseResult:
        """Return the row of a saved answer and its judgement."""
        row = judged_row(
            self.tools.run_id,
            self.prepared,
            answer,
            judged.evaluators,
            score_keys=keys,
            summary=None if answer.output_messages is None else trace_summary(answer.output_messages, None),
            outcome=_outcome(judged),
        )
        session_id, origin = self.stored.input.session_id, answer.origin or _origin_of(self.stored.row)
        return replace(
            row,
            session_id=session_id,
            part=origin.part,
            line_digest=origin.digest,
            trace_id=origin.trace_id,
            span_id=origin.span_id,
        )


def _origin_of(row: CaseResult | None) -> Origin:
    """Return the place of the answer of an earlier row."""
    if row is None:
        return Origin("", 0)
    return Origin(row.file, row.line, row.part, row.line_digest, row.trace_id, row.span_id)


def _outcome(judged: JudgedCriteria) -> Outcome:
    score = judged.score.overall
    if judged.verdict is not None:
        return row_status(score or 0.0), score, judged.verdict, None
    messages = [f"{error.criterion or error.evaluator}: {error.message}" for error in judged.errors]
    kind = judged.errors[0].kind if messages else "evaluator_error"
    return "error", score, None, Failure(kind, " | ".join(messages), stage="evaluator")


def prepare_given(task: CaseTask, stored: AnswerWithInput) -> PreparedCase:
    """Return the case of a given answer."""
    case = task.case
    if not isinstance(case, EvalCase):
        raise TypeError("the case of a given answer cannot be broken")
    return PreparedCase(
        task=task,
        case=case,
        prompt=PromptInputs(question_of(stored.input)),
        request=_NO_REQUEST,
        keys=stored.keys,
        answer_key=stored.answer.answer_key,
        tags=case.tags,
        criteria=stored.fitted.criteria,
        evaluators=(),
        single_form=False,
    )
