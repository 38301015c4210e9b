"""Migrations of the team database: numbered steps, each applied once."""

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from agentv.storage.postgres.connection import answer_in_time
from agentv.types.errors import StorageError

if TYPE_CHECKING:
    from agentv.storage.postgres.connection import Connection
    from agentv.templating.store_url import StoreUrl

_UPGRADE_LOCK = 0x6167656E7476
"""The id of the advisory lock for upgrades: `agentv` as a number."""

OLDEST_SERVER = 14
"""The oldest version of PostgreSQL that has what the migrations use."""

_CREATE_VERSIONS = """
CREATE SCHEMA IF NOT EXISTS agentv;
CREATE TABLE IF NOT EXISTS agentv.schema_versions (
    version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now()
)
"""


@cache
def migrations() -> dict[int, tuple[str, str]]:
    """Return the name and the SQL of every migration by its number, from 1."""
    folder = files("agentv.storage.postgres") / "migrations"
    found = sorted((each.name, each.read_text("utf-8")) for each in folder.iterdir() if each.name.endswith(".sql"))
    return {int(name[:4]): (name.removesuffix(".sql"), text) for name, text in found}


def newest_version() -> int:
    """Return the version of the tables that this version of agentv uses."""
    return max(migrations())


def version_of(connection: "Connection") -> int:
    """Return the version of a database's tables, 0 without tables."""
    has_tables = connection.execute("SELECT to_regclass('agentv.schema_versions') IS NOT NULL").fetchone()
    if has_tables is None or not has_tables[0]:
        return 0
    found = connection.execute("SELECT coalesce(max(version), 0) FROM agentv.schema_versions").fetchone()
    return 0 if found is None else int(str(found[0]))


def upgrade(connection: "Connection", url: "StoreUrl") -> tuple[str, ...]:
    """Apply the missing migrations in one transaction; return their names.

    Raises StorageError when the database's tables are newer than this version of agentv, or its server is too old.
    """
    check_server(connection.info.server_version, url)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_UPGRADE_LOCK])
        connection.execute(_CREATE_VERSIONS.encode())
        version = version_of(connection)
        _check_not_newer(version, url)
        missing = [(number, *step) for number, step in migrations().items() if number > version]
        for number, name, statements in missing:
            connection.execute(statements.encode())
            connection.execute("INSERT INTO agentv.schema_versions (version, name) VALUES (%s, %s)", [number, name])
    return tuple(name for _, name, _ in missing)


def check_server(number: int, url: "StoreUrl") -> None:
    """Raise StorageError if a server's version, as in `server_version_num` (140023 for 14.23), is too old."""
    if number < OLDEST_SERVER * 10_000:
        raise StorageError(
            f"the store {url} is on PostgreSQL {number // 10_000}; agentv needs PostgreSQL {OLDEST_SERVER} or newer"
        )


def check_version(connection: "Connection", url: "StoreUrl") -> None:
    """Raise StorageError unless a database answers in time with tables of the version that this agentv uses."""
    with answer_in_time(connection, url):
        version = version_of(connection)
    _check_not_newer(version, url)
    if version < newest_version():
        found = f"has tables of version {version}" if version else "has no tables of agentv"
        raise StorageError(
            f"the store {url} {found}, and this agentv needs version {newest_version()}; "
            "create or upgrade them with: agentv store upgrade"
        )


def _check_not_newer(version: int, url: "StoreUrl") -> None:
    if version > newest_version():
        raise StorageError(
            f"the store {url} has tables of version {version}, newer than this agentv supports ({newest_version()}); "
            "upgrade agentv"
        )
