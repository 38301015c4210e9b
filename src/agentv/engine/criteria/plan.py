"""The plan of a criteria-based evaluation: names resolved, settings checked; and the snapshot for judgements."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.criteria.config import EvaluationRunConfig
from agentv.engine.criteria.stores import make_stores
from agentv.engine.planning.given import (
    GIVEN,
    GivenEvaluator,
    JudgeLike,
    beside_targets,
    given_embedder,
    given_judge,
)
from agentv.engine.planning.inputs import TargetsLoader, load_project_parts
from agentv.engine.planning.judges import check_embedder, embedding_model, may_pay_for_embeddings
from agentv.engine.planning.targets import LOCAL_EMBEDDINGS, KnownTargets, default_judge, judge_key_variables
from agentv.engine.plugins.plugins import as_evaluator
from agentv.evaluators.isolation import config_of
from agentv.evaluators.registry import configured
from agentv.loading.criteria.run_configs import find_named_definitions, read_given_entries, unmatched_entries
from agentv.loading.files.dotenv import load_env
from agentv.loading.models.judges import judge_targets, member_configs, needs_judge
from agentv.loading.models.settings import content_problems, missing_files, read_settings, wrong_settings
from agentv.loading.python_values import evaluator_problems, read_listed_criteria
from agentv.registry import Specs
from agentv.scoring.results.criteria import ErrorPolicy
from agentv.templating.secrets import REDACTED, SHORTEST_SECRET, looks_secret
from agentv.types.aggregated_result import EvaluationStorageProvider
from agentv.types.cases import EvaluatorConfig, EvaluatorLike
from agentv.types.errors import AgentvError, ConfigError, EvalFileError
from agentv.types.evaluation import Evaluator
from agentv.types.fields import Problems
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Problem
from agentv.types.run_options import RunOptions
from agentv.types.scales import EvaluationCriteria
from agentv.types.structs import has_fields, names_of_fields, struct_fields
from agentv.types.targets import ResolvedTarget, TargetConfig
from agentv.version import __version__


class EvaluatorSelection(Struct, frozen=True):
    """The evaluators that `only` selects: all for None, those without cost for "free", else those it names."""

    only: str | Sequence[str] | None
    targets: Mapping[str, TargetConfig]
    specs: Specs

    def selects(self, config: EvaluatorConfig, settings: object) -> bool:
        """Return True if an evaluator is selected; `settings` is None for an evaluator object."""
        if self.only is None:
            return True
        if self.only != "free":
            types = {self.specs.evaluators.canonical(name) or name for name in self.only}
            return config.name in self.only or config.type in types
        if settings is None:
            return True
        with_members = all_settings(settings, self.specs)
        calls_judge = any(needs_judge(member) or any(judge_targets(member)) for member in with_members)
        is_paid = calls_judge or may_pay_for_embeddings(settings, KnownTargets(self.targets, {}, self.specs))
        return self.specs.evaluators.get(config.type).cost == "free" and not is_paid

    def may_judge(self, selected: Iterable[object]) -> bool:
        """Return True if evaluators with these settings may call the judge. If not, the judge need not be available."""
        if self.only is None:
            return True
        if self.only == "free":
            return False
        with_members = (member for settings in selected for member in all_settings(settings, self.specs))
        return any(member is None or needs_judge(member) for member in with_members)


def all_settings(settings: object, specs: Specs) -> Iterator[object]:
    """Yield an evaluator's settings and those of its members, for a composite."""
    yield settings
    for member in member_configs(settings):
        inner = read_settings(specs.evaluators.get(member.type), member.settings, where=member.name)
        yield from all_settings(inner, specs)


WHERE = "EvaluationRunConfig"

SEMANTIC_SIMILARITY = "semantic_similarity"
_JUDGE_KEYS = frozenset({"judge", "llm", "llmConfig", "llm_config"})
_EMBEDDER_KEYS = frozenset({"model", "embeddingModel", "embedding_model", "embeddingAdapter", "embedding_adapter"})
"""The keys of `semantic_similarity` that may have an embedding model as an object."""


def where_of(config: EvaluationRunConfig) -> str:
    """Return the name of a configuration for messages: its file, relative to the working folder, else its class."""
    return WHERE if config.path is None else os.path.relpath(config.path)


class PlannedEvaluator(Struct, frozen=True):
    """One evaluator with its config and its typed settings."""

    config: EvaluatorConfig
    given: EvaluatorLike
    """The config itself, or an evaluator object."""
    at: str
    """The JSON path of the evaluator in the configuration."""
    settings: object = None


