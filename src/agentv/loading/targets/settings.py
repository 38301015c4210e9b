"""Checks of one target of a file: its common keys and its provider's settings, each with its own problems."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from agentv.loading.files.documents import JsonPath
from agentv.loading.models.core_schema import reader_of
from agentv.loading.models.file_model import SpellingNotes, names_of
from agentv.loading.models.reader import Reader
from agentv.loading.models.settings import settings_type
from agentv.loading.suites.references import holds_reference, validated
from agentv.loading.targets.models import TargetModel
from agentv.registry import Registry, Spec
from agentv.templating.environment import variables_in
from agentv.templating.secrets import looks_secret
from agentv.types.errors import PluginError, TemplateError, UnknownNameError, nearest
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Severity


class CheckedTarget(Struct, frozen=True):
    """A checked target. `settings` is None if the provider is unknown or a setting is invalid."""

    model: TargetModel | None
    spec: Spec | None
    settings: object | None


def lift_settings(reader: Reader, at: JsonPath, raw: JsonObject, registry: Registry) -> None:
    """Move the keys under a target's `settings:` up to the target itself, with their positions."""
    provider = raw.get("provider")
    if "settings" not in raw or not isinstance(provider, str):
        return
    try:
        own = names_of(registry.get(provider).load_settings())
    except (PluginError, UnknownNameError):  # which is recorded when the target is checked
        own = None
    if own is not None and own.of("settings") is not None:
        return
    for key in reader.document.lift(at, "settings"):
        reader.error((*at, key), f"`{key}` is given both inside and outside `settings`", on_key=True)


def check_target(
    reader: Reader,
    at: JsonPath,
    raw: JsonObject,
    registry: Registry,
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
    read_common = reader_of(TargetModel)
    model = reader.validate(
        lambda notes: validated(lambda value: read_common(value, notes), common, single_references, notes),
        common,
        at,
    )
    settings = (
        _check_settings(reader, at=at, raw=raw, spec=spec, single_references=single_references)
        if spec is not None
        else None
    )
    return CheckedTarget(model if isinstance(model, TargetModel) else None, spec, settings)


def _check_settings(
    reader: Reader, at: JsonPath, raw: JsonObject, spec: Spec, single_references: frozenset[JsonPath]
) -> object | None:
    """Check the provider's own keys. A common key that is also a setting of the provider is used for both."""
    dataclass = settings_type(reader, (*at, "provider"), spec)
    if dataclass is None:
        return None
    own = names_of(dataclass)
    common = TargetModel.names()
    settings: dict[str, JsonValue] = {
        key: value for key, value in raw.items() if common.of(key) is None or own.of(key) is not None
    }
    read_own: Callable[[object, SpellingNotes], object] = reader_of(dataclass)
    return reader.validate(
        lambda notes: validated(lambda value: read_own(value, notes), settings, single_references, notes),
        settings,
        at,
        other_names=common,
    )


def _find_provider(reader: Reader, at: JsonPath, name: str, registry: Registry, severity: Severity) -> Spec | None:
    try:
        if name in registry:
            return registry.get(name)
    except PluginError as error:
        reader.error(at, str(error))
        return None
    message = f"unknown provider {name!r}"
    if severity == "warning":
        message += ", unless a plug-in of .agentv.yaml provides it"
    known = f"known: {', '.join(registry.canonical_names())}"
    reader.error(at, message, allowed=known, suggestion=nearest(name, registry.names()), severity=severity)
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
