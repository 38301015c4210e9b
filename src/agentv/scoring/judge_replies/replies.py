"""Parsing of judges' verdicts from their replies (docs/how-to/judges.md): free scores, rubrics, criteria and pairs.

An object that carries the call's nonce is the verdict. From a judge that is code, and from a model whose unsigned
verdicts the user accepts, an object without the nonce counts if the judged texts do not contain it. Any other reply is
rejected. Verdicts that differ are always rejected.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias, TypeGuard, TypeVar, cast, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.scoring.judge_replies.json_objects import (
    Evidence,
    FoundObjects,
    Statements,
    canonical,
    collect_evidence,
    collect_statements,
    find_objects,
    finite_number,
    nested_objects,
    whole_object,
    written_number,
)
from agentv.scoring.results.completion import place_result, score_of_results
from agentv.scoring.results.criteria import UNBOUNDED_ADVICE, denormalize, failed_result
from agentv.scoring.results.folding import Vote, combine, spread
from agentv.scoring.results.unit_scores import unit_score
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationResult, EvaluationScore, Verdict
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.scales import EvaluationCriteria

MAX_LINES = 4
"""The maximum number of hits, and of misses, that a judge may name."""


class UnusableReplyError(ValueError):
    """A reply without usable content. The message is a predicate, as in "The reply … holds no JSON object"."""


class ReplyRules(Struct, frozen=True):
    """The conditions under which an object in a reply is the judge's verdict.

    `nonce` is the one-time text of the call, which a signed verdict repeats; `shown` are the texts that the judge was
    shown. `is_code` says that the judge is a program and not a model. With `accepts_unsigned` a verdict without the
    nonce counts as unverified.
    """

    nonce: str
    shown: Iterable[str] = ()
    is_code: bool = False
    accepts_unsigned: bool = False


class JudgeReply(Struct, frozen=True, kw_only=True):
    """Base of all verdicts. `unverified` says that the verdict may come from the judged text instead of the judge.

    `off_scale` is the message about a score that is not on its scale; a verdict with one never counts.
    """

    unverified: bool = False
    off_scale: str | None = None


class FreeformReply(JudgeReply, frozen=True):
    """A judge's verdict in freeform mode. `score` is clamped to 0..1; hits and misses are at most four each.

    `clamped` says that the judge's number was outside 0..1.
    """

    score: float
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str | None = None
    clamped: bool = False


class RubricCheck(Struct, frozen=True):
    """A judge's answer for one rubric item: whether it is met (`satisfied`), or a `mark` for a graded item."""

    satisfied: bool | None
    mark: float | None = None
    reasoning: str = ""


class RubricReply(JudgeReply, frozen=True):
    """A judge's checks by item id. An id in `contradicted` was answered twice, differently, and is not counted."""

    checks: Mapping[str, RubricCheck] = field(default_factory=dict)
    contradicted: frozenset[str] = frozenset()
    reasoning: str | None = None


Reply = TypeVar("Reply", bound=JudgeReply)


def parse_freeform(reply: str, rules: ReplyRules) -> FreeformReply:
    """Return the verdict in a reply. Raises UnusableReplyError."""
    return chosen_reply(reply, _read_freeform, rules, wanted='a number in "score"')


def parse_rubric(reply: str, rules: ReplyRules, *, item_ids: Sequence[str]) -> RubricReply:
    """Return the checks in a reply. Raises UnusableReplyError, also when it answers none of the items."""
    known = frozenset(item_ids)
    return chosen_reply(reply, lambda found: _read_rubric(found, known), rules, wanted='a list "checks" of these items')


