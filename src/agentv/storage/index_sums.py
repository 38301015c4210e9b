"""What the suites and targets of runs came to, kept in the index until a run's rows or events change."""

import sqlite3
from pathlib import Path

from agentv.storage import index_schema as sql
from agentv.storage.index_file import reading, writing
from agentv.storage.index_refresh import refresh_run
from agentv.storage.run_sums import SumsByPlace, decode_sums, encode_sums, load_sums
from agentv.storage.stored_run import StoredRun


def find_sums(connection: sqlite3.Connection, folder: Path) -> SumsByPlace:
    """Return a run's sums, counted anew when it changed. Raises OSError when its rows cannot be read."""
    known = refresh_run(connection, folder)
    stamp = f"{known.results_stamp} {known.events_stamp}"
    with reading(connection):
        (summed,) = connection.execute(sql.SUMMED_STAMP, {"run": known.run}).fetchone()
        if summed == stamp:
            kept = connection.execute(sql.FIND_SUMS, {"run": known.run}).fetchall()
            return {(suite, target): decode_sums(sums) for suite, target, sums in kept}
    # Rows that are added from here on are counted, and make the stamp another one.
    counted = load_sums(StoredRun(folder))
    with writing(connection):
        connection.execute(sql.FORGET_SUMS, {"run": known.run})
        rows = [(known.run, suite, target, encode_sums(sums)) for (suite, target), sums in counted.items()]
        connection.executemany(sql.ADD_SUMS, rows)
        connection.execute(sql.MARK_SUMS, {"run": known.run, "stamp": stamp})
    return counted
