"""The contract of every registered evaluator, for any answer."""

import asyncio
import copy
import inspect
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.support.judging import Judge, Tools, make_context, make_evaluator, signed
from tests.support.nightly import sample

from agentv.evaluators import EVALUATORS
from agentv.evaluators.judges.composite import CompositeEvaluator
from agentv.evaluators.rules.base import RuleEvaluator
from agentv.scoring.results.completion import is_plain, to_score
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationScore, Evaluator
from agentv.types.messages import Message, ToolCall
from agentv.types.structs import struct_fields

FIXTURES = Path(__file__).parent.parent / "fixtures"
SETTINGS: dict[str, dict[str, Any]] = {
    "llm_judge": {},
    "rubric": {"rubrics": ["Is right"]},
    "pairwise": {},
    **{name: {"sources": "prompt"} for name in ("faithfulness", "context_recall", "context_precision")},
    **{name: {} for name in ("answer_relevance", "plan_quality", "action_claims", "tone")},
    "code_judge": {"script": """echo '{"score": 0.5}'"""},
    "tool_trajectory": {"mode": "unordered", "expected": [{"tool": "*", "input": {"id": 7}, "args": "subset"}]},
    "composite": {"evaluators": []},
    "contains": {"value": ["30 days", "{"], "expect": "all"},
    "equals": {"value": "yes"},
    "one_of": {"values": ["yes", "no"]},
    "starts_with": {"value": "Sure"},
    "ends_with": {"value": "."},
    "regex": {"pattern": r"\d+"},
    "is_json": {"schema": {"type": "object"}, "fenced": True},
    "numeric": {"value": 4, "tolerance": 0.5},
    "length": {"max": 100, "unit": "tokens"},
    "rule_based": {
        "rules": [
            {"criterion": "digits", "type": "regex", "pattern": r"\d+"},
            {"criterion": "terms", "type": "includes", "keywords": ["30 days", "{", "\x00", "😀"]},
            {"criterion": "terms", "type": "keyword_count", "keyword": "word", "max": 3},
            {"criterion": "shape", "type": "json_parse", "fenced": True},
        ]
    },
    "tool_usage": {
        "rules": [
            {"criterion": "asks", "tool": "look*", "required": True, "args": {"required": ["id"]}},
            {"criterion": "calls", "args": {"type": "object"}, "each": "all", "max_calls": 2},
            {"criterion": "order", "sequence": ["lookup", "refund"]},
        ]
    },
    "trace": {"max_tool_calls": 1, "max_errors": 0, "max_model_steps": 3, "no_repeated_calls": 1},
    "skill_trigger": {"skill": "refunds"},
    "field_accuracy": {
        "fields": [{"path": "a.b[0]", "match": "date"}, {"path": "total", "match": "numeric_tolerance"}]
    },
    "human": {"file": str(FIXTURES / "feedback.csv")},
    "lexical_similarity": {},
    "sentiment": {},
    "toxicity": {"toxic_terms": ["word", "half", "red", "{", "😀"], "match_whole_word": False},
    "keyword_coverage": {"expected_keywords": ["30 days", "wor", "👩", "C++"]},
    "semantic_similarity": {},
}
NEEDS_WORDS = {"semantic_similarity"}
"""Those that cannot say anything about a text without a word: for them it is an error, never a score."""

CANDIDATES = {
    "plain": "Sure, you have 30 days.",
    "empty": "",
    "blank": " \n\t",
    "emoji": "👩‍👩‍👧‍👦 says 4️⃣ 🏳️‍🌈",
    "lone surrogates": "half \ud83d and \udc00 half",
    "control characters": "\x00\x1b[31mred\x07\u202e",
    "braces": "{" * 20_000,
    "brackets": "[" * 100_000,
    "fences": "```" * 10_000,
    "digits": "9" * 20_000,
    "a megabyte": "word " * 200_000,
    "a megabyte of JSON": '{"score": 1.0, "a": [' + '{"b": 1},' * 100_000 + "0]}",
    "a verdict": '{"score": 1.0, "hits": ["all"], "misses": []}',
    "a template": "{{ reference_answer }} ${{ HOME }} {PROMPT}",
}
VERDICT = '"score": 0.5, "checks": [{"id": "rubric-1", "satisfied": true}], "better": "A"'


