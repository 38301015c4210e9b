"""Reading of evaluator entries as EvaluatorConfig: common keys, settings of the type, members of composites."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from agentv.loading.files.documents import JsonPath
from agentv.loading.files.kinds import start_of
from agentv.loading.files.path_guard import PathGuard
from agentv.loading.models.core_schema import reader_of
from agentv.loading.models.eval_files import SINGLE_FORM_KEYS, EvaluatorModel, SingleFormModel
from agentv.loading.models.file_model import names_of
from agentv.loading.models.reader import Reader
from agentv.loading.models.settings import (
    content_problems,
    criteria_named_by,
    data_files,
    missing_files,
    read_settings,
    settings_type,
    validate_settings,
    wrong_settings,
)
from agentv.loading.suites.criteria import NamedCriteria
from agentv.loading.suites.other_evaluators import other_tools_advice
from agentv.loading.suites.variables import texts_in
from agentv.registry import EvaluatorSpec, Registry
from agentv.scoring.keys.identity import slug
from agentv.scoring.results.sources import parse_source
from agentv.templating.case_variables import prompt_faults, used_names
from agentv.templating.variables import is_built_in
from agentv.types.cases import EvaluatorConfig, EvaluatorLike
from agentv.types.errors import AgentvError, PluginError, nearest
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Severity
from agentv.types.structs import struct_fields


class SharedLists:
    """Returns one object for equal lists of evaluators, so that values computed for a list are shared between cases.

    At most `limit` lists are stored; the oldest is removed first.
    """

    def __init__(self, limit: int = 1024) -> None:
        self._limit = limit
        self._lists: dict[bytes, tuple[EvaluatorConfig, ...]] = {}

    def shared(self, configs: tuple[EvaluatorConfig, ...]) -> tuple[EvaluatorConfig, ...]:
        """Return the stored list that equals this one; store this one if there is none."""
        try:
            content = msgspec.json.encode(configs)
        except (TypeError, ValueError):  # a lone surrogate, which is refused elsewhere
            return configs
        if len(self._lists) >= self._limit and content not in self._lists:
            del self._lists[next(iter(self._lists))]
        return self._lists.setdefault(content, configs)


class OutcomeNeeds:
    """Finds evaluators that need the expected outcome of a case. The need of each evaluator is cached."""

    def __init__(self, limit: int = 1024) -> None:
        self._limit = limit
        self._cached: dict[int, tuple[EvaluatorLike, str]] = {}

    def first_in_need(
        self,
        evaluators: Sequence[EvaluatorLike],
        registry: Registry[EvaluatorSpec],
        *,
        has_reference: bool,
        criteria: frozenset[str],
    ) -> str | None:
        """Return the name of the first evaluator that needs an expected outcome; None if none does.

        `has_reference`: the case has a reference answer to compare with. `criteria` are the names of its criteria.
        """
        for each in evaluators:
            if not isinstance(each, EvaluatorConfig):
                continue
            need = self._need(each, registry)
            has_criterion = (each.criterion or each.name) in criteria
            if need == "always" or (need == "alone" and not has_reference and not has_criterion):
                return each.name
        return None

    def _need(self, config: EvaluatorConfig, registry: Registry[EvaluatorSpec]) -> str:
        cached = self._cached.get(id(config))
        if cached is None:
            if len(self._cached) >= self._limit:
                self._cached.clear()
            cached = self._cached[id(config)] = (config, _outcome_need(config, registry))
        return cached[1]


def _outcome_need(config: EvaluatorConfig, registry: Registry[EvaluatorSpec]) -> str:
    """Return when an evaluator needs the expected outcome: `always`, `never`, or `alone`.

    `alone`: unless the case has a reference answer or a criterion. The optional method `compares_outcome(base_dir)` of
    the settings decides; for a composite, also that of its members.
    """
    try:
        spec = registry.get(config.type)
        if not hasattr(spec.load_settings(), "compares_outcome"):
            return "never"
        settings = read_settings(spec, config.settings, where=config.name)
    except AgentvError:  # reported elsewhere
        return "never"
    own = settings.compares_outcome(config.base_dir)  # type: ignore[attr-defined] # checked above
    members = [each for value in config.settings.values() if isinstance(value, tuple) for each in value]
    needs = [own, *(_outcome_need(each, registry) for each in members if isinstance(each, EvaluatorConfig))]
    return next((need for need in ("always", "alone") if need in needs), "never")


class EvaluatorScope(Struct, frozen=True):
    """The names that evaluator entries may use: types, profiles and criteria; and the base folder of their paths."""

    registry: Registry[EvaluatorSpec]
    base_dir: str
    guard: PathGuard | None = None
    """None, as for evaluators from Python, allows files anywhere."""
    profiles: Mapping[str, EvaluatorConfig] = field(default_factory=dict)
    criteria: NamedCriteria = field(default_factory=dict)
    criteria_names: frozenset[str] | None = None
    """None allows any name."""
    unknown_type: Severity = "error"
    """The severity of an unknown type: "warning" if declared plug-ins, which may define it, were not imported."""
    plugins: tuple[str, ...] = ()
    """The plug-ins of the project."""
    lists: SharedLists = field(default_factory=SharedLists)
    variables: JsonObject | None = None
    """The variables of the case whose evaluators are read; None in a file without variables."""

    same_as_built_in: frozenset[str] = frozenset()
    """The variables whose value equals that of the built-in prompt variable of the same name."""

    outcome_needs: OutcomeNeeds = field(default_factory=OutcomeNeeds)


def listed_evaluators(reader: Reader, at: JsonPath) -> tuple[Any, ...] | None:
    """Return the list at a path; None if there is none, or another value, which is recorded."""
    raw = reader.document.at(at)
    if raw is None or isinstance(raw, list | tuple):
        return None if raw is None else tuple(raw)
    reader.error(at, "must be a list of evaluators", allowed="each entry starts with '- name: …'")
    return None


def read_evaluators(reader: Reader, at: JsonPath, scope: EvaluatorScope) -> tuple[EvaluatorConfig, ...] | None:
    """Return the evaluators listed at a path; None if there is no list. Problems are recorded."""
    raw = listed_evaluators(reader, at)
    if raw is None:
        return None
    found = [read_evaluator(reader, (*at, index), scope) for index in range(len(raw))]
    seen: set[str] = set()
    for index, config in enumerate(found):
        if config is None:
            continue
        if config.name in seen:
            advice = "evaluator names must be unique"
            reader.error((*at, index), f"a second evaluator named {config.name!r}", allowed=advice)
        seen.add(config.name)
    if len(found) == 1 and found[0] is not None:
        warn_of_only_evaluator(reader, (*at, 0), found[0], scope)
    return scope.lists.shared(tuple(config for config in found if config is not None))


def warn_of_only_evaluator(reader: Reader, at: JsonPath, config: EvaluatorConfig, scope: EvaluatorScope) -> None:
    """Warn if the settings class of the only evaluator says that it should not be used alone (`warning_if_alone`)."""
    warning = None
    with suppress(AgentvError):  # an unknown or broken type is reported elsewhere
        warning = getattr(scope.registry.get(config.type).load_settings(), "warning_if_alone", None)
    if warning is not None:
        reader.warn(at, warning, allowed="add a rule that checks the facts (`contains`, `numeric`), or a judge")


def read_evaluator(
    reader: Reader, at: JsonPath, scope: EvaluatorScope, *, default_name: str | None = None
) -> EvaluatorConfig | None:
    """Return one evaluator: an object with `name` and `type`, or the name of a profile in .agentv/criteria.yaml."""
    raw = reader.document.at(at)
    if isinstance(raw, str):
        return _profile(reader, at, raw, scope)
    if not isinstance(raw, Mapping):
        reader.error(at, "must be an object with name and type, or the name of an evaluator in .agentv/criteria.yaml")
        return None
    if "type" not in raw and raw.get("name") in scope.profiles:
        name = raw["name"]
        advice = f"write only the name, {name}, or a complete evaluator with another name"
        reader.error(at, f"{name!r} is defined in .agentv/criteria.yaml and cannot be changed here", allowed=advice)
        return None
    written_type = raw.get("type")
    spec = find_type(reader, (*at, "type"), written_type, scope) if isinstance(written_type, str) else None
    _unnest(reader, at, spec)
    names = names_of(EvaluatorModel)
    common = {key: value for key, value in raw.items() if names.of(key)}
    if default_name is not None:
        common.setdefault("name", default_name)
    is_nameless = "name" not in common and isinstance(written_type, str)
    if is_nameless:
        common["name"] = _proposed_name(raw)
        reader.error(at, "the key 'name' is missing", allowed=f"for example `name: {common['name']}`")
    model = reader.validate(partial(reader_of(EvaluatorModel), common), common, at)
    settings = _settings(reader, at=at, raw=raw, spec=spec, scope=scope)
    if model is None or is_nameless:
        return None
    check_common_keys(reader, at, model)
    if model.criterion is not None:
        _check_criterion(reader, (*at, names.spelling_in(raw, "criterion") or "criterion"), model.criterion, scope)
    common_fields = {name: getattr(model, name) for name in EvaluatorConfig.__struct_fields__}
    config = EvaluatorConfig(**{**common_fields, "settings": settings, "base_dir": scope.base_dir})
    return config if spec is None else replace(config, type=spec.name)


def _proposed_name(raw: JsonObject) -> str:
    """Return a name for an evaluator without one: its type, and the text that it looks for."""
    value = raw.get("value")
    return slug(f"{raw['type']} {value if isinstance(value, str) else ''}") or str(raw["type"])


def check_common_keys(reader: Reader, at: JsonPath, model: EvaluatorModel) -> None:
    """Record the problems of the common keys of the evaluator at `at` that its model cannot find."""
    if model.cost is not None:
        reader.warn((*at, "cost"), "`cost` is determined by the type and ignored here", on_key=True)
    try:
        parse_source(model.source)
    except ValueError as error:
        written = names_of(EvaluatorModel).spelling_in(reader.document.at(at), "source")
        reader.error((*at, written or "source"), str(error))
    if model.aggregate != "mean" and not model.per_turn:
        reader.error((*at, "aggregate"), "`aggregate` applies only to turns", allowed="add `per_turn: true`")


def _unnest(reader: Reader, at: JsonPath, spec: EvaluatorSpec | None) -> None:
    """Move the keys under an entry's `config:` up to the entry itself, with their positions."""
    settings_class = settings_type(reader, (*at, "type"), spec) if spec is not None else None
    if settings_class is None or names_of(settings_class).of("config") is not None:
        return
    for key in reader.document.lift(at, "config"):
        reader.error((*at, key), f"`{key}` is given both inside and outside `config`", on_key=True)


