"""Criteria-based evaluation of answers that exist already, by the same evaluators that judge live ones."""

import random
import time
from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from agentv.engine.calling.budget import NO_REFUSALS, Budget, refused_calls
from agentv.engine.calling.fingerprints import Fingerprints
from agentv.engine.calling.given_answer import GIVEN_TARGET, context_of_input
from agentv.engine.calling.runtime import Runtime
from agentv.engine.capture import Cleaner
from agentv.engine.criteria.config import EvaluationRunConfig
from agentv.engine.criteria.fit import FittedPlan, fit, judged_criteria, settled_criteria
from agentv.engine.criteria.plan import all_settings, config_snapshot, make_criteria_plan
from agentv.engine.planning.judges import DEFAULT_JUDGE_WORKERS, judge_targets
from agentv.engine.planning.prices import budget_problem
from agentv.engine.planning.targets import KnownTargets
from agentv.engine.running.clock import make_clock
from agentv.engine.running.score import SuiteTools, run_evaluators
from agentv.evaluators.isolation import PreparedEvaluator
from agentv.execution.user_code import DeadlineError, call_user_code
from agentv.loading.files.places import find_home
from agentv.registry import Specs
from agentv.scoring.keys.identity import canonical_json, digest, evaluator_to_json
from agentv.scoring.results.criteria import criteria_score, criteria_verdict, mixed_ranges
from agentv.types.aggregated_result import AggregatedEvaluationResult, EvaluationRunError, EvaluationStorageProvider
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import ConfigError
from agentv.types.evaluation import Evaluator, EvaluatorResult
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.protocols import Clock
from agentv.types.provider import ProviderError
from agentv.types.scales import EvaluationCriteria
from agentv.types.structs import deep_copy
from agentv.types.targets import ResolvedTarget


def as_input(given: EvaluationInput | Mapping[str, Any]) -> EvaluationInput:
    """Return an input, or make one from a dict with its keys. Raises EvalFileError, and ConfigError for others."""
    return _as(EvaluationInput, given, "input")


def as_config(given: EvaluationRunConfig | Mapping[str, Any]) -> EvaluationRunConfig:
    """Return a configuration, or make one from a dict with its keys. Raises as `as_input` does."""
    return _as(EvaluationRunConfig, given, "config")


_Given = TypeVar("_Given", EvaluationInput, EvaluationRunConfig)


def _as(kind: type[_Given], given: object, argument: str) -> _Given:
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise ConfigError(f"`{argument}` must be an {kind.__name__} or a dict with its keys, not {given!r:.80}")
    return kind.from_dict(given)


def snapshot_of(given: EvaluationInput) -> EvaluationInput:
    """Return a deep copy of an input, unaffected by later changes to the objects in `given`.

    Raises ConfigError if it is nested too deeply or contains itself.
    """
    fields = ("response", "context", "ground_truth", "agent_config", "message_history", "metadata")
    try:
        copies = deep_copy({name: getattr(given, name) for name in fields})
    except RecursionError:
        raise ConfigError("the input is nested too deeply to be judged, or contains itself") from None
    snapshot = copy(given)  # `replace` would check all fields once more
    for name, own in copies.items():
        force_setattr(snapshot, name, own)
    return snapshot


_LONG_SETTINGS = 2_000
"""The maximum length of an evaluator as JSON, in characters; of a longer one a case stores name, type and hash."""


class JudgingSetup(Struct, frozen=True):
    """The criteria and evaluators that judge answers, as stored with their cases.

    `evaluators` is JSON in which long evaluators are shortened; `canonical` is the JSON text of the whole evaluators,
    from which case keys are made. `digests` has for each evaluator, by name, the digest of all that its scores depend
    on except answer and expectations.
    """

    criteria: tuple[EvaluationCriteria, ...]
    evaluators: JsonValue
    canonical: str
    digests: Mapping[str, str]


MAX_FITS = 64
STORE_TIMEOUT_S = 60.0
_NO_RESULTS: Mapping[str, EvaluatorResult] = {}


def judge_workers(judge: ResolvedTarget) -> int:
    """Return the number of concurrent calls of a judge."""
    return judge.workers or DEFAULT_JUDGE_WORKERS