def chosen_reply(reply: str, read: Callable[[JsonObject], Reply | None], rules: ReplyRules, *, wanted: str) -> Reply:
    """Return the verdict that counts in a reply. Raises UnusableReplyError.

    `read` returns the verdict of an object in the right shape, which `wanted` describes, else None. The key of a new
    kind of verdict belongs in json_objects.VERDICT_KEYS, so that such objects in the judged texts are recognised.
    """
    search = find_objects(reply)
    signed = _verdicts(search, read, lambda found: found.get("nonce") == rules.nonce)
    if signed:
        return _agreed_verdict(signed)
    shown = tuple(rules.shown) if rules.is_code or rules.accepts_unsigned else ()
    whole = whole_object(_without_fence(reply)) if rules.is_code else None
    unsigned = None if whole is None else read(whole)
    if whole is not None and unsigned is not None:
        evidence = collect_evidence(shown)
        if not evidence.contains(whole):
            return unsigned if evidence.complete else replace(unsigned, unverified=True)
    if (rules.is_code or rules.accepts_unsigned) and search.complete:
        evidence = collect_evidence(shown)
        unsigned_verdicts = _unsigned_verdicts(search, read, evidence, collect_statements(shown))
        if unsigned_verdicts:
            is_sure = rules.is_code and evidence.complete
            return replace(_agreed_verdict(unsigned_verdicts), unverified=not is_sure)
    raise UnusableReplyError(_why_unusable(reply, search, read, rules=rules, wanted=wanted))


_CODE_FENCE = re.compile(r"\s*```[\w-]*\s*\n(.*)\n\s*```\s*", re.DOTALL)


def _without_fence(reply: str) -> str:
    """Return the text inside a code fence (```) if the reply is nothing else; any other reply as it is."""
    fenced = _CODE_FENCE.fullmatch(reply)
    return reply if fenced is None else fenced[1]


def _verdicts(
    search: FoundObjects, read: Callable[[JsonObject], Reply | None], is_counted: Callable[[JsonObject], bool]
) -> list[tuple[JsonObject, Reply]]:
    """Return the objects for which `is_counted` is true, with the verdict of each; none inside another verdict."""
    verdicts: list[tuple[JsonObject, Reply]] = []
    nested_ids: set[int] = set()
    for found in (each for outer in search.objects for each in nested_objects(outer)):
        if id(found) in nested_ids or not is_counted(found):
            continue
        verdict = read(found)
        if verdict is not None:
            verdicts.append((found, verdict))
            nested_ids.update(id(each) for each in nested_objects(found))
    return verdicts


def _unsigned_verdicts(
    search: FoundObjects, read: Callable[[JsonObject], Reply | None], evidence: Evidence, statements: Statements
) -> list[tuple[JsonObject, Reply]]:
    """Return the verdicts that the judged texts do not contain, as an equal object or in another notation."""
    return _verdicts(search, read, lambda found: not (evidence.contains(found) or statements.contains(found)))


def _agreed_verdict(verdicts: Sequence[tuple[JsonObject, Reply]]) -> Reply:
    """Return the verdict if all objects are equal. Raises UnusableReplyError if they differ."""
    if len(verdicts) > 1:
        distinct = {canonical(found) for found, _ in verdicts}
        if len(distinct) > 1:
            raise UnusableReplyError(f"holds {len(distinct)} verdicts that differ")
    return verdicts[0][1]


def _why_unusable(
    reply: str, search: FoundObjects, read: Callable[[JsonObject], Reply | None], rules: ReplyRules, wanted: str
) -> str:
    """Return why a reply has no verdict that counts."""
    if not search.objects:
        if not search.complete:
            return "holds too many braces to be searched for JSON"
        return "holds no complete JSON object" if "{" in reply else "is text without a JSON object"
    if _verdicts(search, read, lambda _found: True):
        if rules.is_code or rules.accepts_unsigned:
            return "only repeats JSON from the judged texts"
        return "does not repeat the nonce of the call (`unsigned: accept` accepts such a verdict as unverified)"
    if any(found.get("nonce") == rules.nonce for outer in search.objects for found in nested_objects(outer)):
        return f"repeats the nonce, but not in an object with {wanted}"
    return f"holds JSON, but no object with {wanted}"


