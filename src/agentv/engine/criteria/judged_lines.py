"""One given answer with its judgement: as the JSON of `agentv score -o`, and as a row like those of a run."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct, field

from agentv.engine.calling.given_answer import GIVEN_ANSWER, metadata_of
from agentv.scoring.counting.tallies import has_unpriced_call
from agentv.scoring.results.aggregation import case_fields, row_status
from agentv.scoring.tools.trace_summary import trace_summary
from agentv.types.aggregated_result import AggregatedEvaluationResult
from agentv.types.evaluation import EvaluatorResult
from agentv.types.evaluation_input import milliseconds_of, output_messages
from agentv.types.failures import Failure
from agentv.types.json_value import JsonValue
from agentv.types.records.answer import Answer, AnswerRef, ResultKey, source_of
from agentv.types.records.result import CaseResult, Spent, UsageBy


class RowPlace(Struct, frozen=True):
    """The fields of a row that identify a judgement: result key, label of the suite, answer, keys of its scores."""

    slot: ResultKey
    dataset: str
    answer_key: str = ""
    score_keys: Mapping[str, str] = field(default_factory=dict)
    answer_ref: AnswerRef | None = None
    generation: int = 0
    rescored: int = 0


class JudgedLine(Struct, frozen=True):
    """One line with its judgement, or with the failure that prevented one. Lines count from 1.

    `part` counts, from 1, the answers of one line, and `digest` is computed from the line's content. `evaluators` are
    the results behind the judgement, each with its results per criterion. `slot` is the result key in a run; outside of
    a run `target` names the target. `answer` is a stored answer that is judged again, as a new `generation`;
    `rescored` counts how often.
    """

    file: str
    number: int
    timestamp: datetime
    judged: AggregatedEvaluationResult | None = None
    evaluators: tuple[EvaluatorResult, ...] = ()
    failure: Failure | None = None
    slot: ResultKey | None = None
    answer: Answer | None = None
    generation: int = 0
    rescored: int = 0
    part: int = 1
    digest: str = ""
    target: str = GIVEN_ANSWER

    @property
    def source(self) -> str:
        """The place of the answer, as in `log.jsonl:2`."""
        return source_of(self.file, self.number, self.part)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the line as JSON: its judgement, or its `error` and `timestamp`, and its `source`."""
        source: dict[str, JsonValue] = {"file": self.file, "line": self.number}
        if self.part > 1:
            source["part"] = self.part
        if self.judged is not None:
            return {**self.judged.to_dict(), "source": source}
        error = None if self.failure is None else {"kind": self.failure.kind, "message": self.failure.message}
        return {"error": error, "timestamp": milliseconds_of(self.timestamp), "source": source}

    def to_row(self, run_id: str = "", place: RowPlace | None = None) -> CaseResult:
        """Return the line as a row: its input is the case, and no target was called.

        Outside of a run (`place` None) its case is named by its file and line.
        """
        place = place or RowPlace(ResultKey(self.file, self.source, self.target), self.file)
        judged = self.judged
        if judged is None:
            return CaseResult(
                run_id=run_id,
                timestamp=self.timestamp,
                slot=place.slot,
                dataset=place.dataset,
                generation=place.generation,
                rescored=place.rescored,
                status="error",
                score=None,
                verdict=None,
                error=self.failure,
                file=self.file,
                line=self.number,
                part=self.part,
                line_digest=self.digest,
            )
        given, fields = judged.input_snapshot, case_fields(self.evaluators)
        output = output_messages(given)
        return CaseResult(
            run_id=run_id,
            timestamp=given.timestamp or self.timestamp,
            slot=place.slot,
            answer_key=place.answer_key,
            score_keys=place.score_keys,
            answer_ref=place.answer_ref,
            generation=place.generation,
            rescored=place.rescored,
            dataset=place.dataset,
            status="error" if judged.verdict is None else row_status(judged.overall_score or 0.0),
            score=judged.overall_score,
            verdict=judged.verdict,
            session_id=given.session_id,
            tags=given.tags,
            metadata=metadata_of(given),
            hits=fields.hits,
            misses=fields.misses,
            reasoning=fields.reasoning,
            expected_aspect_count=fields.expected_aspect_count,
            raw_aspects=fields.raw_aspects,
            candidate_answer=given.text,
            empty_answer=not given.text.strip(),
            evaluator_results=self.evaluators,
            trace_summary=None if output is None else trace_summary(output, None),
            output_messages=output,
            usage_by=UsageBy.of(
                Spent.of(given.usage, given.cost_usd), Spent.of(judged.judge_usage, judged.judge_cost_usd)
            ),
            cost_usd=self._cost_usd(judged),
            duration_ms=given.duration_ms,
            error=_failure(judged) if judged.verdict is None else None,
            file=self.file,
            line=self.number,
            part=self.part,
            line_digest=self.digest,
        )

    def _cost_usd(self, judged: AggregatedEvaluationResult) -> float | None:
        """Return the dollars of answer and judges, None if either is not known; judges without a call cost 0."""
        has_no_call = judged.judge_usage is None and not any(map(has_unpriced_call, self.evaluators))
        judge_usd, answer_usd = judged.judge_cost_usd, judged.input_snapshot.cost_usd
        if judge_usd is None and has_no_call:
            judge_usd = 0.0
        return None if judge_usd is None or answer_usd is None else judge_usd + answer_usd


def _failure(judged: AggregatedEvaluationResult) -> Failure:
    """Return the failure of a judgement without a verdict; its message is empty if there was nothing to score."""
    messages = [f"{error.criterion or error.evaluator}: {error.message}" for error in judged.run_errors]
    kind = judged.run_errors[0].kind if messages else "evaluator_error"
    return Failure(kind, " | ".join(messages), stage="evaluator")
