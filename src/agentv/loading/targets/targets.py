"""Reading and checking of a targets file as TargetConfigs, and resolution of each config that a run uses.

References are filled by the resolution, so that the variables of unused targets may be unset.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agentv.loading.files.documents import Document, JsonPath, Mark
from agentv.loading.files.text import shown
from agentv.loading.models.core_schema import reader_of
from agentv.loading.models.file_model import names_of
from agentv.loading.models.reader import Reader, in_order, open_yaml, raise_errors
from agentv.loading.models.references import ReferenceReader, fill, holds_reference, read_converting, redact_problems
from agentv.loading.models.settings import settings_type
from agentv.loading.models.targets_files import TargetModel, TargetsFileModel, UseTargetModel
from agentv.loading.targets.openai_services import service_advice
from agentv.loading.translation.importers import importers_of
from agentv.loading.translation.translation import Translation
from agentv.registry import ProviderSpec, Registry, Specs, names_model
from agentv.templating.environment import fill_variables, variables_in
from agentv.templating.secrets import looks_secret
from agentv.types.errors import EvalFileError, PluginError, TemplateError, UnknownNameError, nearest
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Problem, Severity
from agentv.types.targets import ResolvedTarget, TargetConfig


class CheckedTarget(Struct, frozen=True):
    """A checked target."""

    model: TargetModel | None
    spec: ProviderSpec | None
    settings: object | None
    """None if the provider is unknown or a setting is invalid."""


def lift_settings(reader: Reader, at: JsonPath, raw: JsonObject, registry: Registry[ProviderSpec]) -> None:
    """Move the keys under a target's `settings:` up to the target itself, with their positions."""
    provider = raw.get("provider")
    if "settings" not in raw or not isinstance(provider, str):
        return
    try:
        own = names_of(registry.get(provider).load_settings())
    except (PluginError, UnknownNameError):  # check_target records it
        own = None
    if own is not None and own.of("settings") is not None:
        return
    for key in reader.document.lift(at, "settings"):
        reader.error((*at, key), f"`{key}` is given both inside and outside `settings`", on_key=True)


def check_target(
    reader: Reader,
    at: JsonPath,
    raw: JsonObject,
    registry: Registry[ProviderSpec],
    *,
    single_references: frozenset[JsonPath] = frozenset(),
    unknown_provider: Severity = "error",
) -> CheckedTarget:
    """Check the target at `at`, whose content (perhaps with references filled) is `raw`. Problems are recorded.

    `single_references` has the paths in `raw` of values that are one reference, such as `${{ PORT }}`.
    """
    provider = raw.get("provider")
    spec = None
    if isinstance(provider, str):
        spec = _find_provider(reader, at=(*at, "provider"), name=provider, registry=registry, severity=unknown_provider)
    names = TargetModel.names()
    common = {key: value for key, value in raw.items() if names.of(key)}
    read_common = partial(read_converting, reader_of(TargetModel), common, single_references)
    model = reader.validate(read_common, common, at)
    settings = None
    if spec is not None:
        settings = _check_settings(reader, at=at, raw=raw, spec=spec, single_references=single_references)
    advice = getattr(settings, "system_prompt_advice", None)
    if isinstance(model, TargetModel) and model.system_prompt and advice is not None:
        reader.error((*at, "system_prompt"), "is not used by this target", allowed=advice)
        model = None
    if isinstance(model, TargetModel) and model.provider_batching and getattr(settings, "otel", False):
        message = "cannot be used with provider_batching: the spans of one command for many cases do not name the cases"
        reader.error((*at, "otel"), message, allowed="remove one of the two keys")
        model = None
    return CheckedTarget(model if isinstance(model, TargetModel) else None, spec, settings)


def _check_settings(
    reader: Reader, at: JsonPath, raw: JsonObject, spec: ProviderSpec, single_references: frozenset[JsonPath]
) -> object | None:
    """Check the provider's own keys. A common key that is also a setting of the provider is used for both."""
    settings_class = settings_type(reader, (*at, "provider"), spec)
    if settings_class is None:
        return None
    own = names_of(settings_class)
    common = TargetModel.names()
    settings: dict[str, JsonValue] = {
        key: value for key, value in raw.items() if common.of(key) is None or own.of(key) is not None
    }
    read_own = partial(read_converting, reader_of(settings_class), settings, single_references)
    return reader.validate(read_own, settings, at, other_names=common)


