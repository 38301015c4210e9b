"""A run that is stored in memory only: for the Python API and for tests."""

from collections.abc import Collection, Iterator, Mapping

from agentv.scoring.keys.identity import DigestSet
from agentv.storage.records.encode import case_line_key, numbered
from agentv.types.json_value import JsonValue
from agentv.types.protocols import Clock
from agentv.types.records.answer import Answer
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord, EventRecord, RunRecord


class MemoryStore:
    """A ResultStore that holds all records in lists, unencoded."""

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
        """The id of the run."""
        return self._run_id

    @property
    def folder(self) -> None:
        """None: the run has no folder on disk."""
        return

    def begin(self, run: RunRecord) -> None:
        """Store the run's record, unless there is one, and a `started` event."""
        self.run = self.run or run
        self.note("started", {"versions": {"agentv": run.agentv_version}})

    def note(self, type_: str, fields: Mapping[str, JsonValue]) -> None:
        """Store one event of the run."""
        self.events.append(EventRecord(type_, self._clock(), fields, len(self.events)))

    def append_case(self, case: CaseRecord) -> None:
        """Store a planned case; ignore a case that is already stored."""
        if self._known_cases.add(case_line_key(case.suite, case.eval_id, case.case_key)):
            self.cases.append(case)

    def append_answer(self, answer: Answer) -> Answer:
        """Store an answer and return it with its `seq`."""
        self.answers.append(numbered(answer, seq=len(self.answers), run_id=self._run_id))
        return self.answers[-1]

    def append(self, result: CaseResult) -> CaseResult:
        """Store a result and return it with its `seq`."""
        self.results.append(numbered(result, seq=len(self.results), run_id=result.run_id))
        return self.results[-1]

    def results_numbered(self, numbers: Collection[int]) -> Iterator[CaseResult]:
        """Yield the results with these `seq`."""
        return (self.results[number] for number in numbers)

    def cases_named(self, names: Collection[tuple[str, str]]) -> Iterator[CaseRecord]:
        """Yield the planned cases with these names (suite, id)."""
        return (case for case in self.cases if (case.suite, case.eval_id) in names)

    def close(self, state: str) -> None:
        """Store an `ended` event."""
        self.note("ended", {"state": state})
