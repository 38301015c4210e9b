"""A judge's scores of several criteria in one reply, each read on its own scale."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.scoring.judge_replies.json_objects import canonical
from agentv.scoring.judge_replies.replies import (
    JudgeReply,
    ReplyRules,
    UnusableReplyError,
    chosen_reply,
    reply_lines,
    reply_text,
)
from agentv.scoring.results.completion import place_result, score_of_results
from agentv.scoring.results.criteria import denormalize, failed_result
from agentv.scoring.results.folding import Vote, combine, spread
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.evaluation import EvaluationResult, EvaluationScore
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue

KIND = "llm_judge"
TWO_VALUED = ("binary", "pass/fail")
"""Scales on which each opinion is 0 or 1, so that a mean of several is on none."""


class CriterionAnswer(Struct, frozen=True):
    """A judge's answer for one criterion: the score as received, of any type, and the reasoning."""

    score: JsonValue
    reasoning: str | None = None


class CriteriaReply(JudgeReply, frozen=True):
    """A judge's answers by criterion; a criterion that was answered twice has both."""

    answers: Mapping[str, tuple[CriterionAnswer, ...]] = field(default_factory=dict)
    reasoning: str | None = None


def parse_criteria(reply: str, rules: ReplyRules, *, names: Iterable[str]) -> CriteriaReply:
    """Return the answers in a reply. Raises UnusableReplyError, also when it answers none of the named criteria."""
    known = frozenset(names)
    return chosen_reply(reply, lambda found: _read(found, known), rules, wanted='a list "criteria" of these criteria')


class ScaledReply(JudgeReply, frozen=True):
    """A judge's verdict on one criterion: `given` is on the criterion's scale, `value` the same on 0..1."""

    given: JsonValue
    value: float = 0.0
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str | None = None


def parse_on_scale(reply: str, rules: ReplyRules, *, criterion: EvaluationCriteria) -> ScaledReply:
    """Return the verdict in a reply, read on the criterion's scale and never clamped.

    A numeric scale without bounds is 0..1. Raises UnusableReplyError, also for a score outside the scale.
    """
    found = chosen_reply(reply, _read_scaled, rules, wanted='a "score"')
    placed = _placed(bounded(criterion), CriterionAnswer(found.given))
    if placed.error is not None or placed.value is None:
        raise UnusableReplyError(f"gives a score that cannot be read: {placed.error or 'it is not on the scale'}")
    return replace(found, value=placed.value)


def _read_scaled(found: JsonObject) -> ScaledReply | None:
    given = found.get("score")
    if not isinstance(given, bool | int | float | str):
        return None
    return ScaledReply(
        given,
        hits=reply_lines(found.get("hits")),
        misses=reply_lines(found.get("misses")),
        reasoning=reply_text(found.get("reasoning")),
    )


def bounded(criterion: EvaluationCriteria) -> EvaluationCriteria:
    """Return a criterion whose numeric scale has bounds, 0 and 1 by default."""
    if criterion.scale != "numeric" or criterion.min is not None or criterion.max is not None:
        return criterion
    return replace(criterion, min=0.0, max=1.0)


def voted_value(values: Sequence[float], criterion: EvaluationCriteria, vote: Vote) -> float:
    """Return the combined value of opinions on a criterion; on a scale of two values the majority decides."""
    is_two_valued = criterion.scale in TWO_VALUED and not criterion.labels
    return combine(values, "majority" if is_two_valued and vote != "min" else vote)


def opinions_metadata(values: Sequence[float], criterion: EvaluationCriteria) -> dict[str, JsonValue]:
    """Return the spread of several opinions, and on a scale of two values their mean as `agreement`."""
    if criterion.scale in TWO_VALUED and not criterion.labels:
        return {"spread": spread(values), "agreement": combine(values, "mean")}
    return {"spread": spread(values)}


def _read(found: JsonObject, known: frozenset[str]) -> CriteriaReply | None:
    given = found.get("criteria")
    if not isinstance(given, list):
        return None
    answers: dict[str, tuple[CriterionAnswer, ...]] = {}
    for each in given:
        name = each.get("name") if isinstance(each, Mapping) else None
        if isinstance(each, Mapping) and isinstance(name, str) and name.strip() in known:
            answer = CriterionAnswer(each.get("score"), reply_text(each.get("reasoning")))
            answers[name.strip()] = (*answers.get(name.strip(), ()), answer)
    return CriteriaReply(answers, reply_text(found.get("overall_reasoning"))) if answers else None


def criteria_score(
    criteria: Sequence[EvaluationCriteria], replies: Sequence[CriteriaReply], *, vote: Vote = "mean"
) -> EvaluationScore:
    """Return the criteria's weighted mean. Several replies are combined by voting on each criterion.

    A criterion that a reply left out, answered twice differently, or scored off its scale gets an error on its own
    result and makes the whole a `judge_error`; the other results stay.
    """
    results = [_voted(criterion, [_opinion(criterion, reply) for reply in replies], vote) for criterion in criteria]
    score = score_of_results(results, KIND, criteria)
    reasoning = next((reply.reasoning for reply in replies if reply.reasoning), None)
    if score.error is not None:
        failure = Failure(kind="judge_error", message=score.error.message, stage="evaluator")
        return replace(score, reasoning=reasoning, error=failure)
    unverified = any(reply.unverified for reply in replies)
    return replace(score, reasoning=reasoning, status="unverified" if unverified else "scored")


