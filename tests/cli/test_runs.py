"""`agentv runs rm`, `prune` and `tag`: what is deleted, and what never is."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.carrying import Project
from tests.support.rows import make_row
from tests.support.stored import at_noon, make_result, make_run
from tests.support.typing_terminal import Terminal

from agentv.cli.upkeep.runs import listed_lines
from agentv.engine.labels.reviews import ReviewPlan, open_queue
from agentv.scoring.judges.reviewing import Reviewed, make_label
from agentv.storage.run.find import find_run, list_runs, runs_folder
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.labels import append_labels
from agentv.storage.run.lock import RunLock
from agentv.storage.run.stored import open_run
from agentv.types.failures import Failure
from agentv.types.records.review import ReviewQueue

Names = Callable[[], list[str]]


@pytest.fixture
def names(project: Project) -> Names:
    """Store five runs, r1 to r5; return a function that lists the remaining ones."""
    runs = runs_folder(project.folder / ".agentv")
    for number in range(1, 6):
        store = RunFolder(runs, f"r{number}", clock=at_noon)
        store.begin(make_run(run_id=f"r{number}", name=f"name-{number}"))
        store.append(make_result(run_id=f"r{number}"))
        store.close("finished")
    return lambda: sorted(folder.name for folder in runs.iterdir())


def test_rm_deletes_the_runs_that_are_named(project: Project, names: Names) -> None:
    assert project.call("runs", "rm", "r1", "name-3") == (0, "r1\nr3\ndeleted 2 runs\n")
    assert names() == ["r2", "r4", "r5"]
    assert project.call("runs", "rm", "r1")[0] == 4
    said = project.call("runs", "rm", "r2", "--json")[1].partition("}")
    assert json.loads(said[0] + said[1]) == {"schema": "agentv-runs-1", "deleted": ["r2"]}
    output = json.loads(project.call("runs", "tag", "r4", "x", "--json")[1])
    assert output == {"schema": "agentv-runs-1", "run_id": "r4", "tags": ["x"]}


def test_prune_keeps_the_newest_and_those_with_a_tag(project: Project, names: Names) -> None:
    assert project.call("runs", "tag", "r1", "release", "good") == (0, "r1: release, good\n")
    assert project.call("runs", "tag", "r2", "release")[0] == 0
    assert project.call("runs", "tag", "r2", "release", "--remove") == (0, "r2: no tags\n")
    listed = json.loads(project.call("runs", "list", "--json")[1])["runs"]
    assert [run["tags"] for run in listed] == [[], [], [], [], ["release", "good"]]
    assert "[release]  [good]" in project.call("runs", "list")[1]
    assert project.call("runs", "prune", "--keep", "2") == (0, "r2\nr3\ndeleted 2 runs\n")
    assert names() == ["r1", "r4", "r5"]
    assert open_run(project.folder / ".agentv" / "runs" / "r1").run.name == "name-1"


@pytest.mark.usefixtures("names")
def test_the_list_has_state_rate_and_eval_files(project: Project) -> None:
    store = RunFolder(runs_folder(project.folder / ".agentv"), "r6", clock=at_noon)
    suites = [{"path": f"evals/{name}.yaml", "sha256": "a" * 64} for name in ("a", "b", "c")]
    store.begin(make_run(run_id="r6", name="six\x1b[2J", plan={"suites": suites}))
    store.append(make_row("case-1"))
    store.append(make_row("case-2", score=0.0))
    store.append(make_row("case-3", score=None, error=Failure("server_error", "HTTP 503")))
    store.close("stopped")
    lines = project.call("runs", "list")[1].splitlines()
    assert lines[0] == ("r6  stopped   50 % of 2, 1 error  evals/a.yaml, evals/b.yaml and 1 more  six\\x1b[2J")
    assert lines[1].split("  ")[:2] == ["r5", "finished"]


def test_a_run_that_is_being_written_stays(project: Project, names: Names) -> None:
    lock = RunLock(project.folder / ".agentv" / "runs" / "r1")
    assert project.call("runs", "prune", "--keep", "4") == (0, "deleted 0 runs\n")
    code, said = project.call("runs", "rm", "r1")
    assert (code, "is being written by process" in said) == (3, True)
    assert project.call("runs", "tag", "r1", "x")[0] == 3
    lock.release()
    assert len(names()) == 5


@pytest.mark.parametrize(("typed", "code"), [("n\n", 130), ("y\n", 0)])
def test_on_a_terminal_it_asks_first(
    project: Project, names: Names, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    left = 4 if code == 0 else 5
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    assert project.call("runs", "rm", "r1")[0] == code
    assert len(names()) == left
    assert project.call("runs", "rm", "r2", "--yes")[0] == 0
    assert len(names()) == left - 1


def test_a_run_that_cannot_be_read_is_not_pruned(project: Project, names: Names) -> None:
    (project.folder / ".agentv" / "runs" / "r1" / "run.json").write_text("{")
    assert project.call("runs", "prune", "--keep", "3")[0] == 0
    assert names() == ["r1", "r3", "r4", "r5"]
    assert isinstance(project.folder, Path)


def test_runs_alone_lists_them(project: Project, names: Names) -> None:
    assert len(names()) == 5
    assert project.call("runs") == project.call("runs", "list")
    assert project.call("runs")[1].startswith("r5 ")


def test_the_list_has_the_verdict_of_each_run(project: Project) -> None:
    project.call("run", "suite.yaml", "--name", "good")
    usual, project.evaluators = project.evaluators, "{name: has, type: contains, value: nothing of it}"
    project.call("run", "suite.yaml", "--name", "bad")
    project.evaluators = usual
    (project.folder / "broken").write_text("a")
    project.call("run", "suite.yaml", "--name", "broken")
    ended = [line.split("  ")[1] for line in project.call("runs", "list")[1].splitlines()]
    assert [each.strip() for each in ended] == ["INCOMPLETE", "FAIL", "PASS"]
    listed = json.loads(project.call("runs", "list", "--json")[1])["runs"]
    assert [(run["state"], run["verdict"]) for run in listed] == [
        ("finished", "INCOMPLETE"),
        ("finished", "FAIL"),
        ("finished", "PASS"),
    ]


def test_a_narrow_list_breaks_no_word(project: Project) -> None:
    (project.folder / "evals").mkdir()
    project.suite = "evals/questions-about-refunds-2026.yaml"
    project.call("run", project.suite, "--name", "a-run-with-a-name")
    project.call("runs", "tag", "latest", "release")
    runs = list_runs(project.folder / ".agentv")
    (line,) = listed_lines(runs, None)
    assert line.endswith("  PASS  100 % of 3  evals/questions-about-refunds-2026.yaml  a-run-with-a-name  [release]")
    first, second = listed_lines(runs, 80)
    assert (len(first) <= 80, second) == (True, "  a-run-with-a-name [release]")
    assert first.endswith("refunds-2026.yaml")
    assert "…" in first


@pytest.fixture
def queue(project: Project) -> ReviewQueue:
    """Store a run with a review queue of three answers for one person, and a newer run."""
    project.call("run", "suite.yaml", "--name", "reviewed")
    stored = open_run(find_run(project.folder / ".agentv", "reviewed"))
    opened = open_queue(stored, ReviewPlan(n=3, reviewers=("ada",), name="tone"), now=at_noon())
    project.call("run", "suite.yaml", "--name", "newer")
    return opened


def label_all(project: Project, queue: ReviewQueue) -> None:
    stored = open_run(find_run(project.folder / ".agentv", "reviewed"))
    for number, item in enumerate(queue.items):
        skipped = make_label(queue, item, Reviewed(label_id=f"l{number}"), annotator="ada", time=at_noon())
        append_labels(stored.folder, [skipped], run_id=stored.run_id)


def test_prune_keeps_a_run_whose_review_is_not_finished(project: Project, queue: ReviewQueue) -> None:
    code, said = project.call("runs", "prune", "--keep", "1", "--yes")
    missing = f"review {queue.name!r}: 3 of 3 labels are missing"
    kept = f"kept {queue.run_id}: {missing}; to delete it: agentv runs rm {queue.run_id} --yes\n"
    assert (code, said) == (0, f"deleted 0 runs\n{kept}")
    label_all(project, queue)
    assert project.call("runs", "prune", "--keep", "1", "--yes") == (0, f"{queue.run_id}\ndeleted 1 run\n")


def test_rm_asks_for_yes_if_a_review_is_not_finished(project: Project, queue: ReviewQueue) -> None:
    code, said = project.call("runs", "rm", "reviewed", "newer")
    assert code == 4
    assert said == (
        f"error: {queue.run_id}: review {queue.name!r}: 3 of 3 labels are missing\n"
        "nothing was deleted; to delete runs whose review is not finished, add --yes\n"
    )
    assert len(list_runs(project.folder / ".agentv")) == 2
    code, said = project.call("runs", "rm", "reviewed", "--yes")
    assert (code, said.startswith(f"{queue.run_id}\ndeleted 1 run\n")) == (0, True)


def test_rm_needs_no_yes_for_a_finished_review(project: Project, queue: ReviewQueue) -> None:
    label_all(project, queue)
    assert project.call("runs", "rm", "reviewed") == (0, f"{queue.run_id}\ndeleted 1 run\n")


def test_a_review_that_cannot_be_read_is_not_pruned(project: Project, queue: ReviewQueue) -> None:
    label_all(project, queue)
    run = find_run(project.folder / ".agentv", "reviewed")
    (run / "reviews" / f"{queue.name}.json").write_text("{")
    code, said = project.call("runs", "prune", "--keep", "1", "--yes")
    assert (code, said.startswith("deleted 0 runs\n")) == (0, True)
    assert f"review {queue.name!r} cannot be read" in said
