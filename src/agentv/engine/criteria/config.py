"""The configuration of criteria-based evaluation: the evaluators of given answers, and the storage of judgements."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.criteria.stores import Storage, is_live_store
from agentv.engine.planning.given import GivenEvaluator, JudgeLike
from agentv.engine.planning.inputs import load_project_parts
from agentv.engine.running.score import DEFAULT_EVALUATOR_TIMEOUT_S
from agentv.loading.criteria.run_configs import (
    LIVE_FIELDS,
    OPTIONS,
    RunConfigModel,
    load_run_config,
    option_problems,
    read_other_keys,
)
from agentv.registry import Specs
from agentv.scoring.results.criteria import ErrorPolicy
from agentv.types.errors import ConfigError
from agentv.types.fields import Problems
from agentv.types.json_value import JsonObject
from agentv.types.scales import EvaluationCriteria
from agentv.types.structs import CamelKeywords, struct_fields
from agentv.types.targets import TargetConfig


class EvaluationRunConfig(Struct, frozen=True, eq=False, dict=True, weakref=True, metaclass=CamelKeywords):
    """The evaluators that judge an answer, and the storage of the judgement.

    Reuse one object for many answers: agentv reads and checks its evaluators on first use, and keeps them ready.

    Keywords may be in camelCase, and have the PRD's names (`evaluatorConfigs`, `storageProvider`, `llm`). Raises
    ConfigError for an invalid value.
    """

    KEYWORDS: ClassVar = {
        "evaluator_configs": "evaluators",
        "storage_provider": "storage",
        "storage_provider_FOR_SERVER_USE_ONLY": "storage",
        "storageProvider_FOR_SERVER_USE_ONLY": "storage",
        "llm": "judge",
        "evaluator_timeout_seconds": "evaluator_timeout_s",
    }

    evaluators: Sequence[GivenEvaluator]
    """Config dicts, names of profiles in `.agentv/criteria.yaml`, EvaluatorConfigs, evaluators, or functions.

    A config dict is `{"type": "contains", "value": "4", "criterion": "right"}`, or has the settings in a `config` dict.
    """
    judge: JudgeLike | None = None
    """The model for judges: a target's name, a TargetConfig or a Provider."""
    storage: Storage | Sequence[Storage] | None = None
    """Saves every judgement: an EvaluationStorageProvider, `{"type": "json_file", "path": …}`, or several of them."""
    metadata: JsonObject = field(default_factory=dict)
    """Copied into every judgement."""
    only: Literal["free"] | Sequence[str] | None = None
    """The evaluators that judge: "free" excludes those that cost money, a list names evaluators or types."""
    evaluator_concurrency: int = 8
    """The number of evaluators that judge one answer concurrently."""
    error_policy: ErrorPolicy = "exclude"
    """The effect of an error on the score: "exclude" leaves it out, "zero" counts it as 0."""
    criteria: Sequence[EvaluationCriteria | Mapping[str, Any] | str] = ()
    """The criteria of inputs without criteria."""
    evaluator_timeout_s: float = DEFAULT_EVALUATOR_TIMEOUT_S
    targets: Sequence[TargetConfig | Mapping[str, Any]] = ()
    """Targets that may be named as judges, in addition to those of the targets file; a dict is an entry of one."""
    gates: Sequence[str] | Literal["none"] = ()
    """For `agentv score` and runs stored by `run_evaluation(store="runs")`; "none" turns off the default gate."""
    base_dir: str | os.PathLike[str] = "."
    """The folder of relative paths and names."""

    def __post_init__(self) -> None:
        """Raise ConfigError with all invalid values at once."""
        _problems_of(self).raise_any()

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], *, base_dir: str | os.PathLike[str] = ".") -> Self:
        """Return the configuration in a dict with the keys of a configuration file, or the PRD's (`evaluatorConfigs`).

        Its values may be live objects: evaluators, a judge, a storage provider. The evaluators themselves are checked
        before the first judgement. Raises EvalFileError with every problem of the other keys.
        """
        where = cls.__name__
        if not isinstance(raw, Mapping):
            raise ConfigError(f"{where} must be an object, not a {type(raw).__name__}")
        keys: dict[str, str] = {}
        for key in raw:
            name = RunConfigModel.names().of(key) or key
            if name in keys:
                raise ConfigError(f"{where}: `{keys[name]}` and `{key}` both set `{name}`; keep one")
            keys[name] = key
        # A judge or storage that is a name or dict, not a live object, is read as in a file.
        live = {
            name: raw[keys[name]]
            for name in (*LIVE_FIELDS, "targets")
            if name in keys and not _is_written(name, raw[keys[name]])
        }
        others = read_other_keys({key: raw[key] for name, key in keys.items() if name not in live}, where=where)
        given = {name: value for name, value in {**live, **others}.items() if value is not None}
        return cls(**{"evaluators": (), **given}, base_dir=base_dir)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, specs: Specs | None = None, allow_paths: Sequence[str] = ()) -> Self:
        """Read a configuration from a YAML or JSON file. Raises EvalFileError with every problem and its line.

        `allow_paths` are folders outside of the project, in which the file may name other files.
        """
        file = Path(path)
        folder = file.resolve().parent
        read = load_run_config(file, specs or load_project_parts([folder])[0], allow_paths=allow_paths)
        config = cls(evaluators=read.evaluators, criteria=read.criteria, **cast(Any, read.other), base_dir=folder)
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


_LISTS: Mapping[str, str] = {
    "evaluators": "config dicts, names, or evaluator objects",
    "criteria": "criteria, dicts, or names in .agentv/criteria.yaml",
    "targets": "TargetConfigs, or dicts with `name` and `provider`",
}


def _problems_of(config: EvaluationRunConfig) -> Problems:
    """Return the problems of a configuration's values. Its evaluators and criteria are checked when a plan is made."""
    problems = Problems(type(config).__name__)
    for name, items in _LISTS.items():
        given = getattr(config, name)
        if not _is_list(given) or (name == "targets" and not all(map(_is_target, given))):
            problems.add(f"$.{name}", f"must be a list of {items}")
    problems.found += option_problems({name: getattr(config, name) for name in OPTIONS}, where=problems.what)
    for each in struct_fields(EvaluationRunConfig):
        if each.name in OPTIONS and each.default is not None and getattr(config, each.name) is None:
            problems.add(f"$.{each.name}", f"must not be None; leave it out for the default, {each.default!r}")
    return problems


def _is_written(name: str, value: object) -> bool:
    """Return True for a judge or a storage as a file has it."""
    return name in ("judge", "storage") and isinstance(value, str | Mapping) and not is_live_store(value)


def _is_target(value: object) -> bool:
    if isinstance(value, TargetConfig):
        return True
    return isinstance(value, Mapping) and all(isinstance(value.get(key), str) for key in ("name", "provider"))


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
