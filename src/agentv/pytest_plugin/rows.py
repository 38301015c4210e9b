"""The run of a pytest session. A case is run when a test requests the rows of the case, that is, its results."""

import os
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, structs
from msgspec.structs import replace

from agentv.engine.planning.inputs import (
    Inputs,
    SuiteInput,
    TargetsLoader,
    load_inputs,
    load_project_parts,
    project_options,
)
from agentv.engine.planning.plan import CaseTask, RunPlan, SuitePlan
from agentv.engine.planning.planning import make_plan
from agentv.engine.planning.selection import Selection
from agentv.engine.planning.suite_check import Findings, SuiteCheck
from agentv.engine.planning.targets import KnownTargets
from agentv.engine.running.clock import make_clock
from agentv.engine.running.recorder import StopSignal
from agentv.engine.running.requested_rows import RequestedRows
from agentv.engine.running.run_stores import make_store
from agentv.engine.runs.run import run_plan
from agentv.execution.loops import run_in_own_loop
from agentv.execution.user_code import described
from agentv.loading.files.places import find_home, find_repository_root
from agentv.loading.suites.short_evaluators import settings_of
from agentv.providers.local.python import PythonProvider, PythonSettings
from agentv.registry import ProviderSpec, Specs
from agentv.scoring.counting.summary import Summary
from agentv.scoring.gates.run_verdict import Ending, run_verdict
from agentv.storage.run.likeness import PYTEST
from agentv.types.cases import EvalCase, EvalSuite, EvaluatorConfig, ListedCases, listed_cases
from agentv.types.errors import AgentvError, ConfigError
from agentv.types.json_value import JsonValue
from agentv.types.provider import ProviderRequest
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.results import RunReport
from agentv.types.run_options import RunOptions, make_options
from agentv.types.targets import ResolvedTarget

if TYPE_CHECKING:
    import pytest

CHECK = "check"
"""The name of the target, and of its provider, that returns the answers given to `agentv.check`."""


class SessionOptions(Struct, frozen=True):
    """The command-line options of a pytest session, and its root folder."""

    root: str
    targets: tuple[str, ...] = ()
    trials: int | None = None
    gates: tuple[str, ...] | None = None

    def run_options(self, folders: Iterable[Path]) -> RunOptions:
        """Return the options of the run of eval files in `folders`."""
        values = {"targets": self.targets, "trials": self.trials, "gates": self.gates, "name": "pytest"}
        given = {name: value for name, value in values.items() if value is not None}
        return make_options(given, project_options(folders, given))


def session_options(config: "pytest.Config") -> SessionOptions:
    """Return the options of a session."""
    gates = config.getoption("agentv_gate")
    return SessionOptions(
        str(config.rootpath),
        tuple(config.getoption("agentv_target") or ()),
        config.getoption("agentv_trials"),
        None if gates is None else tuple(gates),
    )


class WantedCases(Struct, frozen=True):
    """The ids of the cases of one eval file that tests request, and the targets and trials that the marker sets."""

    file: str
    ids: tuple[str, ...]
    targets: tuple[str, ...] = ()
    trials: int | None = None

    def is_same_group(self, other: "WantedCases") -> bool:
        """Return True if both have the same file, targets and trials."""
        return (self.file, self.targets, self.trials) == (other.file, other.targets, other.trials)


class GivenAnswer(Struct, frozen=True, kw_only=True):
    """An answer to check."""

    id: str
    """The name of the test."""
    file: str
    """The test's file, relative to the root."""
    answer: JsonValue
    prompt: str = ""
    expected: str | None = None
    evaluators: Mapping[str, JsonValue] = {}
    """The settings of each type of evaluator."""
    judge: str | None = None
    """The name of a target, `provider:model`, or the JSON of a dict with `provider`."""


class EndedRun(Struct, frozen=True):
    """A run that has ended. `has_gates` is False if only the default gate applies, which the tests check already."""

    report: RunReport
    has_gates: bool


