"""Several criteria in one judge call, each on its own scale: prompt, contract and reply."""

import json
from collections.abc import Iterable

from msgspec import Struct

from agentv.evaluators.judge_prompts import TEXT, fence_rule, strict_object
from agentv.scoring.criteria_replies import CriteriaReply, criteria_score, parse_criteria, unscored_criteria
from agentv.scoring.votes import Vote
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationResult, EvaluationScore
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.scales import EvaluationCriteria

INSTRUCTIONS = """\
You judge the answer of an AI system by several criteria. Take each criterion by itself and score it on its own scale: \
a weakness in one is no weakness in another. Be strict about facts and about what is missing."""


class CriteriaMode(Struct, frozen=True):
    """A score for each of `criteria`."""

    criteria: tuple[EvaluationCriteria, ...]
    vote: Vote = "mean"

    @property
    def instructions(self) -> str:
        """The opening of the system prompt."""
        return INSTRUCTIONS

    @property
    def section(self) -> str:
        """The criteria with what scores they allow, after the user prompt."""
        return "\n\n[[ ## criteria ## ]]\n" + "\n".join(map(_line, self.criteria))

    @property
    def schema(self) -> JsonObject:
        """The reply as a JSON Schema that names the criteria and the types of their scores."""
        names: list[JsonValue] = [criterion.name for criterion in self.criteria]
        types: list[JsonValue] = list(dict.fromkeys(_json_type(criterion) for criterion in self.criteria))
        score: JsonObject = {"type": types if len(types) > 1 else types[0]}
        entry = strict_object({"name": {"type": "string", "enum": names}, "score": score, "reasoning": TEXT})
        return strict_object({"nonce": TEXT, "criteria": {"type": "array", "items": entry}, "overall_reasoning": TEXT})

    def contract(self, nonce: str) -> str:
        """Return the reply's format in words."""
        return f"""\
Reply with a single JSON object and nothing else. Its keys:
- "nonce": the text "{nonce}", copied exactly
- "criteria": a list with one object for every criterion, each with "name" (as given), "score" (one of the scores that \
the criterion allows) and "reasoning" (one sentence)
- "overall_reasoning": one or two sentences that sum up

{fence_rule(nonce)}"""

    def parse(self, reply: str, *, nonce: str, shown: Iterable[str]) -> CriteriaReply | None:
        """Return the scores in a reply."""
        return parse_criteria(reply, names=[each.name for each in self.criteria], nonce=nonce, shown=shown)

    def scored(self, opinions: tuple[CriteriaReply, ...]) -> EvaluationScore:
        """Return the criteria's results and their weighted mean."""
        return criteria_score(self.criteria, opinions, vote=self.vote)

    def unscored(self, message: str) -> tuple[EvaluationResult, ...]:
        """Return an error for every criterion."""
        return unscored_criteria(self.criteria, message)


def named_criteria(context: EvaluationContext, names: Iterable[str]) -> tuple[EvaluationCriteria, ...]:
    """Return the criteria of those names, in that order. Raises EvaluatorError that lists those there are."""
    known = {criterion.name: criterion for criterion in context.criteria}
    wanted = tuple(dict.fromkeys(names))
    unknown = [name for name in wanted if name not in known]
    if unknown:
        there = ", ".join(known) or "none"
        raise EvaluatorError(f"no criterion {', '.join(map(repr, unknown))} in `criteria`; there: {there}")
    return tuple(known[name] for name in wanted)


def _line(criterion: EvaluationCriteria) -> str:
    described = f": {criterion.description}" if criterion.description else ""
    return f"- {json.dumps(criterion.name, ensure_ascii=False)}{described} Score: {_allowed(criterion)}"


def _allowed(criterion: EvaluationCriteria) -> str:
    """Return which scores a criterion's scale allows, for a judge."""
    if criterion.labels:
        labels = ", ".join(json.dumps(label, ensure_ascii=False) for label in criterion.labels)
        return f"one of {labels} (from worst to best)"
    match criterion.scale:
        case "binary":
            return "true (met) or false (not met)"
        case "pass/fail":
            return '"pass" or "fail"'
        case "likert5":
            return "a number from 1 (worst) to 5 (best)"
        case "percent":
            return "a number from 0 (worst) to 100 (best)"
        case "numeric":
            low = 0.0 if criterion.min is None else criterion.min
            high = 1.0 if criterion.max is None else criterion.max
            return f"a number from {low:.10g} (worst) to {high:.10g} (best)"
        case custom:
            return f"a text on the scale {json.dumps(custom, ensure_ascii=False)}"


def _json_type(criterion: EvaluationCriteria) -> str:
    if criterion.scale == "binary" and not criterion.labels:
        return "boolean"
    is_number = criterion.scale in {"likert5", "percent", "numeric"} and not criterion.labels
    return "number" if is_number else "string"
