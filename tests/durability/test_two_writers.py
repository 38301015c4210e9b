"""A second process that wants to write the same run: it is refused before any call."""

from pathlib import Path

from tests.durability.witness import project_against


def test_a_second_writer_is_refused_at_once_and_nothing_is_paid_twice(tmp_path: Path) -> None:
    with project_against(tmp_path, 100, hold_at=50) as project:
        first = project.start("run", "cases.jsonl", "--display", "none")
        assert project.witness.wait_for(50, first)
        code, said = project.end(project.start("resume", "latest", "--display", "none"))
        assert (code, f"being written by process {first.pid} on " in said) == (3, True), said
        project.witness.release()
        assert project.end(first)[0] == 0
        assert project.rows() == project.witness.bills() == project.every_case_once()


def test_two_naive_writers_pay_twice(tmp_path: Path) -> None:
    with project_against(tmp_path, 100, hold_at=50) as project:
        first = project.start_naive()
        assert project.witness.wait_for(50, first)
        second = project.start_naive()
        assert project.witness.wait_for(51, second)
        project.witness.release()
        assert (project.end(first)[0], project.end(second)[0]) == (0, 0)
        assert project.witness.bills().total() > 100
        assert project.naive_rows() != project.every_case_once()
