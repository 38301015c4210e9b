"""`.agentv.yaml`, `.agentv/config.yaml` and `.agentv/criteria.yaml`."""

from pathlib import Path

import pytest
from tests.loading.specs import SPECS

from agentv.loading.project import ProjectConfig, load_project
from agentv.loading.suites.suites import load_suite
from agentv.types.cases import EvalCase, EvalSuite, EvaluatorConfig
from agentv.types.errors import EvalFileError

SUITE = """
criteria: [tone]
execution: {evaluators: [polite]}
evalcases:
  - id: a
    expected_outcome: ok
    input_messages: [{role: user, content: hi}]
    evaluators: [polite, {name: c, type: contains, value: x, criterion: tone}]
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path.resolve()


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def load(root: Path, suite: str = SUITE) -> EvalSuite:
    write(root, ".git/HEAD", "")
    write(root, "evals/suite.yaml", suite)
    return load_suite(root / "evals" / "suite.yaml", specs=SPECS)


def test_without_a_file_the_defaults_hold(root: Path) -> None:
    assert load_project(root, root) == ProjectConfig(
        guideline_patterns=("**/*.instructions.md", "**/instructions/**", "**/*.prompt.md", "**/prompts/**")
    )


def test_each_key_comes_from_the_nearest_file_that_has_it(root: Path) -> None:
    write(root, ".agentv.yaml", "guideline_patterns: [far]\nstore: none\ngates: ['mean >= 0.5']\nredact: [a+]\n")
    write(root, "a/.agentv/config.yaml", "guidelinePatterns: [middle]\nplugins: [judge.py, house.judges]\n")
    write(
        root,
        "a/b/.agentv.yaml",
        "gates: ['mean >= 0.9']\nprices: {gpt-*: {input_per_million: 1, outputPerMillion: 2}}\n",
    )
    config = load_project(root / "a" / "b", root)
    assert config.guideline_patterns == ("middle",)
    assert config.store == "none"
    assert config.gates == ("mean >= 0.9",)
    assert config.plugins == (str(root / "a" / "judge.py"), "house.judges")
    assert config.prices == {"gpt-*": {"input_per_million": 1.0, "output_per_million": 2.0}}
    assert config.redact == ("a+",)
    assert config.sources["gates"] == root / "a" / "b" / ".agentv.yaml"


def test_files_above_the_repository_root_are_not_read(root: Path) -> None:
    write(root, ".agentv.yaml", "store: none\n")
    write(root, "a/.git/HEAD", "")
    assert load_project(root / "a", root / "a").store is None


def test_all_problems_of_project_files_are_reported(root: Path) -> None:
    write(root, ".agentv.yaml", "gate: []\nredact: ['(']\ngates: ['men > 1']\nprices: {m: {input_per_million: -1}}\n")
    write(root, "a/.agentv.yaml", "store: 1\n")
    with pytest.raises(EvalFileError) as caught:
        load_project(root / "a", root)
    assert str(caught.value).splitlines() == [
        (
            ".agentv.yaml:1:1  $.gate  unknown key 'gate'; allowed: max_errors, judge_failures, cache, "
            "guideline_patterns, gates, plugins, prices, redact, public_env, store, eval_patterns, workers; "
            "did you mean 'gates'?"
        ),
        ".agentv.yaml:2:10  $.redact[0]  is not a valid regular expression: missing ) at position 1",
        (
            ".agentv.yaml:3:9  $.gates[0]  gate 'men > 1', column 1: unknown metric 'men'; known: mean, pass_rate, "
            "error_rate, errors, cost_usd, evaluator, criterion, tag, dataset, target, prompt, p50, p95, p99, pass_at, "
            "pass_hat, not worse, regressions, confirmed_regressions. Did you mean 'mean'?"
        ),
        ".agentv.yaml:4:13  $.prices.m  the key 'output_per_million' is missing",
        ".agentv.yaml:4:33  $.prices.m.input_per_million  must be at least 0",
        "a/.agentv.yaml:1:8  $.store  must be a string, but is a number; put it in quotes",
    ]


def test_criteria_and_evaluators_are_called_by_name(root: Path) -> None:
    write(
        root,
        ".agentv/criteria.yaml",
        "criteria: [{name: tone, scale: likert5}]\nevaluators: {polite: {type: llm_judge, weight: 2}}\n",
    )
    suite = load(root)
    assert [criterion.scale for criterion in suite.criteria] == ["likert5"]
    polite = EvaluatorConfig("polite", "llm_judge", weight=2.0, base_dir=str(root))
    assert suite.evaluators == (polite,)
    (case,) = suite.cases
    assert isinstance(case, EvalCase)
    assert case.evaluators is not None
    assert case.evaluators[0] == polite


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "evaluator: polite",
            "it is an evaluator defined in .agentv/criteria.yaml; use it in a list: `evaluators: [polite]`",
        ),
        (
            "execution: {evaluators: [{name: polite, weight: 2}]}",
            "is defined in .agentv/criteria.yaml and cannot be changed here; write only the name",
        ),
    ],
)
def test_a_misplaced_name_of_the_criteria_file_is_reported_with_advice(root: Path, line: str, said: str) -> None:
    write(root, ".agentv/criteria.yaml", "criteria: [{name: tone}]\nevaluators: {polite: {type: llm_judge}}\n")
    with pytest.raises(EvalFileError) as caught:
        load(root, SUITE.replace("execution: {evaluators: [polite]}", line))
    assert said in str(caught.value)
    assert len(caught.value.problems) == 1


def test_problems_of_the_criteria_file_are_reported_there(root: Path) -> None:
    write(
        root,
        ".agentv/criteria.yaml",
        "criteria: [{name: tone, weight: -1}]\nevaluators: {polite: {type: llm_jugde}}\nevaluator: x\n",
    )
    with pytest.raises(EvalFileError) as caught:
        load(root)
    assert [line.split("  ")[0] for line in str(caught.value).splitlines()] == [
        ".agentv/criteria.yaml:1:33",
        ".agentv/criteria.yaml:2:29",
        ".agentv/criteria.yaml:3:1",
        "evals/suite.yaml:2:12",
        "evals/suite.yaml:8:73",
    ]


def test_a_suite_gets_prices_and_patterns_to_redact_from_the_project(root: Path) -> None:
    write(root, ".agentv.yaml", "prices: {m: {input_per_million: 1, output_per_million: 2}}\nredact: ['\\d{9}']\n")
    write(root, ".agentv/criteria.yaml", "criteria: [{name: tone}]\nevaluators: {polite: {type: llm_judge}}\n")
    suite = load(root)
    assert suite.prices == {"m": {"input_per_million": 1.0, "output_per_million": 2.0}}
    assert suite.redact == ("\\d{9}",)
    assert (suite.path, suite.repository_root) == ("evals/suite.yaml", str(root))
