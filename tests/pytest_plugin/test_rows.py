"""The rows of a session, requested by many threads as the workers of pytest-xdist do."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from agentv.pytest_plugin.rows import GivenAnswer, SessionEnding, SessionOptions, SessionRun

ROUNDS = 40


@pytest.fixture
def session(tmp_path: Path) -> Iterator[SessionRun]:
    (tmp_path / ".git").mkdir()
    made = SessionRun(SessionOptions(str(tmp_path)))
    yield made
    made.end(SessionEnding())


def given(file: str, name: str, answer: str) -> GivenAnswer:
    return GivenAnswer(id=name, file=file, answer=answer, evaluators={"contains": answer})


@pytest.mark.parametrize("files", [("a/test_desk.py", "b/test_desk.py"), ("test_desk.py", "test_desk.py")])
def test_checks_of_the_same_name_judge_their_own_answers(session: SessionRun, files: tuple[str, str]) -> None:
    """Two folders have a test of this name, or two workers run the same test."""
    together = Barrier(2)

    def check(file: str, answer: str) -> list[str]:
        judged = []
        for number in range(ROUNDS):
            together.wait()
            judged.append(session.of_answer(given(file, f"test_{number}", answer), ()).candidate_answer)
        return judged

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.submit(check, files[0], "first"), threads.submit(check, files[1], "second")
        assert first.result() == ["first"] * ROUNDS
        assert second.result() == ["second"] * ROUNDS


def test_a_further_check_of_a_test_has_a_number(session: SessionRun) -> None:
    rows = [session.of_answer(given(file, "test_x", "x"), ()) for file in ("a.py", "a.py", "b.py", "a.py")]
    assert [(row.suite, row.eval_id) for row in rows] == [
        ("a.py", "test_x"),
        ("a.py", "test_x #2"),
        ("b.py", "test_x"),
        ("a.py", "test_x #3"),
    ]
