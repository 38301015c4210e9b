"""How much of a run's results was sent to whom, and what comes after."""

from pathlib import Path

import pytest

from agentv.storage.run.sent import SENT_FILE, Position, SentFile, lines_after

HERE, THERE = "http://here/v1/traces", "http://there/v1/traces"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "results.jsonl").write_bytes(b"{}\n" * 5)
    return tmp_path


def test_nothing_was_sent_at_first(folder: Path) -> None:
    assert SentFile(folder).position(HERE) == Position()
    assert lines_after(folder, Position()) == 5
    assert not (folder / SENT_FILE).exists()


def test_each_receiver_has_its_own_position(folder: Path) -> None:
    SentFile(folder).add(HERE, Position(6, 2))
    SentFile(folder).add(THERE, Position(3, 1))
    SentFile(folder).add(HERE, Position(9, 3))
    assert SentFile(folder).position(HERE) == Position(9, 3)
    assert SentFile(folder).position(THERE) == Position(3, 1)
    assert lines_after(folder, Position(9, 3)) == 2


def test_a_torn_line_is_ignored_and_does_not_spoil_the_next(folder: Path) -> None:
    SentFile(folder).add(HERE, Position(6, 2))
    with (folder / SENT_FILE).open("ab") as file:
        file.write(b'{"to":"http://he')
    assert SentFile(folder).position(HERE) == Position(6, 2)
    SentFile(folder).add(HERE, Position(9, 3))
    assert SentFile(folder).position(HERE) == Position(9, 3)


def test_a_run_whose_results_are_shorter_now_is_sent_again(folder: Path) -> None:
    SentFile(folder).add(HERE, Position(15, 5))
    (folder / "results.jsonl").write_bytes(b"{}\n" * 2)
    assert SentFile(folder).position(HERE) == Position()


def test_a_run_without_results_has_nothing_to_send(tmp_path: Path) -> None:
    assert lines_after(tmp_path, Position()) == 0
    assert SentFile(tmp_path).position(HERE) == Position()