ANOTHER_SCALE_ADVICE = "; for another scale, give the evaluator a `criterion` with that `scale`"
"""The end of the message about a number off the scale from 0 to 1."""


def _read_freeform(found: JsonObject) -> FreeformReply | None:
    score = written_number(found.get("score"))
    if score is None:
        return None
    unit = unit_score(score)
    return FreeformReply(
        score=unit.value,
        hits=reply_lines(found.get("hits")),
        misses=reply_lines(found.get("misses")),
        reasoning=reply_text(found.get("reasoning")),
        clamped=unit.is_clamped,
        off_scale=None if unit.off_scale is None else unit.off_scale + ANOTHER_SCALE_ADVICE,
    )


def reply_lines(value: JsonValue) -> tuple[str, ...]:
    """Return the first four non-empty texts of a list in a reply; nothing if the value is not a list."""
    if not isinstance(value, list):
        return ()
    texts = (text.strip() for text in value if isinstance(text, str))
    return tuple(text for text in texts if text)[:MAX_LINES]


def reply_text(value: JsonValue) -> str | None:
    """Return a string of a reply without surrounding white space, None when it is empty or not a string."""
    return value.strip() or None if isinstance(value, str) else None


def _read_rubric(found: JsonObject, known: frozenset[str]) -> RubricReply | None:
    given = found.get("checks")
    if not isinstance(given, list):
        return None
    checks: dict[str, RubricCheck] = {}
    contradicted: set[str] = set()
    for item_id, check in filter(None, map(_read_check, given)):
        earlier = checks.setdefault(item_id, check)
        if (earlier.satisfied, earlier.mark) != (check.satisfied, check.mark):
            contradicted.add(item_id)
    checks = {item_id: check for item_id, check in checks.items() if item_id in known}
    if not checks:
        return None
    return RubricReply(checks, frozenset(contradicted), reply_text(found.get("overall_reasoning")))


def _read_check(value: JsonValue) -> tuple[str, RubricCheck] | None:
    if not isinstance(value, Mapping) or not isinstance(value.get("id"), str):
        return None
    satisfied = value.get("satisfied")
    check = RubricCheck(
        satisfied=satisfied if isinstance(satisfied, bool) else None,
        mark=written_number(value.get("score")),
        reasoning=reply_text(value.get("reasoning")) or "",
    )
    return str(value["id"]).strip(), check


_CODE_JUDGE = "code_judge"


def parse_code_reply(reply: JsonValue, criteria: Sequence[EvaluationCriteria] = ()) -> EvaluationScore:
    """Return the score in a code judge's reply: an object with `score`; a number or bool is accepted, too.

    The score is clamped to 0..1. A score on another scale is a `judge_error`, and so is a result in `results` that is
    not on its criterion's scale. `{"skipped": REASON}` is the reply of a judge that cannot judge here. Raises
    EvaluatorError when there is no number.
    """
    if isinstance(reply, bool):
        return EvaluationScore(score=float(reply))
    if not isinstance(reply, Mapping):
        reply = {"score": reply}
    why_skipped = reply.get("skipped")
    if isinstance(why_skipped, str) and why_skipped and "score" not in reply:
        return EvaluationScore(0.0, status="skipped", reasoning=why_skipped)
    score = finite_number(reply.get("score"))
    if score is None:
        raise EvaluatorError(_no_score(reply))
    hits, misses = _texts(reply.get("hits")), _texts(reply.get("misses"))
    reasoning, verdict = reply.get("reasoning"), reply.get("verdict")
    unit, results = unit_score(score), _code_judge_results(reply.get("results"), criteria)
    failure = unit.failure or _failure_of_results(results)
    return EvaluationScore(
        score=unit.value if failure is None or unit.is_clamped else 0.0,
        hits=hits,
        misses=misses,
        expected_aspect_count=max(1, len(hits) + len(misses)),
        reasoning=reasoning if isinstance(reasoning, str) else None,
        verdict=cast(Verdict, verdict) if failure is None and verdict in get_args(Verdict) else None,
        status="scored" if failure is None else "error",
        error=failure,
        results=results,
        clamped=unit.is_clamped,
    )


