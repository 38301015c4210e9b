"""The configuration of the criteria API: a file that `EvaluationRunConfig.load` reads, or a dict from Python."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal, cast

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from agentv.loading.files.documents import Document, JsonPath
from agentv.loading.files.path_guard import PathGuard, guard_for
from agentv.loading.files.places import find_repository_root
from agentv.loading.models.eval_files import Criteria, EvaluatorModel, Evaluators, JsonFields
from agentv.loading.models.file_model import FileModel, file_fields, key_of, names_of
from agentv.loading.models.gates import StreamGates
from agentv.loading.models.reader import Reader, open_yaml, raise_errors
from agentv.loading.models.settings import settings_type, validate_settings
from agentv.loading.suites.criteria import named_criteria, read_criteria
from agentv.loading.suites.evaluators import EvaluatorScope, read_evaluator, warn_of_only_evaluator
from agentv.loading.suites.named_definitions import NamedDefinitions, find_criteria_file, read_named_definitions
from agentv.registry import EvaluatorSpec, Registry, Specs, StoreSpec
from agentv.types.bounds import Count, Name, Seconds
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import nearest
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Problem, Severity
from agentv.types.scales import EvaluationCriteria


class RunConfigModel(FileModel, frozen=True, kw_only=True):
    """The keys of a file for `EvaluationRunConfig`."""

    ALIASES: ClassVar = {
        "evaluator_configs": "evaluators",
        "llm": "judge",
        "storage_provider": "storage",
        "storageProvider_FOR_SERVER_USE_ONLY": "storage",
    }

    evaluators: Evaluators = None
    criteria: Criteria = None
    judge: Name | JsonFields | None = None
    storage: JsonFields | None = None
    metadata: JsonFields | None = None
    only: Literal["free"] | Annotated[list[Name], Meta(min_length=1)] | None = None
    evaluator_concurrency: Count | None = None
    evaluator_timeout_s: Annotated[Seconds | None, Meta(extra={"file_key": "evaluator_timeout_seconds"})] = None
    error_policy: Literal["exclude", "zero"] | None = None
    gates: StreamGates | None = None


LIVE_FIELDS = ("evaluators", "criteria", "judge", "storage")
"""The fields that may have live objects from Python, and are checked when the configuration is used."""
OPTIONS = tuple(each.name for each in file_fields(RunConfigModel) if each.name not in LIVE_FIELDS)
"""The other fields, whose values are the same in files and from Python."""


class ParsedRunConfig(Struct, frozen=True):
    """A parsed configuration, and the document that it was read from."""

    document: Document
    evaluators: tuple[EvaluatorConfig, ...]
    criteria: tuple[EvaluationCriteria, ...] = ()
    other: JsonObject = field(default_factory=dict)
    """The given fields other than evaluators and criteria."""


def load_run_config(path: Path, specs: Specs, *, allow_paths: Sequence[str] = ()) -> ParsedRunConfig:
    """Return the configuration in a YAML or JSON file. Raises EvalFileError with all its problems.

    Evaluators and criteria may be given by the names that the nearest `.agentv/criteria.yaml` defines. Files that they
    name may also lie in the folders `allow_paths`, outside of the project.
    """
    parsed, problems = read_run_config(path, specs, allow_paths=allow_paths)
    raise_errors(str(path), problems)
    return parsed


def read_run_config(
    path: Path, specs: Specs, *, unknown_type: Severity = "error", allow_paths: Sequence[str] = ()
) -> tuple[ParsedRunConfig, tuple[Problem, ...]]:
    """Return the readable part of a configuration, and every problem. Raises EvalFileError when it is not YAML."""
    reader = open_yaml(path)
    folder = path.resolve().parent
    guard = guard_for(folder, cwd=Path.cwd(), allow_paths=allow_paths)
    named, scope, problems = find_named_definitions(folder, specs, unknown_type=unknown_type, guard=guard)
    reader.problems += problems
    model = reader.read(RunConfigModel)
    criteria = read_criteria(reader, ("criteria",), named_criteria(named.criteria, named.sets))
    evaluators_at = _spelling_at(reader, "evaluators")
    if reader.document.at(evaluators_at) is None and model is not None:
        reader.error((), "there are no evaluators", allowed="list at least one under `evaluators:`")
    evaluators = tuple(config for _, config in read_entries(reader, evaluators_at, scope))
    _report_skipped_entries(reader, evaluators_at, scope)
    _check_storage(reader, specs.stores)
    only = None if model is None else model.only
    for index in unmatched_entries(only, evaluators, specs.evaluators):
        names = ", ".join(config.name for config in evaluators)
        reader.error(
            ("only", index), "is not the name or type of an evaluator in this configuration", allowed=f"known: {names}"
        )
    other = _other_keys(model)
    return ParsedRunConfig(reader.document, evaluators, criteria, other), tuple(reader.problems)


def unmatched_entries(
    only: Sequence[object] | str | None, evaluators: Sequence[EvaluatorConfig], registry: Registry[EvaluatorSpec]
) -> tuple[int, ...]:
    """Return the indices of the entries of `only` that select none of the evaluators."""
    if only is None or isinstance(only, str):
        return ()
    known = {config.name for config in evaluators} | {config.type for config in evaluators}
    names = ((index, name if isinstance(name, str) else "") for index, name in enumerate(only))
    return tuple(index for index, name in names if name not in known and registry.canonical(name) not in known)


def read_given_entries(
    entries: Sequence[object], scope: EvaluatorScope, *, where: str
) -> tuple[Mapping[int, EvaluatorConfig], tuple[Problem, ...]]:
    """Return the evaluators in a list given from Python, by index, and all their problems.

    Objects that are neither a dict nor a name are skipped. The dicts are modified: pass copies.
    """
    # The cast is safe: entries that are not JSON are skipped unread.
    document = {"evaluators": list(cast(Sequence[JsonValue], entries))}
    reader = Reader(Document(where, document))
    found = dict(read_entries(reader, ("evaluators",), scope))
    return found, tuple(reader.problems)


def read_other_keys(raw: JsonObject, *, where: str) -> JsonObject:
    """Return the keys of a configuration from Python, without evaluators and criteria, by their canonical names.

    Raises EvalFileError with all problems.
    """
    reader = Reader(Document(where, dict(raw)))
    model = reader.read(RunConfigModel)
    raise_errors(where, reader.problems)
    return _other_keys(model)


def option_problems(options: Mapping[str, object], *, where: str) -> tuple[Problem, ...]:
    """Return the problems of options given from Python, by their field names."""
    plain = {name: _as_plain(value) for name, value in options.items()}
    reader = Reader(
        Document(where, {key_of(each): plain[each.name] for each in file_fields(RunConfigModel) if each.name in plain})
    )
    reader.read(RunConfigModel)
    return tuple(reader.problems)


def _as_plain(value: object) -> JsonValue:
    if isinstance(value, Mapping):
        return dict(value)
    return cast(JsonValue, list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value)


def _other_keys(model: RunConfigModel | None) -> JsonObject:
    """Return the given keys other than evaluators and criteria, by canonical name."""
    given = {} if model is None else model.given()
    return {key: value for key, value in given.items() if key not in ("evaluators", "criteria")}


def find_named_definitions(
    folder: Path, specs: Specs, *, unknown_type: Severity = "error", guard: PathGuard | None = None
) -> tuple[NamedDefinitions, EvaluatorScope, tuple[Problem, ...]]:
    """Return the content of the nearest `.agentv/criteria.yaml`, a scope that knows its names, and its problems.

    `guard` None, for entries given from Python, allows their files to lie anywhere.
    """
    scope = EvaluatorScope(specs.evaluators, str(folder), guard, unknown_type=unknown_type)
    named, problems = read_named_definitions(find_criteria_file(folder, find_repository_root(folder)), scope)
    return (
        named,
        replace(scope, profiles=named.evaluators, criteria=named_criteria(named.criteria, named.sets)),
        problems,
    )


def read_entries(reader: Reader, at: JsonPath, scope: EvaluatorScope) -> Iterator[tuple[int, EvaluatorConfig]]:
    """Yield the evaluators of a list with their indices; skip entries that are neither an object nor a name.

    An entry without a name is named after its criterion, else its type, with a number if that name is taken.
    """
    raw = reader.document.at(at)
    if raw is None:
        return
    if not isinstance(raw, list | tuple):
        reader.error(at, "must be a list of evaluators")
        return
    taken = {name for entry in raw if (name := _written_name(entry)) is not None}
    seen: set[str] = set()
    for index, entry in enumerate(raw):
        if not isinstance(entry, Mapping | str):
            continue
        config = read_evaluator(reader, (*at, index), scope, default_name=_free_name(entry, taken, scope))
        if config is None:
            continue
        if config.name in seen:
            advice = "evaluator names must be unique"
            reader.error((*at, index), f"a second evaluator named {config.name!r}", allowed=advice)
        seen.add(config.name)
        if len(raw) == 1:
            warn_of_only_evaluator(reader, (*at, index), config, scope)
        yield index, config


def _report_skipped_entries(reader: Reader, at: JsonPath, scope: EvaluatorScope) -> None:
    """Record a problem for each entry that `read_entries` skips, as it is neither an object nor a name."""
    raw = reader.document.at(at)
    for index, entry in enumerate(raw if isinstance(raw, list | tuple) else ()):
        if not isinstance(entry, Mapping | str):
            read_evaluator(reader, (*at, index), scope)


def _check_storage(reader: Reader, stores: Registry[StoreSpec]) -> None:
    """Record the problems of the store that a file names, and of its settings."""
    at = _spelling_at(reader, "storage")
    raw = reader.document.at(at)
    if not isinstance(raw, Mapping):
        return
    for key in reader.document.lift(at, "config"):
        reader.error((*at, key), f"`{key}` is given both inside and outside `config`", on_key=True)
    type_ = str(raw.get("type"))
    if "type" not in raw:
        reader.error(at, "the key 'type' is missing", allowed=f"known: {', '.join(stores.names())}")
    elif stores.canonical(type_) is None:
        near, known = nearest(type_, stores.names()), ", ".join(stores.names())
        reader.error((*at, "type"), f"unknown store {type_!r}", allowed=f"known: {known}", suggestion=near)
    elif (settings := settings_type(reader, (*at, "type"), stores.get(type_))) is not None:
        validate_settings(reader, settings, {key: value for key, value in raw.items() if key != "type"}, at)


def _written_name(entry: object) -> str | None:
    name = entry.get("name") if isinstance(entry, Mapping) else entry
    return name if isinstance(name, str) else None


def _free_name(entry: object, taken: set[str], scope: EvaluatorScope) -> str:
    """Return a name for an entry without `name`, and add it to `taken`."""
    if not isinstance(entry, Mapping) or "name" in entry:
        return "evaluator"  # not used: the entry has a name, or is one
    names = names_of(EvaluatorModel)
    nested = entry.get("config")
    places = (entry, nested) if isinstance(nested, Mapping) else (entry,)
    named = (place[key] for place in places if (key := names.spelling_in(place, "criterion")) is not None)
    type_ = str(entry.get("type"))
    base_name = str(next(named, scope.registry.canonical(type_) or type_))
    name, number = base_name, 2
    while name in taken:
        name, number = f"{base_name}-{number}", number + 1
    taken.add(name)
    return name


def _spelling_at(reader: Reader, name: str) -> JsonPath:
    """Return the path of a top-level key, in the spelling of the file."""
    return (RunConfigModel.names().spelling_in(reader.document.value, name) or name,)
