"""Settings of a suite: at the top of its file, or under `execution`."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.loading.specs import SPECS

from agentv.loading.models.eval_files import SuiteExecutionModel, SuiteModel
from agentv.loading.suites.suites import load_suite
from agentv.types.cases import EvalCase, EvalSuite, EvaluatorConfig, ListedCases
from agentv.types.errors import EvalFileError

CASES = """
evalcases:
  - id: a
    expected_outcome: ok
    input_messages: [{role: user, content: hi}]
"""


def load(folder: Path, top: str, cases: str = CASES) -> EvalSuite:
    path = folder / "suite.yaml"
    path.write_text(top + cases)
    return load_suite(path, specs=SPECS)


def test_confirm_reruns_is_a_count_with_a_default(tmp_path: Path) -> None:
    assert load(tmp_path, "").confirm_reruns == 2
    assert load(tmp_path, "confirm_reruns: 1").confirm_reruns == 1
    with pytest.raises(EvalFileError, match=r"suite.yaml:1:17 .*must be at least 1"):
        load(tmp_path, "confirm_reruns: 0")


SETTINGS = """
target: a
targets: [a, b]
trials: 3
workers: 4
pass_score: 0.7
budget_usd: 2.5
timeout_seconds: 9
evaluator_timeout_seconds: 8
workspace: {template: .}
evaluators: [{name: e, type: contains, value: "{{ word }}"}]
"""
VARIABLES = 'vars: {word: "hi"}\n'


def comparable(suite: EvalSuite) -> EvalSuite:
    """Return a suite without its cases, with those of its evaluators that are filled for each case in their place."""
    case = next(iter(suite.cases))
    assert isinstance(case, EvalCase)
    return replace(suite, cases=ListedCases(()), sha256="", scored_sha256="", evaluators=case.evaluators)


def test_settings_mean_the_same_at_the_top_and_under_execution(tmp_path: Path) -> None:
    top = load(tmp_path, VARIABLES + SETTINGS)
    under = load(tmp_path, f"{VARIABLES}execution:\n" + "".join(f"  {line}\n" for line in SETTINGS.splitlines()))
    assert comparable(top) == comparable(under)
    assert (top.target, top.targets, top.trials, top.workers, top.pass_score) == ("a", ("a", "b"), 3, 4, 0.7)
    assert (top.budget_usd, top.timeout_s, top.evaluator_timeout_s) == (2.5, 9.0, 8.0)
    assert top.workspace == {"template": "."}
    (evaluator,) = comparable(top).evaluators or ()
    assert isinstance(evaluator, EvaluatorConfig)
    assert evaluator.settings == {"value": "hi"}


def test_every_setting_under_execution_may_stand_at_the_top() -> None:
    assert set(SuiteExecutionModel.names().canonical) <= set(SuiteModel.names().canonical)


def test_an_equal_setting_at_both_places_is_no_contradiction(tmp_path: Path) -> None:
    assert load(tmp_path, "trials: 3\nexecution: {trials: 3}").trials == 3


@pytest.mark.parametrize("cases", ["tests:\n  - {id: a, input: hi, expected_output: hi}\n", CASES])
def test_settings_at_the_top_hold_in_every_generation(tmp_path: Path, cases: str) -> None:
    suite = load(tmp_path, SETTINGS + VARIABLES, cases)
    assert (suite.target, suite.targets, suite.trials, suite.workers, suite.pass_score) == ("a", ("a", "b"), 3, 4, 0.7)
    assert (suite.budget_usd, suite.timeout_s, suite.evaluator_timeout_s) == (2.5, 9.0, 8.0)
    (case,) = suite.cases
    assert isinstance(case, EvalCase)
    assert [each.name for each in case.evaluators or () if isinstance(each, EvaluatorConfig)] == ["e"]
    assert (suite.workspace or case.workspace or {})["template"] == "."


def test_a_threshold_of_agentv_contradicts_another_pass_score(tmp_path: Path) -> None:
    cases = "\ntests: [{id: a, input: hi, expected_output: hi}]\n"
    assert load(tmp_path, "pass_score: 0.7\nexecution: {threshold: 0.7}", cases).pass_score == 0.7
    with pytest.raises(EvalFileError, match=r"'pass_score' is also given under `execution`, in .*suite.yaml:2"):
        load(tmp_path, "pass_score: 0.7\nexecution: {threshold: 0.9}", cases)
    assert load(tmp_path, "execution: {passScore: 0.9}", cases).pass_score == 0.9


def test_trials_of_agentv_may_be_an_object_at_the_top(tmp_path: Path) -> None:
    suite = load(tmp_path, "trials: {count: 2}", "\ntests: [{id: a, input: hi, expected_output: hi}]\n")
    assert (suite.trials, suite.gates) == (2, ("pass_at(2) >= 100%",))


def test_a_suite_may_define_targets(tmp_path: Path) -> None:
    suite = load(tmp_path, "targets: [a, {name: own, provider: mock, response: hi, settings: {delay_ms: 1}}]")
    assert suite.targets == ("a", "own")
    (target,) = suite.inline_targets
    assert (target.name, target.provider, target.line) == ("own", "mock", 1)
    assert target.settings == {"response": "hi", "delay_ms": 1}
    assert Path(target.base_dir) == tmp_path.resolve()


def test_cluster_names_metadata_that_a_case_has(tmp_path: Path) -> None:
    cases = CASES.replace("expected_outcome", "metadata: {topic: refunds}\n    expected_outcome")
    assert load(tmp_path, "cluster: metadata.topic", cases).cluster == "metadata.topic"
    with pytest.raises(EvalFileError, match=r"suite.yaml:1:10 .*no case has 'topik' in its metadata"):
        load(tmp_path, "cluster: metadata.topik", cases)