def _failure_of_results(results: Iterable[EvaluationResult]) -> Failure | None:
    """Return the failure of a code judge that scored a criterion off its scale, else None."""
    errors = [f"{result.criterion_name}: {result.error}" for result in results if result.error is not None]
    return Failure("judge_error", "; ".join(errors), stage="evaluator") if errors else None


def _no_score(reply: JsonObject) -> str:
    shown = json.dumps(reply.get("score"), ensure_ascii=False, default=str)[:80]
    found = f"its `score` is {shown}" if "score" in reply else "it has no `score`"
    return f"the answer must be a JSON object with a number in `score`, and {found}"


def _texts(value: JsonValue) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _code_judge_results(value: JsonValue, criteria: Sequence[EvaluationCriteria]) -> tuple[EvaluationResult, ...]:
    entries = value if isinstance(value, list) else []
    read = (_code_judge_result(entry, criteria) for entry in entries if isinstance(entry, Mapping))
    return tuple(result for result in read if result is not None)


def _code_judge_result(entry: JsonObject, criteria: Sequence[EvaluationCriteria]) -> EvaluationResult | None:
    name = entry.get("criterion_name", entry.get("criterion"))
    score, scale, reasoning = entry.get("score"), entry.get("scale"), entry.get("reasoning")
    if not isinstance(name, str):
        return None
    result = EvaluationResult(
        criterion_name=name,
        score=score if isinstance(score, bool | int | float | str) else None,
        scale=scale if isinstance(scale, str) else "numeric",
        reasoning=reasoning if isinstance(reasoning, str) else None,
        evaluator_type=_CODE_JUDGE,
    )
    return place_result(result, kind=_CODE_JUDGE, criteria=criteria)


_LLM_JUDGE = "llm_judge"
TWO_VALUED = ("binary", "pass/fail")
"""Scales with only the values 0 and 1, so that a mean of opinions is not on the scale."""


class CriterionAnswer(Struct, frozen=True):
    """A judge's answer for one criterion: the score, not yet checked, and the reasoning."""

    score: JsonValue
    reasoning: str | None = None


class CriteriaReply(JudgeReply, frozen=True):
    """A judge's answers by criterion; a criterion that was answered twice has both."""

    answers: Mapping[str, tuple[CriterionAnswer, ...]] = field(default_factory=dict)
    reasoning: str | None = None


def parse_criteria(reply: str, rules: ReplyRules, *, names: Iterable[str]) -> CriteriaReply:
    """Return the answers in a reply. Raises UnusableReplyError, also when it answers none of the named criteria."""
    known = frozenset(names)
    return chosen_reply(
        reply, lambda found: _read_criteria(found, known), rules, wanted='a list "criteria" of these criteria'
    )


def with_criteria_off_scale(reply: CriteriaReply, criteria: Iterable[EvaluationCriteria]) -> CriteriaReply:
    """Return `reply` with the message about its scores that are not on their criterion's scale, if there are any."""
    errors = [
        f"{criterion.name}: {placed.error}"
        for criterion in criteria
        for answer in reply.answers.get(criterion.name, ())
        if _is_score(answer.score) and (placed := _place_answer(criterion, answer)).error is not None
    ]
    return replace(reply, off_scale="; ".join(dict.fromkeys(errors))) if errors else reply


class ScaledReply(JudgeReply, frozen=True):
    """A judge's verdict on one criterion: `given` is on the criterion's scale, `value` is its equivalent on 0..1."""

    given: JsonValue
    value: float = 0.0
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str | None = None


