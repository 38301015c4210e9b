"""The runs in which `run_evaluation` stores the judgements of this process: one per configuration and name."""

import atexit
import os
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from agentv.engine.calling.given_answer import GIVEN_ANSWER
from agentv.engine.criteria.answer_tasks import AnswerTasks
from agentv.engine.criteria.inputs import suite_of_file
from agentv.engine.criteria.run_answers import RunAnswers
from agentv.engine.criteria.run_record import ScoredRun
from agentv.engine.criteria.stream_recorder import StreamRecorder, stream_plan
from agentv.engine.running.case import CaseRunner
from agentv.engine.running.recorder import StopSignal
from agentv.engine.running.run_stores import reopen_store
from agentv.execution.forks import ProcessLock
from agentv.loading.files.places import find_home
from agentv.scoring.gates.gates import STREAM_METRICS, parse_gate
from agentv.scoring.gates.run_verdict import ScopedGate
from agentv.scoring.keys.identity import digest
from agentv.scoring.results.by_criterion import JudgedCriteria
from agentv.storage.run.find import list_run_folders, runs_folder
from agentv.storage.run.folder import RunFolder, new_run_id
from agentv.storage.run.stored import SCORED, StoredRun
from agentv.types.errors import StorageError
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.events import Observer
from agentv.types.json_value import JsonObject
from agentv.types.protocols import ResultStore
from agentv.types.records.answer import Origin, source_of
from agentv.types.records.result import CaseResult
from agentv.types.run_options import RunOptions

PYTHON = "python"
_NO_LIMIT = 2**31


