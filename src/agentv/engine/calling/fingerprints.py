"""Digests of everything a score depends on besides the answer: settings of evaluators, files, judges, stored runs."""

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from msgspec import Struct

from agentv.engine.calling.runtime import Runtime
from agentv.engine.planning.judges import embedding_model, named_runs
from agentv.engine.planning.targets import KnownTargets
from agentv.evaluators.isolation import config_of
from agentv.loading.models.judges import judge_targets, member_configs, needs_judge
from agentv.scoring.keys.identity import (
    JUDGE_PROMPTS_VERSION,
    canonical_json,
    digest,
    evaluator_to_json,
    score_key,
    target_key,
    turn_expectation_key,
)
from agentv.scoring.keys.notes import SettingsClass
from agentv.scoring.results.applicable import evaluators_of_turn
from agentv.scoring.results.turns import turn_name
from agentv.types.cases import EvalCase, EvaluatorConfig, EvaluatorLike
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonValue
from agentv.types.targets import ResolvedTarget

MAX_DIGESTS = 1024

Key = TypeVar("Key")
Value = TypeVar("Value")


class ScoredTask(Protocol):
    """The parts of a task that a score depends on, besides its evaluator and answer (a CaseTask has them)."""

    @property
    def target(self) -> ResolvedTarget:
        """The target that answered; it may name its judge."""

    @property
    def known(self) -> KnownTargets:
        """The targets that evaluators may call."""


class StoredEvaluators(Struct, frozen=True):
    """A case's evaluators."""

    json: JsonValue
    """As stored with the case."""
    in_key: JsonValue
    """As in its key: without notes."""
    canonical: str
    """The canonical JSON text of `in_key`."""
    settings_class: SettingsClass


class Fingerprints:
    """The keys of targets and scores. Each file is read once per run; other values are cached.

    They are cached by the id of an object, together with the object, so that its id cannot be reused meanwhile.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._setup_digests: dict[tuple[int, int], tuple[EvaluatorLike, ResolvedTarget, str]] = {}
        self._target_keys: dict[int, tuple[ResolvedTarget, str]] = {}
        self._stored_forms: dict[int, tuple[tuple[EvaluatorLike, ...], StoredEvaluators]] = {}

    def target_key(self, target: ResolvedTarget) -> str:
        """Return the key of a target."""
        known = self._target_keys.get(id(target))
        if known is None:
            known = self._target_keys[id(target)] = (target, target_key(target))
        return known[1]

    def stored_form(self, evaluators: tuple[EvaluatorLike, ...], *, single_form: bool) -> StoredEvaluators:
        """Return evaluators as stored with their case: a list, or in `single_form` the type of the only evaluator."""
        known = self._stored_forms.get(id(evaluators))
        if known is not None:
            return known[1]
        json: JsonValue = [evaluator_to_json(evaluator) for evaluator in evaluators]
        in_key: JsonValue = [evaluator_to_json(evaluator, self.settings_class) for evaluator in evaluators]
        if single_form and isinstance(evaluators[0], EvaluatorConfig):
            json = in_key = evaluators[0].type
        stored = StoredEvaluators(json, in_key, canonical_json(in_key), self.settings_class)
        put_bounded(self._stored_forms, id(evaluators), (evaluators, stored), most=MAX_DIGESTS)
        return stored

    def settings_class(self, type_: str) -> type | None:
        """Return the settings class of a type of evaluators; None for a type given from Python."""
        spec = self._runtime.specs.evaluators.specs.get(type_)
        return None if spec is None else spec.load_settings()

    def setup_digests(self, evaluators: Iterable[EvaluatorLike], task: ScoredTask) -> dict[str, str]:
        """Return the setup digest of each evaluator by its name."""
        return {config_of(evaluator).name: self.setup_digest(evaluator, task) for evaluator in evaluators}

    def setup_digest(self, evaluator: EvaluatorLike, task: ScoredTask) -> str:
        """Return the digest of all that an evaluator's scores depend on besides the answer and the expectation."""
        cache_key = (id(evaluator), id(task.target))
        known = self._setup_digests.get(cache_key)
        if known is not None:
            return known[2]
        files: list[JsonValue] = []  # digests of their contents, without paths: a project may be moved
        judges_and_runs: list[JsonValue] = []
        if isinstance(evaluator, EvaluatorConfig):
            files = list(map(self._runtime.watched_files.digest, self._runtime.files_of(evaluator)))
            judges = list(self._judge_keys(evaluator, task))
            prompts = [f"judge prompts {JUDGE_PROMPTS_VERSION}"] if judges else []
            judges_and_runs = [*judges, *prompts, *self._run_ids(evaluator)]
        setup_digest = digest([evaluator_to_json(evaluator, self.settings_class), files, judges_and_runs])
        put_bounded(self._setup_digests, cache_key, (evaluator, task.target, setup_digest), most=MAX_DIGESTS)
        return setup_digest

    def turn_keys(self, case: EvalCase, task: ScoredTask, answer_key: str) -> dict[str, str]:
        """Return the score keys of a case's turns by name, and under `turns` the key of their aggregation.

        Empty for a case without turns.
        """
        if not case.is_conversation:
            return {}
        keys = {"turns": digest([answer_key, case.turn_rules.aggregate])}
        for number, turn in enumerate(case.turns, start=1):
            setups: list[JsonValue] = [self.setup_digest(each, task) for each in evaluators_of_turn(turn)]
            expectation = turn_expectation_key(case, turn)
            keys[turn_name(number)] = score_key(
                answer=answer_key, expectation=expectation, setup_digest=digest([number, *setups])
            )
        return keys

    def _run_ids(self, config: EvaluatorConfig) -> Iterator[str]:
        """Yield the ids of the runs that a config and its members name, with names such as `latest` resolved."""
        settings = self._runtime.settings(config)
        for run in named_runs(settings):
            try:
                yield f"run {self._runtime.recorded_answers.folder(run, config.base_dir).name}"
            except ConfigError:
                yield f"no run {run}"
        for member in member_configs(settings):
            yield from self._run_ids(member)

    def _judge_keys(self, config: EvaluatorConfig, task: ScoredTask) -> Iterator[str]:
        """Yield the keys of the targets that a config and its members call."""
        settings = self._runtime.settings(config)
        names = list(judge_targets(settings))
        if needs_judge(settings):
            judge = task.target.judge
            if judge is None:
                yield target_key(task.target)
            else:
                names.append(judge)
        for name in names:
            yield target_key(task.known.get(name))
        model = embedding_model(settings)
        if model is not None:
            yield target_key(task.known.embedding_target(model))
        for member in member_configs(settings):
            yield from self._judge_keys(member, task)


def put_bounded(cached: dict[Key, Value], key: Key, value: Value, *, most: int) -> None:
    """Add a value to a cache; if it holds `most` values already, remove the oldest one first."""
    if len(cached) >= most:
        cached.pop(next(iter(tuple(cached))), None)  # threads may share a cache, and remove the same value
    cached[key] = value