class SessionEnding(Struct, frozen=True):
    """The ending of a pytest session."""

    interrupted: bool = False
    """True if pytest was interrupted, for instance by Ctrl-C."""
    stop_reason: str | None = None
    """Set if pytest itself decided to stop before it had run all tests, for instance because of `--maxfail`."""
    lost: str | None = None
    """Set if a worker died, so that tests have no result."""


class RowSource(Protocol):
    """The source of rows for tests: the run itself, or the controller of pytest-xdist."""

    def of_case(self, wanted: WantedCases, all_wanted: Sequence[WantedCases]) -> tuple[CaseResult, ...]:
        """Return the rows of the case in `wanted`, which has one id; `all_wanted` are all cases that tests request."""

    def of_answer(self, given: GivenAnswer, all_wanted: Sequence[WantedCases]) -> CaseResult:
        """Return the row of a given answer."""

    def settle(self, keys: Sequence[ResultKey], *, expected: str | None) -> None:
        """Record the outcome of a test whose rows under `keys` did not pass: whether it `expected` that, and why."""

    def end(self, ending: SessionEnding) -> EndedRun | None:
        """End the run and return its report; None if it belongs to another process, or never began."""


class OpenPlan(RunPlan, frozen=True):
    """The plan of a session, in which the number of rows is not known in advance."""

    @property
    def planned(self) -> int | None:
        """None: tests may be skipped, and may check any number of answers."""
        return None