class ProcessRun:
    """A run that stores judgements of this process. Thread-safe. It is closed at the latest when the process ends.

    With `name`, the latest run of that name by the same configuration is continued. The run is new if there is none, or
    if another process writes to that run or its files cannot be read. `path` is the configuration's file, if it has
    one. `observers` are told of each stored judgement.
    """

    def __init__(
        self,
        tasks: AnswerTasks,
        *,
        name: str | None = None,
        path: str | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._lock = threading.Lock()
        self._started_at = time.monotonic()
        self._name = name
        self._observers = observers
        self._path = path
        self._tasks = AnswerTasks(tasks.config, clock=tasks.clock)
        if path is not None:
            self._tasks.name_suite(suite_of_file(Path(path)))
        self._home = find_home(Path.cwd())
        self._judging_digest = judging_digest(tasks.snapshot)
        self._recorded = RunAnswers(self._tasks)
        self._recorder: StreamRecorder | None = None
        self._cases: CaseRunner | None = None
        self._lines = 0
        self._is_closed = False
        self._process = os.getpid()
        atexit.register(self.close)

    @property
    def run_id(self) -> str | None:
        """The id of the run, None before the first judgement."""
        return None if self._recorder is None else self._recorder.store.run_id

    def add(self, given: EvaluationInput, judged: JudgedCriteria) -> None:
        """Store a judgement. Raises StorageError, also after `close`."""
        with self._lock:
            if self._is_closed:
                raise StorageError("the run is closed")
            recorder, cases = self._open()
            self._lines += 1
            origin = Origin(PYTHON, self._lines)
            source = source_of(origin.file, origin.line)
            slot = self._recorded.take_slot(given, given.target or given.agent_id or GIVEN_ANSWER, source)
            task = self._recorded.task(given, slot, origin, now=self._tasks.clock())
            recorder.row(cases.record(task, judged))

    def close(self) -> None:
        """End the run with its verdict. Do nothing if the run is closed, or in a forked process.

        A StorageError is not raised, because this is called at exit.
        """
        if os.getpid() != self._process:
            return
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            atexit.unregister(self.close)
            recorder = self._recorder
            if recorder is None:
                return
            with suppress(StorageError):
                recorder.check_files()
                recorder.save_report(recorder.report(time.monotonic() - self._started_at), has_every_row=True)
            with suppress(StorageError):
                recorder.store.close(recorder.stop.state)

    def _open(self) -> tuple[StreamRecorder, CaseRunner]:
        """Return the recorder of the run and what makes its rows: of the run of this name, or of a new one."""
        if self._recorder is not None and self._cases is not None:
            return self._recorder, self._cases
        folder, note = None if self._name is None else self._find(self._name), None
        if folder is not None:
            try:
                return self._continue(folder)
            except StorageError as error:  # another process writes it, or it cannot be read
                note = f"run {folder.name} of the same name is not continued: {error}"
        run_id = new_run_id(self._tasks.clock, random.SystemRandom())
        recorder, cases = self._begin(RunFolder(runs_folder(self._home), run_id, clock=self._tasks.clock))
        if note is not None:
            recorder.note(note)
        return recorder, cases

    def _continue(self, folder: Path) -> tuple[StreamRecorder, CaseRunner]:
        """Open a stored run, and count its rows. Raises StorageError if it is written by another process, or broken."""
        store = reopen_store(folder, clock=self._tasks.clock)
        try:
            return self._begin(store, earlier=StoredRun(folder))
        except StorageError:
            with suppress(StorageError):
                store.close("failed")
            raise

    def _begin(self, store: ResultStore, *, earlier: StoredRun | None = None) -> tuple[StreamRecorder, CaseRunner]:
        gates = self._tasks.config.stream_gates
        scoped = None if gates is None else tuple(ScopedGate(parse_gate(gate, STREAM_METRICS)) for gate in gates)
        plan = stream_plan(self._tasks.specs, scoped, home=self._home, options=RunOptions(judge_failures=_NO_LIMIT))
        recorded, lines = RunAnswers(self._tasks), 0
        recorder = StreamRecorder(plan, store, list(self._observers), StopSignal(), source=PythonSource(recorded))

        def count(row: CaseResult) -> None:
            nonlocal lines
            recorder.count_stored(row)
            lines = max(lines, row.line)

        if earlier is not None:
            recorded.restore(earlier, files=None, on_row=count)
        store.begin(self._record(scoped).to_record(store.run_id, clock=self._tasks.clock))
        cases = self._tasks.runner(self._tasks.runtime(), sink=recorder, run_id=store.run_id)
        self._recorder, self._cases, self._recorded, self._lines = recorder, cases, recorded, lines
        return recorder, cases

    def _record(self, gates: tuple[ScopedGate, ...] | None) -> ScoredRun:
        cwd = Path.cwd()
        return ScoredRun(
            self._tasks.suite.path,
            "",
            self._tasks.snapshot,
            home=self._home,
            folder=str(cwd),
            name=self._name,
            gates=gates,
            reading={} if self._path is None else {"config": os.path.relpath(self._path, cwd)},
        )

    def _find(self, name: str) -> Path | None:
        """Return the folder of the latest run called `name` of this suite and configuration, or None.

        Only runs that judged given answers are considered. Runs that cannot be read are skipped.
        """
        for folder in reversed(list_run_folders(self._home)):
            with suppress(StorageError):
                stored = StoredRun(folder)
                is_same_suite = (
                    stored.run.name == name and stored.has_given_answers and stored.suites == (self._tasks.suite.path,)
                )
                if is_same_suite and judging_digest(_configuration(stored)) == self._judging_digest:
                    return folder
        return None


class PythonSource(Struct, frozen=True):
    """The answers that a process gives one by one."""

    answers: RunAnswers
    read: int = 0

    @property
    def repeats_cases(self) -> bool:
        """True if a case has several rows: repeats, or answers of several targets."""
        return self.answers.repeats_cases

    def why_no_rows(self) -> str:
        """Return why there is no row."""
        return "no answer was judged"

    def notes(self) -> Iterator[str]:
        """Yield nothing: no line was read."""
        yield from ()


def judging_digest(configuration: JsonObject) -> str:
    """Return a digest of the settings in the snapshot `configuration` that affect scores."""
    config = configuration.get("config")
    values = config if isinstance(config, Mapping) else {}
    return digest({name: value for name, value in values.items() if name not in _KEYS_WITHOUT_EFFECT})


_KEYS_WITHOUT_EFFECT = ("metadata", "evaluator_concurrency", "evaluator_timeout_seconds")


def _configuration(stored: StoredRun) -> JsonObject:
    scored = stored.run.plan.get(SCORED)
    found = scored.get("configuration") if isinstance(scored, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def named_run(tasks: AnswerTasks, *, name: str, path: str | None) -> ProcessRun:
    """Return the run of this process called `name`.

    Calls with an equal configuration, from the same file and in the same project, share one run.
    """
    key = (os.getpid(), str(find_home(Path.cwd())), name, path, judging_digest(tasks.snapshot))
    with _NAMED_LOCK:
        if key not in _NAMED_RUNS:
            _NAMED_RUNS[key] = ProcessRun(tasks, name=name, path=path)
        return _NAMED_RUNS[key]


_NAMED_RUNS: dict[tuple[int, str, str, str | None, str], ProcessRun] = {}
_NAMED_LOCK = ProcessLock()
