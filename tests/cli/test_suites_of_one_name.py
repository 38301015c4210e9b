"""Eval files of one name in different folders, outside of a repository: each is a suite of its own."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support.carrying import Project

from agentv.loading.files.places import find_home
from agentv.storage.run.find import find_run
from agentv.storage.run.stored import open_run

SUITE = """
evalcases: [{{id: c1, input: "{question}", evaluators: [{{name: p, type: contains, value: {value}}}]}}]
"""
GATES = ("--gate", "regressions <= 0", "--gate", "confirmed_regressions <= 0", "--gate", "not worse")


@pytest.fixture
def outside(project: Project) -> Project:
    """Return a project without a repository: `evals/x/a.yaml` expects Paris, `evals/y/a.yaml` Rome, of one agent."""
    (project.folder / ".git").rmdir()
    for name, value in {"x": "Paris", "y": "Rome"}.items():
        folder = project.folder / "evals" / name
        folder.mkdir(parents=True)
        (folder / "a.yaml").write_text(SUITE.format(question=f"question {name}", value=value))
    answer_with(project, "Paris")
    return project


def answer_with(project: Project, text: str) -> None:
    (project.folder / "targets.yaml").write_text(f"targets: [{{name: default, provider: mock, response: {text}}}]")


def stored_states() -> Mapping[tuple[str, str], str]:
    """Return the state of each result of the latest run by suite and id."""
    results = open_run(find_run(find_home(Path.cwd()), "latest")).results()
    return {(row.slot.suite, row.eval_id): row.status for row in results}


def test_files_of_one_name_are_named_by_their_paths_and_never_merged(outside: Project) -> None:
    outside.call("run", "--gate", "none", "--name", "before", "-o", "junit.xml")
    assert stored_states() == {("evals/x/a.yaml", "c1"): "pass", ("evals/y/a.yaml", "c1"): "fail"}
    junit = (outside.folder / "junit.xml").read_text()
    assert 'file="evals/x/a.yaml"' in junit
    assert 'file="evals/y/a.yaml"' in junit
    assert "2 lines of scores" in outside.call("baseline", "save")[1]
    answer_with(outside, "Rome")
    code, said = outside.call("run", "--baseline", "baseline.jsonl", *GATES)
    assert (code, "regressions is 1, not <= 0" in said) == (1, True), said
    assert "stored results do not give" not in outside.call("report", "latest")[1]
    code, said = outside.call("retry", "latest", "--failed")
    assert (code, "INCOMPLETE" in said) == (1, False), said


def test_a_file_whose_name_is_its_own_keeps_its_bare_name(outside: Project) -> None:
    (outside.folder / "evals/x/b.yaml").write_text((outside.folder / "evals/x/a.yaml").read_text())
    for paths, names in (
        (("evals/x",), {"a.yaml", "b.yaml"}),
        (("evals",), {"evals/x/a.yaml", "evals/y/a.yaml", "b.yaml"}),
    ):
        outside.call("run", *paths, "--gate", "none")
        assert {suite for suite, _ in stored_states()} == names


def test_files_outside_of_the_working_folder_are_named_from_the_folder_of_all(
    outside: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = outside.folder / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    outside.call("run", "../evals", "--gate", "none")
    assert {suite for suite, _ in stored_states()} == {"x/a.yaml", "y/a.yaml"}


def test_a_run_with_one_name_for_two_files_is_no_baseline_for_either(outside: Project) -> None:
    """Older versions stored both under one name; a run of one of the files does so still."""
    outside.call("run", "evals/x", "--gate", "none", "--name", "one")
    code, said = outside.call("run", "--baseline", "one", *GATES)
    assert (code, "PASS" in said.splitlines()[-1]) == (3, False), said


def test_a_suite_that_git_init_names_by_its_path_is_paired_with_its_bare_name(outside: Project) -> None:
    outside.call("run", "evals/x", "--gate", "none", "--name", "one")
    (outside.folder / ".git").mkdir()
    code, said = outside.call("run", "evals/x", "--baseline", "one", *GATES)
    assert code == 0, said


def test_files_that_would_share_a_name_all_the_same_are_refused(outside: Project) -> None:
    """The file of a repository below is named relative to it, as the file outside of it is to the working folder."""
    nested = outside.folder / "nested"
    (nested / ".git").mkdir(parents=True)
    (nested / "evals/x").mkdir(parents=True)
    (nested / "evals/x/a.yaml").write_text((outside.folder / "evals/x/a.yaml").read_text())
    code, said = outside.call("run", "evals", "nested/evals")
    assert (code, "would all be named evals/x/a.yaml in the results; run them separately" in said) == (4, True), said