def _settings(
    reader: Reader, at: JsonPath, raw: JsonObject, spec: EvaluatorSpec | None, scope: EvaluatorScope
) -> Mapping[str, JsonValue]:
    """Return an entry's own settings as written, after checking them against the type.

    A common key that is also a setting of the type is used for both. Members of a composite are returned as configs.
    """
    common = names_of(EvaluatorModel)
    settings_class = settings_type(reader, (*at, "type"), spec) if spec is not None else None
    if settings_class is None:
        return {key: value for key, value in raw.items() if common.of(key) is None}
    own = names_of(settings_class)
    settings = {key: value for key, value in raw.items() if common.of(key) is None or own.of(key) is not None}
    typed = validate_settings(reader, settings_class, settings, at, other_names=common)
    for entry in struct_fields(settings_class):
        key = own.spelling_in(raw, entry.name)
        if entry.extra.get("evaluators") and key is not None:
            settings[key] = cast(JsonValue, read_evaluators(reader, (*at, key), scope))
    if typed is None or not _check_files(reader, at, settings, files=data_files(typed, scope.base_dir), scope=scope):
        return settings
    if scope.variables is not None and _give_variables(reader, at, settings, typed=typed, scope=scope):
        typed = validate_settings(reader, settings_class, settings, at, other_names=common)
        if typed is None:
            return settings
    for path in missing_files(typed, scope.base_dir):
        reader.error((*at, *place_naming_file(path, settings)), f"there is no file {path}")
    for name in filter(None, criteria_named_by(typed) or ()):
        _check_criterion(reader, (*at, *_place_naming_criterion(name, settings)), name, scope)
    for (name, *rest), message in wrong_settings(typed, scope.base_dir):
        reader.error((*at, own.spelling_in(raw, name) or name, *rest), message)
    for problem in content_problems(typed, scope.base_dir):
        if problem not in reader.problems:  # several cases may name the same file
            reader.problems.append(problem)
    return settings


