"""Taking runs out of the team's database, with the large values that no other run has."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentv.storage.postgres.connection import told

if TYPE_CHECKING:
    from agentv.storage.postgres.connection import Connection
    from agentv.storage.postgres.url import StoreUrl

# Whoever brings a large value refers to it first, and so waits for us here, or we for him.
_ALONE = "LOCK TABLE agentv.run_blobs IN SHARE ROW EXCLUSIVE MODE"
_VALUES = "SELECT DISTINCT sha256 FROM agentv.run_blobs WHERE run_id = ANY(%s)"
_RUNS = "DELETE FROM agentv.runs WHERE run_id = ANY(%s) RETURNING run_id"
_LEFT_OVER = """
DELETE FROM agentv.blobs WHERE sha256 = ANY(%s)
AND NOT EXISTS (SELECT FROM agentv.run_blobs AS other WHERE other.sha256 = blobs.sha256)
"""


def remove_shared_runs(connection: "Connection", url: "StoreUrl", run_ids: Sequence[str]) -> tuple[str, ...]:
    """Delete runs with all their lines, all of them or none; return those that were there. Raises StorageError."""
    ids = list(run_ids)
    with told(url, "does not let runs be deleted"), connection.transaction():
        connection.execute(_ALONE)
        values = [str(row[0]) for row in connection.execute(_VALUES, [ids]).fetchall()]
        gone = {str(row[0]) for row in connection.execute(_RUNS, [ids]).fetchall()}
        if values:
            connection.execute(_LEFT_OVER, [values])
    return tuple(run_id for run_id in ids if run_id in gone)
