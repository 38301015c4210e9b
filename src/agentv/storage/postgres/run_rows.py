"""List, find and delete the runs of the team database."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agentv.storage.postgres.connection import store_errors
from agentv.storage.records.decode import RUNS
from agentv.storage.records.json_line import reason
from agentv.storage.shared_runs import SharedRun
from agentv.types.errors import ConfigError, StorageError
from agentv.types.records.run import RunRecord

if TYPE_CHECKING:
    from agentv.storage.postgres.connection import Connection
    from agentv.templating.store_url import StoreUrl

_LATEST = re.compile(r"latest(?:~(\d+))?")
_SHOWN = 8
_IDS = "SELECT run_id, name FROM agentv.runs ORDER BY started_at, run_id"
_RUNS = (
    "SELECT run_id, name, created_at, started_at, state, pushed_at, record FROM agentv.runs ORDER BY started_at, run_id"
)
_COUNTS = """
SELECT run_id, CASE WHEN status IN ('error', 'skipped') THEN status ELSE coalesce(verdict, status) END, count(*)
FROM agentv.counted_results GROUP BY 1, 2
"""


def is_same_run(record: bytes, run: RunRecord) -> bool:
    """Return True if another copy's run.json describes this run; its name and tags may differ."""
    try:
        other = RUNS.of_line(record)
    except (ValueError, RecursionError, StorageError):
        return False
    return (other.run_id, other.created_at, other.plan) == (run.run_id, run.created_at, run.plan)


def _with_record(run: SharedRun, record: bytes) -> SharedRun:
    try:
        return replace(run, record=RUNS.of_line(record))
    except (ValueError, RecursionError, StorageError) as error:
        return replace(run, why_unreadable=reason(error))


def list_shared_runs(connection: "Connection", url: "StoreUrl") -> tuple[SharedRun, ...]:
    """Return all runs of the database, oldest first."""
    with store_errors(url, "cannot be read"):
        counts: dict[str, dict[str, int]] = {}
        rows = connection.execute(_COUNTS).fetchall()
        for run_id, state, count in rows:
            counts.setdefault(run_id, {})[str(state)] = count
        rows = connection.execute(_RUNS.encode(), binary=True).fetchall()
    return tuple(
        _with_record(
            SharedRun(
                run_id=run_id,
                name=name,
                created_at=created_at,
                started_at=started_at,
                state=state,
                pushed_at=pushed_at,
                counts=counts.get(run_id, {}),
            ),
            bytes(record),
        )
        for run_id, name, created_at, started_at, state, pushed_at, record in rows
    )


def find_shared_run(connection: "Connection", url: "StoreUrl", reference: str) -> str:
    """Return the id of the run that `reference` names, as `find_run` does for run folders.

    Raises ConfigError, listing the runs, when no run or several runs match.
    """
    with store_errors(url, "cannot be read"):
        rows = connection.execute(_IDS).fetchall()
    ids = [str(row[0]) for row in rows]
    latest = _LATEST.fullmatch(reference)
    if latest and int(latest[1] or 0) < len(ids):
        return ids[-1 - int(latest[1] or 0)]
    if reference in ids:
        return reference
    named = [str(row[0]) for row in rows if row[1] == reference]
    matching = named or [
        each for each in ids if each.startswith(reference) or each.rpartition("-")[2].startswith(reference)
    ]
    if len(matching) == 1 and reference:
        return matching[0]
    if matching and reference:
        verb = "is the name of" if named else "matches"
        advice = "give an id" if named else "give more characters of an id"
        raise ConfigError(f"{reference!r} {verb} {len(matching)} runs of the store; {advice}: {_names(matching)}")
    known = f"known, latest first: {_names(ids[::-1])}" if ids else "it has no runs yet"
    raise ConfigError(f"the store {url} has no run {reference!r}; {known}")


def _names(ids: list[str]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return ", ".join(ids[:_SHOWN]) + more


# A push inserts its reference to a blob before the blob, so this lock excludes pushes while blobs are deleted.
_EXCLUDE_PUSHES = "LOCK TABLE agentv.run_blobs IN SHARE ROW EXCLUSIVE MODE"
_BLOBS_OF_RUNS = "SELECT DISTINCT sha256 FROM agentv.run_blobs WHERE run_id = ANY(%s)"
_DELETE_RUNS = "DELETE FROM agentv.runs WHERE run_id = ANY(%s) RETURNING run_id"
_DELETE_UNUSED_BLOBS = """
DELETE FROM agentv.blobs WHERE sha256 = ANY(%s)
AND NOT EXISTS (SELECT FROM agentv.run_blobs AS other WHERE other.sha256 = blobs.sha256)
"""


def remove_shared_runs(connection: "Connection", url: "StoreUrl", run_ids: Sequence[str]) -> tuple[str, ...]:
    """Delete runs with all their lines in one transaction; return the ids that existed. Raises StorageError."""
    ids = list(run_ids)
    with store_errors(url, "cannot delete runs"), connection.transaction():
        connection.execute(_EXCLUDE_PUSHES)
        blobs = [str(row[0]) for row in connection.execute(_BLOBS_OF_RUNS, [ids]).fetchall()]
        deleted = {str(row[0]) for row in connection.execute(_DELETE_RUNS, [ids]).fetchall()}
        if blobs:
            connection.execute(_DELETE_UNUSED_BLOBS, [blobs])
    return tuple(run_id for run_id in ids if run_id in deleted)
