"""What `.agentv.yaml` set when a run began holds for the whole run, whatever the file says when the run goes on."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.carrying import Project
from tests.support.cluster import plan_of
from tests.support.fake_server import serving_fake

from agentv.engine.cluster.tasks import load_plan, make_spec

OPTIONS = "max_errors: 1\njudge_failures: 3\n"
PRICES = "prices: {'m*': {input_per_million: 1000, output_per_million: 1000}}\n"
OTHER_PRICES = "prices: {'m*': {input_per_million: 1, output_per_million: 1}}\n"


def write(project: Project, text: str) -> None:
    (project.folder / ".agentv.yaml").write_text(text)


def stored_plan(project: Project) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads((project.run / "run.json").read_text())["plan"]
    return plan


def change_plan(project: Project, *removed: str) -> None:
    """Remove keys from the stored plan, as if an older agentv had made it."""
    path = project.run / "run.json"
    run = json.loads(path.read_text())
    run["plan"] = {key: value for key, value in run["plan"].items() if key not in removed}
    path.write_text(json.dumps(run))


@pytest.fixture
def paid(project: Project) -> Iterator[Project]:
    """Cases for a model whose price is in `.agentv.yaml`."""
    with serving_fake() as server:
        (project.folder / "targets.yaml").write_text(
            f"targets: [{{name: t, provider: openai, model: m1, base_url: '{server.url}/v1', api_key: none}}]"
        )
        project.evaluators = "{name: any, type: length, max: 100000}"
        yield project


def costs(project: Project) -> dict[str, float]:
    return {row["eval_id"]: row["cost_usd"] for row in project.stored("results.jsonl")}


def test_options_of_the_project_are_stored_with_the_run(project: Project) -> None:
    write(project, OPTIONS)
    assert project.call("run", "suite.yaml", "--judge-failures", "4")[0] == 0
    assert stored_plan(project)["options"] == {"max_errors": 1, "judge_failures": 4}
    assert stored_plan(project)["prices"] == {}


@pytest.mark.parametrize(("began_with", "goes_on_with"), [(OPTIONS, "max_errors: 0\n"), ("redact: []\n", OPTIONS)])
def test_a_resumed_run_has_the_options_of_its_start(project: Project, began_with: str, goes_on_with: str) -> None:
    (project.folder / "agent.py").write_text(
        "def answer(request):\n    if request.eval_case_id == 'a':\n        raise OSError\n    return 'answer'\n"
    )
    project.evaluators = "{name: any, type: length, max: 100000}"
    write(project, began_with)
    expected = 0 if began_with == OPTIONS else 3
    assert project.call("run", "suite.yaml")[0] == expected
    write(project, goes_on_with)
    project.forget("results.jsonl", [1])
    project.forget("answers.jsonl", [1])
    assert project.call("resume", "latest")[0] == expected


def test_a_resumed_run_has_the_prices_of_its_start(paid: Project) -> None:
    write(paid, PRICES)
    assert paid.call("run", "suite.yaml")[0] == 0
    before = costs(paid)
    assert before["a"] > 0
    write(paid, OTHER_PRICES)
    paid.forget("results.jsonl", [0])
    paid.forget("answers.jsonl", [0])
    code, said = paid.call("resume", "latest")
    assert (code, costs(paid)) == (0, before)
    assert "the `prices` of .agentv.yaml have changed since this run began; it uses those stored with it" in said


def test_a_run_without_stored_prices_has_those_of_today(paid: Project) -> None:
    write(paid, PRICES)
    assert paid.call("run", "suite.yaml")[0] == 0
    before = costs(paid)
    change_plan(paid, "prices")
    write(paid, OTHER_PRICES)
    paid.forget("results.jsonl", [0])
    paid.forget("answers.jsonl", [0])
    code, said = paid.call("resume", "latest")
    assert (code, "have changed since this run began" in said) == (0, False)
    assert costs(paid)["a"] == pytest.approx(before["a"] / 1000)


@pytest.mark.parametrize("is_older", [False, True])
def test_a_resumed_run_has_the_guideline_patterns_of_its_start(project: Project, is_older: bool) -> None:
    (project.folder / "tone.rules.md").write_text("Be polite.")
    project.evaluators = "{name: any, type: length, max: 100000}"
    content = "[{type: file, value: tone.rules.md}, {type: text, value: hi}]"
    project.cases = {"a": content, "b": content}
    write(project, "guideline_patterns: ['**/*.rules.md']\n")
    assert project.call("run", "suite.yaml")[0] == 0
    assert stored_plan(project)["suites"][0]["guideline_patterns"] == ["**/*.rules.md"]
    if is_older:
        change_plan(project, "prices")
    write(project, "guideline_patterns: []\n")
    project.forget("results.jsonl", [1])
    project.forget("answers.jsonl", [1])
    code, said = project.call("resume", "latest")
    assert (code, "the `guideline_patterns` of suite.yaml have changed since" in said) == (0, not is_older)
    first, second = (answer["text"] for answer in project.stored("answers.jsonl"))
    assert ("Be polite" in first, "Be polite" in second) == (False, is_older)


def test_a_node_has_the_prices_of_the_driver(project: Project) -> None:
    project.write()
    write(project, PRICES)
    stored = {"m*": {"input_per_million": 2.0, "output_per_million": 3.0}}  # of a run that is resumed
    spec = make_spec(replace(plan_of(project.folder), prices=stored), run_id="r")
    assert load_plan(spec, env={}).prices == stored