def unscored_criteria(criteria: Iterable[EvaluationCriteria], message: str) -> tuple[EvaluationResult, ...]:
    """Return the results of criteria for which no judge replied."""
    return tuple(failed_result(message, criterion, kind=KIND) for criterion in criteria)


def _opinion(criterion: EvaluationCriteria, reply: CriteriaReply) -> EvaluationResult:
    """Return one reply's result for a criterion, with an error if it has no valid score."""
    answers = reply.answers.get(criterion.name, ())
    if not answers:
        return failed_result("the judge did not answer it", criterion, kind=KIND)
    placed = [_placed(criterion, answer) for answer in answers]
    if len({(result.value, result.score if result.value is None else None, result.error) for result in placed}) > 1:
        return failed_result("the judge answered it twice, differently", criterion, kind=KIND)
    return placed[0]


def _placed(criterion: EvaluationCriteria, answer: CriterionAnswer) -> EvaluationResult:
    score = answer.score
    if not isinstance(score, bool | int | float | str) or (isinstance(score, str) and not score.strip()):
        said = "no score" if score is None or score == "" else f"{canonical(score)[:80]}, which is not a score"
        return failed_result(f"the judge gave {said}", criterion, kind=KIND, reasoning=answer.reasoning)
    if criterion.labels and not isinstance(score, bool | str):
        score = f"{score:g}"  # a label such as "3" is often given as a number
    given = EvaluationResult(criterion.name, score, scale=criterion.scale, reasoning=answer.reasoning)
    placed = place_result(given, kind=KIND, criteria=[criterion])
    if placed.error is not None:
        return replace(placed, score=None)
    # A number without bounds is not scaled: 0.85 and 85 of 100 cannot be distinguished here.
    as_said = placed.value is None or (criterion.scale == "numeric" and not isinstance(score, bool | str))
    return placed if as_said else replace(placed, score=denormalize(placed.value or 0.0, criterion))


def _voted(criterion: EvaluationCriteria, opinions: Sequence[EvaluationResult], vote: Vote) -> EvaluationResult:
    """Return the combined result of several opinions. An error in one of them makes the whole an error."""
    broken = next((opinion for opinion in opinions if opinion.error is not None), None)
    if broken is not None or len(opinions) == 1:
        return broken or opinions[0]
    values = [opinion.value for opinion in opinions if opinion.value is not None]
    if len(values) < len(opinions):
        return _commonest(opinions)
    value = voted_value(values, criterion, vote)
    nearest = min(opinions, key=lambda opinion: abs((opinion.value or 0.0) - value))
    metadata = opinions_metadata(values, criterion)
    return replace(nearest, score=denormalize(value, criterion), value=value, metadata=metadata)


def _commonest(opinions: Sequence[EvaluationResult]) -> EvaluationResult:
    """Return the most common opinion, the first among equals; texts of a custom scale have no mean."""
    said = Counter(str(opinion.score) for opinion in opinions)
    chosen = max(opinions, key=lambda opinion: said[str(opinion.score)])
    return replace(chosen, metadata={"opinions": [str(opinion.score) for opinion in opinions]})


Better: TypeAlias = Literal["A", "B", "tie"]

WIN, TIE, LOSS = 1.0, 0.5, 0.0
_READ: dict[str, Better] = {"a": "A", "b": "B", "tie": "tie"}


class PairReply(JudgeReply, frozen=True):
    """A judge's preference between two answers, and the reasoning."""

    better: Better
    reasoning: str | None = None


def parse_pair(reply: str, rules: ReplyRules) -> PairReply:
    """Return the preference in a reply. Raises UnusableReplyError."""
    return chosen_reply(reply, _read_pair, rules, wanted='"better": "A", "B" or "tie"')


def _read_pair(found: JsonObject) -> PairReply | None:
    said = reply_text(found.get("better"))
    better = None if said is None else _READ.get(said.casefold().removeprefix("answer").strip(" _"))
    return None if better is None else PairReply(better, reply_text(found.get("reasoning")))


def candidate_value(better: Better, *, swapped: bool) -> float:
    """Return the candidate's value of a preference. The candidate is A, or B when the order was swapped."""
    if better == "tie":
        return TIE
    return WIN if (better == "B") is swapped else LOSS


class BothOrders(Struct, frozen=True):
    """One judge's preferences for the same two answers: in the given order, and swapped."""

    first: PairReply
    swapped: PairReply

    @property
    def values(self) -> tuple[float, float]:
        """The candidate's value of each preference."""
        first = candidate_value(self.first.better, swapped=False)
        return first, candidate_value(self.swapped.better, swapped=True)

    @property
    def is_biased(self) -> bool:
        """True if the preference changed with the order."""
        return self.values[0] != self.values[1]

    @property
    def value(self) -> float:
        """1.0 for a win of the candidate, 0.5 for a tie or a verdict that depends on the order, 0.0 for a loss."""
        return TIE if self.is_biased else self.values[0]


def pair_score(judged: Sequence[BothOrders], vote: Vote = "mean") -> float:
    """Return the common value of several judgements of one pair."""
    return combine([each.value for each in judged], vote)
