"""Runs before and after `git init`: their suites have other paths, and are paired all the same."""

import pytest
from tests.support.carrying import Project


@pytest.fixture
def moved(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project with a run of `one.yaml` and `two.yaml`, and one of `evals/one.yaml` and `evals/two.yaml`."""
    project.cases = {"a": "question a", "b": "question b"}
    project.write()
    text = (project.folder / "suite.yaml").read_text()
    for place in (project.folder, project.folder / "evals"):
        place.mkdir(exist_ok=True)
        for name in ("one", "two"):
            (place / f"{name}.yaml").write_text(text)
    project.call("run", "one.yaml", "two.yaml", "--name", "first")
    monkeypatch.chdir(project.folder)
    return project


def test_suites_are_paired_by_the_ends_of_their_paths(moved: Project) -> None:
    moved.call("baseline", "save", "first")
    (moved.folder / "broken").write_text("b")
    moved.call("run", "evals/one.yaml", "evals/two.yaml", "--name", "second")
    for references in (("first", "second"), ("baseline.jsonl", "second"), ()):
        code, said = moved.call("compare", *references)
        assert code == 0, said
        assert "paired  2 cases scored in both" in said
        assert "files   one.yaml is now evals/one.yaml, and 1 more" in said
        assert "suite " not in said
    assert "evals/two.yaml" in moved.call("compare", "first", "second", "--by", "suite")[1]
    assert "groups only" not in moved.call("compare", "first", "second", "--by", "suite")[1]
    said = moved.call("trend")[1]
    assert said.count("runs    2 runs") == 2
    (moved.folder / "broken").unlink()
    arguments = ("--baseline", "baseline.jsonl", "--gate", "regressions <= 0")
    code, said = moved.call("run", "evals/one.yaml", "evals/two.yaml", *arguments)
    assert (code, "over 4 cases in both" in said) == (0, True)
    assert "eval files of the baseline baseline.jsonl: one.yaml is now evals/one.yaml, and 1 more" in said


def test_runs_of_other_eval_files_say_so_and_find_nothing(moved: Project) -> None:
    for name in ("three", "four"):
        (moved.folder / f"{name}.yaml").write_text((moved.folder / "one.yaml").read_text())
    moved.call("run", "three.yaml", "four.yaml", "--name", "second")
    code, said = moved.call("compare", "first", "second")
    reason = "eval files differ: one.yaml, two.yaml before, three.yaml, four.yaml after"
    end = [f"NOTHING SELECTED: {reason}. Exit code 5.", "", "nothing was compared"]
    assert (code, said.splitlines()[-3:]) == (5, end)
    assert f"nothing was compared: {reason}" in " ".join(
        moved.call("run", "three.yaml", "four.yaml", "--baseline", "first")[1].split()
    )
