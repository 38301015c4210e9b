"""Aggregation to one score, of a composite's members and of a conversation's turns (docs/reference/evaluators)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentv.scoring.results.aggregation import first_failed, is_requirement_met, result_verdict, weighted_mean
from agentv.scoring.results.criteria import criterion_named, failed_result
from agentv.types.cases import TurnAggregate
from agentv.types.evaluation import EvaluationResult, EvaluationScore, EvaluatorResult
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.scales import EvaluationCriteria


def weigh(results: Sequence[EvaluatorResult], weights: Mapping[str, float]) -> tuple[EvaluatorResult, ...]:
    """Return the results of a composite's members with `weights`; a member that is not named keeps its own weight."""
    return tuple(replace(result, weight=weights.get(result.name, result.weight)) for result in results)


def not_skipped(results: Sequence[EvaluatorResult]) -> tuple[EvaluatorResult, ...]:
    """Return the results that were not skipped."""
    return tuple(result for result in results if result.status != "skipped")


def passing_count(results: Sequence[EvaluatorResult]) -> int:
    """Return the number of members without an error whose verdict is `pass`."""
    return sum(result.error is None and result_verdict(result) == "pass" for result in not_skipped(results))


def lowest_score(results: Sequence[EvaluatorResult]) -> float:
    """Return the lowest score of the members that were not skipped, 0.0 without any."""
    return min((result.counted_score for result in not_skipped(results)), default=0.0)


def highest_score(results: Sequence[EvaluatorResult]) -> float:
    """Return the highest score of the members that were not skipped, 0.0 without any."""
    return max((result.counted_score for result in not_skipped(results)), default=0.0)


def composed(score: EvaluationScore, results: Sequence[EvaluatorResult]) -> EvaluationScore:
    """Return a composite's score with its members, and the verdict `fail` when a member's requirement is not met.

    A member with weight or `required` that failed gives the composite its error.
    """
    failed = first_failed(results)
    if score.error is None and failed is not None and failed.error is not None:
        error = replace(failed.error, message=f"{failed.name}: {failed.error.message}")
        return replace(score, score=0.0, verdict=None, status="error", error=error, members=tuple(results))
    if score.error is not None or all(is_requirement_met(result) for result in not_skipped(results)):
        return replace(score, members=tuple(results))
    return replace(score, members=tuple(results), verdict="fail", must_fail=True)


def arithmetic_score(value: float, results: Sequence[EvaluatorResult], *, method: str) -> EvaluationScore:
    """Return a composite's score with this value, and the members' hits and misses.

    `method` says how the value was computed, such as `lowest of`; the reasoning begins with it.
    """
    hits = tuple(f"{result.name}: {hit}" for result in results for hit in result.hits)
    misses = tuple(f"{result.name}: {miss}" for result in results for miss in result.misses)
    parts = ", ".join(f"{result.name} {result.counted_score:.2f}" for result in not_skipped(results))
    return EvaluationScore(
        score=value,
        hits=hits,
        misses=misses,
        expected_aspect_count=max(1, len(hits) + len(misses)),
        reasoning=f"{method} {parts}" if parts else f"{method} no member",
        status="scored" if not_skipped(results) else "skipped",
    )


