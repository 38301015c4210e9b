"""The runs in which `run_evaluation` stores the judgements of this process: one per configuration and name."""

import atexit
import os
import random
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from agentv.engine.calling.given_answer import GIVEN_ANSWER
from agentv.engine.criteria.judged_lines import JudgedLine
from agentv.engine.criteria.line_scoring import LineScoring
from agentv.engine.criteria.runner import EvaluationRunner, Judgement
from agentv.engine.criteria.scored_run import ScoredPlan, ScoredRun, suite_of_file
from agentv.engine.running.clock import make_clock
from agentv.engine.running.recorder import JudgeFailures
from agentv.engine.running.run_stores import reopen_store
from agentv.execution.forks import ProcessLock
from agentv.loading.files.places import find_home
from agentv.scoring.gates.gates import STREAM_METRICS, parse_gate
from agentv.scoring.gates.run_verdict import ScopedGate
from agentv.scoring.keys.identity import digest
from agentv.storage.run.find import list_run_folders, runs_folder
from agentv.storage.run.folder import RunFolder, new_run_id
from agentv.storage.run.stored import SCORED, StoredRun
from agentv.types.errors import StorageError
from agentv.types.json_value import JsonObject
from agentv.types.protocols import ResultStore
from agentv.types.records.result import CaseResult

PYTHON = "python"
_NO_LIMIT = 2**31


class ProcessRun:
    """A run that stores judgements of this process. Thread-safe. It is closed at the latest when the process ends.

    With `name`, the latest run of that name by the same configuration is continued. The run is new if there is none, or
    if another process writes to that run or its files cannot be read. `path` is the configuration's file, if it has
    one.
    """

    def __init__(self, runner: EvaluationRunner, *, name: str | None = None, path: str | None = None) -> None:
        self._lock = threading.Lock()
        self._clock = make_clock()
        self._started_at = time.monotonic()
        self._name = name
        cwd = Path.cwd()
        self._home = find_home(cwd)
        self._judging_digest = judging_digest(runner.snapshot)
        gates = runner.config.stream_gates
        suite = "run_evaluation" if path is None else suite_of_file(Path(path))
        plan = ScoredPlan(
            suite,
            "",
            runner.snapshot,
            home=self._home,
            folder=str(cwd),
            name=name,
            gates=gates,
            reading={} if path is None else {"config": os.path.relpath(path, cwd)},
        )
        self._run = ScoredRun(runner, plan, self._open, self._clock)
        self._scoring = LineScoring(
            None,
            runner,
            lambda _line: None,
            clock=self._clock,
            gates=None if gates is None else tuple(ScopedGate(parse_gate(gate, STREAM_METRICS)) for gate in gates),
            judge_failures=JudgeFailures(_NO_LIMIT),
            run=self._run,
        )
        self._lines = 0
        self._is_closed = False
        self._process = os.getpid()
        atexit.register(self.close)

    @property
    def run_id(self) -> str | None:
        """The id of the run, None before the first judgement."""
        return None if self._run.opened_store is None else self._run.opened_store.run_id

    def add(self, judgement: Judgement) -> CaseResult:
        """Store a judgement, and return its row. Raises StorageError, also after `close`."""
        with self._lock:
            if self._is_closed:
                raise StorageError("the run is closed")
            _ = self._run.store  # opened before lines are counted, because it may continue a run
            self._lines += 1
            given = judgement.result.input_snapshot
            line = JudgedLine(
                PYTHON,
                self._lines,
                judgement.result.timestamp,
                judged=judgement.result,
                evaluators=judgement.evaluators,
            )
            slot = self._run.take_result_key(given, given.target or given.agent_id or GIVEN_ANSWER, line.source)
            row = self._run.add(replace(line, slot=slot))
            self._scoring.count(row)
            return row

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
            if self._run.opened_store is None:
                return
            with suppress(StorageError):
                report = self._scoring.report(
                    max_errors=0, duration_s=time.monotonic() - self._started_at, is_stored=True
                )
                self._scoring.save_report(report)

    def _open(self) -> ResultStore:
        """Open the run of this name, or a new one."""
        folder = None if self._name is None else self._find(self._name)
        if folder is not None:
            try:
                store = reopen_store(folder, clock=self._clock)
                self._count_stored_rows(StoredRun(folder))
            except StorageError as error:  # another process writes it, or it cannot be read
                self._scoring.notes[f"run {folder.name} of the same name is not continued: {error}"] = None
            else:
                return store
        run_id = new_run_id(self._clock, random.SystemRandom())
        return RunFolder(runs_folder(self._home), run_id, clock=self._clock)

    def _find(self, name: str) -> Path | None:
        """Return the folder of the latest run called `name` of this suite and configuration, or None.

        Only runs that judged given answers are considered. Runs that cannot be read are skipped.
        """
        for folder in reversed(list_run_folders(self._home)):
            with suppress(StorageError):
                stored = StoredRun(folder)
                is_same_suite = (
                    stored.run.name == name and stored.has_given_answers and stored.suites == (self._run.suite,)
                )
                if is_same_suite and judging_digest(_configuration(stored)) == self._judging_digest:
                    return folder
        return None

    def _count_stored_rows(self, stored: StoredRun) -> None:
        for row in stored.results():
            self._run.trials.add(row.slot)
            self._run.targets[row.slot.target] = None
            self._scoring.count_stored(row)
            self._lines = max(self._lines, row.line)
        for case in stored.cases():
            self._run.cases.add(f"{case.suite}\0{case.eval_id}")


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


def named_run(runner: EvaluationRunner, *, name: str, path: str | None) -> ProcessRun:
    """Return the run of this process called `name`.

    Calls with an equal configuration, from the same file and in the same project, share one run.
    """
    key = (os.getpid(), str(find_home(Path.cwd())), name, path, judging_digest(runner.snapshot))
    with _NAMED_LOCK:
        if key not in _NAMED_RUNS:
            _NAMED_RUNS[key] = ProcessRun(runner, name=name, path=path)
        return _NAMED_RUNS[key]


_NAMED_RUNS: dict[tuple[int, str, str, str | None, str], ProcessRun] = {}
_NAMED_LOCK = ProcessLock()
