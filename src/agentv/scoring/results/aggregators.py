"""Aggregation of a composite's members to one score (docs/evaluators)."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from agentv.scoring.results.aggregation import is_requirement_met, result_verdict
from agentv.types.evaluation import EvaluationScore, EvaluatorResult
from agentv.types.json_value import JsonValue


def weigh(results: Sequence[EvaluatorResult], weights: Mapping[str, float]) -> tuple[EvaluatorResult, ...]:
    """Return the results with the weights that a composite gives its members, or with their own if it gives none.

    A member that is missing in the given weights has weight 0.
    """
    if not weights:
        return tuple(results)
    return tuple(replace(result, weight=weights.get(result.name, 0.0)) for result in results)


def counted(results: Sequence[EvaluatorResult]) -> tuple[EvaluatorResult, ...]:
    """Return the results that count: those not skipped."""
    return tuple(result for result in results if result.status != "skipped")


def passing(results: Sequence[EvaluatorResult]) -> int:
    """Return the number of members that pass: judged, with verdict `pass`."""
    return sum(result.error is None and result_verdict(result) == "pass" for result in counted(results))


def lowest(results: Sequence[EvaluatorResult]) -> float:
    """Return the lowest score of the members that count, 0.0 without any."""
    return min((result.score for result in counted(results)), default=0.0)


def highest(results: Sequence[EvaluatorResult]) -> float:
    """Return the highest score of the members that count, 0.0 without any."""
    return max((result.score for result in counted(results)), default=0.0)


def composed(score: EvaluationScore, results: Sequence[EvaluatorResult]) -> EvaluationScore:
    """Return a composite's score with its members, and the verdict `fail` when a member's requirement is not met."""
    if score.error is not None or all(is_requirement_met(result) for result in counted(results)):
        return replace(score, members=tuple(results))
    return replace(score, members=tuple(results), verdict="fail", must_fail=True)


def arithmetic_score(value: float, results: Sequence[EvaluatorResult], *, how: str) -> EvaluationScore:
    """Return a score computed from the members' scores, with their hits and misses under their names."""
    hits = tuple(f"{result.name}: {hit}" for result in results for hit in result.hits)
    misses = tuple(f"{result.name}: {miss}" for result in results for miss in result.misses)
    parts = ", ".join(f"{result.name} {result.score:.2f}" for result in counted(results))
    return EvaluationScore(
        score=value,
        hits=hits,
        misses=misses,
        expected_aspect_count=max(1, len(hits) + len(misses)),
        reasoning=f"{how} {parts}" if parts else f"{how} no member",
        status="scored" if counted(results) else "skipped",
    )


def results_to_json(results: Sequence[EvaluatorResult], *, with_assertions: bool = False) -> dict[str, JsonValue]:
    """Return the results by name, as passed to a composite's code aggregator or judge.

    A second member of the same name is called `name#2`. `with_assertions` lists hits and misses as `assertions`, too.
    """
    by_name: dict[str, JsonValue] = {}
    for result in results:
        name, number = result.name, 2
        while name in by_name:
            name, number = f"{result.name}#{number}", number + 1
        by_name[name] = {**_to_json(result), **(_assertions(result) if with_assertions else {})}
    return by_name


def _assertions(result: EvaluatorResult) -> dict[str, JsonValue]:
    texts = [(hit, True) for hit in result.hits] + [(miss, False) for miss in result.misses]
    return {"assertions": [{"text": text, "passed": passed} for text, passed in texts]}


def _to_json(result: EvaluatorResult) -> dict[str, JsonValue]:
    error = result.error
    fields: dict[str, JsonValue] = {
        "name": result.name,
        "type": result.type,
        "status": result.status,
        "score": result.score,
        "weight": result.weight,
        "required": result.required,
        "verdict": result.verdict,
        "hits": list(result.hits),
        "misses": list(result.misses),
        "reasoning": result.reasoning,
        "expected_aspect_count": result.expected_aspect_count,
        "error": None if error is None else {"kind": error.kind, "message": error.message},
        "evaluator_results": [_to_json(member) for member in result.evaluator_results] or None,
    }
    return {key: value for key, value in fields.items() if value is not None}
