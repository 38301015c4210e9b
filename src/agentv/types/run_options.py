"""The options of a run. Each is described once: `agentv run`, `evaluate` and `.agentv.yaml` take it from there."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypedDict

from msgspec import Meta, Struct, structs

from agentv.types.bounds import Count, CountFromZero, FiniteDollars, Name, Seconds, ValueType, Workers, value_type
from agentv.types.errors import ConfigError, UnknownNameError
from agentv.types.json_value import JsonValue
from agentv.types.structs import StructField, struct_fields

OptionGroup: TypeAlias = Literal["most used", "select", "repeat", "limits", "gates", "output", "machines"]
"""The group of options in `agentv run --help`; each option is in one."""


class Flag(Struct, frozen=True, kw_only=True):
    """How an option is written on the command line."""

    group: OptionGroup
    names: tuple[str, ...] = ()
    """Its spellings; by default `--` and the name of the field."""
    metavar: str | None = None
    kind: Literal["span", "folder"] | None = None
    """Set if the text is a time span such as `12h`, or an existing folder."""
    value_alone: int | None = None
    """The value of the option if it is given without one."""


def _option(  # one call describes one option
    group: OptionGroup,
    text: str,
    *names: str,
    metavar: str | None = None,
    kind: Literal["span", "folder"] | None = None,
    value_alone: int | None = None,
    in_project_file: bool = False,
    selects: bool = False,
) -> Meta:
    """Describe an option: its group in `--help`, and `text`, its help text.

    With `in_project_file` it is also a key of `.agentv.yaml`, so that a project can have a default of its own. With
    `selects` it restricts a run to some of the cases or evaluators, so that the run is not compared with whole ones.
    """
    flag = Flag(group=group, names=names, metavar=metavar, kind=kind, value_alone=value_alone)
    return Meta(description=text, extra={"flag": flag, "in_project_file": in_project_file, "selects": selects})


class RunOptions(Struct, frozen=True, kw_only=True):
    """Options of one run; None means the setting of the eval file or target."""

    targets: Annotated[
        tuple[str, ...],
        _option(
            "most used",
            "Target, or provider:model; repeat to compare several (default: the eval file's, else the target named "
            "'default', else the only one).",
            "--target",
            metavar="NAME",
        ),
    ] = ()
    targets_file: Annotated[
        str | None,
        _option(
            "select",
            "Targets file or folder (default: nearest to the eval file).",
            "--targets-file",
            "--targets",
            metavar="FILE",
        ),
    ] = None
    row_evaluators: Annotated[
        tuple[str, ...],
        _option(
            "select",
            "Evaluator of a file of rows (.csv, .jsonl, …), e.g. contains='{{ answer }}', is_json; repeatable.",
            "--evaluator",
            metavar="TYPE[=VALUE]",
        ),
    ] = ()
    """For eval files there is none: they name their evaluators."""
    case_globs: Annotated[
        tuple[str, ...],
        _option(
            "most used",
            "Run only cases whose id matches; repeatable.",
            "--case",
            "--eval-id",
            metavar="GLOB",
            selects=True,
        ),
    ] = ()
    """A case is selected if it matches one of these, has one of `tags` and makes `expression` true."""
    tags: Annotated[
        tuple[str, ...],
        _option(
            "most used",
            "Run only cases with this tag; repeatable (any of the tags).",
            "--tag",
            metavar="TAG",
            selects=True,
        ),
    ] = ()
    expression: Annotated[
        str | None,
        _option(
            "select",
            "Run only cases whose id, tags or dataset match, e.g. 'refund and not slow'.",
            "-k",
            metavar="EXPR",
            selects=True,
        ),
    ] = None
    sample: Annotated[
        Count | None, _option("select", "Run only N random cases of each file (see --seed).", selects=True)
    ] = None
    limit: Annotated[Count | None, _option("most used", "Run only the first N cases of each file.", selects=True)] = (
        None
    )
    seed: Annotated[int, _option("select", "Seed for sampling and retry delays.")] = 0
    shard: Annotated[
        str | None, _option("machines", "Run shard I of N; `agentv merge` joins the shards.", metavar="I/N")
    ] = None
    """One part of the cases, such as `2/3`."""
    backend: Annotated[
        Literal["local", "ray"], _option("machines", "Run the cases here, or on the machines of a Ray cluster.")
    ] = "local"
    """On a cluster, the machines get a copy of the project, unless it is under `shared_path`."""
    ray_address: Annotated[
        str | None,
        _option("machines", "Address of the Ray cluster (default: one on this machine).", metavar="ADDRESS"),
    ] = None
    """By default that of RAY_ADDRESS, else a new cluster on this machine alone."""
    segments: Annotated[
        str | None,
        _option(
            "machines",
            "Store the results as files (segments) in this folder or object store (s3://…), not in the run folder.",
            metavar="URL",
        ),
    ] = None
    """Finished rows are moved there during the run."""
    shared_path: Annotated[
        str | None,
        _option(
            "machines",
            "Folder that contains the project, on a disk that all machines share (default: each machine gets a copy).",
            metavar="DIR",
        ),
    ] = None
    trials: Annotated[Count | None, _option("most used", "Run every case N times.")] = None
    workers: Annotated[
        Workers | None,
        _option("most used", "Concurrent calls per target; auto: as many as it accepts.", metavar="N|auto"),
    ] = None
    timeout_s: Annotated[
        Seconds | None,
        _option("limits", "Seconds for a target call and all its retries together.", "--timeout", metavar="S"),
    ] = None
    max_retries: Annotated[
        CountFromZero | None, _option("repeat", "Retries per call (default: each target's own).")
    ] = None
    max_errors: Annotated[
        CountFromZero, _option("gates", "Errors allowed before the run counts as incomplete.", in_project_file=True)
    ] = 0
    fail_fast: Annotated[
        Count | None,
        _option("limits", "Stop after N results that did not pass (without N: 1).", metavar="[N]", value_alone=1),
    ] = None
    judge_failures: Annotated[
        Count, _option("limits", "Stop when a judge could not score N answers in a row.", in_project_file=True)
    ] = 10
    cache: Annotated[
        Literal["off", "read", "on"],
        _option("repeat", "Answer cache: off, read only, or on (read and write).", in_project_file=True),
    ] = "off"
    cache_max_age_s: Annotated[
        Seconds | None,
        _option(
            "repeat",
            "Ignore cached answers older than SPAN, e.g. 12h or 7d.",
            "--cache-max-age",
            metavar="SPAN",
            kind="span",
        ),
    ] = None
    budget_usd: Annotated[
        FiniteDollars | None, _option("limits", "Stop before the cost of the run can exceed X dollars.", metavar="X")
    ] = None
    """It limits the cost of all calls together; with `budget_name`, of all runs with that name in the shared quota."""
    budget_name: Annotated[
        Name | None, _option("limits", "Share --budget-usd among all runs with this --budget-name.", metavar="NAME")
    ] = None
    only: Annotated[
        Literal["free"] | None,
        _option("select", "Skip evaluators that cost money ('free' is the only value).", metavar="free", selects=True),
    ] = None
    gates: Annotated[
        tuple[str, ...] | None,
        _option(
            "most used",
            "Condition for exit code 0, e.g. 'pass_rate >= 90%'; repeatable. 'none': no condition, not even the "
            "default.",
            "--gate",
            metavar="EXPR",
        ),
    ] = None
    """None means the gates of the files, or, without any, that every judged result passes; () means no gate.

    As a keyword, "none" means no gate, and an empty list the same as None.
    """
    baseline: Annotated[
        str | None, _option("gates", "Compare with a run (id, name, tag, latest) or baseline file.", metavar="RUN")
    ] = None
    """A baseline file is written by `agentv baseline save`."""
    name: Annotated[str | None, _option("output", "Name of this run.", metavar="NAME")] = None
    variables: Annotated[
        tuple[str, ...],
        _option("select", "Value of a variable of the eval files; repeatable.", "--var", metavar="NAME=VALUE"),
    ] = ()
    allow_paths: Annotated[
        tuple[str, ...],
        _option(
            "select",
            "Let the given files use other files in DIR, a folder outside the project; repeatable.",
            "--allow-path",
            metavar="DIR",
            kind="folder",
        ),
    ] = ()

    def __post_init__(self) -> None:
        """Raise ConfigError for an invalid value, or for options that exclude each other."""
        for each in run_options():
            problem = type_of(each).problem(getattr(self, each.name))
            if problem is not None:
                raise ConfigError(f"{each.name} {problem}")
        for name in ("ray_address", "shared_path"):
            if getattr(self, name) is not None and self.backend != "ray":
                raise ConfigError(f"{name} is only for backend 'ray'")
        if self.sample is not None and self.limit is not None:
            raise ConfigError("sample and limit exclude each other: both choose how many cases are run")
        parse_variables(self.variables)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the options that were set, as stored in `run.json`."""
        values = structs.asdict(self)
        return {
            each.name: list(value) if isinstance(value, tuple) else value
            for each in run_options()
            if (value := values[each.name]) != each.default
        }