class SessionRun:
    """One run for the rows of a session, in a thread of its own. Its methods may be called from any thread."""

    def __init__(self, options: SessionOptions) -> None:
        self._options = options
        self._root = Path(options.root)
        self._requested = RequestedRows()
        self._stop = StopSignal()
        self._answers: dict[tuple[str, str], JsonValue] = {}
        self._check_counts: Counter[tuple[str, str]] = Counter()
        self._checks_lock = Lock()
        self._report: Future[RunReport] = Future()
        self._plan_lock = Lock()
        self._plan: RunPlan | None = None
        self._tasks: list[tuple[WantedCases, dict[str, list[CaseTask]]]] = []
        self._suites_of_checks: dict[tuple[str, str | None], tuple[EvalSuite, ResolvedTarget, KnownTargets]] = {}
        self._thread: Thread | None = None

    def of_case(self, wanted: WantedCases, all_wanted: Sequence[WantedCases]) -> tuple[CaseResult, ...]:
        """Return the rows of the case in `wanted`. Raises AgentvError if it cannot be run."""
        self._begin(all_wanted)
        (case_id,) = wanted.ids
        for group, tasks in self._tasks:
            if wanted.is_same_group(group):
                needed: dict[str, None] = {}
                _add_dependencies(needed, case_id, tasks)
                needed_tasks = [task for name in needed for task in tasks[name]]
                return self._requested.get(tasks[case_id], needed=needed_tasks)
        raise ConfigError(f"{wanted.file}: no marker of this session names this file with these targets and trials")

    def of_answer(self, given: GivenAnswer, all_wanted: Sequence[WantedCases]) -> CaseResult:
        """Return the row of a given answer. Raises ConfigError for evaluators that cannot be used."""
        plan = self._begin(all_wanted)
        given = self._with_unique_id(given)
        task = self._task_of_check(given, plan)
        self._answers[given.file, given.id] = given.answer
        (row,) = self._requested.get([task])
        return row

    def _with_unique_id(self, given: GivenAnswer) -> GivenAnswer:
        """Return the answer with a unique id: `#2` and so on for further checks and reruns of a test."""
        with self._checks_lock:
            self._check_counts[given.file, given.id] += 1
            number = self._check_counts[given.file, given.id]
        return given if number == 1 else replace(given, id=f"{given.id} #{number}")

    def settle(self, keys: Sequence[ResultKey], *, expected: str | None) -> None:
        """Record the outcome of a test whose rows under `keys` did not pass."""
        if self._thread is not None:
            self._requested.settle(keys, expected=expected)

    def end(self, ending: SessionEnding) -> EndedRun | None:
        """End the run and return its report, even if the run failed; None if it never began."""
        if self._thread is None or self._plan is None:
            return None
        if ending.interrupted:
            self._requested.interrupt("pytest was interrupted")
        elif ending.lost is not None:
            self._requested.fail_run(ending.lost)
        elif ending.stop_reason is not None:
            self._requested.drain(ending.stop_reason)
        self._requested.close()
        self._thread.join()
        try:
            report = self._report.result()
        except Exception as error:  # noqa: BLE001 - a target or store failed; pytest itself must go on
            report = _failed_report(error)
        return EndedRun(report, self._plan.gates is not None)

    def _begin(self, all_wanted: Sequence[WantedCases]) -> RunPlan:
        with self._plan_lock:
            if self._plan is None:
                plan = self._make_plan(all_wanted)
                self._thread = Thread(target=self._run, args=(plan,), name="agentv-pytest", daemon=True)
                self._thread.start()
                self._plan = plan
            return self._plan

    def _make_plan(self, all_wanted: Sequence[WantedCases]) -> RunPlan:
        files = tuple(dict.fromkeys(Path(group.file) for group in all_wanted))
        options = self._options.run_options([file.parent for file in files] or [self._root])
        if files:
            inputs = load_inputs(files, options, cwd=self._root, env=os.environ)
        else:
            inputs = Inputs((), *load_project_parts([self._root]))
        by_file = dict(zip(map(str, files), inputs.suites, strict=True))
        suites = [with_wanted_cases(by_file[group.file], group) for group in all_wanted]
        home = str(find_home(self._root))
        plan = make_plan(suites, options, specs=inputs.specs, home=home, project_gates=inputs.gates)
        for group, suite in zip(all_wanted, plan.suites, strict=True):
            tasks: dict[str, list[CaseTask]] = {case_id: [] for case_id in group.ids}
            for target in suite.targets:
                for task in suite.tasks(target, by_trial=False):
                    tasks[task.case.id].append(task)
            self._tasks.append((group, tasks))
        plan.specs.providers.add(self._check_provider())
        return OpenPlan(**{**structs.asdict(plan), "source": PYTEST})

    def _check_provider(self) -> ProviderSpec:
        """Return the plug-in of the provider that returns the answers given to `agentv.check`."""

        def factory(target: ResolvedTarget, tools: object) -> PythonProvider:
            def answer(request: ProviderRequest) -> JsonValue:
                return self._answers.pop((str(target.settings), request.eval_case_id))

            return PythonProvider(replace(target, settings=PythonSettings(answer)), tools)  # type: ignore[arg-type]

        return ProviderSpec(CHECK, "answers given by tests", PythonSettings, factory, is_canned=True)

    def _task_of_check(self, given: GivenAnswer, plan: RunPlan) -> CaseTask:
        evaluators = tuple(
            EvaluatorConfig(type_, type_, settings_of(type_, value, plan.specs), base_dir=self._options.root)
            for type_, value in given.evaluators.items()
        )
        case = EvalCase(
            given.id,
            given.prompt,
            expected_messages=given.expected or (),
            evaluators=evaluators,
        )
        suite, target, known = self._suite_of_checks(given, plan)
        findings = Findings()
        selection = Selection(replace(suite, cases=listed_cases([case])), positions=None, count=1)
        suite_plan = SuitePlan(selection, (target,), known, plan.options)
        SuiteCheck(plan=suite_plan, specs=plan.specs, findings=findings, overrides={}, home=plan.home).run()
        if findings.problems:
            raise ConfigError("\n".join(findings.problems))
        return CaseTask(case=case, suite=suite, target=target, known=known)

    def _suite_of_checks(self, given: GivenAnswer, plan: RunPlan) -> tuple[EvalSuite, ResolvedTarget, KnownTargets]:
        """Return the suite, target and known targets for the checks in one file by one judge; create them once.

        The target's settings are the path of the file, with which the provider finds the answers.
        """
        key = (given.file, given.judge)
        if key not in self._suites_of_checks:
            folder = (self._root / given.file).parent
            loader = TargetsLoader(
                options=RunOptions(), specs=plan.specs, cwd=self._root, env=os.environ, needs_targets=False
            )
            known = loader.load_targets(folder)
            judge = given.judge or _default_judge(known, self._options, plan.specs)
            suite = EvalSuite(
                given.file,
                listed_cases([]),
                dataset=CHECK,
                base_dir=self._options.root,
                repository_root=str(find_repository_root(self._root)),
            )
            self._suites_of_checks[key] = (
                suite,
                ResolvedTarget(CHECK, CHECK, settings=given.file, judge=judge),
                known,
            )
        return self._suites_of_checks[key]

    def _run(self, plan: RunPlan) -> None:
        clock = make_clock()
        rng = random.Random(plan.options.seed)  # noqa: S311 - jitter of retries, not security
        try:
            store = make_store(plan, clock=clock)
            work = run_plan(
                plan, store=store, observers=(), clock=clock, rng=rng, stop=self._stop, requested=self._requested
            )
            self._report.set_result(run_in_own_loop(work))
        except BaseException as error:  # noqa: BLE001 - handed on to the thread that waits for the report
            self._report.set_exception(error)
        finally:  # `fail` does nothing if the run began
            self._requested.fail(self._stop.reason or self._why_not_begun())

    def _why_not_begun(self) -> str:
        error = self._report.exception() if self._report.done() else None
        return "it could not begin" if error is None else f"it could not begin: {_error_text(error)}"