def _find_provider(
    reader: Reader, at: JsonPath, name: str, registry: Registry[ProviderSpec], severity: Severity
) -> ProviderSpec | None:
    try:
        if name in registry:
            return registry.get(name)
    except PluginError as error:
        reader.error(at, str(error))
        return None
    message = f"unknown provider {name!r}"
    if severity == "warning":
        message += ", unless a plug-in of .agentv.yaml provides it"
    allowed = service_advice(name) or f"known: {', '.join(registry.canonical_names())}"
    reader.error(at, message, allowed=allowed, suggestion=nearest(name, registry.names()), severity=severity)
    return None


def check_texts(reader: Reader, at: JsonPath, value: JsonValue, name: str = "") -> None:
    """Record malformed references and literal secrets anywhere in a target."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            check_texts(reader, (*at, key), inner, key)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            check_texts(reader, (*at, index), inner, name)
    elif isinstance(value, str) and holds_reference(value):
        try:
            variables_in(value)
        except TemplateError as error:
            reader.error(at, str(error))
    elif isinstance(value, str) and value and looks_secret(name):
        advice = "write ${{ NAME }} and put the value in the environment or in a .env file"
        reader.warn(at, f"{name!r} looks like a secret, but is in plain text", allowed=advice)


MAX_CHAIN = 10
"""The maximum length of a chain of `use_target`."""

_ENTRY_PATH = re.compile(r"\$\.targets\[(\d+)\]")
JUDGE_KEYS = ("judge", "judge_target", "judgeTarget")
"""The keys of a target that name the judge of its answers."""
_TARGET_NAME_KEYS = (*JUDGE_KEYS, "fallback_targets", "fallbackTargets")


class ParsedTargets(Struct, frozen=True):
    """The readable targets of a file, and its problems."""

    targets: tuple[TargetConfig, ...]
    problems: tuple[Problem, ...]
    names: tuple[str | None, ...] = ()
    """The names of all entries; None for an entry without one."""
    chains: Mapping[str, tuple[str, ...]] = {}
    """For the name of each entry with `use_target`, the targets that it leads to."""

    def known_names(self) -> list[str]:
        """Return the names of all targets, including those of invalid targets."""
        return [name for name in self.names if name is not None]

    def with_needed(self, names: Collection[str]) -> frozenset[str]:
        """Return the named targets and all that they need: judges, fallbacks, and those that `use_target` names."""
        configs = {target.name: target for target in self.targets}
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            found.add(name)
            waiting += self.chains.get(name, ())
            if name in configs:
                for key in _TARGET_NAME_KEYS:
                    waiting += _listed_texts(configs[name].settings.get(key))
        return frozenset(found)

    def with_inline(self, configs: Sequence[TargetConfig]) -> "ParsedTargets":
        """Return these targets with those that an eval file defines, which replace those of the same name."""
        inline = {config.name for config in configs}
        return replace(
            self,
            targets=(*(target for target in self.targets if target.name not in inline), *configs),
            names=(*(None if name in inline else name for name in self.names), *(config.name for config in configs)),
        )

    def problems_of_target(self, name: str) -> tuple[Problem, ...]:
        """Return the problems of one target."""
        return tuple(problem for problem in self.problems if self.owner_of(problem) == name)

    def general_problems(self) -> tuple[Problem, ...]:
        """Return the problems of the file that belong to no target."""
        return tuple(problem for problem in self.problems if _entry_of(problem) is None)

    def problems_for(self, used: Collection[str]) -> Iterator[Problem]:
        """Yield all problems; those of targets that are not used are warnings."""
        for problem in self.problems:
            is_needed = _entry_of(problem) is None or self.owner_of(problem) in used
            yield problem if is_needed else replace(problem, severity="warning")

    def owner_of(self, problem: Problem) -> str | None:
        """Return the name of the target that a problem belongs to; None without a target, or without a name."""
        index = _entry_of(problem)
        return self.names[index] if index is not None and index < len(self.names) else None


def _listed_texts(value: JsonValue) -> list[str]:
    """Return the texts in a list; for a single text, a list of it; for any other value, []."""
    items = value if isinstance(value, list | tuple) else [value]
    return [item for item in items if isinstance(item, str)]


def _entry_of(problem: Problem) -> int | None:
    found = _ENTRY_PATH.match(problem.json_path)
    return int(found[1]) if found else None


def load_targets(path: str | Path, *, specs: Specs, env: Mapping[str, str] | None = None) -> tuple[TargetConfig, ...]:
    """Return the targets of a file. Raises EvalFileError with all its problems.

    Variables are not checked: resolve_target does that for the targets in use. An entry whose `use_target` is a
    variable that is not set is skipped.
    """
    read = read_targets(Path(path), specs, env=env, unset_severity="warning")
    raise_errors(shown(Path(path)), read.problems)
    return read.targets


def read_targets(
    path: Path,
    specs: Specs,
    *,
    env: Mapping[str, str] | None = None,
    unknown_provider: Severity = "error",
    unset_severity: Severity = "error",
) -> ParsedTargets:
    """Return the readable targets of a file, and its problems.

    `env` has the variables that `use_target` may name; one that is not set is a problem of severity `unset_severity`.
    """
    env = env or {}
    try:
        reader, translation = _open(path, specs, env)
    except EvalFileError as error:
        return ParsedTargets((), error.problems)
    model = reader.read(TargetsFileModel)
    count = len(model.targets) if model else 0
    names = tuple(_text_at(reader, ("targets", index, "name")) for index in range(count))
    targets: list[TargetConfig] = []
    chains: dict[str, tuple[str, ...]] = {}
    for index in range(count):
        chain = _use_target_chain(reader, index, names, env=env, unset_severity=unset_severity)
        if not chain:
            continue
        target = _read_target(reader, ("targets", chain[-1]), specs, unknown_provider)
        if target is not None and names[index] is not None:
            targets.append(replace(target, name=names[index]))
            chains[str(names[index])] = tuple(str(names[each]) for each in chain[1:])
    _check_names(reader, names, specs.providers, unknown_judge="error" if translation is None else "warning")
    return ParsedTargets(tuple(targets), in_order(reader.problems), names, chains)


def read_inline_targets(reader: Reader, specs: Specs, unknown_provider: Severity) -> tuple[TargetConfig, ...]:
    """Return the targets that an eval file defines: the objects in its list `targets`. Problems are recorded."""
    own = ReferenceReader(reader.document)
    entries = reader.document.at(("targets",))
    found: list[TargetConfig] = []
    places: dict[str, Mark] = {}
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        at = ("targets", index)
        name = entry.get("name") if isinstance(entry, Mapping) else entry
        if isinstance(name, str):
            _record_repeated_name(own, at if name is entry else (*at, "name"), name, places)
        target = _read_target(own, at, specs, unknown_provider) if isinstance(entry, Mapping) else None
        if target is not None:
            found.append(target)
    reader.problems += own.problems
    return tuple(found)


def open_targets(path: Path, specs: Specs, env: Mapping[str, str]) -> ReferenceReader:
    """Return a reader of a targets file; keys of AgentV are translated. Raises EvalFileError when it is not YAML."""
    return _open(path, specs, env)[0]


def _open(path: Path, specs: Specs, env: Mapping[str, str]) -> tuple[ReferenceReader, Translation | None]:
    plain = open_yaml(path)
    translation = importers_of(specs).translate_targets(plain.document, env)
    if translation is None:
        return ReferenceReader(plain.document, plain.problems), None
    return ReferenceReader(translation.document, (*plain.problems, *translation.problems())), translation


def _text_at(reader: Reader, at: JsonPath) -> str | None:
    value = reader.document.at(at)
    return value if isinstance(value, str) else None


def _use_target_chain(
    reader: Reader, index: int, names: Sequence[str | None], env: Mapping[str, str], unset_severity: Severity
) -> tuple[int, ...]:
    """Return the entries that `use_target` leads through, the entry itself first; () if it leads to none."""
    chain = [index]
    while _has_key(reader, chain[-1], "use_target"):
        at = ("targets", chain[-1])
        reader.read(UseTargetModel, at)
        name = _use_target_name(reader, at, env, unset_severity)
        if name is None:
            return ()
        if name not in names:
            known = ", ".join(sorted(filter(None, names)))
            suggestion = nearest(name, filter(None, names))
            message = f"unknown target {name!r}"
            reader.error((*at, "use_target"), message, allowed=f"known: {known}", suggestion=suggestion)
            return ()
        chain.append(names.index(name))
        if len(chain) > MAX_CHAIN:
            message = f"`use_target` leads through more than {MAX_CHAIN} targets"
            reader.error(("targets", index, "use_target"), message, allowed="name the last one directly")
            return ()
    return tuple(chain)


def _has_key(reader: Reader, index: int, key: str) -> bool:
    entry = reader.document.at(("targets", index))
    return isinstance(entry, Mapping) and entry.get(key) is not None


def _use_target_name(reader: Reader, entry: JsonPath, env: Mapping[str, str], unset_severity: Severity) -> str | None:
    """Return the target that `use_target` of an entry names, with its variables filled; None with a problem."""
    at = (*entry, "use_target")
    text, target = reader.document.at(at), reader.document.at((*entry, "name"))
    if not isinstance(text, str):
        return None  # reported by the model
    try:
        missing = [name for name in variables_in(text) if not env.get(name)]
    except TemplateError as error:
        reader.error(at, str(error))
        return None
    if missing:
        message = f"the variable {missing[0]} is not set, and target {target!r} needs it for 'use_target'"
        reader.error(at, message, allowed="set it in the environment or in a .env file", severity=unset_severity)
        return None
    return fill_variables(text, env).strip()


def _read_target(reader: Reader, at: JsonPath, specs: Specs, unknown_provider: Severity) -> TargetConfig | None:
    """Return the target at a path, unresolved; None if it has no name or provider. Problems are recorded."""
    raw = reader.document.at(at)
    if not isinstance(raw, Mapping):
        reader.error(at, "must be an object with name and provider")
        return None
    lift_settings(reader, at, raw, specs.providers)
    check_target(reader, at, raw, specs.providers, unknown_provider=unknown_provider)
    check_texts(reader, at, raw)
    name, provider = raw.get("name"), raw.get("provider")
    if not isinstance(name, str) or not isinstance(provider, str):
        return None
    path = reader.document.path
    return TargetConfig(
        name=name,
        provider=provider,
        settings={key: value for key, value in raw.items() if key not in ("name", "provider")},
        path=path,
        line=reader.document.mark(at).line,
        base_dir=str(Path(path).resolve().parent),
    )


def _check_names(
    reader: Reader, all_names: Sequence[str | None], providers: Registry[ProviderSpec], *, unknown_judge: Severity
) -> None:
    """Record duplicate names, unknown fallbacks, and, with severity `unknown_judge`, unknown judges."""
    entries = reader.document.at(("targets",))
    names = set(filter(None, all_names))
    places: dict[str, Mark] = {}
    for index, raw in enumerate(entries if isinstance(entries, list) else ()):
        if not isinstance(raw, Mapping):
            continue
        name = raw.get("name")
        if isinstance(name, str):
            _record_repeated_name(reader, ("targets", index, "name"), name, places)
        for at, target in _named_targets(raw):
            if target == name and at[0] not in JUDGE_KEYS:
                reader.error(("targets", index, *at), "a target cannot be its own fallback")
            is_judge = at[0] in JUDGE_KEYS
            if is_judge and names_model(target, providers):
                continue
            if target not in names and not holds_reference(target):
                allowed = f"known: {', '.join(sorted(names))}"
                severity = unknown_judge if is_judge else "error"
                reader.error(
                    ("targets", index, *at),
                    f"unknown target {target!r}",
                    allowed=allowed,
                    suggestion=nearest(target, names),
                    severity=severity,
                )


def _record_repeated_name(reader: Reader, at: JsonPath, name: str, places: dict[str, Mark]) -> None:
    """Record a problem for a target's name that an earlier entry has; `places` are those of the entries so far."""
    place = reader.document.mark(at[:2])
    first = places.setdefault(name, place)
    if first != place:
        reader.error(at, f"a second target named {name!r}, first in line {first.line}")


