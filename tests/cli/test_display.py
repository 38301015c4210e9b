"""The progress displays of a run."""

import json
from collections import Counter
from typing import Any

import pytest
from tests.support.carrying import Project

PAID = "def answer(request):\n    return {'text': 'an answer', 'cost_usd': 0.01}\n"
TARGET = "targets: [{name: t, provider: python, callable: 'agent.py:answer', workers: 2, price: {input_per_million: 1, output_per_million: 1}}]"  # noqa: E501 - one line of YAML


def events(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


def test_every_row_that_is_begun_is_finished(project: Project) -> None:
    _, said = project.call("run", "suite.yaml", "--json")
    counts = Counter(event["event"] for event in events(said))
    assert (counts["row_begun"], counts["row_finished"], counts["row_left"]) == (3, 3, 0)


def test_a_case_beyond_the_budget_is_left_and_the_stop_is_explained(project: Project) -> None:
    (project.folder / "agent.py").write_text(PAID)
    (project.folder / "targets.yaml").write_text(TARGET)
    code, said = project.call("run", "suite.yaml", "--json", "--budget-usd", "0.015")
    shown = events(said)
    counted = Counter(event["event"] for event in shown)
    assert code == 2
    assert counted["row_begun"] == counted["row_finished"] + counted["row_left"]
    assert counted["row_left"] >= 1
    (stopping,) = [event for event in shown if event["event"] == "stopping"]
    assert stopping["drains"] is True
    assert "of the budget" in stopping["reason"]
    assert shown[0]["budget_usd"] == 0.015


def test_a_resumed_run_reports_its_earlier_cost(project: Project) -> None:
    (project.folder / "agent.py").write_text(PAID)
    (project.folder / "targets.yaml").write_text(TARGET)
    project.call("run", "suite.yaml", "--budget-usd", "0.015")
    _, said = project.call("resume", "--json")
    begun = events(said)[0]
    assert begun["budget_usd"] == 0.015
    assert begun["spent_usd"] >= 0.01
    _, said = project.call("resume", "--json", "--budget-usd", "1")
    assert (events(said)[0]["budget_usd"], events(said)[0]["spent_usd"]) == (1.0, 0.0), "a budget for what is left"


def test_fail_fast_says_that_it_stops(project: Project) -> None:
    project.evaluators = "{name: never, type: contains, value: nowhere}"
    _, said = project.call("run", "suite.yaml", "--display", "plain", "--fail-fast")
    assert "stopping, finishing running cases: 1 result did not pass (--fail-fast)\n" in said


def test_nothing_of_the_report_at_the_end_is_a_command_to_github(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    project.evaluators = "{name: never, type: contains, value: '##[group]gotcha'}"
    _, said = project.call("run", "suite.yaml")
    assert "did not pass: 3 cases" in said
    lines = [line for line in said.splitlines() if not line.startswith("::error file=suite.yaml,line=")]
    assert not [line for line in lines if "##[" in line or line.lstrip().startswith("::")]