class _Fit(Struct):
    """A plan fitted to one list of criteria, with the configuration's snapshot and reusable evaluators."""

    plan: FittedPlan
    snapshot: bytes
    """The configuration as JSON, decoded anew for every judgement."""
    live: dict[int, Evaluator] = field(default_factory=dict)
    """Evaluator objects that can be used for every answer, by their position in the plan."""
    may_call_judge: bool = False
    """True if evaluators given as objects may call the configuration's judge."""
    setup: JudgingSetup | None = None
    returns_at_once: bool = False
    """True if all evaluators are live, and quick enough to be called in the event loop."""

    def __post_init__(self) -> None:
        """Set `returns_at_once`."""
        self._set_returns_at_once()

    def add(self, position: int, evaluator: Evaluator) -> None:
        """Add a live evaluator."""
        self.live[position] = evaluator
        self._set_returns_at_once()

    def _set_returns_at_once(self) -> None:
        quick = [evaluator for evaluator in self.live.values() if getattr(evaluator, "inline", False)]
        self.returns_at_once = len(quick) == len(self.plan.evaluators)


class _Judges(Struct, frozen=True):
    """The target that names the judge, and the known targets."""

    target: ResolvedTarget
    known: KnownTargets


class Judgement(Struct, frozen=True):
    """A judgement, with the results of the evaluators that it is made of."""

    result: AggregatedEvaluationResult
    evaluators: tuple[EvaluatorResult, ...]


