"""Aggregation of the scores of a conversation's turns to one score."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentv.scoring.results.aggregation import weighted_mean
from agentv.scoring.results.criteria import criterion_named, failed_result
from agentv.types.cases import TurnAggregate
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.evaluation import EvaluationResult, EvaluationScore, EvaluatorResult
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue


class TurnScore(Struct, frozen=True):
    """An evaluator's score of one turn, with the turn's number from 1."""

    number: int
    score: EvaluationScore


def fold_turns(
    turns: Sequence[TurnScore], aggregate: TurnAggregate, *, criteria: Sequence[EvaluationCriteria] = ()
) -> EvaluationScore:
    """Return one score for all turns; hits, misses and results name their turn.

    `mean`: the turns' mean. `min`: the worst turn's score and results. `last`: those of the last one. A turn that could
    not be judged makes the whole an error, like an evaluator's own failure. Skipped turns are left out; if all were
    skipped, so is the whole.
    """
    heard = [turn for turn in turns if turn.score.status != "skipped"]
    if not heard:
        results = tuple(_marked(result, turn.number) for turn in turns for result in turn.score.results)
        return EvaluationScore(0.0, status="skipped", reasoning="\n".join(_reasons(turns)) or None, results=results)
    turns = heard
    broken = [turn for turn in turns if turn.score.error is not None]
    judged = turns[-1:] if aggregate == "last" else turns
    chosen = {"mean": judged, "min": [min(judged, key=lambda turn: turn.score.score)], "last": judged}[aggregate]
    whole = EvaluationScore(
        score=weighted_mean((1.0, turn.score.score) for turn in chosen),
        hits=_named(judged, "hits"),
        misses=_named(judged, "misses"),
        expected_aspect_count=sum(turn.score.expected_aspect_count for turn in judged),
        reasoning="\n".join(_reasons(judged)) or None,
        evaluator_raw_request=_requests(turns),
        must_fail=any(turn.score.must_fail for turn in judged),
        status="unverified" if any(turn.score.status == "unverified" for turn in judged) else "scored",
        results=tuple(_marked(result, turn.number) for turn in chosen for result in turn.score.results),
        judge_calls=tuple(call for turn in turns for call in turn.score.judge_calls),
        members=tuple(_member(member, turn.number) for turn in turns for member in turn.score.members),
    )
    return _failed(whole, turns, broken, criteria) if broken else whole


def _failed(
    whole: EvaluationScore,
    turns: Sequence[TurnScore],
    broken: Sequence[TurnScore],
    criteria: Sequence[EvaluationCriteria],
) -> EvaluationScore:
    """Return the score if some turns could not be judged: each criterion that is missing in one is an error."""
    failures = [(turn.number, turn.score.error) for turn in broken if turn.score.error is not None]
    message = "; ".join(f"turn {number}: {error.message}" for number, error in failures)
    names = dict.fromkeys(result.criterion_name for turn in turns for result in turn.score.results)
    faults = {name: fault for name in names if (fault := next(_faults(name, broken), None)) is not None}
    kind = failures[0][1].kind
    failed = tuple(
        failed_result(fault, criterion_named(name, criteria, scale="numeric"), kind=_kind_of(name, turns))
        for name, fault in faults.items()
    )
    stand = tuple(
        _marked(result, turn.number)
        for turn in turns
        for result in turn.score.results
        if result.criterion_name not in faults
    )
    error = Failure(kind=kind, message=message, stage="evaluator")
    return replace(whole, score=0.0, verdict=None, status="error", error=error, results=stand + failed)


def _faults(name: str, broken: Iterable[TurnScore]) -> Iterator[str]:
    """Yield why a criterion has no value in a turn: its own error, or that of a turn without a result for it."""
    for turn in broken:
        own = [result for result in turn.score.results if result.criterion_name == name]
        errors = [result.error for result in own if result.error is not None]
        if errors or not own:
            said = errors[0] if errors else turn.score.error.message if turn.score.error is not None else ""
            yield f"turn {turn.number}: {said}"


def _kind_of(name: str, turns: Iterable[TurnScore]) -> str:
    results = (result for turn in turns for result in turn.score.results)
    return next((result.evaluator_type for result in results if result.criterion_name == name), "")


def _named(turns: Iterable[TurnScore], lines: str) -> tuple[str, ...]:
    return tuple(f"turn {turn.number}: {line}" for turn in turns for line in getattr(turn.score, lines))


def _reasons(turns: Iterable[TurnScore]) -> Iterator[str]:
    return (f"turn {turn.number}: {turn.score.reasoning}" for turn in turns if turn.score.reasoning)


def _requests(turns: Sequence[TurnScore]) -> JsonObject | None:
    requests: list[JsonValue] = [turn.score.evaluator_raw_request for turn in turns]
    return {"turns": requests} if any(requests) else None


def _marked(result: EvaluationResult, number: int) -> EvaluationResult:
    return replace(result, metadata={**(result.metadata or {}), "turn": number})


def _member(member: EvaluatorResult, number: int) -> EvaluatorResult:
    return replace(member, name=f"turn {number}: {member.name}")
