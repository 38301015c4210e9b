"""A disk that is full: the run ends, says so, keeps every row that it acknowledged, and goes on when there is room."""

from pathlib import Path

from tests.durability.witness import WORKERS, project_against

LIMIT = 100_000


def test_a_full_disk_ends_the_run_and_resume_finishes_it(tmp_path: Path) -> None:
    with project_against(tmp_path, 400) as project:
        code, said = project.end(project.start("run", "cases.jsonl", "--display", "none", file_limit=LIMIT))
        assert code == 3, said
        kept = project.rows()
        # At the end no more was answered than was kept, but for what was on its way.
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