def parse_on_scale(reply: str, rules: ReplyRules, *, criterion: EvaluationCriteria) -> ScaledReply:
    """Return the verdict in a reply, read on the criterion's scale and never clamped. Raises UnusableReplyError."""
    found = chosen_reply(reply, _read_scaled, rules, wanted='a "score"')
    placed = _place_answer(criterion, CriterionAnswer(found.given))
    if placed.error is not None or placed.value is None:
        return replace(found, off_scale=placed.error or "it is not on the scale")
    return replace(found, value=placed.value)


def parse_text(reply: str, rules: ReplyRules) -> ScaledReply:
    """Return the verdict in a reply on a scale of any texts, as it is given. Raises UnusableReplyError."""
    return chosen_reply(reply, _read_scaled, rules, wanted='a "score"')


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


def voted_value(values: Sequence[float], criterion: EvaluationCriteria, vote: Vote) -> float:
    """Return the combined value of opinions on a criterion; on a scale of two values by majority, except with `min`."""
    is_two_valued = criterion.scale in TWO_VALUED and not criterion.labels
    return combine(values, "majority" if is_two_valued and vote != "min" else vote)


def opinions_metadata(values: Sequence[float], criterion: EvaluationCriteria) -> dict[str, JsonValue]:
    """Return the spread of several opinions, and on a scale of two values their mean as `agreement`."""
    if criterion.scale in TWO_VALUED and not criterion.labels:
        return {"spread": spread(values), "agreement": combine(values, "mean")}
    return {"spread": spread(values)}


def _read_criteria(found: JsonObject, known: frozenset[str]) -> CriteriaReply | None:
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

    A criterion that a reply left out, answered twice differently, or scored off its scale gets a result with an error
    and makes the score a `judge_error`; the results of other criteria are kept.
    """
    results = [_voted(criterion, [_opinion(criterion, reply) for reply in replies], vote) for criterion in criteria]
    score = score_of_results(results, _LLM_JUDGE, criteria)
    reasoning = next((reply.reasoning for reply in replies if reply.reasoning), None)
    if score.error is not None:
        failure = Failure(kind="judge_error", message=score.error.message, stage="evaluator")
        return replace(score, reasoning=reasoning, error=failure)
    is_unverified = score.status == "scored" and any(reply.unverified for reply in replies)
    return replace(score, reasoning=reasoning, status="unverified" if is_unverified else score.status)


def unscored_criteria(criteria: Iterable[EvaluationCriteria], message: str) -> tuple[EvaluationResult, ...]:
    """Return the results of criteria for which no judge replied."""
    return tuple(failed_result(message, criterion, kind=_LLM_JUDGE) for criterion in criteria)


def _opinion(criterion: EvaluationCriteria, reply: CriteriaReply) -> EvaluationResult:
    """Return one reply's result for a criterion, with an error if it has no valid score."""
    answers = reply.answers.get(criterion.name, ())
    if not answers:
        return failed_result("the judge did not answer it", criterion, kind=_LLM_JUDGE)
    placed = [_place_answer(criterion, answer) for answer in answers]
    distinct = {(result.value, result.score if result.value is None else None, result.error) for result in placed}
    if len(distinct) > 1:
        return failed_result("the judge answered it twice, differently", criterion, kind=_LLM_JUDGE)
    return placed[0]


def _is_score(value: JsonValue) -> TypeGuard[bool | float | str]:
    """Return True for a value that may be on some scale: a bool, a number, or a text that is not empty."""
    return isinstance(value, bool | int | float) or (isinstance(value, str) and bool(value.strip()))


def _is_unbounded(criterion: EvaluationCriteria) -> bool:
    return criterion.scale == "numeric" and not criterion.labels and (criterion.min, criterion.max) == (None, None)


def _bounded(criterion: EvaluationCriteria) -> EvaluationCriteria:
    """Return a criterion whose numeric scale has bounds, 0 and 1 by default."""
    return replace(criterion, min=0.0, max=1.0) if _is_unbounded(criterion) else criterion