class CriteriaPlan(Struct, frozen=True, eq=False):
    """A resolved configuration, with all evaluators and the selected ones."""

    specs: Specs
    known: KnownTargets
    judge: ResolvedTarget | None
    evaluators: tuple[PlannedEvaluator, ...]
    selected: tuple[PlannedEvaluator, ...]
    criteria: tuple[EvaluationCriteria, ...]
    stores: tuple[EvaluationStorageProvider, ...]
    targets: tuple[TargetConfig, ...]
    """The targets given with the configuration, and its judges, including a default one."""
    problems: tuple[Problem, ...]
    """If there are any, the configuration cannot be run."""
    warnings: tuple[str, ...] = ()
    where: str = WHERE
    """The name of the configuration for messages."""
    error_policy: ErrorPolicy = "exclude"
    concurrency: int = 1
    """The number of evaluators that judge one answer at once."""


def make_criteria_plan(config: EvaluationRunConfig) -> CriteriaPlan:
    """Return the plan of a configuration, with all its problems."""
    return _Planning(config, Problems(where_of(config))).plan()


def _warnings_of(planned: Sequence[PlannedEvaluator]) -> tuple[str, ...]:
    """Return the warning of the only evaluator, if its type is misleading without others."""
    warning = getattr(planned[0].settings, "warning_if_alone", None) if len(planned) == 1 else None
    return () if warning is None else (warning,)


