"""`latest` and `latest~1` in comparisons: runs of the same eval files and cases, unless a run is named."""

import pytest
from tests.support.carrying import Project

from agentv.storage.run.find import list_runs


def run_all(project: Project, *options: str) -> str:
    """Run the suite; return the run id."""
    project.call("run", "suite.yaml", "--display", "none", *options)
    return list_runs(project.folder / ".agentv")[-1].run_id


@pytest.fixture
def tagged(project: Project) -> Project:
    """A project with a second eval file."""
    project.write()
    (project.folder / "other.yaml").write_text((project.folder / "suite.yaml").read_text().replace("question", "other"))
    return project


def compared(project: Project, *references: str) -> str:
    code, said = project.call("compare", *references)
    assert code == 0, said
    return said


@pytest.mark.parametrize(
    "options", [("--case", "a"), ("--limit", "1"), ("-k", "a"), ("--shard", "1/2"), ("--sample", "2")]
)
def test_the_run_before_the_latest_is_one_of_the_same_cases(tagged: Project, options: tuple[str, ...]) -> None:
    whole = run_all(tagged)
    part = run_all(tagged, *options)
    last = run_all(tagged)
    said = compared(tagged, "latest~1", "latest")
    assert (whole in said, part in said, last in said) == (True, False, True)
    assert part in compared(tagged, part, "latest")


def test_the_run_before_a_run_of_some_cases_may_be_of_the_same_ones(tagged: Project) -> None:
    run_all(tagged)
    first, second = (run_all(tagged, "--case", "a") for _ in range(2))
    said = compared(tagged, "latest~1", "latest")
    assert (first in said, second in said) == (True, True)


def test_runs_of_other_eval_files_are_not_the_run_before(tagged: Project) -> None:
    first = run_all(tagged)
    tagged.call("run", "other.yaml", "--display", "none")
    other = list_runs(tagged.folder / ".agentv")[-1].run_id
    run_all(tagged)
    said = compared(tagged, "latest~1", "latest")
    assert (first in said, other in said) == (True, False)


def test_a_baseline_named_latest_is_a_run_of_all_cases_of_the_same_file(tagged: Project) -> None:
    whole = run_all(tagged)
    run_all(tagged, "--case", "b")
    tagged.call("run", "other.yaml", "--display", "none")
    code, said = tagged.call("run", "suite.yaml", "--baseline", "latest")
    assert (code, whole in said) == (0, True), said


def test_without_a_run_like_it_those_left_out_are_named(tagged: Project) -> None:
    part = run_all(tagged, "--case", "b")
    code, said = tagged.call("run", "suite.yaml", "--baseline", "latest")
    assert (code, f"left out: {part} (--case b)" in said) == (4, True), said
    assert tagged.call("run", "suite.yaml", "--baseline", part)[0] == 0
    code, said = tagged.call("compare", "latest~9", "latest")
    assert (code, "there is no run 'latest~9' of the same eval files and cases" in said) == (4, True), said


def test_the_only_run_of_its_eval_files_is_named(tagged: Project) -> None:
    only = run_all(tagged)
    code, said = tagged.call("compare")
    assert code == 4
    assert f"eval files and cases; {only} is the only one, so run them again with `agentv run`\n" in said


def test_a_baseline_by_an_unknown_tag_says_how_to_add_it(tagged: Project) -> None:
    run = run_all(tagged)
    code, said = tagged.call("run", "suite.yaml", "--baseline", "main")
    assert (code, "To give a run this tag: agentv runs tag RUN main" in said) == (4, True), said
    assert tagged.call("runs", "tag", run, "main")[0] == 0
    assert tagged.call("run", "suite.yaml", "--baseline", "main")[0] == 0
