"""The results of a conversation that was held turn by turn: one for each turn, and the score of the case."""

from collections.abc import Sequence

from msgspec.structs import replace

from agentv.scoring.results.aggregation import (
    TURN,
    case_fields,
    case_verdict,
    evaluators_score,
    first_failed,
    zeroing_evaluators,
)
from agentv.types.cases import EvalCase, TurnRules
from agentv.types.evaluation import EvaluatorResult
from agentv.types.failures import Failure
from agentv.types.usage import total_usage


def turn_name(number: int) -> str:
    """Return the name of the result of a turn, by its number from 1."""
    return f"turn-{number}"


def turn_names(case: EvalCase) -> tuple[str, ...]:
    """Return the names of the results of a case's turns, in order."""
    return tuple(map(turn_name, range(1, len(case.turns) + 1)))


def turn_result(number: int, members: Sequence[EvaluatorResult], pass_score: float | None) -> EvaluatorResult:
    """Return the result of a turn from those of its evaluators, by the same rules as for a case.

    If an evaluator failed, the turn is an error. If all were skipped, or the turn has none, it is skipped: it has no
    score and no verdict.
    """
    if all(member.status == "skipped" for member in members):
        return EvaluatorResult(
            name=turn_name(number),
            type=TURN,
            score=0.0,
            status="skipped",
            reasoning=None if members else "not judged: the turn has no evaluators",
            evaluator_results=tuple(members),
        )
    score, failed, fields = evaluators_score(members), first_failed(members), case_fields(members, noun="turn")
    error = None if failed is None or failed.error is None else failed.error
    durations = [member.duration_ms for member in members if member.duration_ms is not None]
    costs = [member.cost_usd for member in members if member.usage is not None or member.cost_usd is not None]
    known = [cost for cost in costs if cost is not None]
    return EvaluatorResult(
        name=turn_name(number),
        type=TURN,
        status="error" if error else "unverified" if any(m.status == "unverified" for m in members) else "scored",
        score=score,
        verdict=None if error else case_verdict(score, members, pass_score),
        hits=fields.hits,
        misses=fields.misses,
        reasoning=fields.reasoning,
        expected_aspect_count=fields.expected_aspect_count,
        error=None if error is None or failed is None else replace(error, message=f"{failed.name}: {error.message}"),
        duration_ms=sum(durations) if durations else None,
        usage=total_usage(member.usage for member in members),
        cost_usd=sum(known) if known and len(known) == len(costs) else None,
        evaluator_results=tuple(members),
    )


def skipped_turn_result(number: int, failed_number: int) -> EvaluatorResult:
    """Return the result of a turn that did not take place because turn `failed_number` did not pass: score 0."""
    why = f"skipped, because turn {failed_number} did not pass"
    return EvaluatorResult(name=turn_name(number), type=TURN, score=0.0, verdict="fail", misses=(why,))


def missing_turn_result(number: int) -> EvaluatorResult:
    """Return the error of a turn that has no answer, because it was skipped in the run, but is needed now.

    That happens if an earlier turn passes after rescoring.
    """
    message = (
        "was left out when the target was called, because an earlier turn did not pass; it passes now, "
        "so that the conversation has to be held again (agentv retry)"
    )
    error = Failure("target_missing", message, stage="evaluator")
    return EvaluatorResult(name=turn_name(number), type=TURN, score=0.0, status="error", error=error)


def conversation_score(results: Sequence[EvaluatorResult], rules: TurnRules) -> float:
    """Return the score of a case with turns: the mean, minimum or maximum of the turns and of its own evaluators.

    The case's own evaluators, which judge the whole conversation, count as one value: their weighted mean. One of them
    with `unmet: zero` whose `required` is not met makes the score 0. Skipped results are left out.
    """
    turns = [each.score for each in results if each.type == TURN and each.status != "skipped"]
    own = [each for each in results if each.type != TURN and each.status != "skipped"]
    values = [*turns, *([evaluators_score(own)] if own else [])]
    if not values or zeroing_evaluators(own):
        return 0.0
    match rules.aggregate:
        case "min":
            return min(values)
        case "max":
            return max(values)
        case "mean":
            return sum(values) / len(values)