def _failed_report(error: Exception) -> RunReport:
    """Return the report of a run that ended with an exception."""
    summary, ending = Summary(), Ending(state="failed", reason=_error_text(error))
    return summary.report("", "failed", run_verdict(summary, ending, gates=()))


def _error_text(error: BaseException) -> str:
    return str(error) if isinstance(error, AgentvError) else described(error)


def _add_dependencies(found: dict[str, None], case_id: str, tasks: Mapping[str, Sequence[CaseTask]]) -> None:
    """Add the cases of the session that a case depends on, each after its own dependencies."""
    dependencies = dict.fromkeys(name for task in tasks[case_id] for name in _depends_on(task))
    for name in dependencies:
        if name in tasks and name not in found:
            _add_dependencies(found, name, tasks)
            found[name] = None


def _depends_on(task: CaseTask) -> tuple[str, ...]:
    return task.case.depends_on if isinstance(task.case, EvalCase) else ()


def with_wanted_cases(suite_input: SuiteInput, group: WantedCases) -> SuiteInput:
    """Return a suite with only the wanted cases, and with the targets and trials of their marker."""
    suite, ids = suite_input.suite, frozenset(group.ids)
    cases = [case for case in suite.cases if isinstance(case, EvalCase) and case.id in ids]
    if group.targets:
        suite = replace(suite, target=None, targets=group.targets)
        cases = [replace(case, targets=()) for case in cases]
    if group.trials is not None:
        suite = replace(suite, trials=group.trials)
        cases = [replace(case, trials=None) for case in cases]
    chosen = replace(suite, cases=ListedCases(tuple(cases)))
    return SuiteInput(chosen, suite_input.known, all_cases=suite_input.suite.cases)


def _default_judge(known: KnownTargets, options: SessionOptions, specs: Specs) -> str | None:
    """Return the judge of checks: that of `--agentv-target` or of the default target; None if there is none."""
    try:
        target = known.choose(options.targets[0] if options.targets else None)
    except AgentvError:  # a judge is needed only by some evaluators, which report that they have none
        return None
    return target.judge or (target.name if specs.providers.get(target.provider).can_judge else None)
