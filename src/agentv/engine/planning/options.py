"""The options of a run, built once by the command line or `evaluate`."""

import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from msgspec import Struct, structs
from msgspec.structs import force_setattr

from agentv.types.errors import ConfigError, UnknownNameError
from agentv.types.json_value import JsonValue

DEFAULT_JUDGE_WORKERS = 10
"""Concurrent calls of a judge without a setting, where answers exist already."""


class RunOptions(Struct, frozen=True):
    """Options of one run; None means the setting of the eval file or target.

    A case is selected if it matches one of `case_globs`, has one of `tags` and makes `expression` true. `sample` is the
    number of selected cases that are drawn with `seed`, `limit` the number of first cases of each eval file, and
    `shard="2/3"` one part of the cases. `timeout_s` bounds one call of the target with its retries. `max_errors` is the
    number of errored results up to which a run still counts as complete. `fail_fast` stops the run after that many
    results that did not pass, `judge_failures` after that many failures of one judge in a row. `only="free"` excludes
    evaluators that cost money. `gates` None means the gates of the files, or, without any, that every judged result
    passes; an empty tuple means no gate. `name` is that of the run.

    `cache` "read" uses answers of earlier runs, not older than `cache_max_age_s` seconds if that is set, and "on" saves
    new ones as well. `budget_usd` limits the cost of all calls together, in dollars; with `budget_name`, of all runs
    with that name in the shared quota. `baseline` is the run to compare with: a stored run by id, name or tag, or a
    file of `agentv baseline save`. Eval files may name files in the folders `allow_paths`, outside of the project.
    `variables` are values, each as `name=value`, that override those of the eval files.

    `backend` "ray" runs the cases on the machines of the Ray cluster at `ray_address`: by default that of RAY_ADDRESS,
    else a new one on this machine alone. The machines get a copy of the project, unless it is under `shared_path`, a
    folder that all of them share. `segments` is the folder or URL of an object store (`s3://…`) to which finished rows
    are moved during the run.
    """

    targets: tuple[str, ...] = ()
    targets_file: str | None = None
    case_globs: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    expression: str | None = None
    sample: int | None = None
    limit: int | None = None
    seed: int = 0
    trials: int | None = None
    workers: int | None = None
    timeout_s: float | None = None
    max_retries: int | None = None
    max_errors: int = 0
    fail_fast: int | None = None
    judge_failures: int = 10
    only: Literal["free"] | None = None
    gates: tuple[str, ...] | None = None
    name: str | None = None
    cache: Literal["off", "read", "on"] = "off"
    cache_max_age_s: float | None = None
    budget_usd: float | None = None
    budget_name: str | None = None
    shard: str | None = None
    baseline: str | None = None
    allow_paths: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    backend: Literal["local", "ray"] = "local"
    ray_address: str | None = None
    segments: str | None = None
    shared_path: str | None = None

    def __post_init__(self) -> None:
        """Raise ConfigError for an invalid value; a single string becomes a tuple of one."""
        _check_types(self)
        for name in _LISTS:
            value = getattr(self, name)
            if isinstance(value, str):
                force_setattr(self, name, (value,))
            elif isinstance(value, list):
                force_setattr(self, name, tuple(value))
        for name, least in (
            ("sample", 1),
            ("limit", 1),
            ("trials", 1),
            ("workers", 1),
            ("fail_fast", 1),
            ("judge_failures", 1),
            ("max_retries", 0),
        ):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigError(f"{name} must be at least {least}, not {value}")
        if self.max_errors < 0:
            raise ConfigError(f"max_errors must be at least 0, not {self.max_errors}")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise ConfigError(f"timeout_s must be above 0, not {self.timeout_s}")
        if self.budget_usd is not None and not 0 < self.budget_usd < math.inf:
            raise ConfigError(f"budget_usd must be a finite number above 0, not {self.budget_usd}")
        if self.budget_name is not None and not self.budget_name.strip():
            raise ConfigError("budget_name must not be empty")
        if self.cache_max_age_s is not None and not self.cache_max_age_s > 0:
            raise ConfigError(f"cache_max_age_s must be above 0, not {self.cache_max_age_s}")
        self._check_choices()

    def _check_choices(self) -> None:
        if self.cache not in ("off", "read", "on"):
            raise ConfigError(f"cache must be 'off', 'read' or 'on', not {self.cache!r}")
        if self.backend not in ("local", "ray"):
            raise ConfigError(f"backend must be 'local' or 'ray', not {self.backend!r}")
        if self.ray_address is not None and self.backend != "ray":
            raise ConfigError("ray_address is only for backend 'ray'")
        if self.shared_path is not None and self.backend != "ray":
            raise ConfigError("shared_path is only for backend 'ray'")
        if self.only not in (None, "free"):
            raise ConfigError(f"only must be 'free', not {self.only!r}")
        if self.sample is not None and self.limit is not None:
            raise ConfigError("sample and limit exclude each other: both choose how many cases are run")
        parse_variables(self.variables)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the options that were set, as stored in `run.json`."""
        defaults = structs.asdict(RunOptions())
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in structs.asdict(self).items()
            if value != defaults[key]
        }


class RunKeywords(TypedDict, total=False):
    """The options of a run as keywords of `evaluate`: the fields of RunOptions."""

    targets: str | Sequence[str]
    targets_file: str | None
    case_globs: str | Sequence[str]
    tags: str | Sequence[str]
    expression: str | None
    sample: int | None
    limit: int | None
    seed: int
    trials: int | None
    workers: int | None
    timeout_s: float | None
    max_retries: int | None
    max_errors: int
    fail_fast: int | None
    judge_failures: int
    only: Literal["free"] | None
    gates: str | Sequence[str] | None
    name: str | None
    cache: Literal["off", "read", "on"]
    cache_max_age_s: float | None
    budget_usd: float | None
    budget_name: str | None
    shard: str | None
    baseline: str | None
    allow_paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    variables: Mapping[str, str] | Sequence[str]
    backend: Literal["local", "ray"]
    ray_address: str | None
    segments: str | None
    shared_path: str | None


_VARIABLE = re.compile(r"([^\W\d][\w-]*)=(.*)", re.DOTALL)


def parse_variables(given: Sequence[str]) -> dict[str, str]:
    """Return the values of `name=value` texts by name. Raises ConfigError for an invalid text or a repeated name."""
    values: dict[str, str] = {}
    for text in given:
        found = _VARIABLE.fullmatch(text)
        if found is None:
            raise ConfigError(f"a variable must be given as name=value, not {text!r}")
        if found[1] in values:
            raise ConfigError(f"the variable {found[1]!r} is given twice")
        values[found[1]] = found[2]
    return values


_LISTS = ("targets", "case_globs", "tags", "gates", "allow_paths", "variables")
_INTEGERS = ("sample", "limit", "seed", "trials", "workers", "max_retries", "max_errors", "fail_fast", "judge_failures")
_NEVER_NONE = ("seed", "max_errors", "judge_failures")
_NUMBERS = ("timeout_s", "cache_max_age_s", "budget_usd")
_STRINGS = (
    "targets_file",
    "expression",
    "name",
    "shard",
    "baseline",
    "budget_name",
    "segments",
    "ray_address",
    "shared_path",
)


def _check_types(options: RunOptions) -> None:
    """Raise ConfigError for an option of the wrong type, which may come from a stored run."""
    for names, types, expected in (
        (_INTEGERS, int, "a whole number"),
        (_NUMBERS, (int, float), "a number"),
        (_STRINGS, str, "a string"),
    ):
        for name in names:
            value = getattr(options, name)
            if value is None and name not in _NEVER_NONE:
                continue
            if not isinstance(value, types) or isinstance(value, bool):
                raise ConfigError(f"{name} must be {expected}, not {value!r}")
    for name in _LISTS:
        value = getattr(options, name)
        is_list = isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
        if value is not None and not isinstance(value, str) and not is_list:
            raise ConfigError(f"{name} must be a list of strings, not {value!r}")


def make_options(given: Mapping[str, Any]) -> RunOptions:
    """Return RunOptions from keywords. Raises UnknownNameError for an unknown one, ConfigError for an invalid value."""
    known = RunOptions.__struct_fields__
    for name in given:
        if name not in known:
            raise UnknownNameError("option", name, known=known)
    folders = given.get("allow_paths", ())
    if isinstance(folders, list | tuple):
        folders = tuple(os.fspath(each) if isinstance(each, os.PathLike) else each for each in folders)
    elif isinstance(folders, os.PathLike):
        folders = os.fspath(folders)
    variables = given.get("variables", ())
    if isinstance(variables, Mapping):
        variables = tuple(f"{name}={value}" for name, value in variables.items())
    return RunOptions(**{**given, "allow_paths": folders, "variables": variables})
