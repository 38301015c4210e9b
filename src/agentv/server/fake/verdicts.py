"""How the fake server judges: by the words that the answer shares with what was expected. Simple, and always the same.

A judge's prompt is known by the nonce that its reply must carry. The score is the share of the words (numbers, and
words of four letters or more) of the expected outcome, or of the reference answer when that gives more, that occur in
the candidate answer. A requirement of a rubric is satisfied when half of its words do; a graded one gets 1 to 5 by the
same share, and so does a criterion on its own scale. Of two answers the better one shares more words with the rest.
"""

import json
import re
from collections.abc import Iterable, Mapping

from agentv.server.fake.conversation import Question
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json

_NONCE = re.compile(r'"nonce": the text "([^"]+)"')
_SECTION = re.compile(r"^\[\[ ## (\w+) ## \]\]\n", re.MULTILINE)
_ITEM = re.compile(r"^- (.+?)(?: \(((?:required|graded 1 to 5|, )+)\))?: (.*)$", re.MULTILINE)
_CRITERION = re.compile(r'^- ("(?:[^"\\]|\\.)*")(?:: (.*))? Score: (.*)$', re.MULTILINE)
_RANGE = re.compile(r"a number from (\S+) \(worst\) to (\S+) \(best\)")
_LABELS = re.compile(r"one of (.+) \(from worst to best\)")
_WORD = re.compile(r"\w{4,}|\d+")
_LINES = 4
_ENOUGH = 0.5


def judge_reply(question: Question) -> str | None:
    """Return the verdict that a judge's prompt asks for, as JSON; None when it is no judge's prompt."""
    asked = _NONCE.search(question.system)
    if asked is None:
        return None
    nonce = asked.group(1)
    if '"better"' in question.system:
        return compact_json(_preference(nonce, question.said))
    candidate, sections = _parts_of(question.said, nonce)
    if '"checks"' in question.system:
        return compact_json(_checks(nonce, candidate, sections.get("requirements", "")))
    if '"criteria"' in question.system:
        return compact_json(_scores(nonce, candidate, sections.get("criteria", "")))
    return compact_json(_verdict(nonce, candidate, sections))


def overlap(expected: str, candidate: str) -> tuple[list[str], list[str]]:
    """Return the words of `expected` that the candidate has, and those it lacks, in their order."""
    there = set(_words(candidate))
    wanted = list(dict.fromkeys(_words(expected)))
    return [word for word in wanted if word in there], [word for word in wanted if word not in there]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _share(found: Iterable[str], missing: Iterable[str]) -> float:
    hits, misses = len(list(found)), len(list(missing))
    return hits / (hits + misses) if hits + misses else 0.0


def _fence(nonce: str) -> re.Pattern[str]:
    return re.compile(rf"<<<(\w+) {re.escape(nonce)}>>>\n(.*?)\n?<<<end of \1 {re.escape(nonce)}>>>", re.DOTALL)


def _parts_of(prompt: str, nonce: str) -> tuple[str, Mapping[str, str]]:
    """Return what is judged, and the prompt's sections without it; "" stands for one section that is all of it."""
    fence = _fence(nonce)
    candidate = "\n".join(found.group(2) for found in fence.finditer(prompt))
    _, *named = _SECTION.split(fence.sub("", prompt))
    return candidate, dict(zip(named[::2], named[1::2], strict=True)) or {"": fence.sub("", prompt)}


def _verdict(nonce: str, candidate: str, sections: Mapping[str, str]) -> JsonObject:
    expected = [sections.get(name, "") for name in ("expected_outcome", "reference_answer")]
    tried = [overlap(text, candidate) for text in expected if text.strip() and text.strip() != "(none given)"]
    found, missing = max(tried or [overlap("\n".join(sections.values()), candidate)], key=lambda pair: _share(*pair))
    return {
        "nonce": nonce,
        "score": round(_share(found, missing), 2),
        "hits": [f"says {word!r}" for word in found[:_LINES]],
        "misses": [f"does not say {word!r}" for word in missing[:_LINES]],
        "reasoning": f"{len(found)} of {len(found) + len(missing)} expected words are in the answer.",
    }


def _preference(nonce: str, prompt: str) -> JsonObject:
    """Return which of two answers has more of the words that the rest of the prompt has."""
    answers = {found.group(1): found.group(2) for found in _fence(nonce).finditer(prompt)}
    rest = "\n".join(_parts_of(prompt, nonce)[1].values())
    first, second = (len(overlap(rest, answers.get(name, ""))[0]) for name in ("answer_a", "answer_b"))
    better = "tie" if first == second else "A" if first > second else "B"
    return {"nonce": nonce, "reasoning": f"A shares {first} words, B {second}.", "better": better}


def _checks(nonce: str, candidate: str, requirements: str) -> JsonObject:
    checks = [_check(item, candidate) for item in _ITEM.finditer(requirements)]
    return {"nonce": nonce, "checks": checks, "overall_reasoning": "Each requirement by the words it shares."}


def _check(item: re.Match[str], candidate: str) -> JsonObject:
    name, marks, description = item.groups()
    found, missing = overlap(description, candidate)
    share = _share(found, missing)
    graded = "graded" in (marks or "")
    given: JsonObject = {"score": 1 + round(4 * share)} if graded else {"satisfied": share >= _ENOUGH}
    return {"id": name, **given, "reasoning": f"{len(found)} of {len(found) + len(missing)} words are in the answer."}


def _scores(nonce: str, candidate: str, criteria: str) -> JsonObject:
    scores = [_score(line, candidate) for line in _CRITERION.finditer(criteria)]
    return {"nonce": nonce, "criteria": scores, "overall_reasoning": "Each criterion by the words it shares."}


def _score(line: re.Match[str], candidate: str) -> JsonObject:
    name = json.loads(line[1])
    found, missing = overlap(line[2] or name, candidate)
    reasoning = f"{len(found)} of {len(found) + len(missing)} words are in the answer."
    return {"name": name, "score": _on_scale(_share(found, missing), line[3]), "reasoning": reasoning}


def _on_scale(share: float, allowed: str) -> JsonValue:
    """Return a share as one of the scores that a criterion's line allows."""
    if bounds := _RANGE.fullmatch(allowed):
        low, high = float(bounds[1]), float(bounds[2])
        return round(low + (high - low) * share, 2)
    if listed := _LABELS.fullmatch(allowed):
        labels: list[JsonValue] = json.loads(f"[{listed[1]}]")
        return labels[round(share * (len(labels) - 1))]
    if allowed.startswith("a text"):
        return "some" if share else "none"
    passed = share >= _ENOUGH
    return passed if allowed.startswith("true") else ("pass" if passed else "fail")
