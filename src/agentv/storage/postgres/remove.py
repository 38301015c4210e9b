"""Delete runs from the team's database, with the blobs that no other run has."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentv.storage.postgres.connection import store_errors

if TYPE_CHECKING:
    from agentv.storage.postgres.connection import Connection
    from agentv.templating.store_url import StoreUrl

# A push inserts its reference to a blob first, so this lock keeps pushes and deletions of blobs apart.
_ALONE = "LOCK TABLE agentv.run_blobs IN SHARE ROW EXCLUSIVE MODE"
_VALUES = "SELECT DISTINCT sha256 FROM agentv.run_blobs WHERE run_id = ANY(%s)"
_RUNS = "DELETE FROM agentv.runs WHERE run_id = ANY(%s) RETURNING run_id"
_LEFT_OVER = """
DELETE FROM agentv.blobs WHERE sha256 = ANY(%s)
AND NOT EXISTS (SELECT FROM agentv.run_blobs AS other WHERE other.sha256 = blobs.sha256)
"""


def remove_shared_runs(connection: "Connection", url: "StoreUrl", run_ids: Sequence[str]) -> tuple[str, ...]:
    """Delete runs with all their lines in one transaction; return the ids that existed. Raises StorageError."""
    ids = list(run_ids)
    with store_errors(url, "cannot delete runs"), connection.transaction():
        connection.execute(_ALONE)
        values = [str(row[0]) for row in connection.execute(_VALUES, [ids]).fetchall()]
        gone = {str(row[0]) for row in connection.execute(_RUNS, [ids]).fetchall()}
        if values:
            connection.execute(_LEFT_OVER, [values])
    return tuple(run_id for run_id in ids if run_id in gone)
