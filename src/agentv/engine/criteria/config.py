"""The configuration of criteria-based evaluation: the evaluators of given answers, and the storage of judgements."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.planning.given import GivenEvaluator, JudgeLike
from agentv.engine.planning.inputs import load_project_parts
from agentv.engine.running.score import DEFAULT_EVALUATOR_TIMEOUT_S
from agentv.loading.criteria.run_configs import load_run_config, read_other_keys
from agentv.loading.models.settings import read_settings
from agentv.registry import Specs
from agentv.scoring.results.criteria import ErrorPolicy
from agentv.types.aggregated_result import EvaluationStorageProvider
from agentv.types.errors import AgentvError, ConfigError, EvalFileError
from agentv.types.fields import Problems
from agentv.types.json_value import JsonObject
from agentv.types.scales import EvaluationCriteria
from agentv.types.structs import CamelKeywords
from agentv.types.targets import TargetConfig

Storage: TypeAlias = EvaluationStorageProvider | Mapping[str, Any]
"""A store of judgements: an object with `save_result`, or a dict with the `type` of a store and its settings."""

STORAGE_PATH = "$.storage"


def make_stores(
    given: Storage | Sequence[Storage] | None, specs: Specs, base_dir: Path, problems: Problems
) -> tuple[EvaluationStorageProvider, ...]:
    """Return the stores, and add their problems to `problems`."""
    if given is None:
        return ()
    stores: list[EvaluationStorageProvider] = []
    for entry in given if isinstance(given, list | tuple) else (given,):
        try:
            store = _make_store(entry, specs, str(base_dir)) if isinstance(entry, Mapping) else entry
        except EvalFileError as error:
            for problem in error.problems:
                at = f"{STORAGE_PATH}{problem.json_path[1:]}"
                problems.add(at, problem.message, allowed=problem.allowed, suggestion=problem.suggestion)
            continue
        except AgentvError as error:
            problems.add(STORAGE_PATH, str(error))
            continue
        if isinstance(store, EvaluationStorageProvider):
            stores.append(store)
        else:
            allowed = 'an object with save_result(result), or {"type": "json_file", "path": "judged.jsonl"}'
            problems.add(STORAGE_PATH, f"{type(store).__name__} is not a store", allowed=allowed)
    return tuple(stores)


def _make_store(config: Mapping[str, Any], specs: Specs, base_dir: str) -> object:
    """Return the store described by a dict: its `type`, and its settings next to it or in `config`."""
    spec = specs.stores.get(str(config.get("type")))
    nested = config.get("config")
    settings = {key: value for key, value in config.items() if key not in ("type", "config")}
    if isinstance(nested, Mapping):
        settings |= nested
    return spec.load_factory()(read_settings(spec, settings, where="storage"), base_dir)


class EvaluationRunConfig(Struct, frozen=True, eq=False, dict=True, weakref=True, metaclass=CamelKeywords):
    """The evaluators that judge an answer, and the storage of the judgement.

    Reuse one object for many answers: agentv reads and checks its evaluators on first use, and keeps them ready.

    `evaluators` are config dicts (`{"type": "contains", "value": "4", "criterion": "right"}`, or with the
    settings in a `config` dict), names of profiles in `.agentv/criteria.yaml`, EvaluatorConfigs, evaluators, or
    functions of the context.
    `judge` is the model for judges: a target's name, a TargetConfig or a Provider. `storage` saves every judgement:
    an EvaluationStorageProvider, `{"type": "json_file", "path": …}`, or several of them. `metadata` is
    copied into every judgement. `only` selects evaluators: "free" excludes those that cost money, a list names
    evaluators or types.
    `evaluator_concurrency` is the number of evaluators that judge one answer concurrently. `error_policy` is the effect
    of an error on the score: "exclude" leaves it out, "zero" counts it as 0. `criteria` apply to inputs without
    criteria. `targets` may be named as judges, in addition to those of the targets file; a dict has the keys of an
    entry there. `gates` are for `agentv score` and for runs stored by `run_evaluation(store="runs")`; "none" turns off
    the default gate. Relative paths and names are resolved from `base_dir`.

    Keywords may be in camelCase, and have the PRD's names (`evaluatorConfigs`, `storageProvider`, `llm`). Raises
    ConfigError for an invalid value.
    """

    KEYWORDS: ClassVar = {
        "evaluator_configs": "evaluators",
        "storage_provider": "storage",
        "llm": "judge",
        "evaluator_timeout_seconds": "evaluator_timeout_s",
    }

    evaluators: Sequence[GivenEvaluator]
    judge: JudgeLike | None = None
    storage: Storage | Sequence[Storage] | None = None
    metadata: JsonObject = field(default_factory=dict)
    only: Literal["free"] | Sequence[str] | None = None
    evaluator_concurrency: int = 8
    error_policy: ErrorPolicy = "exclude"
    criteria: Sequence[EvaluationCriteria | Mapping[str, Any] | str] = ()
    evaluator_timeout_s: float = DEFAULT_EVALUATOR_TIMEOUT_S
    targets: Sequence[TargetConfig | Mapping[str, Any]] = ()
    gates: Sequence[str] | Literal["none"] = ()
    base_dir: str | os.PathLike[str] = "."

    def __post_init__(self) -> None:
        """Raise ConfigError with all invalid values at once."""
        faults = tuple(_faults(self))
        if faults:
            raise ConfigError("; ".join(faults))

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], *, base_dir: str | os.PathLike[str] = ".") -> Self:
        """Return the configuration in a dict with the keys of a configuration file, or the PRD's (`evaluatorConfigs`).

        Its values may be live objects: evaluators, a judge, a storage provider. The evaluators themselves are checked
        before the first judgement. Raises EvalFileError with every problem of the other keys.
        """
        where = cls.__name__
        if not isinstance(raw, Mapping):
            raise ConfigError(f"{where} must be an object, not a {type(raw).__name__}")
        for name, spellings in _SPELLINGS.items():
            used = [f"`{key}`" for key in spellings if key in raw]
            if len(used) > 1:
                raise ConfigError(f"{where}: {' and '.join(used)} both set `{name}`; keep one")
        keys = {name: _spelling_in(raw, name) for name in _SPELLINGS}
        values = {name: raw.get(key) for name, key in keys.items()}
        other_keys = {key: value for key, value in raw.items() if key not in keys.values()}
        for name in ("judge", "storage"):
            if isinstance(values[name], str | Mapping):  # a name or dict, not a live object: read as in a file
                other_keys[keys[name]] = values[name]
        others = dict(read_other_keys(other_keys, where=where))
        return cls(
            evaluators=values["evaluators"] or (),
            criteria=values["criteria"] or (),
            targets=values["targets"] or (),
            **_options({"judge": values["judge"], "storage": values["storage"], **others}),
            base_dir=base_dir,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, specs: Specs | None = None, allow_paths: Sequence[str] = ()) -> Self:
        """Read a configuration from a YAML or JSON file. Raises EvalFileError with every problem and its line.

        `allow_paths` are folders outside of the project, in which the file may name other files.
        """
        file = Path(path)
        folder = file.resolve().parent
        read = load_run_config(file, specs or load_project_parts([folder])[0], allow_paths=allow_paths)
        config = cls(evaluators=read.evaluators, criteria=read.criteria, **_options(read.other), base_dir=folder)
        vars(config)[_PATH] = str(file.resolve())
        return config

    def with_values(self, **values: Any) -> Self:
        """Return a copy with these values of fields; its `path` stays the same."""
        config = replace(self, **values)
        if self.path is not None:
            vars(config)[_PATH] = self.path
        return config

    @property
    def path(self) -> str | None:
        """The file that the configuration was read from, None for one from Python."""
        found = vars(self).get(_PATH)
        return found if isinstance(found, str) else None

    @property
    def stream_gates(self) -> tuple[str, ...] | None:
        """The gates of a stream of answers: None for the default gate, empty for no gate."""
        return () if self.gates == "none" else tuple(self.gates) or None


_PATH = "_path"
"""The attribute with the path, which is not a field: it is not part of a configuration's values."""


