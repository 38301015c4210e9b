"""The configuration of the criteria door: a file that `EvaluationRunConfig.load` reads, or the same from Python."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal, cast

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.loading.criteria.criteria import named_criteria, read_criteria
from agentv.loading.files.documents import Document, JsonPath
from agentv.loading.files.places import find_repository_root
from agentv.loading.files.yaml import open_yaml
from agentv.loading.models.file_model import FileModel
from agentv.loading.models.reader import Reader, raise_errors
from agentv.loading.models.settings import settings_type, validate_settings
from agentv.loading.project import NamedParts, find_criteria_file, read_named_parts
from agentv.loading.suites.evaluators import EvaluatorScope, read_evaluator
from agentv.loading.suites.gates import StreamGates
from agentv.loading.suites.models import Count, Criteria, EvaluatorModel, Evaluators, JsonFields, Name, Seconds
from agentv.registry import Registry, Specs
from agentv.types.cases import EvaluatorConfig
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.errors import nearest
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Problem, Severity


class RunConfigModel(FileModel, frozen=True, kw_only=True):
    """How given answers are judged: `EvaluationRunConfig` as a file."""

    ALIASES: ClassVar = {"evaluator_configs": "evaluators", "llm": "judge", "storage_provider": "storage"}

    evaluators: Evaluators = None
    criteria: Criteria = None
    judge: Name | None = None
    storage: JsonFields | None = None
    metadata: JsonFields | None = None
    only: Literal["free"] | list[Name] | None = None
    evaluator_concurrency: Count | None = None
    evaluator_timeout_seconds: Seconds | None = None
    error_policy: Literal["exclude", "zero"] | None = None
    gates: StreamGates | None = None


class ReadRunConfig(Struct, frozen=True):
    """A configuration as read. `plain` holds the keys that are neither evaluators nor criteria, as they were given."""

    evaluators: tuple[EvaluatorConfig, ...]
    criteria: tuple[EvaluationCriteria, ...] = ()
    plain: JsonObject = field(default_factory=dict)


def load_run_config(path: Path, specs: Specs) -> ReadRunConfig:
    """Return the configuration in a YAML or JSON file. Raises EvalFileError with all its problems.

    Evaluators and criteria may be called by the names that the nearest `.agentv/criteria.yaml` gives them.
    """
    read, problems = read_run_config(path, specs)
    raise_errors(str(path), problems)
    return read


def read_run_config(
    path: Path, specs: Specs, *, unknown_type: Severity = "error"
) -> tuple[ReadRunConfig, tuple[Problem, ...]]:
    """Return what can be read of a configuration, and every problem. Raises EvalFileError when it is no YAML."""
    reader = open_yaml(path)
    named, scope, problems = named_parts_around(path.resolve().parent, specs, unknown_type=unknown_type)
    reader.problems += problems
    model = reader.read(RunConfigModel)
    criteria = read_criteria(reader, ("criteria",), named_criteria(named.criteria, named.sets))
    evaluators_at = _written_at(reader, "evaluators")
    if reader.document.at(evaluators_at) is None and model is not None:
        reader.error((), "there is no evaluator", allowed="`evaluators:` lists at least one")
    evaluators = tuple(config for _, config in read_entries(reader, evaluators_at, scope))
    _check_rest(reader, evaluators_at, scope)
    _check_storage(reader, specs.stores)
    only = None if model is None else model.only
    for index in unselectable(only, evaluators, specs.evaluators):
        names = ", ".join(config.name for config in evaluators)
        reader.error(("only", index), "is no evaluator's name or type here", allowed=f"there are: {names}")
    plain = _plain_keys(model)
    return ReadRunConfig(evaluators, criteria, plain), tuple(reader.problems)


def unselectable(
    only: Sequence[object] | str | None, evaluators: Sequence[EvaluatorConfig], registry: Registry
) -> tuple[int, ...]:
    """Return which entries of `only` select none of the evaluators, by their place."""
    if only is None or isinstance(only, str):
        return ()
    known = {config.name for config in evaluators} | {config.type for config in evaluators}
    written = ((place, name if isinstance(name, str) else "") for place, name in enumerate(only))
    return tuple(place for place, name in written if name not in known and registry.canonical(name) not in known)


def read_given_entries(
    entries: Sequence[object], scope: EvaluatorScope, *, where: str
) -> tuple[Mapping[int, EvaluatorConfig], tuple[Problem, ...]]:
    """Return the evaluators among what was given from Python, by their place, and the problems of all of them.

    Objects that are neither a dict nor a name are left alone. The dicts are changed: they must be the caller's own.
    """
    document = {"evaluators": list(cast(Sequence[JsonValue], entries))}  # objects among JSON, which nobody looks into
    reader = Reader(Document(where, document))
    found = dict(read_entries(reader, ("evaluators",), scope))
    return found, tuple(reader.problems)


def read_plain_keys(raw: JsonObject, *, where: str) -> JsonObject:
    """Return the keys of a configuration given from Python, other than its evaluators and criteria, under our names.

    Raises EvalFileError with all their problems.
    """
    reader = Reader(Document(where, dict(raw)))
    model = reader.read(RunConfigModel)
    raise_errors(where, reader.problems)
    return _plain_keys(model)


def _plain_keys(model: RunConfigModel | None) -> JsonObject:
    """Return the keys that are neither evaluators nor criteria, as they were given."""
    given = {} if model is None else model.given()
    return {key: value for key, value in given.items() if key not in ("evaluators", "criteria")}


def named_parts_around(
    folder: Path, specs: Specs, *, unknown_type: Severity = "error"
) -> tuple[NamedParts, EvaluatorScope, tuple[Problem, ...]]:
    """Return what the nearest `.agentv/criteria.yaml` names, the scope of entries beside it, and problems."""
    scope = EvaluatorScope(specs.evaluators, str(folder), unknown_type=unknown_type)
    named, problems = read_named_parts(find_criteria_file(folder, find_repository_root(folder)), scope)
    return (
        named,
        replace(scope, profiles=named.evaluators, criteria=named_criteria(named.criteria, named.sets)),
        problems,
    )


def read_entries(reader: Reader, at: JsonPath, scope: EvaluatorScope) -> Iterator[tuple[int, EvaluatorConfig]]:
    """Yield the evaluators of a list, each with its place; what is neither an object nor a name is left alone.

    An entry without a name is called by its criterion, else by its type, with a number where that is taken.
    """
    raw = reader.document.at(at)
    if raw is None:
        return
    if not isinstance(raw, list | tuple):
        reader.error(at, "must be a list of evaluators")
        return
    written = [_own_name(entry) for entry in raw]
    taken = {name for name in written if name is not None}
    seen: set[str] = set()
    for index, entry in enumerate(raw):
        if not isinstance(entry, Mapping | str):
            continue
        config = read_evaluator(reader, (*at, index), scope, default_name=_free_name(entry, taken, scope))
        if config is None:
            continue
        if config.name in seen:
            advice = "results are told apart by their evaluator's name"
            reader.error((*at, index), f"a second evaluator named {config.name!r}", allowed=advice)
        seen.add(config.name)
        yield index, config


def _check_rest(reader: Reader, at: JsonPath, scope: EvaluatorScope) -> None:
    """Note the entries of a file's list that are neither an object nor a name."""
    raw = reader.document.at(at)
    for index, entry in enumerate(raw if isinstance(raw, list | tuple) else ()):
        if not isinstance(entry, Mapping | str):
            read_evaluator(reader, (*at, index), scope)