def results_to_json(results: Sequence[EvaluatorResult], *, with_assertions: bool = False) -> dict[str, JsonValue]:
    """Return the results by name, as passed to a composite's code aggregator or judge.

    A second member of the same name is called `name#2`. With `with_assertions` hits and misses are also `assertions`.
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
        "score": result.counted_score,
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


class TurnScore(Struct, frozen=True):
    """An evaluator's score of one turn, with the turn's number from 1."""

    number: int
    score: EvaluationScore


def fold_turns(
    turns: Sequence[TurnScore], aggregate: TurnAggregate, *, criteria: Sequence[EvaluationCriteria] = ()
) -> EvaluationScore:
    """Return one score for all turns; hits, misses and results name their turn.

    `mean` is the turns' mean, `min` takes score and results of the worst turn, `last` those of the last turn. A turn
    that could not be judged makes the score an error. Skipped turns are left out; if all were skipped, so is the score.
    """
    attempted = [turn for turn in turns if turn.score.status != "skipped"]
    if not attempted:
        results = tuple(_with_turn(result, turn.number) for turn in turns for result in turn.score.results)
        return EvaluationScore(0.0, status="skipped", reasoning="\n".join(_reasons(turns)) or None, results=results)
    failed_turns = [turn for turn in attempted if turn.score.error is not None]
    counted = attempted[-1:] if aggregate == "last" else attempted
    chosen = [min(counted, key=lambda turn: turn.score.score)] if aggregate == "min" else counted
    score = EvaluationScore(
        score=weighted_mean((1.0, turn.score.score) for turn in chosen),
        hits=_turn_lines(counted, "hits"),
        misses=_turn_lines(counted, "misses"),
        expected_aspect_count=sum(turn.score.expected_aspect_count for turn in counted),
        reasoning="\n".join(_reasons(counted)) or None,
        evaluator_raw_request=_requests(attempted),
        must_fail=any(turn.score.must_fail for turn in counted),
        clamped=any(turn.score.clamped for turn in counted),
        status="unverified" if any(turn.score.status == "unverified" for turn in counted) else "scored",
        results=tuple(_with_turn(result, turn.number) for turn in chosen for result in turn.score.results),
        judge_calls=tuple(call for turn in attempted for call in turn.score.judge_calls),
        members=tuple(_named_after_turn(member, turn.number) for turn in attempted for member in turn.score.members),
    )
    return _failed(score, attempted, failed_turns, criteria) if failed_turns else score


def _failed(
    score: EvaluationScore,
    turns: Sequence[TurnScore],
    failed_turns: Sequence[TurnScore],
    criteria: Sequence[EvaluationCriteria],
) -> EvaluationScore:
    """Return `score` as an error, because of the failed turns.

    A criterion also gets an error if any failed turn has no value for it.
    """
    failures = [(turn.number, turn.score.error) for turn in failed_turns if turn.score.error is not None]
    message = "; ".join(f"turn {number}: {error.message}" for number, error in failures)
    names = dict.fromkeys(result.criterion_name for turn in turns for result in turn.score.results)
    error_by_criterion = {
        name: error_text
        for name in names
        if (error_text := next(_criterion_errors(name, failed_turns), None)) is not None
    }
    kind = failures[0][1].kind
    failed = tuple(
        failed_result(
            error_text, criterion_named(name, criteria, scale="numeric"), kind=_evaluator_type_of(name, turns)
        )
        for name, error_text in error_by_criterion.items()
    )
    kept_results = tuple(
        _with_turn(result, turn.number)
        for turn in turns
        for result in turn.score.results
        if result.criterion_name not in error_by_criterion
    )
    error = Failure(kind=kind, message=message, stage="evaluator")
    return replace(score, score=0.0, verdict=None, status="error", error=error, results=kept_results + failed)


def _criterion_errors(name: str, failed_turns: Iterable[TurnScore]) -> Iterator[str]:
    """Yield the errors of a criterion in failed turns: its own, or that of a turn without a result for it."""
    for turn in failed_turns:
        own = [result for result in turn.score.results if result.criterion_name == name]
        errors = [result.error for result in own if result.error is not None]
        if errors or not own:
            message = errors[0] if errors else turn.score.error.message if turn.score.error is not None else ""
            yield f"turn {turn.number}: {message}"


def _evaluator_type_of(name: str, turns: Iterable[TurnScore]) -> str:
    results = (result for turn in turns for result in turn.score.results)
    return next((result.evaluator_type for result in results if result.criterion_name == name), "")


def _turn_lines(turns: Iterable[TurnScore], lines: str) -> tuple[str, ...]:
    return tuple(f"turn {turn.number}: {line}" for turn in turns for line in getattr(turn.score, lines))


def _reasons(turns: Iterable[TurnScore]) -> Iterator[str]:
    return (f"turn {turn.number}: {turn.score.reasoning}" for turn in turns if turn.score.reasoning)


def _requests(turns: Sequence[TurnScore]) -> JsonObject | None:
    requests: list[JsonValue] = [turn.score.evaluator_raw_request for turn in turns]
    return {"turns": requests} if any(requests) else None


def _with_turn(result: EvaluationResult, number: int) -> EvaluationResult:
    return replace(result, metadata={**(result.metadata or {}), "turn": number})


def _named_after_turn(member: EvaluatorResult, number: int) -> EvaluatorResult:
    return replace(member, name=f"turn {number}: {member.name}")
