"""`--gate` replaces the gates of files: the head of the run and the verdict name those that no longer apply."""

import json

import pytest
from tests.support.carrying import Project

REPLACED = "--gate replaces the gates of gated.yaml: pass_rate >= 95%, mean >= 0.5"


@pytest.fixture
def project(project: Project) -> Project:
    project.write()
    suite = (project.folder / "suite.yaml").read_text()
    (project.folder / "gated.yaml").write_text("gates: ['pass_rate >= 95%', 'mean >= 0.5']\n" + suite)
    return project


def test_replaced_gates_of_a_file_are_named_before_the_run_and_in_its_verdict(project: Project) -> None:
    code, said = project.call("run", "gated.yaml", "--gate", "errors <= 0", "-o", "report.json")
    lines = said.splitlines()
    assert (code, lines[-1]) == (0, f"PASS: errors is 0, as required (<= 0). {REPLACED}. Exit code 0.")
    assert f"note: {REPLACED}" in lines
    assert REPLACED in json.loads((project.folder / "report.json").read_text())["verdict"]
    assert project.call("report", "latest")[1].splitlines()[-1] == lines[-1]


def test_replaced_gates_of_a_project_are_named(project: Project) -> None:
    (project.folder / ".agentv.yaml").write_text("gates: ['mean >= 0.9']\n")
    _, said = project.call("run", "suite.yaml", "--gate", "errors <= 0")
    assert "--gate replaces the gates of .agentv.yaml: mean >= 0.9." in said.splitlines()[-1]
    _, said = project.call("run", "gated.yaml", "--gate", "errors <= 0")
    assert said.splitlines()[-1].endswith(f"{REPLACED}. Exit code 0.")


@pytest.mark.parametrize("gates", [["pass_rate>=95%", "mean >= 0.5", "errors <= 0"], ["none"]])
def test_gates_that_are_given_again_or_turned_off_are_not_replaced(project: Project, gates: list[str]) -> None:
    _, said = project.call("run", "gated.yaml", *[word for gate in gates for word in ("--gate", gate)])
    assert "replaces" not in said


def test_a_resumed_run_names_the_gates_that_it_replaced(project: Project) -> None:
    project.call("run", "gated.yaml", "--gate", "errors <= 0")
    gated = project.folder / "gated.yaml"
    gated.write_text(gated.read_text().replace("0.5", "0.7"))
    _, said = project.call("resume", "latest")
    assert REPLACED in said.splitlines()[-1]
