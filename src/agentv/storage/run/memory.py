"""A run that is kept in memory only: for the Python API and for tests."""

from collections.abc import Mapping

from agentv.scoring.keys.digests import DigestSet
from agentv.storage.run.line_file import numbered
from agentv.storage.run.stored import case_name
from agentv.types.json_value import JsonValue
from agentv.types.protocols import Clock
from agentv.types.records.answer import Answer
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord, EventRecord, RunRecord


class MemoryStore:
    """A ResultStore whose rows stand in lists, as they were given."""

    def __init__(self, run_id: str, *, clock: Clock) -> None:
        self._run_id = run_id
        self._clock = clock
        self._known_cases = DigestSet()
        self.run: RunRecord | None = None
        self.events: list[EventRecord] = []
        self.cases: list[CaseRecord] = []
        self.answers: list[Answer] = []
        self.results: list[CaseResult] = []

    @property
    def run_id(self) -> str:
        """The run that is kept."""
        return self._run_id

    @property
    def folder(self) -> None:
        """Nowhere on disk."""
        return

    def begin(self, run: RunRecord) -> None:
        """Keep what is known of the run before it starts; the first one counts."""
        self.run = self.run or run
        self.note("started", {"versions": {"agentv": run.agentv_version}})

    def note(self, type_: str, fields: Mapping[str, JsonValue]) -> None:
        """Keep one event of the run."""
        self.events.append(EventRecord(type_, self._clock(), fields, len(self.events)))

    def append_case(self, case: CaseRecord) -> None:
        """Keep a planned case; a second write of the same case is dropped."""
        if self._known_cases.add(case_name(case.suite, case.eval_id, case.case_key)):
            self.cases.append(case)

    def append_answer(self, answer: Answer) -> Answer:
        """Keep what a target returned; the answer comes back with its `seq`."""
        self.answers.append(numbered(answer, seq=len(self.answers), run_id=self._run_id))
        return self.answers[-1]

    def append(self, result: CaseResult) -> CaseResult:
        """Keep a judged row; the row comes back with its `seq`."""
        self.results.append(numbered(result, seq=len(self.results), run_id=result.run_id))
        return self.results[-1]

    def close(self, state: str) -> None:
        """Note the end of the run."""
        self.note("ended", {"state": state})
