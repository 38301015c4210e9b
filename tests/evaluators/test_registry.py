import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.judging import judge_saying, make_context

from agentv import EvalCase, run_evaluators_for_case
from agentv.engine.running.evaluators_for_case import build_evaluator_registry
from agentv.evaluators import EVALUATOR_KIND_VALUES, EVALUATORS, is_evaluator_kind
from agentv.evaluators.judges.llm_judge import LlmJudgeEvaluator
from agentv.evaluators.registry import EvaluatorRegistry
from agentv.evaluators.tools.tool_trajectory import ToolTrajectoryEvaluator
from agentv.registry import EvaluatorSpec
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import EvaluatorError, UnknownNameError
from agentv.types.evaluation import EvaluationScore

OWN = ToolTrajectoryEvaluator(forbidden=("delete",))


def test_a_registry_always_has_the_default_judge() -> None:
    registry = build_evaluator_registry()
    assert isinstance(registry.llm_judge, LlmJudgeEvaluator)
    assert list(registry) == ["llm_judge", "rubric"]
    assert registry["rubric"] is registry.llm_judge
    assert len(registry) == 2


def test_overrides_stand_beside_or_in_place_of_it() -> None:
    registry = build_evaluator_registry({"mine": OWN, "llm_judge": OWN}, lambda _context: judge_saying("{}"))
    assert registry["mine"] is OWN
    assert registry.llm_judge is OWN


@pytest.mark.parametrize("kind", ["llm_judge", "rubric"])
def test_the_registrys_judge_asks_as_the_cases_config_says(kind: str) -> None:
    judge = judge_saying('{"checks": [{"id": "a", "satisfied": true}]}')
    registry = build_evaluator_registry(None, lambda _context: judge)
    settings: dict[str, Any] = {
        "prompt": "{{ candidate_answer }}?",
        "maxOutputTokens": 9,
        "rubrics": [{"id": "a", "description": "A"}],
    }
    case = EvalCase("c", "hi", evaluators=(EvaluatorConfig("tone", kind, settings),))
    score, _ = asyncio.run(run_evaluators_for_case(case, "x", evaluator_registry=registry))
    assert score.score == 1.0
    assert judge.requests[0].question.startswith("<<<candidate_answer")
    assert judge.requests[0].max_output_tokens == 9
    assert (score.evaluator_raw_request or {})["userPrompt"] == judge.requests[0].question


def test_an_unknown_kind_falls_back_to_the_judge_and_then_raises() -> None:
    registry = build_evaluator_registry({"mine": OWN})
    assert registry["unheard_of"] is registry["llm_judge"]
    assert "unheard_of" not in registry
    assert "mine" in registry
    with pytest.raises(UnknownNameError, match="unknown evaluator kind 'mine'; known: other"):
        EvaluatorRegistry({"other": OWN})["mine"]


def test_kinds_are_known_by_name_alias_and_plug_in() -> None:
    assert is_evaluator_kind("code_judge")
    assert is_evaluator_kind("code")
    assert not is_evaluator_kind("grader")
    assert not is_evaluator_kind(None)
    own = EVALUATORS.copy()
    own.add(EvaluatorSpec("mine", "", settings="x:y", factory="x:y"))
    assert is_evaluator_kind("mine", registry=own)
    assert not is_evaluator_kind("mine")


def test_the_kinds_are_the_names_of_the_registry() -> None:
    assert tuple(spec.name for spec in EVALUATORS) == EVALUATOR_KIND_VALUES
    assert {"llm_judge", "rubric", "code_judge", "tool_trajectory", "composite"} <= set(EVALUATOR_KIND_VALUES)


def test_what_asks_a_model_costs_money() -> None:
    assert {"llm_judge", "rubric"} <= {spec.name for spec in EVALUATORS if spec.cost == "paid"}
    assert EVALUATORS.get("contains").cost == "free"


@pytest.mark.parametrize(
    ("kind", "settings", "candidate"),
    [
        ("contains", {"value": "moon"}, "the moon"),
        ("rule_based", {"rules": [{"type": "length", "max": 9}]}, "the moon"),
        ("length", {"max": 9}, "done"),
    ],
)
def test_a_rule_is_found_and_takes_the_settings_of_the_context(
    kind: str, settings: dict[str, Any], candidate: str
) -> None:
    rule = build_evaluator_registry()[kind]
    assert rule.kind == kind
    config = EvaluatorConfig("mine", kind, settings)
    score = rule.evaluate(replace(make_context(candidate), evaluator=config))
    assert isinstance(score, EvaluationScore)
    assert (score.score, score.verdict) == (1.0, "pass")
    with pytest.raises(EvaluatorError, match=f"the settings of '{kind}' are missing"):
        rule.evaluate(make_context(candidate))