def _named_targets(raw: Mapping[str, JsonValue]) -> Iterator[tuple[JsonPath, str]]:
    """Yield the judge and the fallbacks that a target names, with their paths in it."""
    for key in _TARGET_NAME_KEYS:
        value = raw.get(key)
        if isinstance(value, str):
            yield (key,), value
        for index, each in enumerate(value if isinstance(value, list) else ()):
            if isinstance(each, str):
                yield (key, index), each


def resolve_target(
    config: TargetConfig, *, env: Mapping[str, str], specs: Specs, public_env: Collection[str] = ()
) -> ResolvedTarget:
    """Return a target ready for use. Raises EvalFileError with all problems: unset variables, invalid settings.

    The target may come from a file or from Python. `public_env` are variables that hold no secrets.
    """
    where = config.path or f"target {config.name!r}"
    document = Document(where, _as_written(config), Mark(config.line, 1 if config.line else 0))
    reader = Reader(document)
    resolved = resolve_at(reader, (), config, env=env, specs=specs, public_env=public_env)
    if resolved is None:
        reader, at = _reopen_at(config, env, specs) or (reader, ())
        resolve_at(reader, at, config, env=env, specs=specs)
        raise_errors(where, reader.problems)
        raise EvalFileError(where, reader.problems)
    return resolved