class _Planning(Struct):
    """The construction of a plan from one configuration."""

    config: EvaluationRunConfig
    problems: Problems
    targets: dict[str, TargetConfig] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)

    def plan(self) -> CriteriaPlan:
        base_dir = Path(self.config.base_dir).resolve()
        self.env = load_env(base_dir, os.environ)
        specs, _ = load_project_parts([base_dir])
        named, scope, problems = find_named_definitions(base_dir, specs)
        self.problems.found += [problem for problem in problems if problem.severity == "error"]
        if not self.config.evaluators:
            self.problems.add("$.evaluators", "there are no evaluators", allowed="name at least one")
        self.targets = {target.name: target for target in map(self._given_target, self.config.targets)}
        entries = [self._prepared_entry(given, index, specs) for index, given in enumerate(self.config.evaluators)]
        configs, problems = read_given_entries(entries, scope, where=where_of(self.config))
        self.problems.found += [problem for problem in problems if problem.severity == "error"]
        planned = self._plan_evaluators(entries, configs, specs)
        self._check_only([evaluator.config for evaluator in planned], specs)
        selection = EvaluatorSelection(self.config.only, self.targets, specs)
        selected = tuple(evaluator for evaluator in planned if selection.selects(evaluator.config, evaluator.settings))
        judge_name = self._given_judge(specs)
        if judge_name is None and self.config.judge is None and self._need_judge(selected, specs):
            judge_name = self._add_target(default_judge(specs, self.env))
        judge = judge_name if selection.may_judge(evaluator.settings for evaluator in selected) else None
        known = self._known_targets(selected, judge, base_dir, specs)
        for evaluator in planned:
            self._check_settings(evaluator)
        for evaluator in selected:
            self._check_models(evaluator, known, has_judge=judge_name is not None)
        single = {name: (criterion,) for name, criterion in named.criteria.items()}
        criteria = self._criteria({**single, **named.sets})
        stores = make_stores(self.config.storage, specs, base_dir, self.problems)
        judge_target = self._resolved_judge(judge, known)
        return CriteriaPlan(
            specs=specs,
            known=known,
            judge=judge_target,
            evaluators=planned,
            selected=selected,
            criteria=criteria,
            stores=stores,
            targets=tuple(self.targets.values()),
            problems=tuple(self.problems.found),
            warnings=_warnings_of(planned),
            where=where_of(self.config),
            error_policy=self.config.error_policy,
            concurrency=self.config.evaluator_concurrency,
        )

    def _given_target(self, given: TargetConfig | Mapping[str, Any]) -> TargetConfig:
        if isinstance(given, TargetConfig):
            return given
        settings = {key: value for key, value in given.items() if key not in ("name", "provider")}
        return TargetConfig(given["name"], given["provider"], settings, base_dir=str(self.config.base_dir))

    def _prepared_entry(self, given: GivenEvaluator, index: int, specs: Specs) -> object:
        """Return an entry as a name, an evaluator, or a copied dict in which a judge object is replaced by its name."""
        if isinstance(given, Mapping):
            if not isinstance(given.get("type"), str) and (own := configured(given)) is not None:
                return as_evaluator(own, specs.evaluators)
            return self._with_named_models(_copied(given), index, specs)
        return given if isinstance(given, str) else as_evaluator(given, specs.evaluators)

    def _with_named_models(self, entry: dict[str, Any], index: int, specs: Specs) -> dict[str, Any]:
        """Return an entry in which judges and embedding models given as objects are replaced by names of targets.

        A dict has settings, which the evaluator reads itself.
        """
        embeds = specs.evaluators.canonical(str(entry.get("type"))) == SEMANTIC_SIMILARITY
        for place in (each for each in (entry, entry.get("config")) if isinstance(each, dict)):
            for key in place.keys() & _JUDGE_KEYS:
                if not isinstance(place[key], Mapping) or "client" in place[key]:
                    judge = place.pop(key)
                    name_judge = partial(given_judge, judge, f"judge of evaluators[{index}]", specs, self.env)
                    self._name_model(place, "target", judge, name_judge, f"$.evaluators[{index}].{key}")
            for key in place.keys() & _EMBEDDER_KEYS if embeds else ():
                if not isinstance(place[key], str | Mapping | None):
                    model = place.pop(key)
                    make = partial(given_embedder, model, f"embedding model of evaluators[{index}]", specs)
                    self._name_model(place, "model", model, make, f"$.evaluators[{index}].{key}")
        return entry

    def _name_model(
        self, place: dict[str, Any], key: str, given: object, make: Callable[[], TargetConfig | str | None], at: str
    ) -> None:
        """Add the target that `make` returns, and write its name to `key`; record the problem if there is one."""
        try:
            place[key] = self._add_target(make(), given)
        except ConfigError as error:
            self.problems.add(at, str(error))

    def _need_judge(self, selected: Iterable[PlannedEvaluator], specs: Specs) -> bool:
        return any(needs_judge(member) for planned in selected for member in all_settings(planned.settings, specs))

    def _add_target(self, target: TargetConfig | str | None, given: object = None) -> str | None:
        """Return the name of a judge, and add a config to the targets. Raises ConfigError for a name of another one."""
        if isinstance(target, TargetConfig):
            target = beside_targets(target, self.targets, given)
            self.targets[target.name] = target
            return target.name
        return target

    def _given_judge(self, specs: Specs) -> str | None:
        try:
            return self._add_target(given_judge(self.config.judge, "judge", specs, self.env), self.config.judge)
        except ConfigError as error:
            self.problems.add("$.judge", str(error))
            return None

    def _plan_evaluators(
        self, entries: Sequence[object], configs: Mapping[int, EvaluatorConfig], specs: Specs
    ) -> tuple[PlannedEvaluator, ...]:
        """Return the planned evaluators; `configs` are those of dicts and names, by position in `entries`."""
        planned: list[PlannedEvaluator] = []
        taken = {config.name for config in configs.values()}
        for index, entry in enumerate(entries):
            at = f"$.evaluators[{index}]"
            if index in configs:
                planned += self._read_one(configs[index], at, specs, is_reported=True)
            elif isinstance(entry, EvaluatorConfig):
                if entry.name in taken:
                    self.problems.add(at, f"a second evaluator named {entry.name!r}")
                planned += self._read_one(entry, at, specs)
                taken.add(entry.name)
            elif isinstance(entry, type):
                self.problems.add(at, f"{entry.__name__} is a class", allowed=f"give an object: {entry.__name__}(…)")
            elif isinstance(entry, Evaluator):
                config = config_of(entry)
                criterion = getattr(entry, "criterion", None)
                own = replace(config, name=_unused_name(config.name, taken), criterion=criterion)
                planned.append(PlannedEvaluator(own, entry, at))
                taken.add(own.name)
            elif not isinstance(entry, Mapping | str):
                self.problems.add(
                    at, f"{type(entry).__name__} is not an evaluator: it needs `kind` and `evaluate(context)`"
                )
        return tuple(planned)

    def _read_one(
        self, config: EvaluatorConfig, at: str, specs: Specs, *, is_reported: bool = False
    ) -> Iterator[PlannedEvaluator]:
        """Yield an evaluator with its typed settings, or add their problems unless they are reported already."""
        try:
            settings = read_settings(specs.evaluators.get(config.type), config.settings, where=config.name)
        except EvalFileError as error:
            for problem in error.problems if not is_reported else ():
                self.problems.add(f"{at}{problem.json_path[1:]}", problem.message, allowed=problem.allowed)
        except AgentvError as error:
            if not is_reported:
                self.problems.add(at, str(error))
        else:
            yield PlannedEvaluator(config, config, at, settings)

    def _known_targets(
        self, planned: Sequence[PlannedEvaluator], judge: str | None, base_dir: Path, specs: Specs
    ) -> KnownTargets:
        """Return the targets that may be named; a targets file is read only if one of its targets may be needed."""
        names = {name for evaluator in planned for name in judge_targets(evaluator.settings)}
        if judge is not None:
            names.add(judge)
        types = [evaluator.config.type for evaluator in planned if evaluator.settings]
        has_paid = any(specs.evaluators.get(type_).cost == "paid" for type_ in types)
        has_embedder = any(embedding_model(evaluator.settings) not in (None, LOCAL_EMBEDDINGS) for evaluator in planned)
        known = KnownTargets({}, {}, specs)
        if has_paid or has_embedder or names - self.targets.keys():
            targets_loader = TargetsLoader(RunOptions(), specs, base_dir, os.environ, needs_targets=False)
            try:
                known = targets_loader.load_targets(base_dir)
            except AgentvError as error:
                self.problems.add("$", str(error))
        return known.with_targets(self.targets.values())

    def _check_settings(self, planned: PlannedEvaluator) -> None:
        config, at = planned.config, planned.at
        for problem in evaluator_problems(config):
            self.problems.add(f"{at}{problem.json_path[1:]}", problem.message, allowed=problem.allowed)
        if planned.settings is None:
            return
        for path in missing_files(planned.settings, config.base_dir):
            self.problems.add(at, f"evaluator {config.name!r}: there is no file {path}")
        for setting, message in wrong_settings(planned.settings, config.base_dir):
            self.problems.add(".".join((at, *setting)), f"evaluator {config.name!r}: {message}")
        self.problems.found += content_problems(planned.settings, config.base_dir)

    def _check_models(self, planned: PlannedEvaluator, known: KnownTargets, *, has_judge: bool) -> None:
        """Add the problems of the models that a selected evaluator calls."""
        config, at = planned.config, planned.at
        for name in dict.fromkeys(judge_targets(planned.settings)):
            self._resolve_target(name, at, known)
        try:
            check_embedder(planned.settings, known)
        except AgentvError as error:
            self.problems.add(at, f"evaluator {config.name!r}: {error}")
        if not has_judge and self._need_judge([planned], known.specs):
            message = f"evaluator {config.name!r} needs a judge"
            variables = " or ".join(judge_key_variables(known.specs.providers))
            place = (
                "EvaluationRunConfig(judge=…)" if self.config.path is None else "`judge: PROVIDER:MODEL` in this file"
            )
            advice = f"give one with {place}, or `judge` in its config, or set {variables}"
            self.problems.add(at, message, allowed=advice)

    def _resolved_judge(self, judge: str | None, known: KnownTargets) -> ResolvedTarget | None:
        return None if judge is None else self._resolve_target(judge, "$.judge", known)

    def _resolve_target(self, name: str, at: str, known: KnownTargets) -> ResolvedTarget | None:
        try:
            return known.get(name)
        except AgentvError as error:
            self.problems.add(at, str(error))
            return None

    def _criteria(self, named: Mapping[str, tuple[EvaluationCriteria, ...]]) -> tuple[EvaluationCriteria, ...]:
        criteria, problems = read_listed_criteria(self.config.criteria, named, where=where_of(self.config))
        self.problems.found += problems
        return criteria

    def _check_only(self, configs: Sequence[EvaluatorConfig], specs: Specs) -> None:
        only = self.config.only
        for index in unmatched_entries(only, configs, specs.evaluators):
            names = [config.name for config in configs]
            entry = None if only is None else only[index]
            message = f"{entry!r} is not the name or type of an evaluator in this configuration"
            self.problems.add(f"$.only[{index}]", message, allowed=f"known: {', '.join(names)}")


