"""The judgement of a given answer, as `run_evaluation` returns it and stores of judgements keep it."""

from collections.abc import Iterable
from copy import copy

from msgspec.structs import force_setattr, replace

from agentv.engine.criteria.answer_tasks import AnswerTasks
from agentv.engine.planning.plan import AnswerWithInput
from agentv.execution.user_code import DeadlineError, call_user_code
from agentv.scoring.results.by_criterion import JudgedCriteria
from agentv.types.aggregated_result import AggregatedEvaluationResult, EvaluationRunError, EvaluationStorageProvider
from agentv.types.errors import ConfigError
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.json_value import JsonObject
from agentv.types.structs import deep_copy

STORE_TIMEOUT_S = 60.0


def as_result(
    tasks: AnswerTasks,
    judged: AnswerWithInput,
    by_criterion: JudgedCriteria,
    duration_ms: float,
    *,
    metadata: JsonObject,
) -> AggregatedEvaluationResult:
    """Return the judgement of an answer with its input and the configuration."""
    given = judged.input
    return AggregatedEvaluationResult(
        overall_score=by_criterion.score.overall,
        results=by_criterion.results,
        scored=by_criterion.score.scored,
        expected=by_criterion.score.expected,
        timestamp=tasks.clock(),
        input_snapshot=given,
        evaluation_config_snapshot=tasks.snapshot_for(judged.fitted),
        agent_id=given.agent_id,
        session_id=given.session_id,
        metadata=metadata,
        run_errors=by_criterion.errors,
        judge_usage=by_criterion.usage,
        judge_cost_usd=by_criterion.cost_usd,
        warnings=by_criterion.warnings,
        unverified=by_criterion.unverified,
        clamped=by_criterion.clamped,
        duration_ms=duration_ms,
        verdict=by_criterion.verdict,
    )


async def save_judgement(
    stores: Iterable[EvaluationStorageProvider], result: AggregatedEvaluationResult
) -> AggregatedEvaluationResult:
    """Save a judgement in every store; a store that fails adds a run error and affects nothing else."""
    errors = [error for store in stores if (error := await _save(store, result)) is not None]
    return replace(result, run_errors=(*result.run_errors, *errors)) if errors else result


async def _save(store: EvaluationStorageProvider, result: AggregatedEvaluationResult) -> EvaluationRunError | None:
    name = str(getattr(store, "kind", type(store).__name__))
    try:
        await call_user_code(store.save_result, result, timeout_s=STORE_TIMEOUT_S)
    except DeadlineError:
        return EvaluationRunError(name, f"the result was not saved within {STORE_TIMEOUT_S:g} s", "store_error")
    except Exception as error:  # noqa: BLE001 - user code: an error of the store must not lose the judgement
        return EvaluationRunError(name, f"the result was not saved: {error}", "store_error")
    return None


def snapshot_of(given: EvaluationInput) -> EvaluationInput:
    """Return a deep copy of an input, unaffected by later changes to the objects in `given`.

    Raises ConfigError if it is nested too deeply or contains itself.
    """
    fields = ("response", "context", "ground_truth", "agent_config", "message_history", "metadata")
    try:
        copies = deep_copy({name: getattr(given, name) for name in fields})
    except RecursionError:
        raise ConfigError("the input is nested too deeply to be judged, or contains itself") from None
    snapshot = copy(given)  # `replace` would check all fields once more
    for name, own in copies.items():
        force_setattr(snapshot, name, own)
    return snapshot
