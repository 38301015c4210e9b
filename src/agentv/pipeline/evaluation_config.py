"""How given answers are judged: the configuration of the criteria door."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from agentv import loading
from agentv.pipeline.given import TargetLike
from agentv.pipeline.inputs import load_project_parts
from agentv.pipeline.score import DEFAULT_EVALUATOR_TIMEOUT_S
from agentv.pipeline.stores import Storage
from agentv.registry import Specs
from agentv.scoring.criteria_score import ErrorPolicy
from agentv.types.aggregated_result import CriteriaEvaluator
from agentv.types.cases import EvaluatorLike
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject
from agentv.types.scales import EvaluationCriteria

GivenEvaluator: TypeAlias = Mapping[str, Any] | str | EvaluatorLike | CriteriaEvaluator | Callable[..., Any]
"""A config dict, the name of a profile in `.agentv/criteria.yaml`, a config, an evaluator object, or a function."""


@dataclass(frozen=True, eq=False)
class EvaluationRunConfig:
    """Which evaluators judge an answer, and what becomes of the judgement. Keep one and use it again: it is read once.

    `evaluators` are config dicts (`{"type": "contains", "value": "4", "criterion": "right"}`, or as the PRD nests
    them), names of profiles in `.agentv/criteria.yaml`, EvaluatorConfigs, evaluators, or functions of the context.
    `judge` answers for model judges: a target's name, a TargetConfig or a Provider. `storage` keeps every judgement:
    an EvaluationStorageProvider, `{"type": "json_file", "path": …}`, or several of them. `metadata` is
    copied into every judgement. `only` selects evaluators: "free" leaves out what costs money, a list names evaluators
    or types.
    `evaluator_concurrency` is how many of them judge one answer at once. `error_policy` says what an error counts:
    "exclude" leaves it out of the score, "zero" counts 0. `criteria` hold for inputs that bring none. `gates` are for
    `agentv score`. Relative paths and names start from `base_dir`.

    Raises ConfigError for a value that no run can be made with.
    """

    evaluators: Sequence[GivenEvaluator]
    judge: TargetLike | None = None
    storage: Storage | Sequence[Storage] | None = None
    metadata: JsonObject = field(default_factory=dict)
    only: Literal["free"] | Sequence[str] | None = None
    evaluator_concurrency: int = 8
    error_policy: ErrorPolicy = "exclude"
    criteria: Sequence[EvaluationCriteria | Mapping[str, Any] | str] = ()
    evaluator_timeout_s: float = DEFAULT_EVALUATOR_TIMEOUT_S
    gates: Sequence[str] = ()
    base_dir: str | os.PathLike[str] = "."

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if isinstance(self.evaluators, Mapping | str) or not isinstance(self.evaluators, Sequence):
            raise ConfigError("`evaluators` must be a list of config dicts, names, or evaluator objects")
        if self.evaluator_concurrency < 1:
            raise ConfigError(f"`evaluator_concurrency` must be at least 1, not {self.evaluator_concurrency}")
        if self.error_policy not in ("exclude", "zero"):
            raise ConfigError(f"`error_policy` must be 'exclude' or 'zero', not {self.error_policy!r}")
        if isinstance(self.only, str) and self.only != "free":
            raise ConfigError(f"`only` must be 'free' or a list of evaluators' names or types, not {self.only!r}")
        if self.only is not None and not self.only:
            raise ConfigError("`only` selects nobody; name evaluators or types, or leave it out")
        if not self.evaluator_timeout_s > 0:
            raise ConfigError(f"`evaluator_timeout_s` must be above 0, not {self.evaluator_timeout_s}")

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], *, base_dir: str | os.PathLike[str] = ".") -> Self:
        """Make a configuration of a dict with the keys of a configuration file, or the PRD's (`evaluatorConfigs`).

        Live objects may stand in it: evaluators, a judge, a storage provider. The evaluators themselves are checked
        before the first judgement. Raises EvalFileError with every problem of the other keys.
        """
        where = cls.__name__
        live = {name: _pop(raw, name) for name in ("evaluators", "criteria", "judge", "storage")}
        rest = {key: value for key, value in raw.items() if key not in {key for key, _ in live.values()}}
        for name in ("judge", "storage"):
            if isinstance(live[name][1], str | Mapping):
                rest[live[name][0]] = live[name][1]
        plain = dict(loading.read_plain_keys(rest, where=where))
        return cls(
            evaluators=live["evaluators"][1] or (),
            criteria=live["criteria"][1] or (),
            **_options({**{name: live[name][1] for name in ("judge", "storage")}, **plain}),
            base_dir=base_dir,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, specs: Specs | None = None) -> Self:
        """Read a configuration from a YAML or JSON file. Raises EvalFileError with every problem and its line."""
        file = Path(path)
        folder = file.resolve().parent
        read = loading.load_run_config(file, specs or load_project_parts([folder])[0])
        return cls(evaluators=read.evaluators, criteria=read.criteria, **_options(read.plain), base_dir=folder)


_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "evaluators": ("evaluators", "evaluator_configs", "evaluatorConfigs"),
    "criteria": ("criteria",),
    "judge": ("judge", "llm"),
    "storage": ("storage", "storage_provider", "storageProvider"),
}


def _pop(raw: Mapping[str, Any], name: str) -> tuple[str, Any]:
    """Return the key that stands for a name in a dict, and its value."""
    key = next((spelled for spelled in _SPELLINGS[name] if spelled in raw), name)
    return key, raw.get(key)


def _options(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a file as the fields that they stand for."""
    options = {key: value for key, value in plain.items() if value is not None}
    if "evaluator_timeout_seconds" in options:
        options["evaluator_timeout_s"] = options.pop("evaluator_timeout_seconds")
    return options
