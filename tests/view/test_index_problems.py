"""Pages say so when the index of a run cannot be completed or used."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.viewer import serving_view
from tests.view.conftest import CASES, FOUR, answer

from agentv import evaluate
from agentv.storage.index.file import open_database, pages_file


@pytest.fixture
def run_id(tmp_path: Path) -> str:
    return evaluate(CASES, task=answer, evaluators=[FOUR], folder=tmp_path).run_id


@pytest.fixture
def index(tmp_path: Path, run_id: str) -> Iterator[sqlite3.Connection]:
    file = pages_file(tmp_path, run_id)
    file.parent.mkdir()
    with closing(open_database(file)) as connection:
        yield connection


def get(home: Path, path: str) -> tuple[int, str]:
    with serving_view(home) as viewer:
        reply = viewer.client().get(path)
    return reply.status, reply.text


def test_an_index_that_cannot_be_written_is_named(tmp_path: Path, run_id: str, index: sqlite3.Connection) -> None:
    index.execute("CREATE TRIGGER full BEFORE INSERT ON rows BEGIN SELECT RAISE(FAIL, 'disk is full'); END")
    status, page = get(tmp_path, f"/r/{run_id}/rows")
    assert status == 200
    assert "The index of the run cannot be completed (disk is full), so results are missing here." in page


def test_an_index_that_cannot_be_read_is_named(tmp_path: Path, run_id: str, index: sqlite3.Connection) -> None:
    index.execute("DROP TABLE runs")
    index.execute("CREATE TABLE runs (other)")
    status, page = get(tmp_path, f"/r/{run_id}/rows")
    assert status == 500
    assert "The index of the run cannot be used" in page


def test_the_index_of_a_run_is_named_by_its_folder(tmp_path: Path, run_id: str) -> None:
    # Whoever wrote run.json does not choose where a file is written.
    record = tmp_path / "runs" / run_id / "run.json"
    record.write_text(record.read_text().replace(run_id, "../../foreign"))
    get(tmp_path, f"/r/{run_id}/rows")
    assert not list(tmp_path.parent.glob("foreign*"))
    assert pages_file(tmp_path, run_id).is_file()
