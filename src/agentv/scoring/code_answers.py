"""What a code judge answered → an EvaluationScore (formats.md, section 3)."""

import json
from collections.abc import Mapping, Sequence
from typing import cast, get_args

from agentv.scoring.completion import place_result
from agentv.scoring.json_objects import finite_number
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationResult, EvaluationScore, Verdict
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.scales import EvaluationCriteria

_KIND = "code_judge"


def parse_answer(answer: JsonValue, criteria: Sequence[EvaluationCriteria] = ()) -> EvaluationScore:
    """Return the score in a code judge's answer: an object with `score`, or from Python a bare number or bool.

    The score is clamped to 0..1. Raises EvaluatorError when there is no number.
    """
    if isinstance(answer, bool):
        return EvaluationScore(score=float(answer))
    if not isinstance(answer, Mapping):
        answer = {"score": answer}
    score = finite_number(answer.get("score"))
    if score is None:
        raise EvaluatorError(_no_score(answer))
    hits, misses = _texts(answer.get("hits")), _texts(answer.get("misses"))
    reasoning, verdict = answer.get("reasoning"), answer.get("verdict")
    return EvaluationScore(
        score=min(1.0, max(0.0, score)),
        hits=hits,
        misses=misses,
        expected_aspect_count=max(1, len(hits) + len(misses)),
        reasoning=reasoning if isinstance(reasoning, str) else None,
        verdict=cast(Verdict, verdict) if verdict in get_args(Verdict) else None,
        results=_results(answer.get("results"), criteria),
    )


def _no_score(answer: JsonObject) -> str:
    shown = json.dumps(answer.get("score"), ensure_ascii=False, default=str)[:80]
    found = f"its `score` is {shown}" if "score" in answer else "it has no `score`"
    return f"the answer must be a JSON object with a number in `score`, and {found}"


def _texts(value: JsonValue) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _results(value: JsonValue, criteria: Sequence[EvaluationCriteria]) -> tuple[EvaluationResult, ...]:
    entries = value if isinstance(value, list) else []
    read = (_result(entry, criteria) for entry in entries if isinstance(entry, Mapping))
    return tuple(result for result in read if result is not None)


def _result(entry: JsonObject, criteria: Sequence[EvaluationCriteria]) -> EvaluationResult | None:
    name = entry.get("criterion_name", entry.get("criterion"))
    score, scale, reasoning = entry.get("score"), entry.get("scale"), entry.get("reasoning")
    if not isinstance(name, str):
        return None
    result = EvaluationResult(
        criterion_name=name,
        score=score if isinstance(score, bool | int | float | str) else None,
        scale=scale if isinstance(scale, str) else "numeric",
        reasoning=reasoning if isinstance(reasoning, str) else None,
        evaluator_type=_KIND,
    )
    return place_result(result, kind=_KIND, criteria=criteria)