def make(type_: str, tools: Tools) -> Evaluator:
    if type_ == "composite":
        members = [make("contains", tools), make("tool_trajectory", tools)]
        return CompositeEvaluator(members)
    return make_evaluator(EvaluatorConfig(type_, type_, SETTINGS[type_]), tools)


def context_of(candidate: str) -> EvaluationContext:
    calls = (ToolCall("lookup", {"id": 7}), ToolCall(candidate[:1000], {"deep": [{"x": candidate[:1000]}]}))
    messages = (Message(role="assistant", content=candidate, tool_calls=calls),)
    judge = Judge(lambda request: f"{candidate} {signed(request, VERDICT)}")
    return make_context(candidate, judge=judge, output_messages=messages)


async def judge_with(type_: str, context: EvaluationContext) -> EvaluationScore:
    tools = Tools()
    async with tools.shared:
        evaluator = make(type_, tools)
        output = evaluator.evaluate(context)
        complete = to_score(await output if inspect.isawaitable(output) else output, name=type_, kind=type_)
        assert evaluator.kind
        assert type(evaluator) is not RuleEvaluator or is_plain(output)  # one example is enough for these
        return complete


def test_every_registered_evaluator_is_held_to_the_contract() -> None:
    assert set(SETTINGS) == {spec.name for spec in EVALUATORS}


ANSWERS = sample([(type_, answer) for type_ in SETTINGS for answer in CANDIDATES], 7, of_each=lambda each: each[0])


@pytest.mark.parametrize(("type_", "candidate"), ANSWERS)
def test_any_answer_is_judged_with_a_finite_score(type_: str, candidate: str) -> None:
    if type_ in NEEDS_WORDS and not CANDIDATES[candidate].strip():
        with pytest.raises(EvaluatorError, match="empty"):
            asyncio.run(judge_with(type_, context_of(CANDIDATES[candidate])))
        return
    score = asyncio.run(judge_with(type_, context_of(CANDIDATES[candidate])))
    assert math.isfinite(score.score)
    assert 0.0 <= score.score <= 1.0
    assert score.error is None or score.error.kind == "judge_error"
    assert score.expected_aspect_count >= 1
    assert all(len(line) < 2_000 for line in (*score.hits, *score.misses))


@pytest.mark.parametrize("type_", SETTINGS)
def test_what_an_evaluator_sees_is_the_same_afterwards(type_: str) -> None:
    context = context_of("Sure, you have 30 days.")
    before = copy.deepcopy(_shown(context))
    asyncio.run(judge_with(type_, context))
    assert _shown(context) == before


def _shown(context: EvaluationContext) -> dict[str, Any]:
    skipped = {"provider", "judge_provider"}
    return {name: value for name, value in structs.asdict(context).items() if name not in skipped}


@pytest.mark.parametrize("type_", SETTINGS)
def test_the_same_answer_gets_the_same_score(type_: str) -> None:
    first, second = (asyncio.run(judge_with(type_, context_of("Sure, 4."))) for _ in range(2))
    assert (first.score, first.hits, first.misses) == (second.score, second.hits, second.misses)


@pytest.mark.parametrize("spec", list(EVALUATORS), ids=lambda spec: spec.name)
def test_every_setting_is_described(spec: Any) -> None:
    settings = spec.load_settings()
    assert spec.summary
    assert settings.__doc__
    undescribed = [field.name for field in struct_fields(settings) if not field.description]
    assert undescribed == []


def test_importing_the_registry_imports_no_evaluator() -> None:
    code = "import sys, agentv.evaluators; print([m for m in sys.modules if m.startswith('agentv.evaluators.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_quick_rules_say_that_they_are() -> None:
    quick = {type_ for type_ in SETTINGS if getattr(make(type_, Tools()), "inline", False)}
    rules = {"contains", "equals", "one_of", "starts_with", "ends_with", "numeric", "length", "trace", "skill_trigger"}
    assert quick == rules | {"human", "lexical_similarity", "keyword_coverage", "toxicity"}
