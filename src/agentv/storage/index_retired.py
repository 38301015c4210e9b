"""Rows of cases that were taken out of a run: in the index they are kept apart from those that count."""

import json
import sqlite3
from pathlib import Path

from agentv.storage.index_schema import COUNT_STATES
from agentv.storage.stored_run import StoredRun

_RESTORE = "UPDATE rows SET current = 1 WHERE run = :run AND current = 2"
_RETIRE = """
UPDATE rows SET current = 2
WHERE run = :run AND current = 1 AND eval_id = :eval_id AND suite = :suite AND target = :target AND trial = :trial
"""
_KEEP_COUNTS = "UPDATE runs SET counts = :counts WHERE run = :run"


def restore_retired(connection: sqlite3.Connection, run: int) -> None:
    """Take back what `mark_retired` did, before rows are added."""
    connection.execute(_RESTORE, {"run": run})


def mark_retired(connection: sqlite3.Connection, run: int, folder: Path) -> None:
    """Set the rows apart that no longer count. What cannot be read is told by whoever reads the events themselves."""
    try:
        retired = StoredRun(folder).retired()
    except OSError:
        return
    places = [{"run": run, **slot.to_json()} for slot in retired]
    connection.executemany(_RETIRE, places)
    counts = json.dumps(dict(connection.execute(COUNT_STATES, {"run": run}).fetchall()))
    connection.execute(_KEEP_COUNTS, {"run": run, "counts": counts})
