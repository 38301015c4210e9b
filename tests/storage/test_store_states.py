"""A run that is written, killed, reopened and continued in any order has the same records as a dictionary."""

import os
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from tests.support.nightly import IS_NIGHTLY
from tests.support.stored import at_noon, make_answer, make_result, make_run

from agentv.storage.run.folder import RunFolder
from agentv.storage.run.stored import open_run
from agentv.storage.run.stored_rows import StoredRows
from agentv.types.json_value import JsonObject
from agentv.types.records.answer import ResultKey

SLOTS = [ResultKey("s.yaml", name, "t", trial) for name in ("a", "b", "ü") for trial in (0, 1)]
slots = st.sampled_from(SLOTS)
TORN = st.sampled_from([b"", b"{", b'{"schema": "agentv-result-1", "slot', b"\xff"])


class KilledStore(RuleBasedStateMachine):
    """Appends answers and results with rising generations like a run, and is killed at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = Path(mkdtemp())
        self.rows: dict[ResultKey, tuple[int, str]] = {}
        self.answers: dict[ResultKey, tuple[int, str]] = {}
        self.retired: set[ResultKey] = set()

    @initialize()
    def begin(self) -> None:
        self.store = RunFolder(self.runs, "r", clock=at_noon)
        self.store.begin(make_run(run_id="r"))

    @rule(slot=slots, text=st.text(max_size=3))
    def answer(self, slot: ResultKey, text: str) -> None:
        generation = 1 + max(self.answers.get(slot, (-1, ""))[0], self.rows.get(slot, (-1, ""))[0])
        key = f"{slot.eval_id}{slot.trial}{generation}"
        kept = make_answer(slot=slot, text=text, generation=generation, answer_key=key)
        self.store.append_answer(kept)
        self.answers[slot] = (generation, text)

    @rule(slot=slots, text=st.text(max_size=3))
    def judge(self, slot: ResultKey, text: str) -> None:
        generation = 1 + self.rows.get(slot, (-1, ""))[0]
        self.store.append(make_result(slot=slot, candidate_answer=text, generation=generation))
        self.rows[slot] = (generation, text)

    @rule(slot=slots)
    def retire_or_return(self, slot: ResultKey) -> None:
        fields: JsonObject = {
            "slot": {"suite": slot.suite, "eval_id": slot.eval_id, "target": slot.target, "trial": slot.trial}
        }
        self.store.note("case_returned" if slot in self.retired else "case_retired", fields)
        self.retired ^= {slot}

    @rule(torn=TORN, name=st.sampled_from(["results.jsonl", "answers.jsonl", "events.jsonl"]))
    def kill_and_open_again(self, torn: bytes, name: str) -> None:
        self.leave()
        with (self.runs / "r" / name).open("ab") as file:
            file.write(torn)
        self.store = RunFolder(self.runs, "r", clock=at_noon)

    @precondition(lambda self: self.rows)
    @invariant()
    def what_is_there_is_what_was_written(self) -> None:
        run = open_run(self.runs / "r")
        current = {row.slot: (row.generation, row.candidate_answer) for row in run.results()}
        assert current == {slot: row for slot, row in self.rows.items() if slot not in self.retired}
        assert sum(run.counts().values()) == len(current)
        kept = StoredRows(run)
        try:
            for slot, (generation, text) in self.rows.items():
                row = kept.take(slot)
                assert row is not None
                assert replace(row, seq=None) == make_result(slot=slot, candidate_answer=text, generation=generation)
                answered = self.answers.get(slot, (-1, ""))[0]
                assert kept.next_generation(slot, row) == 1 + max(generation, answered)
            assert list(kept.remaining_keys()) == []
        finally:
            kept.close()

    def leave(self) -> None:
        """End like a killed process: release locks and files without writing anything."""
        self.store._flusher.close()
        os.close(self.store._lock._descriptor)
        for file in self.store._files:
            file.close()
        for descriptor in self.store._folder_descriptors:
            os.close(descriptor)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.leave()
        rmtree(self.runs)


KilledStore.TestCase.settings = settings(max_examples=250 if IS_NIGHTLY else 15, stateful_step_count=15, deadline=None)
TestKilledStore = KilledStore.TestCase
