"""Every migration is applied once; a database of another version is refused with advice."""

import threading

import pytest
from tests.support.postgres_server import new_database, upgraded_database

from agentv.storage.postgres.connection import connect
from agentv.storage.postgres.migrations import check_version, migrations, newest_version, upgrade, version_of
from agentv.templating.store_url import parse_store_url
from agentv.types.errors import StorageError


def test_the_steps_are_numbered_without_a_gap() -> None:
    assert list(migrations()) == list(range(1, newest_version() + 1))


def test_an_empty_database_gets_every_step_and_a_second_upgrade_none() -> None:
    url = parse_store_url(new_database())
    with connect(url) as connection:
        assert version_of(connection) == 0
        assert upgrade(connection, url) == ("0001_runs", "0002_judgements", "0003_prompts", "0004_judgement_configs")
        assert upgrade(connection, url) == ()
        check_version(connection, url)


def test_a_database_of_an_earlier_step_gets_the_rest() -> None:
    url = parse_store_url(upgraded_database())
    with connect(url) as connection:
        connection.execute("DROP TABLE agentv.judgements, agentv.judgement_configs")
        for table in ("cases", "answers", "results", "labels"):
            connection.execute(f"ALTER TABLE agentv.{table} DROP COLUMN prompt".encode())
        connection.execute("DELETE FROM agentv.schema_versions WHERE version > 1")
        with pytest.raises(
            StorageError, match=r"tables of version 1, and this agentv needs version 4; .*store upgrade"
        ):
            check_version(connection, url)
        assert upgrade(connection, url) == ("0002_judgements", "0003_prompts", "0004_judgement_configs")
        check_version(connection, url)


def test_a_step_that_fails_leaves_nothing_behind() -> None:
    url = parse_store_url(new_database())
    with connect(url) as connection:
        connection.execute("CREATE SCHEMA agentv")
        connection.execute("CREATE TABLE agentv.judgements ()")
        with pytest.raises(Exception, match="already exists"):
            upgrade(connection, url)
        assert version_of(connection) == 0
        assert connection.execute("SELECT to_regclass('agentv.runs')").fetchone() == (None,)


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
    assert sorted(taken) == [(), (), (), ("0001_runs", "0002_judgements", "0003_prompts", "0004_judgement_configs")]


def test_no_tables_and_newer_tables_are_refused() -> None:
    url = parse_store_url(new_database())
    with connect(url) as connection:
        with pytest.raises(StorageError, match="no tables of agentv yet"):
            check_version(connection, url)
        upgrade(connection, url)
        connection.execute("INSERT INTO agentv.schema_versions (version, name) VALUES (99, 'of tomorrow')")
        for refused in (check_version, upgrade):
            with pytest.raises(StorageError, match=r"version 99, newer .*upgrade agentv"):
                refused(connection, url)
