"""The Python API: evaluate() for a suite, run_evaluation() for one existing answer, and loaders."""

import asyncio
import os
import random
import threading
import warnings
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, cast
from weakref import WeakKeyDictionary, finalize

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.criteria.config import EvaluationRunConfig
from agentv.engine.criteria.runner import EvaluationRunner, as_config, as_input
from agentv.engine.planning.given import GivenArguments, GivenEvaluator, JudgeLike, Source, TargetLike, load_given
from agentv.engine.planning.inputs import load_project_parts
from agentv.engine.planning.planning import make_plan
from agentv.engine.planning.selection import refuse_unmatched
from agentv.engine.planning.team_store import named_quota, named_store, recorded_name, secrets_of_store
from agentv.engine.running.clock import make_clock
from agentv.engine.running.run_stores import make_store, open_quota
from agentv.engine.runs.run import connect_to_cluster, run_plan
from agentv.engine.stored.report_tools import SavedReports
from agentv.execution.forks import ProcessLock
from agentv.execution.loops import run_in_own_loop
from agentv.loading.files.dotenv import load_env
from agentv.loading.files.places import find_home
from agentv.loading.suites import suites
from agentv.loading.targets import targets
from agentv.registry import Specs
from agentv.scoring.comparison.case_differences import THRESHOLD
from agentv.scoring.comparison.compare import Comparison
from agentv.scoring.results.by_criterion import JudgedCriteria
from agentv.types.aggregated_result import AggregatedEvaluationResult, EvaluationRunError
from agentv.types.cases import EvalSuite
from agentv.types.errors import ConfigError, StorageError
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.events import Observer, RowFinished, RunEvent
from agentv.types.records.result import CaseResult
from agentv.types.results import RunReport
from agentv.types.run_options import RunKeywords
from agentv.types.targets import TargetConfig

if TYPE_CHECKING:
    from agentv.engine.criteria.process_runs import ProcessRun
    from agentv.engine.stored.comparison import Compared

T = TypeVar("T")


class _RowCollector(Struct):
    """Collects finished rows."""

    event_types = (RowFinished,)
    results: list[CaseResult] = field(default_factory=list)

    def notify(self, event: RunEvent) -> None:
        if isinstance(event, RowFinished):
            self.results.append(event.result)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


class _Destination(Struct, frozen=True):
    """The stores of a run (a `.agentv` folder, the team database, or both) and the URL of its shared quota."""

    folder: str | os.PathLike[str] | None = None
    store: str | None = None
    quota: str | None = None


def evaluate(
    source: Source,
    *,
    target: TargetLike | None = None,
    task: object | None = None,
    evaluators: Sequence[GivenEvaluator] | None = None,
    judge: JudgeLike | None = None,
    folder: str | os.PathLike[str] | None = None,
    store: str | None = None,
    quota: str | None = None,
    observers: Sequence[Observer] = (),
    **options: Unpack[RunKeywords],
) -> RunReport:
    """Run cases against a target, judge the answers, and return the report with every row in `results`.

    `source` is an eval file or folder, a table file (CSV, TSV, Parquet), an EvalSuite, cases, or rows: dicts, or a
    DataFrame of pandas or polars. Rows have the columns of a dataset, such as `input` and `expected`; any other key is
    a variable, `{{ key }}` in the settings of `evaluators`. An iterable is read to its end first.

    The answers come from `target` (a name, a TargetConfig or a Provider) or from `task`, a function that takes a
    ProviderRequest and returns the answer, or the agent object of a framework. `evaluators` (configs, objects,
    functions of the context) replace the evaluators of the suite, but not those of a case. `judge` is the model behind
    model judges. `folder` is the `.agentv` folder to store the run in. By default, a run of an eval file is stored in
    the nearest `.agentv` from the working folder upward, and a run of cases given as objects stays in memory. A file
    that looks like an eval file and is not read is a warning, and a note of the report. `store` is the URL of a team
    database (`postgresql://…`) to store the run in as well as in a folder; it is never read from an environment
    variable. `quota` is the URL of the database through which runs share rate limits: by default that of `store`;
    "none" turns sharing off. `options` are the fields of RunOptions: `workers=4`, `trials=3`, `gates=("mean >= 0.8",)`;
    `gates="none"` turns off all gates, also the default one.

    Works in a script and inside a running event loop (a notebook). Raises ConfigError before any paid call.

        report = evaluate([EvalCase("sum", "What is 2 + 2?")], task=lambda request: "4",
                          evaluators=[EvaluatorConfig("four", "contains", {"value": "4"})])
        assert report.exit_code == 0
    """
    given = GivenArguments(target, task, judge, evaluators)
    return _run_blocking(
        _evaluate(
            source,
            given=given,
            destination=_Destination(folder, store, quota),
            observers=observers,
            options=options,
        )
    )