def _place_answer(criterion: EvaluationCriteria, answer: CriterionAnswer) -> EvaluationResult:
    """Return the answer's result, with an error if it is not on the criterion's scale.

    A judge is asked for 0..1 on a numeric scale without bounds, and no other number is read on it.
    """
    score = answer.score
    if not _is_score(score):
        shown = "no score" if score is None or score == "" else f"{canonical(score)[:80]}, which is not a score"
        return failed_result(f"the judge gave {shown}", criterion, kind=_LLM_JUDGE, reasoning=answer.reasoning)
    if criterion.labels and not isinstance(score, bool | str):
        score = f"{score:g}"  # a label such as "3" is often given as a number
    given = EvaluationResult(criterion.name, score, scale=criterion.scale, reasoning=answer.reasoning)
    placed = place_result(given, kind=_LLM_JUDGE, criteria=[_bounded(criterion)])
    if placed.error is not None:
        advice = UNBOUNDED_ADVICE if _is_unbounded(criterion) and finite_number(score) is not None else ""
        return replace(placed, score=None, error=placed.error + advice)
    # A score without a value and a number on a numeric scale stay as given; others are written as on their scale.
    is_unscaled = placed.value is None or (criterion.scale == "numeric" and not isinstance(score, bool | str))
    return placed if is_unscaled else replace(placed, score=denormalize(placed.value or 0.0, criterion))


def _voted(criterion: EvaluationCriteria, opinions: Sequence[EvaluationResult], vote: Vote) -> EvaluationResult:
    """Return the combined result of several opinions, or the first opinion with an error."""
    failed = next((opinion for opinion in opinions if opinion.error is not None), None)
    if failed is not None or len(opinions) == 1:
        return failed or opinions[0]
    values = [opinion.value for opinion in opinions if opinion.value is not None]
    if len(values) < len(opinions):
        return _most_common(opinions)
    value = voted_value(values, criterion, vote)
    nearest = min(opinions, key=lambda opinion: abs((opinion.value or 0.0) - value))
    metadata = opinions_metadata(values, criterion)
    return replace(nearest, score=denormalize(value, criterion), value=value, metadata=metadata)


def _most_common(opinions: Sequence[EvaluationResult]) -> EvaluationResult:
    """Return the most common opinion, the first one of equally common: texts of a custom scale have no mean."""
    counts = Counter(str(opinion.score) for opinion in opinions)
    chosen = max(opinions, key=lambda opinion: counts[str(opinion.score)])
    return replace(chosen, metadata={"opinions": [str(opinion.score) for opinion in opinions]})


Better: TypeAlias = Literal["A", "B", "tie"]

WIN, TIE, LOSS = 1.0, 0.5, 0.0
_PREFERENCES: dict[str, Better] = {"a": "A", "b": "B", "tie": "tie"}


class PairReply(JudgeReply, frozen=True):
    """A judge's preference between two answers, and the reasoning."""

    better: Better
    reasoning: str | None = None


def parse_pair(reply: str, rules: ReplyRules) -> PairReply:
    """Return the preference in a reply. Raises UnusableReplyError."""
    return chosen_reply(reply, _read_pair, rules, wanted='"better": "A", "B" or "tie"')


def _read_pair(found: JsonObject) -> PairReply | None:
    text = reply_text(found.get("better"))
    if text is None:
        return None
    better = _PREFERENCES.get(text.casefold().removeprefix("answer").strip(" _"))
    return None if better is None else PairReply(better, reply_text(found.get("reasoning")))


def candidate_value(better: Better, *, swapped: bool) -> float:
    """Return the candidate's value: WIN, TIE or LOSS. The candidate is A, or B if the order was swapped."""
    if better == "tie":
        return TIE
    return WIN if (better == "B") is swapped else LOSS