def _unused_name(name: str, taken: set[str]) -> str:
    free, number = name, 2
    while free in taken:
        free, number = f"{name}-{number}", number + 1
    return free


def _copied(value: Any) -> Any:
    """Return a copy of nested dicts and lists. Other objects in them (functions, providers) are not copied."""
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in cast(Mapping[str, Any], value).items()}
    return [_copied(item) for item in value] if isinstance(value, list | tuple) else value


def config_snapshot(
    config: EvaluationRunConfig, plan: CriteriaPlan, criteria: Sequence[EvaluationCriteria]
) -> JsonObject:
    """Return what a judgement stores of its configuration. `EvaluationRunConfig.from_dict` reads its key `config`."""
    return {
        "evaluatorTypes": list(dict.fromkeys(evaluator.config.type for evaluator in plan.selected)),
        "criteriaNames": [criterion.name for criterion in criteria],
        "storageProviderType": ", ".join(_store_kind(store) for store in plan.stores),
        "metadataKeys": list(config.metadata),
        "agentvVersion": __version__,
        "config": {
            "evaluators": [_evaluator_to_json(evaluator) for evaluator in plan.evaluators],
            "criteria": [criterion.to_dict() for criterion in criteria],
            "judge": _judge_name(config.judge, plan),
            "targets": [_target_to_json(target) for target in plan.targets if _is_data(target)],
            "only": _value_to_json(config.only),
            "evaluator_concurrency": config.evaluator_concurrency,
            "evaluator_timeout_seconds": config.evaluator_timeout_s,
            "error_policy": config.error_policy,
            "gates": config.gates if isinstance(config.gates, str) else list(config.gates),
            "metadata": _value_to_json(config.metadata),
        },
    }


