"""What users of the database may do with the rights of the page, and what is noticed when a row is edited anyway."""

import asyncio
import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from tests.storage.postgres.test_judgements import config_for
from tests.storage.postgres.test_migrations import make_tables
from tests.storage.postgres.test_push_and_pull import contents, pull, push, write_run
from tests.storage.postgres.test_quotas import wanted
from tests.support.postgres_server import new_database, upgraded_database
from tests.support.stored import NOON, RUN, at_noon, make_result
from tests.test_readme import TEAM_STORE, blocks_of

from agentv import EvaluationInput, run_evaluation_sync
from agentv.storage.postgres.connection import connect
from agentv.storage.postgres.migrations import upgrade
from agentv.storage.postgres.quotas import PostgresQuota
from agentv.storage.postgres.run_rows import list_shared_runs, remove_shared_runs
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.housekeeping import tag_run
from agentv.storage.run.labels import append_labels
from agentv.templating.store_url import StoreUrl, parse_store_url
from agentv.types.errors import StorageError
from agentv.types.protocols import Amounts
from agentv.types.records.answer import AnswerRef
from agentv.types.records.label import Label

LINE_TABLES = ("events", "cases", "answers", "results", "repeated_results", "labels", "categories")


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


def role_of(url: StoreUrl) -> str:
    return url.text.partition("//")[2].partition("@")[0]


def grant_all(url: str, user: StoreUrl) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA agentv TO {role_of(user)}".encode())


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


def test_users_of_before_get_their_rights_on_the_tables_of_reviews() -> None:
    url = new_database()
    name = f"member_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True) as connection:
        make_tables(connection, version=10)
        connection.execute(f"CREATE ROLE {name} LOGIN".encode())
        connection.execute(f"GRANT USAGE ON SCHEMA agentv TO {name}".encode())
        connection.execute(f"GRANT SELECT, INSERT, DELETE ON ALL TABLES IN SCHEMA agentv TO {name}".encode())
        upgrade(connection, parse_store_url(url))
        for table in ("reviews", "categories"):
            for right, is_given in (("SELECT", True), ("INSERT", True), ("DELETE", False), ("UPDATE", False)):
                query = "SELECT has_table_privilege(%s, %s, %s)"
                assert connection.execute(query, [name, f"agentv.{table}", right]).fetchone() == (is_given,)
        connection.execute(f"DROP OWNED BY {name}".encode())
        connection.execute(f"DROP ROLE {name}".encode())


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
    grant_all(url, ben)
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
    with pytest.raises(StorageError, match=f"run {RUN.run_id}: the run was stored by another user of the database"):
        push(pulled, ben)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"GRANT {role_of(ann)} TO {role_of(ben)}".encode())
    assert push(pulled, ben) > 0
    with connect(ben) as connection:
        (run,) = list_shared_runs(connection, ben)
    assert run.counts == {"fail": 4}


ADD_RESULT = "INSERT INTO agentv.results (run_id, seq, line) VALUES (%s, 9, '')"
ADD_ENDED = """
INSERT INTO agentv.events (run_id, seq, line, type) VALUES (%s, 9, '{"type":"ended"}', 'labelled')
"""


