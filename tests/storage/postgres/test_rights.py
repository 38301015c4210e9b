"""What users of the database may do with the rights of the page, and what is noticed when a row is edited anyway."""

import asyncio
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.storage.postgres.test_judgements import config_for
from tests.storage.postgres.test_push_and_pull import contents, pull, push, write_run
from tests.storage.postgres.test_quotas import wanted
from tests.support.postgres_server import upgraded_database
from tests.support.stored import NOON, RUN, at_noon, make_result
from tests.test_readme import TEAM_STORE, blocks_of

from agentv import EvaluationInput, run_evaluation_sync
from agentv.storage.postgres.connection import connect
from agentv.storage.postgres.quotas import PostgresQuota
from agentv.storage.postgres.run_rows import list_shared_runs, remove_shared_runs
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.labels import append_labels
from agentv.templating.store_url import StoreUrl, parse_store_url
from agentv.types.errors import StorageError
from agentv.types.protocols import Amounts
from agentv.types.records.answer import AnswerRef
from agentv.types.records.label import Label

LINE_TABLES = ("events", "cases", "answers", "results", "repeated_results", "labels")


@pytest.fixture
def url() -> str:
    return upgraded_database()


@pytest.fixture
def member_urls(url: str) -> Iterator[tuple[StoreUrl, StoreUrl]]:
    """The database's URLs for two users with the rights of the page, and nothing else."""
    names = [f"member_{uuid.uuid4().hex[:12]}" for _ in range(2)]
    (grants,) = (block.text for block in blocks_of(TEAM_STORE) if block.language == "sql" and "GRANT" in block.text)
    with psycopg.connect(url, autocommit=True) as connection:
        for name in names:
            connection.execute(f"CREATE ROLE {name} LOGIN".encode())
            connection.execute(re.sub(r"\bevals\b", name, grants).encode())
    ann, ben = (parse_store_url(url.replace("postgres@", f"{name}@")) for name in names)
    yield ann, ben
    with psycopg.connect(url, autocommit=True) as connection:
        for name in names:
            connection.execute(f"DROP OWNED BY {name}".encode())
            connection.execute(f"DROP ROLE {name}".encode())


def label(folder: Path) -> None:
    labelled = Label(
        slot=make_result().slot,
        answer_key="v1:aa",
        answer_ref=AnswerRef(0),
        criterion="polite",
        score=0.5,
        annotator="ben",
        time=NOON,
    )
    append_labels(folder, [labelled], run_id=RUN.run_id, note=RunFolder(folder.parent, folder.name, clock=at_noon).note)


async def lease(url: StoreUrl) -> Amounts:
    quota = PostgresQuota(url)
    try:
        quota.check()
        return (await quota.exchange(wanted(7))).granted
    finally:
        await quota.aclose()


def test_the_rights_of_the_page_are_enough_for_everything_but_deleting(
    tmp_path: Path, member_urls: tuple[StoreUrl, StoreUrl]
) -> None:
    ann, ben = member_urls
    folder = write_run(tmp_path / "here", rows=2)
    push(folder, ann)
    write_run(tmp_path / "here", rows=1)
    assert push(folder, ann) > 0
    pulled = pull(ben, tmp_path / "there").folder
    label(pulled)
    assert push(pulled, ben) == 2
    assert contents(pull(ann, tmp_path / "third").folder) == contents(pulled)
    result = run_evaluation_sync(EvaluationInput("please"), config_for(ann.text))
    assert result.run_errors == ()
    assert asyncio.run(lease(ann)).requests == 7
    with connect(ann) as connection, pytest.raises(StorageError, match="permission denied"):
        remove_shared_runs(connection, ann, [RUN.run_id])


def test_a_user_cannot_change_rows_of_another_even_with_more_rights(
    tmp_path: Path, url: str, member_urls: tuple[StoreUrl, StoreUrl]
) -> None:
    ann, ben = member_urls
    folder = write_run(tmp_path / "here")
    push(folder, ann)
    with connect(ben) as connection:
        for table in LINE_TABLES:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"UPDATE agentv.{table} SET line = ''".encode())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            f"GRANT ALL ON ALL TABLES IN SCHEMA agentv TO {ben.text.partition('//')[2].partition('@')[0]}"
        )
    with connect(ben) as connection:
        for table in LINE_TABLES:
            assert connection.execute(f"UPDATE agentv.{table} SET line = ''".encode()).rowcount == 0
        assert connection.execute("UPDATE agentv.runs SET record = '', state = 'stopped'").rowcount == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            connection.execute("INSERT INTO agentv.results (run_id, seq, line) VALUES (%s, 9, '')", [RUN.run_id])
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            connection.execute("INSERT INTO agentv.events (run_id, seq, line) VALUES (%s, 9, '{}')", [RUN.run_id])
    assert contents(pull(ann, tmp_path / "there").folder) == contents(folder)


def test_another_user_cannot_continue_a_run_but_members_of_its_role_can(
    tmp_path: Path, url: str, member_urls: tuple[StoreUrl, StoreUrl]
) -> None:
    ann, ben = member_urls
    push(write_run(tmp_path / "here"), ann)
    pulled = pull(ben, tmp_path / "there").folder
    write_run(tmp_path / "there", rows=1)
    with pytest.raises(StorageError, match=f"run {RUN.run_id}: it was stored by another user of the database"):
        push(pulled, ben)
    names = [each.text.partition("//")[2].partition("@")[0] for each in (ann, ben)]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"GRANT {names[0]} TO {names[1]}".encode())
    assert push(pulled, ben) > 0
    with connect(ben) as connection:
        (run,) = list_shared_runs(connection, ben)
    assert run.counts == {"fail": 4}


def test_deleting_runs_needs_the_rights_that_the_page_names(
    tmp_path: Path, url: str, member_urls: tuple[StoreUrl, StoreUrl]
) -> None:
    ann, ben = member_urls
    push(write_run(tmp_path / "here"), ann)
    name = ben.text.partition("//")[2].partition("@")[0]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"GRANT DELETE ON agentv.runs, agentv.blobs, agentv.run_blobs TO {name}".encode())
    with connect(ben) as connection:
        assert remove_shared_runs(connection, ben, [RUN.run_id]) == (RUN.run_id,)
        assert connection.execute("SELECT count(*) FROM agentv.results").fetchone() == (0,)
