"""The scores of a sample of inspect, as results of evaluators."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from msgspec import Struct

from agentv.types.evaluation import EvaluatorResult, verdict_of
from agentv.types.json_value import JsonObject, JsonValue, object_of, objects_of
from agentv.types.problems import Severity

_SCORES_OF_WORDS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_ADVICE = "the value is in the metadata, under inspect_scores"


class _Note(Protocol):
    """A function that reports a value at its place in the log."""

    def __call__(self, place: str, message: str, advice: str | None = None, *, severity: Severity) -> None: ...


class CountedScorer:
    """The scorer whose scores count; all others have weight 0.

    If the log does not name one, it is the first scorer of the first sample that has scores.
    """

    def __init__(self, name: str | None) -> None:
        self.name = name

    def among(self, scores: JsonObject) -> str | None:
        """Return the name of the scorer, given the scores of the next sample."""
        if self.name is None:
            self.name = next(iter(scores), None)
        return self.name


class SampleScores(Struct, frozen=True):
    """The scores of a sample; those of all scorers but one have weight 0."""

    results: tuple[EvaluatorResult, ...]
    other_values: JsonObject
    """Values that are not scores from 0 to 1, by the names of their scorers."""
    unscored: str | None
    """Why the score of the sample is not known; None if it is."""


def scorer_of_log(log: JsonObject) -> str | None:
    """Return the scorer whose scores count; None if the log does not name any.

    It is the scorer of the headline metric, else the first of the task that has results, else the first with results:
    inspect 0.3.52 does not record the scorers of the task, and `inspect score` does not change them.
    """
    results = object_of(log.get("results"))
    scored = [str(entry.get("scorer") or entry.get("name")) for entry in objects_of(results.get("scores"))]
    headline = object_of(results.get("headline")).get("scorer")
    # A scorer of a package has its package in the name here, but not in the scores of samples.
    entries = objects_of(object_of(log.get("eval")).get("scorers"))
    of_task = [str(entry.get("name")).rpartition("/")[2] for entry in entries]
    if headline is not None and (not scored or headline in scored):
        return str(headline)
    return next((name for name in of_task if name in scored), None) or next(iter((*scored, *of_task)), None)


def read_scores(scores: JsonObject, scorer: CountedScorer, place: str, note: _Note) -> SampleScores:
    """Return a result for each score between 0 and 1.

    Each other value that is not null is noted. The score of the sample is not known if the scorer that counts gave
    none, or if it gave such a value and all its scores are 1: what is lost never passes.
    """
    counted = scorer.among(scores)
    results: list[EvaluatorResult] = []
    other_values: dict[str, JsonValue] = {}
    lost: list[str] = []
    for name, given in scores.items():
        score = object_of(given)
        for part, value in _parts(name, score.get("value")):
            number = to_score(value)
            if number is not None:
                results.append(_result(part, value, number, score, weight=1.0 if name == counted else 0.0))
                continue
            other_values[part] = value
            if value is not None:
                note(f"{place}.{part}", f"{value!r} is not a score between 0 and 1", _ADVICE, severity="error")
                lost += [part] if name == counted else []
    if scores and counted not in scores:
        message = f"there is no score of {counted}, the scorer that counts"
        note(place, message, f"scores of {', '.join(scores)} have weight 0", severity="warning")
    return SampleScores(tuple(results), other_values, _why_unscored(results, lost, scores, counted))


def _why_unscored(
    results: list[EvaluatorResult], lost: list[str], scores: JsonObject, counted: str | None
) -> str | None:
    weighted = [result.score for result in results if result.weight]
    if lost and all(score == 1 for score in weighted):
        return f"the value of {', '.join(lost)} is not a score between 0 and 1"
    if weighted:
        return None
    if counted in scores:
        return f"{counted} gave no score"
    return f"the log has no score of {counted} for this sample" if scores else "the log has no score of this sample"


def _result(name: str, value: JsonValue, number: float, score: JsonObject, *, weight: float) -> EvaluatorResult:
    explanation, answer = score.get("explanation"), score.get("answer")
    text = explanation if isinstance(explanation, str) else str(answer or "")
    return EvaluatorResult(
        name=name,
        type="inspect",
        score=number,
        weight=weight,
        verdict=verdict_of(number),
        hits=(f"scored {value}",) if number == 1 else (),
        misses=() if number == 1 else (f"scored {value}",),
        reasoning=text or None,
    )


def _parts(name: str, value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """Yield the name and value of a score, or of each of its parts if the value is an object or list."""
    if isinstance(value, Mapping):
        yield from ((f"{name}.{key}", item) for key, item in value.items())
    elif isinstance(value, list):
        yield from ((f"{name}.{index}", item) for index, item in enumerate(value))
    else:
        yield name, value


def to_score(value: JsonValue) -> float | None:
    """Return a score of inspect as a number from 0 to 1; None for any other value.

    C is 1, P 0.5, I and N 0. `yes` and `true` are 1, `no` and `false` 0. A number from 0 to 1 is itself.
    """
    if isinstance(value, str):
        return _SCORES_OF_WORDS.get(value, _SCORES_OF_WORDS.get(value.lower()))
    if isinstance(value, bool | int | float) and 0 <= value <= 1:
        return float(value)
    return None