async def evaluate_async(
    source: Source,
    *,
    target: TargetLike | None = None,
    task: object | None = None,
    evaluators: Sequence[GivenEvaluator] | None = None,
    judge: JudgeLike | None = None,
    folder: str | os.PathLike[str] | None = None,
    store: str | None = None,
    quota: str | None = None,
    observers: Sequence[Observer] = (),
    **options: Unpack[RunKeywords],
) -> RunReport:
    """Do the same as `evaluate`, as a coroutine with the same arguments."""
    given = GivenArguments(target, task, judge, evaluators)
    return await _evaluate(
        source,
        given=given,
        destination=_Destination(folder, store, quota),
        observers=observers,
        options=options,
    )


async def _evaluate(
    source: Source,
    given: GivenArguments,
    destination: _Destination,
    observers: Sequence[Observer],
    options: RunKeywords,
) -> RunReport:
    cwd = Path.cwd()
    store_url = None if destination.store is None else named_store(destination.store, cwd=cwd, env=os.environ)
    quota_source = named_quota(destination.quota, store_url)
    secrets = (*secrets_of_store(store_url, os.environ), *secrets_of_store(quota_source.url, os.environ))
    inputs, chosen = load_given(source, given, options, secrets)
    refuse_unmatched([each.suite for each in inputs.suites], chosen)
    home = Path(destination.folder) if destination.folder is not None else find_home(cwd)
    plan = make_plan(inputs.suites, chosen, specs=inputs.specs, home=str(home), project_gates=inputs.gates)
    if isinstance(source, str | os.PathLike) and given.is_resumable:
        plan = replace(plan, paths=(os.fspath(source),), folder=str(cwd))
    for line in inputs.skipped:
        warnings.warn(line, stacklevel=2)
    plan = replace(
        plan,
        store=recorded_name(destination.store, store_url),
        quota=quota_source.recorded,
        warnings=(*inputs.skipped, *plan.warnings),
    )
    quota = open_quota(quota_source, plan)
    clock = make_clock()
    is_stored = destination.folder is not None or store_url is not None or isinstance(source, str | os.PathLike)
    rows = _RowCollector()
    rng = random.Random(chosen.seed)  # noqa: S311 - jitter of retries, not security
    async with AsyncExitStack() as opened:
        for observer in observers:
            opened.callback(observer.close)
        await opened.enter_async_context(connect_to_cluster(plan))
        store = make_store(plan, clock=clock, on_disk=is_stored, store_url=store_url)
        report = await run_plan(plan, store=store, observers=[rows, *observers], clock=clock, rng=rng, quota=quota)
    from agentv.storage.run.memory import MemoryStore  # noqa: PLC0415 - few runs are in memory only

    cases = store.cases if isinstance(store, MemoryStore) else ()
    return replace(report, results=tuple(rows.results), outputs=SavedReports(inputs.specs.reports, cases=cases))