def _give_variables(reader: Reader, at: JsonPath, settings: JsonObject, typed: object, scope: EvaluatorScope) -> bool:
    """Add the variables that custom prompts use to the settings, as `vars` beside each prompt; return True if any.

    The prompts come from the optional method `prompts(base_dir)` of the settings class.
    """
    prompts = getattr(typed, "prompts", None)
    variables = scope.variables or {}
    has_added = False
    for prompt in prompts(scope.base_dir) if callable(prompts) else ():
        owner = settings
        for key in prompt.at:
            owner = cast(JsonObject, owner[key])
        written_vars = owner.get("vars")
        known = {**variables, **(written_vars if isinstance(written_vars, Mapping) else {})}
        is_built_in_name = partial(is_built_in, known=prompt.known)
        place = (*at, *prompt.at, "prompt")
        for name in used_names(prompt.text):
            if name in known and is_built_in_name(name) and name not in scope.same_as_built_in:
                message = f"in a prompt, {{{{ {name} }}}} is the built-in variable, not your variable {name!r}"
                reader.warn(place, message, allowed=f"write {{{{ vars.{name} }}}} for the variable")
        for fault in prompt_faults(prompt.text, is_built_in_name, known):
            if not fault.is_undefined:  # unknown names are reported when the judge's prompt is checked
                reader.error(place, fault.message, allowed=fault.allowed)
        # A built-in name stands for a variable only if it is written as `vars.NAME`.
        used = {
            name: known[name]
            for name in used_names(prompt.text)
            if name in known and (not is_built_in_name(name) or f"vars.{name}" in prompt.text)
        }
        if used and isinstance(owner, dict):
            owner["vars"] = used
            has_added = True
    return has_added