KEYWORD_ALIASES: Mapping[str, str] = {"max_concurrency": "workers"}
"""Other names of keywords, as pydantic-evals and others have them."""


class RunKeywords(TypedDict, total=False):
    """The fields of RunOptions and their other names as keywords, for type checkers.

    A list may also be given as one string.
    """

    targets: str | Sequence[str]
    targets_file: str | None
    row_evaluators: str | Sequence[str]
    case_globs: str | Sequence[str]
    tags: str | Sequence[str]
    expression: str | None
    sample: int | None
    limit: int | None
    seed: int
    shard: str | None
    backend: Literal["local", "ray"]
    ray_address: str | None
    segments: str | None
    shared_path: str | None
    trials: int | None
    workers: int | Literal["auto"] | None
    max_concurrency: int | Literal["auto"] | None
    timeout_s: float | None
    max_retries: int | None
    max_errors: int
    fail_fast: int | None
    judge_failures: int
    cache: Literal["off", "read", "on"]
    cache_max_age_s: float | None
    budget_usd: float | None
    budget_name: str | None
    only: Literal["free"] | None
    gates: str | Sequence[str] | None
    baseline: str | None
    name: str | None
    variables: str | Mapping[str, str] | Sequence[str]
    allow_paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def run_options() -> tuple[StructField, ...]:
    """Return the description of each option, in the order of `agentv run --help`."""
    return struct_fields(RunOptions)


