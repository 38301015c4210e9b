"""Every migration is applied once; a database of another version is refused with advice."""

import hashlib
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from psycopg import Connection
from tests.support.postgres_server import new_database
from tests.support.stored import RUN, at_noon, make_answer, make_result, make_run, rerun_results

from agentv.storage.postgres.connection import connect
from agentv.storage.postgres.copying import RunPuller, RunPusher
from agentv.storage.postgres.migrations import (
    check_server,
    check_version,
    migrations,
    newest_version,
    upgrade,
    version_of,
)
from agentv.storage.run.folder import RunFolder
from agentv.templating.store_url import StoreUrl, parse_store_url
from agentv.types.errors import StorageError

DIGESTS = {
    "0001_runs": "ad907c40061adeac",
    "0002_judgements": "d406b3a3c8752133",
    "0003_prompts": "c98425d1f879f3a8",
    "0004_judgement_configs": "fcff87e2a3f4dff5",
    "0005_unique_results": "8529f3449bdd6ea3",
    "0006_quota_leases": "298864492ceb3d9c",
    "0007_repeated_results": "c556db7965468b73",
    "0008_first_answers": "1b00daf2fd005093",
}
"""The beginning of the SHA-256 of each step that databases of teams may have."""


def make_tables(connection: Connection[Any], *, version: int) -> None:
    """Create the tables of an earlier version of agentv."""
    connection.execute("CREATE SCHEMA agentv")
    connection.execute(
        "CREATE TABLE agentv.schema_versions "
        "(version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
    )
    for number in range(1, version + 1):
        name, statements = migrations()[number]
        connection.execute(statements.encode())
        connection.execute("INSERT INTO agentv.schema_versions (version, name) VALUES (%s, %s)", [number, name])


def push_without_start(folder: Path, connection: Connection[Any], url: StoreUrl) -> None:
    """Push a run into tables of before version 10, which have no start of a run and no categories."""
    connection.execute("ALTER TABLE agentv.runs ADD COLUMN started_at timestamptz")
    connection.execute("CREATE TABLE agentv.categories (run_id text, seq bigint, line bytea)")
    RunPusher(folder, connection, url).push()
    connection.execute("DROP TABLE agentv.categories")
    connection.execute("ALTER TABLE agentv.runs DROP COLUMN started_at")


def forget_first_answers(connection: Connection[Any]) -> None:
    """Undo the step to version 8, as if the rows had been pushed before it."""
    connection.execute("DROP VIEW agentv.counted_results")
    connection.execute("DROP INDEX agentv.results_made_again")
    connection.execute("ALTER TABLE agentv.answers DROP COLUMN rerun")
    for column in ("rerun", "answer_seq", "error_stage"):
        connection.execute(f"ALTER TABLE agentv.results DROP COLUMN {column}".encode())


def test_the_steps_are_numbered_without_a_gap() -> None:
    assert list(migrations()) == list(range(1, newest_version() + 1))


def test_a_step_that_databases_have_is_not_changed() -> None:
    steps = [step for number, step in migrations().items() if number <= len(DIGESTS)]
    assert {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in steps} == DIGESTS


def test_an_empty_database_gets_every_step_and_a_second_upgrade_none() -> None:
    url = parse_store_url(new_database())
    with connect(url) as connection:
        assert version_of(connection) == 0
        assert upgrade(connection, url) == (
            "0001_runs",
            "0002_judgements",
            "0003_prompts",
            "0004_judgement_configs",
            "0005_unique_results",
            "0006_quota_leases",
            "0007_repeated_results",
            "0008_first_answers",
            "0009_append_only",
            "0010_started_at",
            "0011_reviews",
        )
        assert upgrade(connection, url) == ()
        check_version(connection, url)


def test_a_database_of_an_earlier_step_gets_the_rest() -> None:
    url = parse_store_url(new_database())
    with connect(url) as connection:
        make_tables(connection, version=1)
        with pytest.raises(
            StorageError, match=r"tables of version 1, and this agentv needs version 11; .*store upgrade"
        ):
            check_version(connection, url)
        assert upgrade(connection, url) == (
            "0002_judgements",
            "0003_prompts",
            "0004_judgement_configs",
            "0005_unique_results",
            "0006_quota_leases",
            "0007_repeated_results",
            "0008_first_answers",
            "0009_append_only",
            "0010_started_at",
            "0011_reviews",
        )
        check_version(connection, url)


