"""When the database fails during a run, the run continues, reports it, and loses nothing."""

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from msgspec.structs import replace
from tests.support.postgres_server import own_server, upgraded_database, wait_a_moment
from tests.support.stored import RUN, at_noon, make_answer, make_result, make_run

from agentv.storage.postgres.connection import connect
from agentv.storage.postgres.copying import RunPusher
from agentv.storage.postgres.store import Mirror, MirroredRun
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.stored import open_run
from agentv.templating.store_url import StoreUrl, parse_store_url
from agentv.types.errors import StorageError
from agentv.types.protocols import ReportingStore
from agentv.types.records.answer import AnswerRef

WITHIN_S = 30.0


class Running:
    """A run that is pushed to a database, and its messages."""

    def __init__(self, url: StoreUrl, runs: Path) -> None:
        self.url = url
        self.messages: list[str] = []
        self.store = MirroredRun(url, lambda: RunFolder(runs, RUN.run_id, clock=at_noon))
        assert isinstance(self.store, ReportingStore)
        self.store.report_to(self.messages.append)
        self.store.begin(make_run())

    def write(self, rows: int = 1) -> None:
        for _ in range(rows):
            kept = self.store.append_answer(make_answer())
            seq = kept.seq or 0
            self.store.append(make_result(slot=replace(make_result().slot, trial=seq), answer_ref=AnswerRef(seq)))

    def kept(self) -> int:
        """Count the results that the database has."""
        return self.count("results")

    def count(self, table: str) -> int:
        """Count the rows of a table."""
        with psycopg.connect(self.url.text) as connection:
            found = connection.execute(f"SELECT count(*) FROM agentv.{table}".encode()).fetchone()
        assert found is not None
        return int(found[0])


def eventually(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + WITHIN_S
    while not is_so():
        assert time.monotonic() < ends
        wait_a_moment(0.02)


def cut_off(url: StoreUrl) -> None:
    """Terminate every connection of agentv to a database."""
    with psycopg.connect(url.text) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'agentv'"
        )


def test_a_connection_that_is_cut_is_opened_again(tmp_path: Path) -> None:
    run = Running(parse_store_url(upgraded_database()), tmp_path)
    run.write(3)
    eventually(lambda: run.kept() == 3)
    cut_off(run.url)
    run.write(3)
    eventually(lambda: run.kept() == 6)
    run.write(3)
    run.store.close("finished")
    assert run.kept() == 9
    lost, back = run.messages
    assert "cannot store run" in lost  # followed by the server's own message, which varies
    assert lost.endswith("The run continues; its folder has every result")
    assert back.endswith("is reachable again and up to date with this run")


def test_a_connection_that_is_cut_at_the_very_end_loses_nothing(tmp_path: Path) -> None:
    run = Running(parse_store_url(upgraded_database()), tmp_path)
    run.write(2)
    eventually(lambda: run.kept() == 2)
    cut_off(run.url)
    run.store.append(make_result(slot=replace(make_result().slot, trial=2)))
    run.store.close("finished")
    assert run.kept() == 3
    with connect(run.url) as connection:
        assert RunPusher(Path(run.store.folder), connection, run.url).push() == 0


def test_a_server_that_goes_away_leaves_the_rest_to_a_push(tmp_path: Path) -> None:
    with own_server() as server:
        run = Running(parse_store_url(upgraded_database(server)), tmp_path)
        run.write(2)
        eventually(lambda: run.kept() == 2)
        server.stop()
        run.write(50)
        run.store.close("finished")
        assert f"push the rest: agentv store push {RUN.run_id}" in run.messages[-1]
        assert len(run.messages) == 2
        assert len(list(open_run(Path(run.store.folder)).results())) == 52
        server.start()
        assert run.kept() == 2
        with connect(run.url) as connection:
            RunPusher(Path(run.store.folder), connection, run.url).push()
        assert run.kept() == 52