def _faults(config: EvaluationRunConfig) -> Iterator[str]:
    """Yield the problems of a configuration's values. Its evaluators and criteria are checked when a plan is made."""
    if not _is_list(config.evaluators):
        yield "`evaluators` must be a list of config dicts, names, or evaluator objects"
    if not _is_list(config.criteria):
        yield "`criteria` must be a list of criteria, dicts, or names in .agentv/criteria.yaml"
    if not _is_list(config.gates) and config.gates != "none":
        yield f"`gates` must be a list of gates, or 'none', not {config.gates!r}"
    if not _is_list(config.targets) or not all(map(_is_target, config.targets)):
        yield "`targets` must be a list of TargetConfigs, or of dicts with `name` and `provider`"
    metadata: object = config.metadata
    if not isinstance(metadata, Mapping):
        yield f"`metadata` must be an object, not {type(metadata).__name__}"
    if type(config.evaluator_concurrency) is not int or config.evaluator_concurrency < 1:
        yield f"`evaluator_concurrency` must be a whole number of at least 1, not {config.evaluator_concurrency!r}"
    if config.error_policy not in ("exclude", "zero"):
        yield f"`error_policy` must be 'exclude' or 'zero', not {config.error_policy!r}"
    if config.only is not None and config.only != "free" and not _is_list(config.only):
        yield f"`only` must be 'free' or a list of evaluators' names or types, not {config.only!r}"
    if config.only is not None and not config.only:
        yield "`only` is empty; name evaluators or types, or leave it out"
    timeout_s: object = config.evaluator_timeout_s
    if not (isinstance(timeout_s, int | float) and timeout_s > 0):
        yield f"`evaluator_timeout_s` must be a number above 0, not {timeout_s!r}"


def _is_target(value: object) -> bool:
    if isinstance(value, TargetConfig):
        return True
    return isinstance(value, Mapping) and all(isinstance(value.get(key), str) for key in ("name", "provider"))


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "evaluators": ("evaluators", "evaluator_configs", "evaluatorConfigs"),
    "criteria": ("criteria",),
    "judge": ("judge", "llm"),
    "targets": ("targets",),
    "storage": ("storage", "storage_provider", "storageProvider"),
}


def _spelling_in(raw: Mapping[str, Any], name: str) -> str:
    """Return the key by which a dict spells `name`; `name` itself if the dict has no such key."""
    return next((key for key in _SPELLINGS[name] if key in raw), name)


def _options(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a file as fields of the configuration."""
    options = {key: value for key, value in keys.items() if value is not None}
    if "evaluator_timeout_seconds" in options:
        options["evaluator_timeout_s"] = options.pop("evaluator_timeout_seconds")
    return options