@pytest.mark.parametrize("statement", [ADD_RESULT, ADD_ENDED], ids=["result", "event"])
def test_objects_of_the_same_name_do_not_give_the_rights_of_another(
    tmp_path: Path, url: str, member_urls: tuple[StoreUrl, StoreUrl], statement: str
) -> None:
    ann, ben = member_urls
    push(write_run(tmp_path / "here"), ann)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA AUTHORIZATION {role_of(ben)}".encode())
    with connect(ben) as connection:
        connection.execute(
            f"CREATE TEMP TABLE pg_roles AS SELECT '{role_of(ann)}'::name AS rolname, oid "
            "FROM pg_catalog.pg_roles WHERE rolname = current_user".encode()
        )
        connection.execute(
            f"CREATE FUNCTION {role_of(ben)}.convert_from(bytea, name) RETURNS text LANGUAGE sql IMMUTABLE "
            """AS $$ SELECT '{"type":"labelled"}' $$""".encode()
        )
        connection.execute(f"SET search_path = {role_of(ben)}, pg_catalog".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            connection.execute(statement.encode(), [RUN.run_id])


def test_the_event_of_a_label_is_one_line_about_labels(tmp_path: Path, member_urls: tuple[StoreUrl, StoreUrl]) -> None:
    ann, ben = member_urls
    push(write_run(tmp_path / "here"), ann)
    statement = "INSERT INTO agentv.events (run_id, seq, line, type) VALUES (%s, 9, %b, 'labelled')"
    with connect(ben) as connection:
        for line in (
            b'{"type":"case_retired"}',
            b'{"type":"labelled","type":"case_retired"}',
            b'{"type":"labelled","more":[\n{"type":"case_retired"}\n]}',
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
                connection.execute(statement.encode(), [RUN.run_id, line])
        connection.execute(statement.encode(), [RUN.run_id, b'{"type":"labelled"}'])


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO agentv.runs (run_id, record, stored_by) VALUES ('new', '', '{ann}')",
        "INSERT INTO agentv.runs (run_id, record, stored_by) VALUES ('new', '', NULL)",
        "INSERT INTO agentv.runs (run_id, record, started_at) VALUES ('new', '', now() + interval '1 second')",
        "INSERT INTO agentv.runs (run_id, record, started_at) VALUES ('new', '', 'infinity')",
        "UPDATE agentv.runs SET stored_by = '{ann}' WHERE run_id = 'of ben'",
        "UPDATE agentv.runs SET started_at = 'infinity' WHERE run_id = 'of ben'",
        "UPDATE agentv.runs SET run_id = 'renamed' WHERE run_id = 'of ben'",
    ],
)
def test_nobody_stores_a_run_for_another_user_or_of_the_future(
    url: str, member_urls: tuple[StoreUrl, StoreUrl], statement: str
) -> None:
    ann, ben = member_urls
    grant_all(url, ben)
    with connect(ben) as connection:
        connection.execute("INSERT INTO agentv.runs (run_id, record) VALUES ('of ben', '')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            connection.execute(statement.format(ann=role_of(ann)).encode())
        stored = "SELECT stored_by, started_at <= now() FROM agentv.runs"
        assert connection.execute(stored.encode()).fetchall() == [(role_of(ben), True)]


def test_a_user_whose_clock_is_ahead_can_store_and_continue_a_run(
    tmp_path: Path, member_urls: tuple[StoreUrl, StoreUrl]
) -> None:
    ann, _ = member_urls
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    folder = write_run(tmp_path / "here", created_at=tomorrow)
    push(folder, ann)
    write_run(tmp_path / "here", rows=1)
    tag_run(folder, add=["good"])
    assert push(folder, ann) == 4
    with connect(ann) as connection:
        query = "SELECT stored_by, started_at <= now(), agentv.as_json(record) -> 'tags' FROM agentv.runs"
        assert connection.execute(query).fetchone() == (role_of(ann), True, ["good"])


def test_lines_of_a_run_are_deleted_only_with_the_run(
    tmp_path: Path, url: str, member_urls: tuple[StoreUrl, StoreUrl]
) -> None:
    ann, ben = member_urls
    folder = write_run(tmp_path / "here")
    push(folder, ann)
    label(folder)
    push(folder, ann)
    for user in (ann, ben):
        grant_all(url, user)
        with connect(user) as connection:
            for table in LINE_TABLES:
                assert connection.execute(f"DELETE FROM agentv.{table}".encode()).rowcount == 0
    with connect(ben) as connection:
        assert remove_shared_runs(connection, ben, [RUN.run_id]) == (RUN.run_id,)
        for table in LINE_TABLES:
            assert connection.execute(f"SELECT count(*) FROM agentv.{table}".encode()).fetchone() == (0,)


def test_deleting_runs_needs_the_rights_that_the_page_names(
    tmp_path: Path, url: str, member_urls: tuple[StoreUrl, StoreUrl]
) -> None:
    ann, ben = member_urls
    push(write_run(tmp_path / "here"), ann)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"GRANT DELETE ON agentv.runs, agentv.blobs, agentv.run_blobs TO {role_of(ben)}".encode())
    with connect(ben) as connection:
        assert remove_shared_runs(connection, ben, [RUN.run_id]) == (RUN.run_id,)
        assert connection.execute("SELECT count(*) FROM agentv.results").fetchone() == (0,)