def compare(
    before: "Compared",
    after: "Compared",
    *,
    threshold: float = THRESHOLD,
    unpaired: bool = False,
    folder: str | os.PathLike[str] | None = None,
) -> Comparison:
    """Compare two runs case by case, with the statistics of `agentv compare`.

    Each side is a report of `evaluate()`, a run (id, name, tag, path, `latest`, `latest~1`), a file (a baseline or
    exported results), or a list of results. Two sides with one target each are compared even if the targets differ.
    `threshold` is the smallest change of a case's score (0..1) that counts as a win or loss. `unpaired` compares
    independent samples; so does a comparison with too few common cases. `folder` is the `.agentv` folder that has the
    runs: by default the nearest one. Raises ConfigError for a run that is not found, and if no case can be compared.

        better = evaluate(cases, task=new_agent, evaluators=evaluators)
        comparison = compare(evaluate(cases, task=old_agent, evaluators=evaluators), better)
        assert comparison.finding in ("better", "worse", "no significant difference")
        fell = [case.pair.after.eval_id for case in comparison.fell()]
    """
    from agentv.engine.stored.comparison import compare_given  # noqa: PLC0415 - most processes compare nothing

    home = Path(folder) if folder is not None else find_home(Path.cwd())
    return compare_given(before, after, home=home, threshold=threshold, unpaired=unpaired)


async def run_evaluation(
    input: EvaluationInput | Mapping[str, Any],  # noqa: A002 - the name that the specification gives it
    config: EvaluationRunConfig | Mapping[str, Any],
    *,
    store: Literal["runs"] | None = None,
    name: str | None = None,
) -> AggregatedEvaluationResult:
    """Judge an existing answer by named criteria, and store the judgement if the configuration names a store.

    `input` may be a dict with the keys of `EvaluationInput`, and `config` a dict with the keys of a configuration file
    (`EvaluationRunConfig.from_dict`). `store="runs"` also stores the judgement in a run, for `agentv compare`, `report`
    and other commands. A process makes one run for each configuration object, which ends when that object is gone; with
    a `name`, all equal configurations share the run of that name. If the judgement cannot be stored, `run_errors` has
    the reason.

    Reuse one configuration for many answers: it is read and checked once. To keep connections to judges open between
    answers, use EvaluationRunner. Raises EvalFileError with every problem of the configuration and the criteria before
    anything runs; failures of evaluators, judges and stores are in the result's `run_errors`.

        criteria = (EvaluationCriteria("polite"), EvaluationCriteria("short", scale="likert5"))
        config = EvaluationRunConfig(evaluators=[
            {"type": "contains", "value": "please", "criterion": "polite"},
            {"type": "length", "max": 40, "unit": "words", "criterion": "short"},
        ])
        result = await run_evaluation(EvaluationInput("Wait, please.", criteria), config)
        assert result.overall_score == 1.0
    """
    given, settings = as_input(input), as_config(config)
    if store is None and name is None:
        return await _runner_of(settings).run(given)
    if store != "runs":
        raise ConfigError(f"`store` must be 'runs', not {store!r}; `name` is the name of a stored run")
    if name is None and settings is not config:
        raise ConfigError(
            "store='runs' needs a `name`, or an EvaluationRunConfig that is reused for all answers of the run"
        )
    result, judged = await _runner_of(settings).judge(given)
    try:
        await asyncio.to_thread(_save, settings, name, result.input_snapshot, judged)
    except StorageError as error:
        failed = EvaluationRunError("runs", f"the result was not saved: {error}", "store_error")
        return replace(result, run_errors=(*result.run_errors, failed))
    return result


def run_evaluation_sync(
    input: EvaluationInput | Mapping[str, Any],  # noqa: A002 - as above
    config: EvaluationRunConfig | Mapping[str, Any],
    *,
    store: Literal["runs"] | None = None,
    name: str | None = None,
) -> AggregatedEvaluationResult:
    """Do the same as `run_evaluation` from synchronous code, also inside a running event loop (a notebook)."""
    return _run_blocking(run_evaluation(input, config, store=store, name=name))


class _ConfigUse(Struct):
    """The objects that live as long as a configuration; none of them refers to the configuration itself."""

    runner: EvaluationRunner
    runs: "dict[tuple[int, str | None], ProcessRun]" = field(default_factory=dict)
    """The runs in which its judgements are stored, by process and name."""


