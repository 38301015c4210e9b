"""Differences between the setups of two runs."""

from typing import Any

from msgspec.structs import replace
from tests.support.rows import make_row

from agentv.scoring.comparison.circumstances import Circumstance, find_circumstances
from agentv.scoring.comparison.sides import ScoredRow, Side, evaluator_measure, scored_row
from agentv.types.evaluation import EvaluatorResult
from agentv.types.json_value import JsonObject, JsonValue


def made_with(plan: JsonObject, **about: JsonValue) -> Side:
    return Side("run", {"plan": plan, **about})


def targets(**settings: JsonObject) -> JsonObject:
    return {"targets": [{"name": name, "provider": "openai", "settings": each} for name, each in settings.items()]}


def test_nothing_differs_between_runs_that_were_made_alike() -> None:
    plan: JsonObject = {**targets(t={"model": "m"}), "suites": [{"path": "s.yaml", "sha256": "ab"}], "seed": 1}
    side = made_with(plan, agentv_version="1", git={"commit": "c" * 40, "dirty": False})
    assert find_circumstances(side, side) == ()


def test_settings_scripts_suites_options_versions_and_code() -> None:
    before = made_with(
        {
            **targets(t={"model": "small", "temperature": 0}),
            "suites": [{"path": "s.yaml", "sha256": "a" * 64}],
            "scripts": {"t": {"agent.py": "b" * 64}},
            "options": {"trials": 3, "name": "one", "gates": ["mean >= 1"]},
        },
        agentv_version="0.1.0",
        git={"commit": "c" * 40, "dirty": False},
    )
    after = made_with(
        {
            **targets(t={"model": "large", "temperature": 0, "system_prompt": "Be kind."}),
            "suites": [{"path": "s.yaml", "sha256": "d" * 64}],
            "scripts": {"t": {"agent.py": "e" * 64}},
            "options": {"name": "two"},
        },
        agentv_version="0.2.0",
        git={"commit": "c" * 40, "dirty": True},
    )
    assert find_circumstances(before, after) == (
        Circumstance("suite s.yaml", f"sha256 {'a' * 12}", f"sha256 {'d' * 12}"),
        Circumstance("model of target t", "small", "large"),
        Circumstance("system_prompt of target t", None, "Be kind."),
        Circumstance("script agent.py", f"sha256 {'b' * 12}", f"sha256 {'e' * 12}"),
        Circumstance("option trials", "3", None),
        Circumstance("agentv", "0.1.0", "0.2.0"),
        Circumstance("git commit", "c" * 12, f"{'c' * 12} with changes"),
    )


def test_single_targets_of_other_names_are_compared() -> None:
    found = find_circumstances(made_with(targets(a={"model": "m"})), made_with(targets(b={"model": "n"})))
    assert found == (Circumstance("target", "a", "b"), Circumstance("model of the target", "m", "n"))


def test_of_several_targets_those_that_one_run_lacks_are_named() -> None:
    found = find_circumstances(made_with(targets(a={}, b={})), made_with(targets(a={})))
    assert found == (Circumstance("target b", "present", None),)


def test_evaluators_that_judged_in_one_run_only() -> None:
    before, after = Side("before"), Side("after")
    after.add(scored_row(make_row("a")))
    assert find_circumstances(before, after) == (Circumstance("evaluator tone", None, "contains"),)


def side_with(name: str, type_: str, **given: Any) -> Side:
    side = Side("run")
    evaluator = EvaluatorResult(name=name, type=type_, score=1.0, **given)
    side.add(scored_row(replace(make_row("a"), evaluator_results=(evaluator,))))
    return side


def test_evaluators_that_were_swapped_are_named_with_their_types() -> None:
    assert find_circumstances(side_with("fact", "contains"), side_with("fact", "equals")) == (
        Circumstance("evaluator fact", "contains", "equals"),
    )
    assert find_circumstances(side_with("fact", "contains"), side_with("tone", "llm_judge")) == (
        Circumstance("evaluator fact", "contains", None),
        Circumstance("evaluator tone", None, "llm_judge"),
    )
    assert find_circumstances(side_with("fact", "contains"), side_with("fact", "contains", status="error")) == ()


def test_evaluators_of_a_file_of_scores_have_no_type() -> None:
    scores = Side("baseline.jsonl")
    scores.add(ScoredRow(make_row("a").slot, "pass", {evaluator_measure("fact"): 1.0, evaluator_measure("old"): 1.0}))
    assert find_circumstances(scores, side_with("fact", "contains")) == (
        Circumstance("evaluator old", "present", None),
    )


def test_a_run_that_says_nothing_of_itself_differs_in_nothing() -> None:
    assert find_circumstances(Side("rows.jsonl"), made_with(targets(a={}))) == ()


def test_a_run_whose_record_is_odd_is_read_as_far_as_it_goes() -> None:
    odd: JsonObject = {"targets": "t", "suites": [1], "scripts": {"t": 3}, "options": None}
    assert find_circumstances(made_with(odd), made_with({})) == ()