class EvaluationRunner:
    """Judges given answers by one configuration, or a dict of it, which is read once, when the runner is created.

    Use it as an async context manager to keep connections to judges open between answers; otherwise each `run` opens
    and closes its own. With a `budget`, a judgement for which a call was refused raises ProviderError.
    """

    def __init__(
        self,
        config: EvaluationRunConfig | Mapping[str, Any],
        *,
        clock: Clock | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.config = as_config(config)
        self.budget = budget
        self._plan = make_criteria_plan(self.config)
        self._clock = clock or make_clock()
        self._fits: dict[tuple[EvaluationCriteria, ...], _Fit] = {}
        self._runtime: Runtime | None = None
        self._fingerprints: Fingerprints | None = None

    async def __aenter__(self) -> Self:
        """Open the connections that answers share. Raises ConfigError if the runner is open already."""
        if self._runtime is not None:
            raise ConfigError("this EvaluationRunner is open already; share it, or create another one")
        self._runtime = await self._make_runtime().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            await runtime.__aexit__(kind, error, trace)

    def check(self, criteria: Sequence[EvaluationCriteria] = ()) -> None:
        """Raise EvalFileError with all problems of the configuration for these criteria."""
        self._fit_to(tuple(criteria))

    def warm(self) -> None:
        """Create the judge and the evaluators of an open runner now, so that the first answer does not wait for them.

        Raises AgentvError for one that cannot be created.
        """
        fitted, runtime = self._fit_to(()), self._runtime
        if runtime is None:
            return
        if self._plan.judge is not None:
            runtime.provider(self._plan.judge)
        for position in range(len(fitted.plan.evaluators)):
            self._make_evaluator(fitted, position, runtime)

    @property
    def criteria_names(self) -> frozenset[str] | None:
        """The criteria of every judgement; None if an answer may bring others."""
        return settled_criteria(self._plan)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of the configuration, which can be run nevertheless."""
        return self._plan.warnings

    @property
    def specs(self) -> Specs:
        """The known plug-ins."""
        return self._plan.specs

    def check_budget(self) -> None:
        """Raise ConfigError for a judge of the configuration whose cost a budget cannot limit."""
        names = (
            name
            for planned in self._plan.selected
            for settings in all_settings(planned.settings, self.specs)
            for name in judge_targets(settings)
        )
        judges = [self._plan.known.get(name) for name in dict.fromkeys(names)]
        for judge in (*judges, *([] if self._plan.judge is None else [self._plan.judge])):
            problem = budget_problem(judge, self.specs.providers.get(judge.provider), {})
            if problem is not None:
                raise ConfigError(problem)

    @property
    def has_evaluators(self) -> bool:
        """True if the configuration selects at least one evaluator."""
        return bool(self._plan.selected)

    async def run(self, given: EvaluationInput | Mapping[str, Any]) -> AggregatedEvaluationResult:
        """Return the judgement of one answer, saved by the configuration's storage. `given` may be a dict.

        Raises EvalFileError with every problem of the configuration and the criteria before anything runs; failures of
        evaluators, judges and stores are in `run_errors`.
        """
        return (await self.judge(as_input(given))).result

    async def judge(self, given: EvaluationInput, known: Mapping[str, EvaluatorResult] = _NO_RESULTS) -> Judgement:
        """Return the judgement as `run` does, and the evaluators' results, each with its results per criterion.

        Evaluators whose results are `known`, by name, do not judge again.
        """
        started = time.perf_counter()
        snapshot, metadata = snapshot_of(given), deep_copy(self.config.metadata)
        fitted = self._fit_to(given.criteria)
        with NO_REFUSALS if self.budget is None else refused_calls() as refused:
            if self._runtime is not None or (
                len(fitted.live) == len(fitted.plan.evaluators) and not fitted.may_call_judge
            ):
                results = await self._run_evaluators(given, fitted, self._runtime, known)
            else:
                async with self._make_runtime() as runtime:
                    results = await self._run_evaluators(given, fitted, runtime, known)
        if refused:
            raise ProviderError(refused[0])
        duration_ms = (time.perf_counter() - started) * 1000
        judgement = self._aggregate(snapshot, fitted, results, metadata=metadata, duration_ms=duration_ms)
        return Judgement(await self._save_in_stores(judgement.result), judgement.evaluators)

    def setup(self, criteria: Sequence[EvaluationCriteria] = ()) -> JudgingSetup:
        """Return the setup that judges answers by these criteria. Raises EvalFileError as `check` does."""
        fitted = self._fit_to(tuple(criteria))
        if fitted.setup is None:
            fitted.setup = self._make_setup(fitted.plan)
        return fitted.setup

    def _make_setup(self, plan: FittedPlan) -> JudgingSetup:
        if self._fingerprints is None:
            self._fingerprints = Fingerprints(self._make_runtime())
        given = [
            fitted.config if isinstance(fitted.given, EvaluatorConfig) else fitted.given for fitted in plan.evaluators
        ]
        judge = None if self._plan.judge is None else self._plan.judge.name
        judges = _Judges(replace(GIVEN_TARGET, judge_target=judge), self._plan.known)
        # Without criteria each evaluator scores a criterion of its own name, which is not declared anywhere.
        names = {criterion.name for criterion in plan.criteria}
        entries = [
            {key: value for key, value in entry.items() if key != "criterion" or value in names}
            for entry in map(evaluator_to_json, given)
        ]
        digests = {
            fitted.config.name: self._fingerprints.setup_digest(evaluator, judges)
            for fitted, evaluator in zip(plan.evaluators, given, strict=True)
        }
        short = [_shortened(entry) for entry in entries]
        return JudgingSetup(plan.criteria, short, canonical_json(entries), digests)

    @property
    def snapshot(self) -> JsonObject:
        """The configuration as judgements record it, with secrets redacted."""
        decoded: JsonObject = msgspec.json.decode(self._fit_to(()).snapshot)
        return decoded

    def _make_runtime(self) -> Runtime:
        rng = random.Random(0)  # noqa: S311 - spreads retries, keeps no secret
        home = str(find_home(Path(self.config.base_dir)))
        return Runtime(
            specs=self._plan.specs, clock=self._clock, rng=rng, home=home, workers=judge_workers, budget=self.budget
        )

    def _fit_to(self, criteria: tuple[EvaluationCriteria, ...]) -> _Fit:
        fitted = self._fits.get(criteria)
        if fitted is None:
            plan = fit(self._plan, criteria)
            live = {
                position: evaluator.given
                for position, evaluator in enumerate(plan.evaluators)
                if not isinstance(evaluator.given, EvaluatorConfig) and isinstance(evaluator.given, Evaluator)
            }
            may_call_judge = bool(live) and self._plan.judge is not None
            snapshot = msgspec.json.encode(config_snapshot(self.config, self._plan, plan.criteria))
            fitted = _Fit(plan, snapshot, live, may_call_judge)
            if len(self._fits) >= MAX_FITS:
                # Threads may share a configuration, and remove the same entry.
                self._fits.pop(next(iter(tuple(self._fits)), criteria), None)
            self._fits[criteria] = fitted
        return fitted

    async def _run_evaluators(
        self,
        given: EvaluationInput,
        fitted: _Fit,
        runtime: Runtime | None,
        known_results: Mapping[str, EvaluatorResult],
    ) -> tuple[EvaluatorResult, ...]:
        """Return the result of each evaluator, in order."""
        judge = None if runtime is None or self._plan.judge is None else runtime.provider(self._plan.judge)
        context = context_of_input(given, fitted.plan.criteria, judge=judge, now=self._clock())
        prepared = [
            PreparedEvaluator(
                evaluator.config,
                make=partial(self._make_evaluator, fitted, position, runtime),
                timeout_s=evaluator.config.timeout_s or self.config.evaluator_timeout_s,
                live=fitted.live.get(position),
            )
            for position, evaluator in enumerate(fitted.plan.evaluators)
            if evaluator.config.name not in known_results
        ]
        concurrency = 1 if fitted.returns_at_once else self.config.evaluator_concurrency
        results = await run_evaluators(context, prepared, concurrency=concurrency)
        if known_results:
            new_results = iter(results)
            names = [evaluator.config.name for evaluator in fitted.plan.evaluators]
            results = tuple(known_results.get(name) or next(new_results) for name in names)
        known = self._plan.known
        if runtime is None or not (known.secrets or any(target.secrets for target in known.resolved.values())):
            return results
        cleaned: tuple[EvaluatorResult, ...] = Cleaner(runtime.redactor(self._plan.known, ())).clean(results)
        return cleaned

    def _make_evaluator(self, fitted: _Fit, position: int, runtime: Runtime | None) -> object:
        planned = fitted.plan.evaluators[position]
        if not isinstance(planned.given, EvaluatorConfig) or runtime is None:
            return planned.given
        tools = SuiteTools(runtime, self._plan.known, self.config.evaluator_timeout_s, self.config.only == "free")
        evaluator = runtime.evaluator(planned.config, tools)
        if getattr(evaluator, "reusable", False):
            fitted.add(position, evaluator)
        return evaluator

    def _aggregate(
        self,
        snapshot: EvaluationInput,
        fitted: _Fit,
        results: Sequence[EvaluatorResult],
        *,
        metadata: JsonObject,
        duration_ms: float,
    ) -> Judgement:
        criteria = fitted.plan.criteria
        judged = judged_criteria(fitted.plan, results)
        counted = (*judged.weighed, *judged.unassigned)
        score = criteria_score(counted, criteria, results, error_policy=self.config.error_policy)
        listed = tuple(weighed.result for weighed in judged.weighed)
        result = AggregatedEvaluationResult(
            overall_score=score.overall,
            results=listed,
            scored=score.scored,
            expected=score.expected,
            timestamp=self._clock(),
            input_snapshot=snapshot,
            evaluation_config_snapshot=msgspec.json.decode(fitted.snapshot),
            agent_id=snapshot.agent_id,
            session_id=snapshot.session_id,
            metadata=metadata,
            run_errors=judged.errors,
            judge_usage=judged.usage,
            judge_cost_usd=judged.cost_usd,
            warnings=(*judged.warnings, *mixed_ranges(listed, criteria)),
            unverified=judged.unverified,
            clamped=judged.clamped,
            duration_ms=duration_ms,
            verdict=criteria_verdict(score, counted, criteria, results),
        )
        return Judgement(result, judged.evaluators)

    async def _save_in_stores(self, result: AggregatedEvaluationResult) -> AggregatedEvaluationResult:
        """Save a judgement in every store; a store that fails adds a run error and affects nothing else."""
        errors = [error for store in self._plan.stores if (error := await _save(store, result)) is not None]
        return replace(result, run_errors=(*result.run_errors, *errors)) if errors else result


def _shortened(entry: dict[str, JsonValue]) -> JsonObject:
    """Return an evaluator as JSON; if it is long, only its name, its type and a hash of the whole."""
    if len(canonical_json(entry)) <= _LONG_SETTINGS:
        return entry
    return {"name": entry["name"], "type": entry["type"], "sha256": digest(entry)}


async def _save(store: EvaluationStorageProvider, result: AggregatedEvaluationResult) -> EvaluationRunError | None:
    name = str(getattr(store, "kind", type(store).__name__))
    try:
        await call_user_code(store.save_result, result, timeout_s=STORE_TIMEOUT_S)
    except DeadlineError:
        return EvaluationRunError(name, f"the result was not saved within {STORE_TIMEOUT_S:g} s", "store_error")
    except Exception as error:  # noqa: BLE001 - user code: an error of the store must not lose the judgement
        return EvaluationRunError(name, f"the result was not saved: {error}", "store_error")
    return None
