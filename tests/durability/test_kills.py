"""Runs that are killed, again and again, against a server that bills every call: nothing is lost or paid twice."""

import json
import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from tests.durability.witness import WORKERS, Project, project_against


def killed_until_done(project: Project, kills: int, seed: int) -> int:
    """Run, and kill at seeded numbers of billed calls; resume until done. Return how many kills hit a live run."""
    rng = random.Random(seed)
    moments = sorted(rng.sample(range(WORKERS, project.count), kills))
    process, hits = project.start("run", "cases.jsonl", "--display", "none"), 0
    for moment in moments:
        if not project.witness.wait_for(moment, process):
            break
        process.kill()
        project.end(process)
        hits += 1
        process = project.start("resume", "latest", "--display", "none")
    code, said = project.end(process)
    assert code == 0, said
    return hits


def wait_for_rows(process: "subprocess.Popen[bytes]", count: int) -> None:
    """Wait until a run that prints its events has finished `count` rows."""
    assert process.stdout is not None
    for line in process.stdout:
        count -= json.loads(line)["event"] in ("row_finished", "row_rerun")
        if not count:
            return


@pytest.mark.parametrize(
    ("count", "kills", "seed"),
    [
        (2_000, 10, 2),
        # About half a minute of processor time, most of it 21 starts that read 10,000 cases.
        pytest.param(10_000, 20, 2, marks=[pytest.mark.nightly, pytest.mark.timeout(900)]),
        pytest.param(10_000, 200, 3, marks=[pytest.mark.nightly, pytest.mark.timeout(3_600)]),
    ],
)
def test_many_kills_leave_one_row_per_case_and_few_calls_paid_twice(
    tmp_path: Path, count: int, kills: int, seed: int
) -> None:
    with project_against(tmp_path, count) as project:
        assert killed_until_done(project, kills, seed) == kills
        assert project.rows() == project.every_case_once()
        billed = project.witness.bills()
        assert billed.keys() == project.every_case_once().keys()
        assert billed.total() - count <= WORKERS * kills


def test_a_naive_writer_loses_rows_to_the_same_kills(tmp_path: Path) -> None:
    with project_against(tmp_path, 2_000) as project:
        process = project.start_naive()
        assert project.witness.wait_for(150, process)
        process.kill()
        project.end(process)
        lost = project.witness.bills().total() - project.naive_rows().total()
        assert lost > 1  # it calls one case at a time: more than one is a row that it considered written


def test_a_kill_while_a_resume_reads_what_there_is_changes_nothing(tmp_path: Path) -> None:
    with project_against(tmp_path, 300) as project:
        process = project.start("run", "cases.jsonl", "--display", "none")
        assert project.witness.wait_for(150, process)
        process.kill()
        project.end(process)
        kept = project.rows()
        resuming = project.start("resume", "--display", "json", stdout=subprocess.PIPE)
        assert resuming.stdout is not None
        for line in resuming.stdout:
            if json.loads(line)["event"] == "row_kept":
                break
        resuming.kill()
        project.end(resuming)
        assert project.rows() >= kept
        assert project.end(project.start("resume", "--display", "none"))[0] == 0
        assert project.rows() == project.every_case_once()
        assert project.witness.bills().total() - 300 <= 2 * WORKERS


@pytest.mark.parametrize(
    ("command", "calls"),
    [("retry --case *", True), ("rescore latest --evaluators new.yaml", False)],
    ids=["retry", "rescore"],
)
def test_a_kill_while_rows_are_done_again_loses_none_and_does_none_twice(
    tmp_path: Path, command: str, *, calls: bool
) -> None:
    with project_against(tmp_path, 300) as project:
        assert project.end(project.start("run", "cases.jsonl", "--display", "none"))[0] == 0
        (tmp_path / "new.yaml").write_text("evaluators: [{name: short, type: length, max: 300, unit: words}]")
        process = project.start(*command.split(), "--display", "json", stdout=subprocess.PIPE)
        for kill in range(3):
            wait_for_rows(process, 40)
            process.kill()
            project.end(process)
            assert project.rows() >= project.every_case_once(), kill
            process = project.start("resume", "--display", "json", stdout=subprocess.PIPE)
        assert project.end(process)[0] == 0
        twice = Counter(dict.fromkeys(project.every_case_once(), 2))
        assert project.rows() == twice
        assert project.witness.bills().total() - (600 if calls else 300) in range(3 * WORKERS + 1)
