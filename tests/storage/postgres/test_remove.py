"""Removing a run from the database deletes its own data, and none of other runs."""

import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.postgres_server import upgraded_database
from tests.support.stored import at_noon, make_answer, make_result, make_run

from agentv.storage.postgres.connection import connect
from agentv.storage.postgres.copying import RunPuller, RunPusher
from agentv.storage.postgres.run_rows import remove_shared_runs
from agentv.storage.run.blobs import BLOB_LIMIT
from agentv.storage.run.folder import RunFolder
from agentv.templating.store_url import StoreUrl, parse_store_url
from agentv.types.errors import StorageError
from agentv.types.records.answer import AnswerRef


@pytest.fixture
def url() -> StoreUrl:
    return parse_store_url(upgraded_database())


def write_run(runs: Path, run_id: str, *texts: str) -> Path:
    store = RunFolder(runs, run_id, clock=at_noon)
    store.begin(make_run(run_id=run_id))
    for text in texts:
        kept = store.append_answer(make_answer(text=text))
        store.append(make_result(run_id=run_id, answer_ref=AnswerRef(kept.seq or 0)))
    store.close("finished")
    return Path(store.folder)


def count(connection: psycopg.Connection[Any], table: str) -> int:
    return len(connection.execute(f"SELECT FROM agentv.{table}".encode()).fetchall())


def test_removing_a_run_deletes_its_rows_and_blobs_and_no_others(tmp_path: Path, url: StoreUrl) -> None:
    shared, own = "s" * (BLOB_LIMIT + 1), "o" * (BLOB_LIMIT + 1)
    first, second = write_run(tmp_path, "run-1", shared, own), write_run(tmp_path, "run-2", shared)
    with connect(url) as connection:
        for folder in (first, second):
            RunPusher(folder, connection, url).push()
        assert remove_shared_runs(connection, url, ["run-1", "no-such-run"]) == ("run-1",)
        tables = ("runs", "events", "answers", "results", "run_blobs", "blobs")
        assert [count(connection, table) for table in tables] == [1, 2, 1, 1, 1, 1]
        pulled = RunPuller(connection, url, "run-2").pull(tmp_path / "there")
        assert (pulled.folder / "answers.jsonl").read_bytes() == (second / "answers.jsonl").read_bytes()
        assert remove_shared_runs(connection, url, ["run-2"]) == ("run-2",)
        assert [count(connection, table) for table in tables] == [0] * 6
        assert remove_shared_runs(connection, url, ["run-2"]) == ()
        RunPusher(first, connection, url).push()
        assert count(connection, "blobs") == 2


def test_a_run_that_is_pushed_at_the_same_time_keeps_its_large_values(tmp_path: Path, url: StoreUrl) -> None:
    texts = [letter * (BLOB_LIMIT + 1) for letter in "abcdef"]
    folders = [write_run(tmp_path, f"run-{number}", *texts) for number in range(6)]
    with connect(url) as connection:
        RunPusher(folders[0], connection, url).push()

    def push(folder: Path) -> None:
        with connect(url) as connection:
            RunPusher(folder, connection, url).push()

    pushing = [threading.Thread(target=push, args=(folder,)) for folder in folders[1:]]
    for thread in pushing:
        thread.start()
    with connect(url) as connection:
        remove_shared_runs(connection, url, ["run-0"])
        for thread in pushing:
            thread.join()
        for folder in folders[1:]:
            pulled = RunPuller(connection, url, folder.name).pull(tmp_path / "there")
            assert len(list((pulled.folder / "blobs").iterdir())) == 6


def test_a_user_without_the_right_to_delete_gets_an_error(tmp_path: Path, url: StoreUrl) -> None:
    reader = f"reader_of_{url.text.partition('@/')[2].partition('?')[0]}"
    with connect(url) as connection:
        RunPusher(write_run(tmp_path, "run-1", "a"), connection, url).push()
        connection.execute(f"CREATE ROLE {reader} LOGIN".encode())
        connection.execute(f"GRANT USAGE ON SCHEMA agentv TO {reader}".encode())
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA agentv TO {reader}".encode())
        as_reader = parse_store_url(url.text.replace("postgres@", f"{reader}@"))
        with connect(as_reader) as reading, pytest.raises(StorageError, match="permission denied"):
            remove_shared_runs(reading, as_reader, ["run-1"])
        assert count(connection, "runs") == 1
