"""Every store has the same records as a dictionary, through any order of appending, killing and reopening."""

import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace
from tests.support.nightly import IS_NIGHTLY
from tests.support.postgres_server import upgraded_database
from tests.support.stored import at_noon, make_answer, make_case, make_result, make_run

from agentv.storage.postgres.connection import connect
from agentv.storage.postgres.copying import RunPuller, RunPusher
from agentv.storage.postgres.store import Mirror, MirroredRun
from agentv.storage.run.folder import LINE_FILES, RunFolder
from agentv.storage.run.memory import MemoryStore
from agentv.storage.run.stored import open_run
from agentv.templating.store_url import StoreUrl, parse_store_url
from agentv.types.protocols import ResultStore
from agentv.types.records.answer import AnswerRef

NUMBERS = count()
TEXTS = st.text(max_size=6) | st.sampled_from(["\0", "x" * 300_000, "😀 \\u0000"])
TORN = st.binary(max_size=5).filter(lambda data: b"\n" not in data)


class StoreMachine(RuleBasedStateMachine):
    """A store and a dictionary of lists; `read` returns the store's records for one of the lists."""

    store: ResultStore

    def __init__(self) -> None:
        super().__init__()
        self.run_id = f"run-{os.getpid()}-{next(NUMBERS)}"
        self.folder = Path(tempfile.mkdtemp())
        self.model: dict[str, list[Any]] = {"events": [], "cases": [], "answers": [], "results": []}

    def open(self) -> ResultStore:
        raise NotImplementedError

    def crash(self, torn: bytes, file: str) -> None:
        """End the writer like a kill."""
        raise NotImplementedError

    def read(self, kind: str) -> list[Any]:
        raise NotImplementedError

    @initialize()
    def begin(self) -> None:
        self.store = self.open()
        self.store.begin(make_run(run_id=self.run_id))
        self.model["events"].append("started")

    @rule(number=st.integers(0, 3), text=TEXTS)
    def write_case(self, number: int, text: str) -> None:
        case = make_case(eval_id=f"case-{number}", question=text, case_key=f"v1:{text[:9]}")
        self.store.append_case(case)
        if (case.eval_id, case.case_key) not in [(each.eval_id, each.case_key) for each in self.model["cases"]]:
            self.model["cases"].append(case)

    @rule(text=TEXTS)
    def write_answer(self, text: str) -> None:
        kept = self.store.append_answer(make_answer(text=text))
        assert kept.seq == len(self.model["answers"])
        self.model["answers"].append(kept)

    @rule(text=TEXTS)
    def write_result(self, text: str) -> None:
        # Each is a result of its own: a database stores one result for each slot and generation.
        slot = replace(make_result().slot, trial=len(self.model["results"]))
        row = make_result(run_id=self.run_id, slot=slot, candidate_answer=text, answer_ref=AnswerRef(0))
        kept = self.store.append(row)
        assert kept.seq == len(self.model["results"])
        self.model["results"].append(kept)

    @rule(text=TEXTS)
    def note(self, text: str) -> None:
        self.store.note("noted", {"text": text})
        self.model["events"].append("noted")

    @rule(state=st.sampled_from(["finished", "stopped", "interrupted"]))
    def close_and_go_on(self, state: str) -> None:
        self.store.close(state)
        self.model["events"].append("ended")
        self.begin()

    @rule(torn=TORN, file=st.sampled_from(LINE_FILES))
    def be_killed_and_go_on(self, torn: bytes, file: str) -> None:
        self.crash(torn, file)
        self.begin_after(torn)

    def begin_after(self, torn: bytes) -> None:
        if torn:
            self.model["events"].append("torn_line_cut")
        self.begin()

    def check(self) -> None:
        assert [event.type for event in self.read("events")] == self.model["events"]
        for kind in ("cases", "answers", "results"):
            assert self.read(kind) == self.model[kind]

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close("finished")
            self.model["events"].append("ended")
            self.check()
        shutil.rmtree(self.folder)


class MemoryMachine(StoreMachine):
    """A run in memory ends with its process, and is opened once by one process."""

    def open(self) -> ResultStore:
        self.model = {kind: [] for kind in self.model}
        return MemoryStore(self.run_id, clock=at_noon)

    def crash(self, torn: bytes, file: str) -> None:  # noqa: ARG002 - it has no files
        self.model = {kind: [] for kind in self.model}

    def begin_after(self, torn: bytes) -> None:  # noqa: ARG002 - as above
        self.begin()

    def read(self, kind: str) -> list[Any]:
        return list(getattr(self.store, kind))

    @invariant()
    def what_was_acknowledged_is_there(self) -> None:
        if hasattr(self, "store"):
            self.check()


class FolderMachine(StoreMachine):
    def open(self) -> ResultStore:
        return RunFolder(self.folder / "runs", self.run_id, clock=at_noon)

    def crash(self, torn: bytes, file: str) -> None:
        assert isinstance(self.store, RunFolder)
        kill(self.store, torn, file)

    def read(self, kind: str) -> list[Any]:
        return list(getattr(open_run(self.folder / "runs" / self.run_id), kind)())

    @invariant()
    def what_was_acknowledged_is_there(self) -> None:
        if hasattr(self, "store"):
            self.check()


class SharedMachine(StoreMachine):
    """A shared run, read back from the database; its connection is cut at any moment."""

    def __init__(self) -> None:
        super().__init__()
        self.url = kept_url()
        self.mirrors: list[Mirror] = []

    def open(self) -> ResultStore:
        store = MirroredRun(self.url, lambda: RunFolder(self.folder / "runs", self.run_id, clock=at_noon))
        self.mirrors.append(store._mirror)
        return store

    def crash(self, torn: bytes, file: str) -> None:
        """Let the mirror of the killed writer continue for a while beside the next one, like a lingering connection."""
        assert isinstance(self.store, MirroredRun)
        kill(self.store._run_folder, torn, file)
        self.store._mirror.finish(patience_s=0)

    @rule()
    def cut_the_connection(self) -> None:
        with psycopg.connect(self.url.text) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name = 'agentv'"
            )

    def check(self) -> None:
        for mirror in self.mirrors:
            mirror._thread.join(30)
        folder = self.folder / "runs" / self.run_id
        with connect(self.url) as connection:
            RunPusher(folder, connection, self.url).push()
            RunPuller(connection, self.url, self.run_id).pull(self.folder / "elsewhere" / "runs")
        super().check()

    def read(self, kind: str) -> list[Any]:
        return list(getattr(open_run(self.folder / "elsewhere" / "runs" / self.run_id), kind)())


def kill(store: RunFolder, torn: bytes, file: str) -> None:
    """Release a run like the system does for a dead process, perhaps in the middle of a line."""
    store._flusher.close()
    for line_file in store._files:
        line_file.close()
    for descriptor in store._folder_descriptors:
        os.close(descriptor)
    os.close(store._lock._descriptor)
    with (Path(store.folder) / file).open("ab") as tail:
        tail.write(torn)


@cache
def kept_url() -> StoreUrl:
    """Return one database for all examples."""
    return parse_store_url(upgraded_database())


def case_of(machine: Callable[[], StoreMachine], examples: int) -> Any:
    case: Any = machine.TestCase  # type: ignore[attr-defined] # hypothesis makes it
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    examples = examples * 10 if IS_NIGHTLY else examples
    case.settings = settings(max_examples=examples, stateful_step_count=12, deadline=None, suppress_health_check=checks)
    return case


TestMemory = case_of(MemoryMachine, 15)
TestFolder = case_of(FolderMachine, 15)
TestShared = case_of(SharedMachine, 6)
