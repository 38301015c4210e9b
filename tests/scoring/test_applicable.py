"""Selection of the evaluators of a case (docs/reference/evaluators.md)."""

from typing import Any

from agentv.scoring.results.applicable import applicable_evaluators
from agentv.types.cases import EvalCase, EvalSuite, EvaluatorConfig, RubricItem, listed_cases

OWN = EvaluatorConfig("own", "contains")
SUITES = EvaluatorConfig("suite", "equals")
RUBRICS = (RubricItem("r1", "Mentions the rule"),)


def applies(suite: dict[str, Any] | None = None, **case: Any) -> tuple[list[str], bool]:
    evaluators, single = applicable_evaluators(
        EvalCase("c", (), **case), EvalSuite("s.yaml", listed_cases([]), **(suite or {}))
    )
    return [config.name for config in evaluators if isinstance(config, EvaluatorConfig)], single


def test_the_cases_own_list_comes_first() -> None:
    assert applies({"evaluators": (SUITES,)}, evaluators=(OWN,), evaluator="regex") == (["own"], False)


def test_then_the_cases_single_evaluator_then_its_grader() -> None:
    assert applies({"evaluators": (SUITES,)}, evaluator="regex", grader="equals") == (["regex"], True)
    assert applies({"evaluators": (SUITES,)}, grader="equals") == (["equals"], True)


def test_then_the_suites_list_then_its_single_evaluator() -> None:
    assert applies({"evaluators": (SUITES,), "evaluator": "regex"}) == (["suite"], False)
    assert applies({"evaluator": "regex"}) == (["regex"], True)


def test_no_evaluator_means_the_default_judge() -> None:
    assert applies() == (["llm_judge"], True)


def test_rubrics_stand_in_front_of_whichever_list_applies() -> None:
    assert applies(rubrics=RUBRICS, evaluators=(OWN,)) == (["rubric", "own"], False)
    assert applies({"evaluators": (SUITES,)}, rubrics=RUBRICS) == (["rubric", "suite"], False)


def test_rubrics_alone_are_the_whole_list_with_no_default_judge_beside() -> None:
    assert applies(rubrics=RUBRICS) == (["rubric"], False)


def test_an_empty_list_means_the_same_as_an_absent_one() -> None:
    assert applies({"evaluators": (SUITES,)}, evaluators=()) == (["suite"], False)
    assert applies({"evaluators": ()}) == (["llm_judge"], True)
