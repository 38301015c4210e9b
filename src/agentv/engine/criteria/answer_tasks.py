"""The tasks of given answers: each input becomes a case with an answer that exists already."""

import random
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from agentv.engine.calling.budget import Budget
from agentv.engine.calling.fingerprints import Fingerprints, put_bounded
from agentv.engine.calling.given_answer import GIVEN_TARGET
from agentv.engine.calling.runtime import Runtime
from agentv.engine.criteria.config import EvaluationRunConfig
from agentv.engine.criteria.fit import fit, settled_criteria
from agentv.engine.criteria.plan import all_settings, config_snapshot, make_criteria_plan
from agentv.engine.planning.judges import DEFAULT_JUDGE_WORKERS
from agentv.engine.planning.plan import AnswerWithInput, CaseTask
from agentv.engine.planning.prices import budget_problem
from agentv.engine.running.case import CaseRunner
from agentv.engine.running.open_case import RowSink
from agentv.loading.files.places import find_home
from agentv.loading.models.judges import judge_targets
from agentv.registry import Specs
from agentv.scoring.results.by_criterion import FittedPlan
from agentv.types.cases import EvalCase, EvalSuite, listed_cases
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject
from agentv.types.protocols import Clock
from agentv.types.scales import EvaluationCriteria
from agentv.types.targets import ResolvedTarget

PYTHON_SUITE = "run_evaluation"
"""The suite of answers that are judged by a configuration without a file."""

MAX_FITS = 64


class AnswerTasks:
    """Makes the tasks of given answers by one configuration, which is read and checked once."""

    def __init__(self, config: EvaluationRunConfig, *, clock: Clock) -> None:
        self.config = config
        self.clock = clock
        self.plan = make_criteria_plan(config)
        judge = None if self.plan.judge is None else self.plan.judge.name
        self._target = replace(GIVEN_TARGET, judge=judge)
        self._fits: dict[tuple[EvaluationCriteria, ...], FittedPlan] = {}
        self._snapshots: dict[int, tuple[FittedPlan, bytes]] = {}
        self.suite = EvalSuite(
            PYTHON_SUITE,
            listed_cases(()),
            dataset=PYTHON_SUITE,
            base_dir=str(config.base_dir),
            evaluator_timeout_s=config.evaluator_timeout_s,
        )

    def name_suite(self, path: str) -> None:
        """Set the name under which a run stores the answers: the path of the configuration."""
        self.suite = replace(self.suite, path=path, dataset=Path(path).stem)

    @property
    def specs(self) -> Specs:
        """The known plug-ins."""
        return self.plan.specs

    @property
    def criteria_names(self) -> frozenset[str] | None:
        """The criteria that every judgement scores; None if they depend on the answer."""
        return settled_criteria(self.plan)

    @property
    def has_evaluators(self) -> bool:
        """True if the configuration selects at least one evaluator."""
        return bool(self.plan.selected)

    @property
    def snapshot(self) -> JsonObject:
        """The configuration as judgements record it, with secrets redacted."""
        return self.snapshot_for(self.fitted(()))

    def snapshot_for(self, fitted: FittedPlan) -> JsonObject:
        """Return the configuration as a judgement by these criteria records it: each time a new object."""
        known = self._snapshots.get(id(fitted))
        if known is None:
            known = (fitted, msgspec.json.encode(config_snapshot(self.config, self.plan, fitted.criteria)))
            put_bounded(self._snapshots, id(fitted), known, most=MAX_FITS)
        decoded: JsonObject = msgspec.json.decode(known[1])
        return decoded

    def fitted(self, criteria: Sequence[EvaluationCriteria]) -> FittedPlan:
        """Return the evaluators fitted to these criteria, or to those of the configuration if there are none.

        Raises EvalFileError with all problems of the configuration for these criteria.
        """
        key = tuple(criteria)
        fitted = self._fits.get(key)
        if fitted is None:
            fitted = fit(self.plan, key)
            put_bounded(self._fits, key, fitted, most=MAX_FITS)
        return fitted

    def check_budget(self) -> None:
        """Raise ConfigError for a judge of the configuration whose cost a budget cannot limit."""
        names = (
            name
            for planned in self.plan.selected
            for settings in all_settings(planned.settings, self.specs)
            for name in judge_targets(settings)
        )
        judges = [self.plan.known.get(name) for name in dict.fromkeys(names)]
        for judge in (*judges, *([] if self.plan.judge is None else [self.plan.judge])):
            problem = budget_problem(judge, self.specs.providers.get(judge.provider), {})
            if problem is not None:
                raise ConfigError(problem)

    def task(self, stored: AnswerWithInput, case: EvalCase, *, generation: int = 0) -> CaseTask:
        """Return the task to judge an answer."""
        return CaseTask(
            case,
            self.suite,
            self._target,
            self.plan.known,
            trial=stored.answer.slot.trial,
            only_free=self.config.only == "free",
            generation=generation,
            stored=stored,
        )

    def runtime(self, *, budget: Budget | None = None) -> Runtime:
        """Return the live objects that judge answers, made on first use."""
        rng = random.Random(0)  # noqa: S311 - spreads retries, keeps no secret
        home = str(find_home(Path(self.config.base_dir)))
        return Runtime(specs=self.specs, clock=self.clock, rng=rng, home=home, workers=judge_workers, budget=budget)

    def runner(self, runtime: Runtime, *, sink: RowSink, run_id: str = "") -> CaseRunner:
        """Return what turns the tasks into rows."""
        return CaseRunner(run_id, runtime, sink, Fingerprints(runtime), on_retry=lambda _task, _call, _wait_s: None)


def judge_workers(judge: ResolvedTarget) -> int:
    """Return the number of concurrent calls of a judge."""
    return judge.workers if isinstance(judge.workers, int) else DEFAULT_JUDGE_WORKERS