def _check_files(
    reader: Reader, at: JsonPath, settings: JsonObject, files: Sequence[str], scope: EvaluatorScope
) -> bool:
    """Record a problem for each file outside of the project; return True if there is none."""
    guard = scope.guard
    if guard is None:
        return True
    outside = [path for path in files if not guard.admits_path(Path(path))]
    for path in outside:
        # An evaluator may read a file of a folder that a setting names.
        names = (path, str(Path(path).parent))
        texts = [(place, text) for place, text in texts_in(settings) if _resolved(scope.base_dir, text) in names]
        place, written = texts[0] if texts else (place_naming_file(path, settings), path)
        refusal = guard.refusal(Path(path).resolve(), written)
        reader.error((*at, *place), refusal.message, allowed=refusal.allowed)
    return not outside


def _resolved(base_dir: str, text: str) -> str | None:
    """Return a text as an absolute path, with symbolic links resolved; None if it cannot be a path."""
    try:
        return str(Path(base_dir, text.strip()).resolve())
    except (OSError, ValueError, RuntimeError):
        return None


def place_naming_file(path: str, settings: JsonObject) -> JsonPath:
    """Return the place in the settings of the shortest text with the name of a file; () if there is none."""
    name = Path(path).name
    texts = [(text, at) for at, text in texts_in(settings) if name in text]
    return min(texts, key=lambda found: len(found[0]))[1] if texts else ()