def _check_storage(reader: Reader, stores: Registry) -> None:
    """Note what is wrong with the store that a file names and with its settings."""
    at = _written_at(reader, "storage")
    raw = reader.document.at(at)
    if not isinstance(raw, Mapping):
        return
    for key in reader.document.lift(at, "config"):
        reader.error((*at, key), f"`{key}` stands in `config` and beside it", on_key=True)
    type_ = str(raw.get("type"))
    if "type" not in raw:
        reader.error(at, "the key 'type' is missing", allowed=f"known: {', '.join(stores.names())}")
    elif stores.canonical(type_) is None:
        near, known = nearest(type_, stores.names()), ", ".join(stores.names())
        reader.error((*at, "type"), f"unknown store {type_!r}", allowed=f"known: {known}", suggestion=near)
    elif (settings := settings_type(reader, (*at, "type"), stores.get(type_))) is not None:
        validate_settings(reader, settings, {key: value for key, value in raw.items() if key != "type"}, at)


def _own_name(entry: object) -> str | None:
    name = entry.get("name") if isinstance(entry, Mapping) else entry
    return name if isinstance(name, str) else None


def _free_name(entry: object, taken: set[str], scope: EvaluatorScope) -> str:
    """Return a name for an entry that has none, and take it."""
    if not isinstance(entry, Mapping) or "name" in entry:
        return "evaluator"
    names = EvaluatorModel.names()
    nested = entry.get("config")
    places = (entry, nested) if isinstance(nested, Mapping) else (entry,)
    named = (place[key] for place in places if (key := names.written(place, "criterion")) is not None)
    type_ = str(entry.get("type"))
    wanted = str(next(named, scope.registry.canonical(type_) or type_))
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    taken.add(name)
    return name


def _written_at(reader: Reader, name: str) -> JsonPath:
    """Return the path of a top-level key, however it is spelled."""
    return (RunConfigModel.names().written(reader.document.value, name) or name,)