def _is_data(target: TargetConfig) -> bool:
    """Return True if a target can be made again from its config; a target given as an object cannot."""
    return not target.provider.startswith(f"{GIVEN} ")


def _target_to_json(target: TargetConfig) -> dict[str, JsonValue]:
    return {"name": target.name, "provider": target.provider, **_settings_to_json(target.settings)}


def _judge_name(given: JudgeLike | None, plan: CriteriaPlan) -> str | None:
    """Return the judge's name: as it was given, that of the judge that was chosen, or `judge` for an object."""
    if isinstance(given, str):
        return given
    if isinstance(given, TargetConfig):
        return given.name
    if plan.judge is not None:
        return plan.judge.name
    return None if given is None else "judge"


def _store_kind(given: object) -> str:
    kind = getattr(given, "kind", type(given).__name__)
    return kind if isinstance(kind, str) else type(given).__name__


def _evaluator_to_json(planned: PlannedEvaluator) -> JsonValue:
    config = planned.config
    if not isinstance(planned.given, EvaluatorConfig):
        return {"name": config.name, "type": config.type, "object": _object_name(type(planned.given))}
    return _config_to_json(config)


def _config_to_json(config: EvaluatorConfig) -> dict[str, JsonValue]:
    """Return an evaluator's config as in a file, without keys that have their default."""
    common = {
        field.name: getattr(config, field.name)
        for field in struct_fields(EvaluatorConfig)
        if field.name not in _OWN_KEYS and getattr(config, field.name) != field.default
    }
    if config.timeout_s is not None:
        common["timeout_seconds"] = common.pop("timeout_s")
    return {"name": config.name, "type": config.type, **_settings_to_json(common), **_settings_to_json(config.settings)}


_OWN_KEYS = frozenset({"name", "type", "settings", "base_dir"})


def _settings_to_json(value: Mapping[str, Any]) -> dict[str, JsonValue]:
    return {
        str(key): _redacted(item) if looks_secret(str(key)) else _value_to_json(item) for key, item in value.items()
    }


def _redacted(value: Any, shortest: int = 0) -> JsonValue:
    """Return the value of a secret-looking name with strings redacted, except references to variables.

    Strings shorter than `shortest` stay: inside lists and objects they are words, such as the type in a schema.
    """
    match value:
        case str():
            return value if "${{" in value or len(value) < shortest else REDACTED
        case Mapping():
            return {str(key): _redacted(item, SHORTEST_SECRET) for key, item in value.items()}
        case list() | tuple():
            return [_redacted(item, SHORTEST_SECRET) for item in value]
        case _:
            return _value_to_json(value)


def _value_to_json(value: Any) -> JsonValue:
    """Return a config value as JSON; a function or an object becomes its name."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return _settings_to_json(value)
        case EvaluatorConfig():
            return _config_to_json(value)
        case Sequence() | set() | frozenset():
            return [_value_to_json(item) for item in value]
        case _ if has_fields(value) and not isinstance(value, type):
            return _settings_to_json({name: getattr(value, name) for name in names_of_fields(type(value))})
        case _:
            return _object_name(value)


def _object_name(value: object) -> str:
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", type(value).__qualname__)
    return f"{module}:{name}" if module else name