_USES: WeakKeyDictionary[EvaluationRunConfig, _ConfigUse] = WeakKeyDictionary()
_USES_LOCK = ProcessLock()


def _save(config: EvaluationRunConfig, name: str | None, given: EvaluationInput, judged: JudgedCriteria) -> None:
    """Store a judgement in the run of a configuration, which must exist until it is stored. Raises StorageError."""
    _run_of(config, name).add(given, judged)


def _run_of(config: EvaluationRunConfig, name: str | None) -> "ProcessRun":
    """Return the run in which this process stores the judgements of `config`; create it on first use.

    `name` is the name of the run, if it has one. A run without a name ends with its configuration, all others with the
    process.
    """
    from agentv.engine.criteria.process_runs import ProcessRun, named_run  # noqa: PLC0415 - only for stored judgements

    tasks = _runner_of(config).tasks
    key = os.getpid(), name
    with _USES_LOCK:
        runs = _USES[config].runs
        if key not in runs:
            if name is not None:
                runs[key] = named_run(tasks, name=name, path=config.path)
            else:
                runs[key] = ProcessRun(tasks, path=config.path)
                finalize(config, runs[key].close).atexit = False  # the run itself ends with the process
        return runs[key]


def _runner_of(config: EvaluationRunConfig) -> EvaluationRunner:
    """Return the runner of a configuration; it is made on first use and lives as long as the configuration."""
    with _USES_LOCK:
        use = _USES.get(config)
        is_new = use is None
        if use is None:
            use = _USES[config] = _ConfigUse(EvaluationRunner(config.with_values()))
    for warning in use.runner.warnings if is_new else ():
        warnings.warn(warning, stacklevel=2)  # Python shows an equal warning once
    return use.runner


def load_suite(
    path: str | os.PathLike[str],
    *,
    specs: Specs | None = None,
    allow_paths: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> EvalSuite:
    """Read one eval file. Raises EvalFileError with all of its problems.

    Files that the eval file names must lie inside the project or in one of the folders `allow_paths`. `variables`
    override the variables of the file.

    `specs` are the plug-ins that the file may name: by default the built-in ones, those of installed packages, and the
    `plugins:` of the nearest `.agentv.yaml`, which are imported.
    """
    file = Path(path)
    known = specs or load_project_parts([file.parent])[0]
    return suites.load_suite(file, specs=known, allow_paths=allow_paths, variables=variables)


def load_targets(path: str | os.PathLike[str], *, specs: Specs | None = None) -> tuple[TargetConfig, ...]:
    """Read a targets file. Raises EvalFileError with all of its problems.

    `${{ NAME }}` references stay as written, except in `use_target`. An entry with `use_target` gets the settings of
    the target it names; it is skipped if it names the target by a variable that is not set. Files of AgentV 1.5 to 4.42
    are translated.
    """
    file = Path(path)
    env = load_env(file.resolve().parent, os.environ)
    return targets.load_targets(file, specs=specs or load_project_parts([file.parent])[0], env=env)


def _run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, in a new thread if this one already has a running loop (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        is_in_loop = False
    else:
        is_in_loop = True
    if not is_in_loop:
        return run_in_own_loop(work)  # outside of the handler, so that an error of `work` has no context
    outcome: list[T | BaseException] = []
    tasks: list[asyncio.Task[Any]] = []
    is_interrupted = threading.Event()

    async def cancellable() -> T:
        tasks.append(cast(asyncio.Task[Any], asyncio.current_task()))
        if is_interrupted.is_set():
            work.close()
            raise asyncio.CancelledError
        return await work

    def run() -> None:
        try:
            outcome.append(run_in_own_loop(cancellable()))
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            outcome.append(error)

    thread = threading.Thread(target=run, name="agentv-evaluate")
    try:
        thread.start()
        thread.join()
    except KeyboardInterrupt:
        is_interrupted.set()  # before the tasks are read: a task that begins now sees it
        for task in tasks:
            with suppress(RuntimeError):  # its loop is closed
                task.get_loop().call_soon_threadsafe(task.cancel)
        if thread.is_alive():
            thread.join()
        raise
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]