def type_of(option: StructField) -> ValueType:
    """Return the type of an option."""
    return value_type(option.type)


def flags_of(option: StructField) -> tuple[str, ...]:
    """Return the spellings of an option on the command line, the usual one first."""
    flag: Flag = option.extra["flag"]
    return flag.names or (f"--{option.name.replace('_', '-')}",)


def flag_of(name: str) -> str:
    """Return the usual spelling of an option on the command line."""
    return next(flags_of(each)[0] for each in run_options() if each.name == name)


def project_options() -> tuple[StructField, ...]:
    """Return the options that are also keys of `.agentv.yaml`."""
    return tuple(each for each in run_options() if each.extra["in_project_file"])


def selecting_options() -> Mapping[str, str]:
    """Return the options that restrict a run to some of the cases or evaluators, each with its usual spelling."""
    return {each.name: flags_of(each)[0] for each in run_options() if each.extra["selects"]}


def make_options(given: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> RunOptions:
    """Return RunOptions from keywords; `defaults` are those of the project.

    A list may be one string, `variables` a mapping, and a folder of `allow_paths` a path. Raises UnknownNameError for
    an unknown keyword, ConfigError for an invalid value.
    """
    known = RunOptions.__struct_fields__
    for name in given:
        if name not in known and name not in KEYWORD_ALIASES:
            raise UnknownNameError("option", name, known=known)
        if KEYWORD_ALIASES.get(name) in given:
            raise ConfigError(f"{name} and {KEYWORD_ALIASES[name]} mean the same; give one")
    values = {**(defaults or {}), **{KEYWORD_ALIASES.get(name, name): value for name, value in given.items()}}
    variables = values.get("variables")
    if isinstance(variables, Mapping):
        values["variables"] = tuple(f"{name}={value}" for name, value in variables.items())
    for each in run_options():
        if each.name in values and type_of(each).kind is tuple:
            values[each.name] = _as_tuple(values[each.name])
    if "gates" in values:
        values["gates"] = _gates(values["gates"])
    return RunOptions(**values)


def _gates(given: object) -> object:
    """Return gates as RunOptions has them: `none` turns them off; an empty list sets none, as in a file."""
    if isinstance(given, tuple) and "none" in given:
        if len(given) > 1:
            raise ConfigError("the gate 'none' disables all gates and cannot be combined with another gate")
        return ()
    return None if given == () else given


def _as_tuple(value: object) -> object:
    """Return texts and paths as a tuple of strings, and a single one as a tuple of one. All else is unchanged."""
    if isinstance(value, str | os.PathLike):
        value = (value,)
    if isinstance(value, list | tuple) and all(isinstance(each, str | os.PathLike) for each in value):
        return tuple(os.fspath(each) if isinstance(each, os.PathLike) else each for each in value)
    return value


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
