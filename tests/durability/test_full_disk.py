"""A full disk: the run ends with an error, keeps every acknowledged row, and can be resumed when there is room."""

from collections import Counter
from pathlib import Path

from tests.durability.witness import WORKERS, project_against

LIMIT = 100_000


def test_a_full_disk_ends_the_run_and_resume_finishes_it(tmp_path: Path) -> None:
    with project_against(tmp_path, 400) as project:
        code, said = project.end(project.start("run", "cases.jsonl", "--display", "none", file_limit=LIMIT))
        assert code == 3, said
        kept = project.rows()
        # At the end no answer is missing in the files, except for calls in flight.
        assert 0 < project.witness.bills().total() - kept.total() <= WORKERS
        assert (project.run / "answers.jsonl").stat().st_size <= LIMIT
        assert project.end(project.start("resume", "--display", "none"))[0] == 0
        assert project.rows() == project.every_case_once()
        assert project.witness.bills().total() - 400 <= WORKERS


def test_a_naive_writer_loses_rows_to_a_full_disk(tmp_path: Path) -> None:
    with project_against(tmp_path, 400) as project:
        code, said = project.end(project.start_naive(file_limit=4_096))
        assert (code, "File too large" in said) == (1, True)
        assert project.witness.bills().total() - project.naive_rows().total() > 1


def test_a_merge_that_the_disk_does_not_take_leaves_no_half_of_a_run(tmp_path: Path) -> None:
    with project_against(tmp_path, 100) as project:
        for part in ("1/2", "2/2"):
            assert project.end(project.start("run", "cases.jsonl", "--shard", part, "--display", "none"))[0] == 0
        runs = tmp_path / ".agentv" / "runs"
        before = sorted(runs.iterdir())
        largest = max(path.stat().st_size for run in before for path in run.iterdir() if path.is_file())
        code, said = project.end(project.start("merge", "latest", "latest~1", file_limit=largest + 4_096))
        assert (code, "File too large" in said) == (3, True), said
        # A partial folder would be resumed without a warning, and its missing half called and paid again.
        assert sorted(runs.iterdir()) == before
        assert project.end(project.start("merge", "latest", "latest~1", "--display", "none"))[0] == 0
        assert project.witness.bills() == project.every_case_once()


def test_rows_that_are_done_again_on_a_full_disk_stay_as_they_were(tmp_path: Path) -> None:
    with project_against(tmp_path, 100) as project:
        assert project.end(project.start("run", "cases.jsonl", "--display", "none"))[0] == 0
        full = max(path.stat().st_size for path in project.run.iterdir()) + 10_000
        (tmp_path / "new.yaml").write_text("evaluators: [{name: short, type: length, max: 300, unit: words}]")
        code, said = project.end(project.start("rescore", "latest", "--evaluators", "new.yaml", file_limit=full))
        assert code == 3, said
        assert project.rows() >= project.every_case_once()
        assert project.end(project.start("resume", "--display", "none"))[0] == 0
        assert project.rows() == project.every_case_once() + project.every_case_once()
        again = project.start("retry", "--case", "*", "--display", "none", file_limit=full + 20_000)
        assert project.end(again)[0] == 3
        assert project.end(project.start("resume", "--display", "none"))[0] == 0
        assert project.rows() == Counter(dict.fromkeys(project.every_case_once(), 3))
        assert project.witness.bills().total() - 200 <= WORKERS