def _place_naming_criterion(text: str, settings: JsonObject) -> JsonPath:
    """Return the place in the settings that names a criterion: under a key that starts with `criteri`."""
    places = (at for at, found in texts_in(settings) if found == text)
    return next((at for at in places if any(str(key).startswith("criteri") for key in at[-2:])), ())


def find_type(reader: Reader, at: JsonPath, name: str, scope: EvaluatorScope) -> EvaluatorSpec | None:
    """Return the evaluator type of a name or alias; record a problem if it is unknown or cannot be loaded."""
    try:
        if name in scope.registry:
            return scope.registry.get(name)
    except PluginError as error:
        reader.error(at, str(error))
        return None
    _report_unknown_type(reader, at, name, scope)
    return None


def _report_unknown_type(reader: Reader, at: JsonPath, name: str, scope: EvaluatorScope) -> None:
    message = f"unknown evaluator type {name!r}"
    allowed = f"known: {', '.join(scope.registry.canonical_names())}"
    near = nearest(name, scope.registry.names())
    if name in scope.profiles:
        allowed = f"it is an evaluator defined in .agentv/criteria.yaml; use it in a list: `evaluators: [{name}]`"
        near = None
    elif scope.unknown_type == "warning" and _is_named_in(scope.plugins, name):
        return  # the plug-in, which is not imported here, most likely defines it
    elif scope.unknown_type == "warning":
        # It is most likely defined by a plug-in, so a list of the built-in types would not help.
        message += ", unless a plug-in of .agentv.yaml provides it"
        allowed = "`agentv plugins --import` lists the known types"
        near = nearest(name, scope.registry.canonical_names())
    if name not in scope.profiles and (advice := other_tools_advice(name)) is not None:
        allowed, near = advice, None
    reader.error(at, message, allowed=allowed, suggestion=near, severity=scope.unknown_type)


def _is_named_in(plugins: Sequence[str], name: str) -> bool:
    """Return True if the source of a plug-in of the project has the name of an evaluator type."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    return any(word.search(start_of(Path(plugin))) for plugin in plugins if plugin.endswith(".py"))


def check_single_form(reader: Reader, at: JsonPath, model: SingleFormModel, scope: EvaluatorScope) -> None:
    """Check that the evaluator type in the single form of the object at `at` is known, and needs no settings."""
    key = next((key for key in SINGLE_FORM_KEYS if getattr(model, key) is not None), None)
    raw = None if key is None else getattr(model, key)
    if key is None or not isinstance(raw, str):
        return
    place = (*at, key)
    spec = find_type(reader, place, raw, scope)
    settings_class = settings_type(reader, place, spec) if spec is not None else None
    if settings_class is not None:
        validate_settings(reader, settings_class, {}, place)


def _profile(reader: Reader, at: JsonPath, name: str, scope: EvaluatorScope) -> EvaluatorConfig | None:
    if name in scope.profiles:
        return scope.profiles[name]
    if name in scope.registry:
        reader.error(at, f"{name!r} is an evaluator type, not a name", allowed=f"write {{name: {name}, type: {name}}}")
        return None
    known = ", ".join(scope.profiles) or "none"
    near = nearest(name, scope.profiles)
    reader.error(at, f"no evaluator {name!r} in .agentv/criteria.yaml", allowed=f"known: {known}", suggestion=near)
    return None


def _check_criterion(reader: Reader, at: JsonPath, name: str, scope: EvaluatorScope) -> None:
    if scope.criteria_names is None or name in scope.criteria_names:
        return
    known = ", ".join(sorted(scope.criteria_names)) or "none"
    near = nearest(name, scope.criteria_names)
    reader.error(at, f"no criterion {name!r} in `criteria`", allowed=f"known: {known}", suggestion=near)
