"""Parsing of judges' verdicts from their replies (docs/how-to/judges.md).

An object that carries the call's nonce is the verdict. A judge that is code may reply with one object and nothing else.
Any other reply is rejected, unless the user accepts unsigned verdicts. Verdicts that differ are always rejected.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar, cast, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.scoring.judge_replies.evidence import collect_evidence, collect_statements
from agentv.scoring.judge_replies.json_objects import (
    FoundObjects,
    canonical,
    find_objects,
    finite_number,
    nested_objects,
    whole_object,
)
from agentv.scoring.results.completion import place_result
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationResult, EvaluationScore, Verdict
from agentv.types.json_value import JsonObject, JsonValue

MAX_LINES = 4
"""The maximum number of hits, and of misses, that a judge may name (seed: JSON prompt contract)."""


class UnusableReplyError(ValueError):
    """A reply without usable content; the message completes a sentence about the reply."""


class ReplyRules(Struct, frozen=True):
    """The conditions under which an object in a reply is the judge's verdict.

    `nonce` is the one-time text of the call, `shown` are the texts that were judged. `is_code` says that the judge is
    no model, `accepts_unsigned` that a verdict without the nonce counts, as unverified.
    """

    nonce: str
    shown: Iterable[str] = ()
    is_code: bool = False
    accepts_unsigned: bool = False


class JudgeReply(Struct, frozen=True, kw_only=True):
    """Base of all verdicts. `unverified` says that the verdict may not be the judge's own."""

    unverified: bool = False


class FreeformReply(JudgeReply, frozen=True):
    """A judge's verdict in freeform mode. `score` is clamped to 0..1; hits and misses are at most four each."""

    score: float
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str | None = None


class RubricCheck(Struct, frozen=True):
    """A judge's answer for one rubric item: met or not, or its mark 1..5 on a graded one."""

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

    `read` returns the verdict of an object that has its shape, which `wanted` describes, else None. A new kind of
    verdict must also add its key to evidence.VERDICT_KEYS, so that objects of that shape in the judged texts are set
    aside.
    """
    search = find_objects(reply)
    signed = _verdicts(search, read, lambda found: found.get("nonce") == rules.nonce)
    if signed:
        return _only_one(signed)
    shown = tuple(rules.shown) if rules.is_code or rules.accepts_unsigned else ()
    whole = whole_object(reply) if rules.is_code else None
    bare = None if whole is None else read(whole)
    if whole is not None and bare is not None:
        evidence = collect_evidence(shown)
        if not evidence.holds(whole):
            return bare if evidence.complete else replace(bare, unverified=True)
    if rules.accepts_unsigned and search.complete:
        own = _unsigned_verdicts(search, read, shown)
        if own:
            return replace(_only_one(own), unverified=True)
    raise UnusableReplyError(_why_unusable(reply, search, read, rules=rules, wanted=wanted))


def _verdicts(
    search: FoundObjects, read: Callable[[JsonObject], Reply | None], counts: Callable[[JsonObject], bool]
) -> list[tuple[JsonObject, Reply]]:
    """Return the objects that count and have a verdict's shape, also nested ones, but none inside another verdict."""
    verdicts: list[tuple[JsonObject, Reply]] = []
    inside: set[int] = set()
    for found in (each for outer in search.objects for each in nested_objects(outer)):
        if id(found) in inside or not counts(found):
            continue
        verdict = read(found)
        if verdict is not None:
            verdicts.append((found, verdict))
            inside.update(id(each) for each in nested_objects(found))
    return verdicts


def _unsigned_verdicts(
    search: FoundObjects, read: Callable[[JsonObject], Reply | None], shown: Sequence[str]
) -> list[tuple[JsonObject, Reply]]:
    """Return the verdicts that the judged texts neither contain nor state in other words."""
    evidence, statements = collect_evidence(shown), collect_statements(shown)
    return _verdicts(search, read, lambda found: not (evidence.holds(found) or statements.holds(found)))


def _only_one(verdicts: Sequence[tuple[JsonObject, Reply]]) -> Reply:
    """Return the verdict that all objects state. Raises UnusableReplyError if they differ."""
    differing = len({canonical(found) for found, _ in verdicts}) if len(verdicts) > 1 else 1
    if differing > 1:
        raise UnusableReplyError(f"holds {differing} verdicts that differ")
    return verdicts[0][1]


def _why_unusable(
    reply: str, search: FoundObjects, read: Callable[[JsonObject], Reply | None], rules: ReplyRules, wanted: str
) -> str:
    """Return what is wrong with a reply without a verdict that counts."""
    if not search.objects:
        if not search.complete:
            return "holds too many braces to be searched for JSON"
        return "holds no complete JSON object" if "{" in reply else "is text without a JSON object"
    if _verdicts(search, read, lambda _found: True):
        if rules.accepts_unsigned:
            return "only repeats JSON that stands in the judged texts"
        or_bare = ", and is not one JSON object and nothing else" if rules.is_code else ""
        return f"does not repeat the nonce of the call{or_bare} (`unsigned: accept` takes such a verdict as unverified)"
    if any(found.get("nonce") == rules.nonce for outer in search.objects for found in nested_objects(outer)):
        return f"repeats the nonce, but not beside {wanted}"
    return f"holds JSON, but no object with {wanted}"


def _read_freeform(found: JsonObject) -> FreeformReply | None:
    score = finite_number(found.get("score"))
    if score is None:
        return None
    return FreeformReply(
        score=min(1.0, max(0.0, score)),
        hits=reply_lines(found.get("hits")),
        misses=reply_lines(found.get("misses")),
        reasoning=reply_text(found.get("reasoning")),
    )


def reply_lines(value: JsonValue) -> tuple[str, ...]:
    """Return the texts of a reply's list that are not empty, at most four; nothing for any other value."""
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
        mark=finite_number(value.get("score")),
        reasoning=reply_text(value.get("reasoning")) or "",
    )
    return str(value["id"]).strip(), check


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