def test_a_server_that_comes_back_gets_the_rest_at_once(tmp_path: Path) -> None:
    with own_server() as server:
        run = Running(parse_store_url(upgraded_database(server)), tmp_path)
        run.write(2)
        eventually(lambda: run.kept() == 2)
        server.stop()
        run.write(50)
        server.start()
        eventually(lambda: run.kept() == 52)
        run.store.close("finished")
        assert "is reachable again" in run.messages[-1]


def test_a_server_that_comes_back_with_older_rows_gets_the_others_again(tmp_path: Path) -> None:
    """As after a failover to a standby that had not received the last rows."""
    long = "x" * 300_000
    with own_server() as server:
        run = Running(parse_store_url(upgraded_database(server)), tmp_path)
        run.write(2)
        eventually(lambda: run.kept() == 2)
        server.stop()
        standby = server.folder / "standby"
        subprocess.run(["cp", "-a", server.data, standby], check=True)
        server.start()
        run.write(3)
        run.store.append_answer(make_answer(text=long))
        eventually(lambda: run.kept() == 5 and run.count("blobs") == 1)
        server.stop()
        shutil.rmtree(server.data)
        standby.rename(server.data)
        server.start()
        assert (run.kept(), run.count("blobs")) == (2, 0)
        run.write(1)
        eventually(lambda: run.kept() == 6)
        run.store.close("finished")
        assert (run.kept(), run.count("answers"), run.count("blobs")) == (6, 7, 1)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_server_that_hangs_holds_up_neither_the_rows_nor_the_end(tmp_path: Path) -> None:
    url = parse_store_url(upgraded_database())
    folder = RunFolder(tmp_path, RUN.run_id, clock=at_noon)
    folder.begin(make_run())
    connection = connect(url)
    mirror = Mirror(Path(folder.folder), url, connection)
    mirror.start()
    reported: list[str] = []
    with stopped(connection.info.backend_pid):
        began = time.monotonic()
        for _ in range(200):
            folder.append(make_result())
            mirror.wake()
        folder.close("finished")
        mirror.finish(patience_s=0.3, report_wait_s=0.0, on_wait=lambda: reported.extend(mirror.messages))
        assert time.monotonic() - began < 20
    (waiting,) = reported
    assert waiting == f"waiting for the store {url} to take the rest of this run, until it takes nothing for 0.3 s"
    assert "push the rest: agentv store push" in mirror.messages[-1]


def test_a_run_that_cannot_be_stored_is_refused_before_it_has_a_folder() -> None:
    def open_folder() -> RunFolder:
        raise AssertionError("the folder was opened")

    with own_server() as server:
        no_tables, gone = server.url(), upgraded_database(server)
        with pytest.raises(StorageError, match="agentv store upgrade"):
            MirroredRun(parse_store_url(no_tables), open_folder)
    with pytest.raises(StorageError, match="cannot be reached"):
        MirroredRun(parse_store_url(gone), open_folder)


def test_a_run_of_the_same_id_that_is_not_this_one_is_refused(tmp_path: Path) -> None:
    url = parse_store_url(upgraded_database())
    Running(url, tmp_path / "one").store.close("finished")
    other = MirroredRun(url, lambda: RunFolder(tmp_path / "other", RUN.run_id, clock=at_noon))
    with pytest.raises(StorageError, match="different run"):
        other.begin(make_run(plan={"planned": 77}))
    other.close("failed")


def test_a_run_is_resumed_where_the_database_has_it(tmp_path: Path) -> None:
    url = parse_store_url(upgraded_database())
    first = Running(url, tmp_path)
    first.write(2)
    first.store.close("interrupted")
    second = Running(url, tmp_path)
    second.write(3)
    second.store.close("finished")
    assert second.kept() == 5
    assert not first.messages + second.messages


def test_no_thread_is_left(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    run = Running(parse_store_url(upgraded_database()), tmp_path)
    run.store.close("finished")
    assert not set(threading.enumerate()) - before
