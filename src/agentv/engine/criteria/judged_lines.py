"""One line of a stream with its judgement: as the JSON of `agentv score -o`, and as a row like those of a run."""

from datetime import datetime

from msgspec import Struct

from agentv.engine.calling.given_answer import GIVEN_ANSWER
from agentv.engine.running.context import trace_summary
from agentv.scoring.counting.tallies import has_unpriced_call
from agentv.scoring.results.aggregation import case_fields, row_status
from agentv.types.criteria.aggregated_result import AggregatedEvaluationResult
from agentv.types.criteria.evaluation_input import milliseconds_of, output_messages
from agentv.types.evaluation import EvaluatorResult
from agentv.types.failures import Failure
from agentv.types.json_value import JsonValue
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult, Spent, UsageBy

_NO_CALL = Spent(cost_usd=0.0)


class JudgedLine(Struct, frozen=True):
    """One line with its judgement, or with the failure that prevented one. Lines count from 1.

    `evaluators` are the results behind the judgement, each with those of the criteria that it judged.
    """

    file: str
    number: int
    timestamp: datetime
    judged: AggregatedEvaluationResult | None = None
    evaluators: tuple[EvaluatorResult, ...] = ()
    failure: Failure | None = None

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the line as JSON: its judgement and `source`, or without a judgement, `error`."""
        source: dict[str, JsonValue] = {"file": self.file, "line": self.number}
        if self.judged is not None:
            return {**self.judged.to_dict(), "source": source}
        error = None if self.failure is None else {"kind": self.failure.kind, "message": self.failure.message}
        return {"error": error, "timestamp": milliseconds_of(self.timestamp), "source": source}

    def to_row(self, run_id: str = "") -> CaseResult:
        """Return the line as a row: its input is the case, named by its place, and no target was called."""
        slot = ResultKey(self.file, f"{self.file}:{self.number}", GIVEN_ANSWER)
        judged = self.judged
        if judged is None:
            return CaseResult(
                run_id=run_id,
                timestamp=self.timestamp,
                slot=slot,
                dataset=self.file,
                status="error",
                score=None,
                verdict=None,
                error=self.failure,
                file=self.file,
                line=self.number,
            )
        given, fields = judged.input_snapshot, case_fields(self.evaluators)
        output = output_messages(given)
        return CaseResult(
            run_id=run_id,
            timestamp=self.timestamp,
            slot=slot,
            dataset=self.file,
            status="error" if judged.verdict is None else row_status(judged.overall_score or 0.0),
            score=judged.overall_score,
            verdict=judged.verdict,
            conversation_id=judged.session_id,
            metadata=given.metadata,
            hits=fields.hits,
            misses=fields.misses,
            reasoning=fields.reasoning,
            expected_aspect_count=fields.expected_aspect_count,
            raw_aspects=fields.raw_aspects,
            candidate_answer=given.text,
            evaluator_results=self.evaluators,
            trace_summary=None if output is None else trace_summary(output, None),
            output_messages=output,
            usage_by=UsageBy(_NO_CALL, Spent.of(judged.judge_usage, judged.judge_cost_usd)),
            cost_usd=self._cost_usd(judged),
            error=_failure(judged) if judged.verdict is None else None,
            file=self.file,
            line=self.number,
        )

    def _cost_usd(self, judged: AggregatedEvaluationResult) -> float | None:
        """Return the cost of the judges in dollars, None if it is not known; without a judge's call it is 0."""
        is_free = judged.judge_usage is None and not any(map(has_unpriced_call, self.evaluators))
        return judged.judge_cost_usd or 0.0 if is_free else judged.judge_cost_usd


def _failure(judged: AggregatedEvaluationResult) -> Failure:
    """Return why a judgement is not clean; without a message if nothing failed, and nothing could be scored."""
    messages = [f"{each.criterion or each.evaluator}: {each.message}" for each in judged.run_errors]
    kind = judged.run_errors[0].kind if messages else "evaluator_error"
    return Failure(kind, " | ".join(messages), stage="evaluator")