def test_results_of_the_version_before_are_kept_and_repeated_ones_pushed_again(tmp_path: Path) -> None:
    url = parse_store_url(new_database())
    folder = RunFolder(tmp_path, RUN.run_id, clock=at_noon)
    folder.begin(make_run())
    slot = make_result().slot
    folder.append_answer(make_answer())
    folder.append_answer(make_answer())
    for result in (
        make_result(),
        make_result(),
        make_result(generation=1),
        make_result(slot=replace(slot, prompt="v2")),
        make_result(slot=replace(slot, prompt="v2")),
    ):
        folder.append(result)
    with (tmp_path / RUN.run_id / "results.jsonl").open("ab") as file:
        file.write(b"no json\nno json\n")
    folder.close("finished")
    with connect(url) as connection:
        make_tables(connection, version=4)
        for number in (7, 8):  # a push needs their table and columns
            connection.execute(migrations()[number][1].encode())
        push_without_start(tmp_path / RUN.run_id, connection, url)
        connection.execute("DROP TABLE agentv.repeated_results")
        forget_first_answers(connection)
        assert connection.execute("SELECT count(*) FROM agentv.results").fetchone() == (7,)
        assert upgrade(connection, url) == (
            "0005_unique_results",
            "0006_quota_leases",
            "0007_repeated_results",
            "0008_first_answers",
            "0009_append_only",
            "0010_started_at",
            "0011_reviews",
        )
        assert connection.execute("SELECT seq FROM agentv.results ORDER BY seq").fetchall() == [
            (0,),
            (2,),
            (3,),
            (5,),
            (6,),
        ]
        assert connection.execute("SELECT count(*) FROM agentv.answers").fetchone() == (2,)
        assert RunPusher(tmp_path / RUN.run_id, connection, url).push() == 2
        pulled = RunPuller(connection, url, RUN.run_id).pull(tmp_path / "there").folder / "results.jsonl"
        assert pulled.read_bytes() == (tmp_path / RUN.run_id / "results.jsonl").read_bytes()


def test_first_answers_count_in_runs_that_were_pushed_before(tmp_path: Path) -> None:
    url = parse_store_url(new_database())
    folder = RunFolder(tmp_path, RUN.run_id, clock=at_noon)
    folder.begin(make_run())
    for row in rerun_results():
        folder.append(row)
    folder.close("finished")
    with connect(url) as connection:
        make_tables(connection, version=8)
        push_without_start(tmp_path / RUN.run_id, connection, url)
        forget_first_answers(connection)
        connection.execute("DELETE FROM agentv.schema_versions WHERE version = 8")
        # No row of an older version has a mark.
        connection.execute("DELETE FROM agentv.results WHERE eval_id = 'a' AND generation = 2")
        assert upgrade(connection, url) == ("0008_first_answers", "0009_append_only", "0010_started_at", "0011_reviews")
        query = "SELECT eval_id, generation FROM agentv.counted_results ORDER BY eval_id"
        assert connection.execute(query).fetchall() == [
            ("a", 0),
            ("b", 1),
            ("c", 2),
            ("d", 1),
            ("e", 0),
            ("f", 0),
        ]


def test_skipped_answers_count_as_first_answers_from_version_9(tmp_path: Path) -> None:
    url = parse_store_url(new_database())
    folder = RunFolder(tmp_path, RUN.run_id, clock=at_noon)
    folder.begin(make_run())
    for row in rerun_results():
        folder.append(row)
    folder.close("finished")
    query = "SELECT generation FROM agentv.counted_results WHERE eval_id = 'f'"
    with connect(url) as connection:
        make_tables(connection, version=8)
        push_without_start(tmp_path / RUN.run_id, connection, url)
        assert connection.execute(query).fetchall() == [(1,)]
        upgrade(connection, url)
        assert connection.execute(query).fetchall() == [(0,)]


def test_a_step_that_fails_leaves_nothing_behind() -> None:
    url = parse_store_url(new_database())
    with connect(url) as connection:
        connection.execute("CREATE SCHEMA agentv")
        connection.execute("CREATE TABLE agentv.judgements ()")
        with pytest.raises(Exception, match="already exists"):
            upgrade(connection, url)
        assert version_of(connection) == 0
        assert connection.execute("SELECT to_regclass('agentv.runs')").fetchone() == (None,)


def test_a_server_that_is_too_old_is_refused() -> None:
    url = parse_store_url("postgresql://ann@db.example/evals")
    check_server(140000, url)
    with pytest.raises(
        StorageError, match=r"db.example/evals is on PostgreSQL 13; agentv needs PostgreSQL 14 or newer"
    ):
        check_server(130016, url)


def test_upgrades_at_once_wait_for_each_other() -> None:
    url = parse_store_url(new_database())
    taken: list[tuple[str, ...]] = []

    def upgrade_it() -> None:
        with connect(url) as connection:
            taken.append(upgrade(connection, url))

    threads = [threading.Thread(target=upgrade_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [
        (),
        (),
        (),
        (
            "0001_runs",
            "0002_judgements",
            "0003_prompts",
            "0004_judgement_configs",
            "0005_unique_results",
            "0006_quota_leases",
            "0007_repeated_results",
            "0008_first_answers",
            "0009_append_only",
            "0010_started_at",
            "0011_reviews",
        ),
    ]


def test_no_tables_and_newer_tables_are_refused() -> None:
    url = parse_store_url(new_database())
    with connect(url) as connection:
        with pytest.raises(StorageError, match="no tables of agentv"):
            check_version(connection, url)
        upgrade(connection, url)
        connection.execute("INSERT INTO agentv.schema_versions (version, name) VALUES (99, 'of tomorrow')")
        for refused in (check_version, upgrade):
            with pytest.raises(StorageError, match=r"version 99, newer .*upgrade agentv"):
                refused(connection, url)