def secrets_of(config: TargetConfig, *, env: Mapping[str, str], public_env: Collection[str] = ()) -> frozenset[str]:
    """Return the secrets of a target that may be unused: one that could not be resolved has secrets, too."""
    reader = Reader(Document(config.path, _as_written(config), Mark(0, 0)))
    return fill(reader, (), _as_written(config), env, config.name, public_env=public_env).secrets


def _as_written(config: TargetConfig) -> JsonObject:
    return {"name": config.name, "provider": config.provider, **config.settings}


def _reopen_at(config: TargetConfig, env: Mapping[str, str], specs: Specs) -> tuple[Reader, JsonPath] | None:
    """Return a reader of the target's file and the path of the target in it, for positions; None if it is not found."""
    if not config.line:
        return None
    try:
        document = open_targets(Path(config.path), specs, env).document
    except EvalFileError:
        return None
    entries = document.at(("targets",))
    for index in range(len(entries) if isinstance(entries, list) else 0):
        at = ("targets", index)
        # Compared by line and not by name, which may be an alias.
        if document.mark(at).line == config.line and document.at((*at, "provider")) == config.provider:
            return Reader(document), at
    return None


def resolve_at(
    reader: Reader,
    at: JsonPath,
    config: TargetConfig,
    *,
    env: Mapping[str, str],
    specs: Specs,
    public_env: Collection[str] = (),
) -> ResolvedTarget | None:
    """Return the resolved target at `at`; record its problems and return None if it has any."""
    before = len(reader.problems)
    filled = fill(reader, at=at, value=_as_written(config), env=env, target=config.name, public_env=public_env)
    is_unfilled = len(reader.problems) > before
    if not isinstance(filled.value, dict) or not isinstance(filled.public, dict):
        return None
    checked = check_target(reader, at, filled.value, specs.providers, single_references=filled.single_references)
    redact_problems(reader, before, filled)
    if is_unfilled or checked.model is None or checked.spec is None or checked.settings is None:
        return None
    public = {key: value for key, value in filled.public.items() if key not in ("name", "provider")}
    secrets = tuple(sorted(filled.secrets))
    target = ResolvedTarget(
        name=config.name,
        provider=checked.spec.name,
        settings=checked.settings,
        public_settings=public,
        secrets=secrets,
        own_secrets=secrets,
        public_env=tuple(public_env),
        path=config.path,
        line=config.line,
        base_dir=config.base_dir,
    )
    return _with_common(target, checked.model)


def _with_common(target: ResolvedTarget, model: TargetModel) -> ResolvedTarget:
    return replace(
        target,
        workers=model.workers,
        provider_batching=model.provider_batching,
        batch_size=model.batch_size,
        retry=model.to_retry_policy(),
        timeout_s=model.timeout_seconds,
        judge=model.judge,
        fallback_targets=tuple(model.fallback_targets),
        unsigned=model.unsigned,
        system_prompt=model.system_prompt,
        price=model.price.to_price() if model.price else None,
        requests_per_minute=model.requests_per_minute,
        tokens_per_minute=model.tokens_per_minute,
        workspace=model.workspace.given() if model.workspace else None,
        resources=model.resources,
        node_label=model.node_label,
    )
