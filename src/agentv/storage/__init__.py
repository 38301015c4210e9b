"""Stores: a run folder on disk, a run in memory, and the records both are made of."""

from agentv.storage.find_run import find_run, runs_folder
from agentv.storage.labels import append_labels
from agentv.storage.list_runs import ListedRun, list_runs
from agentv.storage.memory import MemoryStore
from agentv.storage.records import EventRecord, export_record
from agentv.storage.run_folder import RunFolder, new_run_id
from agentv.storage.stored_run import StoredRun, open_run

__all__ = [
    "EventRecord",
    "ListedRun",
    "MemoryStore",
    "RunFolder",
    "StoredRun",
    "append_labels",
    "export_record",
    "find_run",
    "list_runs",
    "new_run_id",
    "open_run",
    "runs_folder",
]
