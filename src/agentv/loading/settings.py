"""A plug-in's settings: its frozen dataclass → the strict shape of what people write, and back to an instance.

A dataclass may refuse values of its own in `__post_init__` by raising ValueError with a plain sentence; when the
sentence starts with a setting's name, the problem is shown at that setting. It may have a method
`files(base_dir: str) -> tuple[str, ...]` that returns the files it names: those are looked for before a run. When they
are there, a method `problems(base_dir: str) -> tuple[Problem, ...]` is asked what is wrong inside them. A field
that is a list of objects may say in its metadata that `nested` keys of each may stand under another key (the PRD's
rules keep theirs under `config`), and any field may give `aliases` of its key and `spellings` of its values, as others
write them.
"""

import dataclasses
import types
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NotRequired, Required, Union, cast, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, Strict, TypeAdapter, ValidationInfo
from typing_extensions import TypedDict  # the one that pydantic can read before Python 3.12

from agentv.loading.documents import Document, JsonPath
from agentv.loading.reader import Reader
from agentv.loading.schema_parts import Spelled, SpelledValue, defined_as
from agentv.loading.spellings import Names, SpellingNotes, make_names
from agentv.registry import Spec
from agentv.types.errors import EvalFileError, PluginError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Problem

# Shapes are built at run time; mypy would take these for types written down.
_ANNOTATED, _UNION, _TUPLE, _DICT = cast(Any, Annotated), cast(Any, Union), cast(Any, tuple), cast(Any, dict)
_REQUIRED, _NOT_REQUIRED, _TYPED_DICT = cast(Any, Required), cast(Any, NotRequired), cast(Any, TypedDict)


class _HasJson:
    value: JsonValue


_JSON_VALUE = get_type_hints(_HasJson, localns={"JsonValue": Any})["value"]
"""What JsonValue becomes when hints are read: JSON of any shape."""

_CONFIG = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


@cache
def setting_names(settings: type) -> Names:
    """Return the keys of a settings dataclass, with the aliases in its fields' metadata."""
    fields = dataclasses.fields(settings)
    aliases = {alias: field.name for field in fields for alias in field.metadata.get("aliases", ())}
    return make_names([field.name for field in fields], aliases)


@cache
def settings_adapter(settings: type) -> TypeAdapter[object]:
    """Return what validates a mapping against a settings dataclass and makes the instance."""
    return TypeAdapter(_object_shape(settings))


def read_settings(spec: Spec, raw: Mapping[str, JsonValue], *, where: str) -> object:
    """Return a plug-in's settings as its typed dataclass. Raises EvalFileError with every problem.

    `where` is what messages call the place: a file, or words such as "evaluator 'tone'".
    """
    reader = Reader(Document(where, dict(raw)))
    made = validate_settings(reader, spec.load_settings(), raw, ())
    if made is None:
        raise EvalFileError(where, reader.problems)
    return made


def settings_type(reader: Reader, at: JsonPath, spec: Spec) -> type | None:
    """Return a plug-in's settings dataclass; None when the plug-in cannot be loaded, which is noted at `at`."""
    try:
        return spec.load_settings()
    except PluginError as error:
        reader.error(at, str(error))
        return None


def validate_settings(
    reader: Reader, settings: type, raw: JsonObject, at: JsonPath, *, beside: Names | None = None
) -> object | None:
    """Return the typed settings for `raw`, which stands at `at`, or None when there are problems, which are noted.

    `beside` are the names of keys that stand in the same object and are read apart.
    """
    adapter = settings_adapter(settings)
    return reader.validate(lambda notes: adapter.validate_python(raw, context=notes), raw, at, beside=beside)


def named_files(settings: object, base_dir: str) -> tuple[str, ...]:
    """Return the files that an evaluator's settings depend on, as absolute paths; they must exist.

    A settings class tells them by a method `files(base_dir)`, which it may have.
    """
    files = getattr(settings, "files", None)
    return tuple(files(base_dir)) if callable(files) else ()


def missing_files(settings: object, base_dir: str) -> tuple[str, ...]:
    """Return those of the named files that do not exist."""
    return tuple(path for path in named_files(settings, base_dir) if not Path(path).is_file())


def criteria_named_by(settings: object) -> tuple[str | None, ...] | None:
    """Return the criteria that an evaluator's settings name; None when only its results will tell.

    Settings tell by a field `criteria`, whose names may be filled in, or by a method of that name, where None among
    the names stands for the evaluator's own criterion. An object has no settings, and tells nothing.
    """
    if settings is None:
        return None
    own = getattr(settings, "criteria", ())
    named = own() if callable(own) else own
    return None if named is None else tuple(named)


def content_problems(settings: object, base_dir: str) -> tuple[Problem, ...]:
    """Return what is wrong inside the files that settings name; nothing while one of them is missing.

    A settings class tells it by a method `problems(base_dir)`, which it may have.
    """
    problems = getattr(settings, "problems", None)
    if not callable(problems) or missing_files(settings, base_dir):
        return ()
    try:
        return tuple(problems(base_dir))
    except OSError as error:
        return (Problem(str(error.filename), f"cannot be read: {error.strerror}"),)


def _object_shape(settings: type) -> Any:
    """Return the shape of a dataclass: a strict typed dict in front of the dataclass itself."""
    hints = get_type_hints(settings, localns={"JsonValue": Any}, include_extras=True)
    fields = {field.name: _field_shape(field, hints[field.name]) for field in dataclasses.fields(settings)}
    shape = _TYPED_DICT(settings.__name__, fields)
    shape.__pydantic_config__ = _CONFIG
    shape.__doc__ = settings.__doc__
    names = setting_names(settings)

    def spell(raw: object, info: ValidationInfo) -> object:
        if not isinstance(raw, Mapping):
            return raw
        return cast(SpellingNotes, info.context).rename(raw, names)

    def make(values: Mapping[str, object]) -> object:
        return settings(**values)

    return Annotated[shape, BeforeValidator(spell), AfterValidator(make), Spelled(names)]


def _field_shape(field: "dataclasses.Field[object]", hint: Any) -> Any:
    required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    extra: dict[str, Any] = {}
    if isinstance(field.default, bool | int | float | str):
        extra["default"] = field.default
    described = Field(description=field.metadata.get("help"), json_schema_extra=extra or None)
    # A composite's members are read by loading.evaluator_configs, which knows every type.
    members = bool(field.metadata.get("evaluators"))
    shape = _ANNOTATED[_shape(tuple[Any, ...] if members else hint), described]
    if members:
        shape = _ANNOTATED[shape, defined_as("Evaluators")]
    if "nested" in field.metadata:
        shape = _ANNOTATED[shape, _flattening(field.metadata["nested"])]
    if "spellings" in field.metadata:
        shape = _ANNOTATED[shape, SpelledValue(field.metadata["spellings"])]
    return _REQUIRED[shape] if required else _NOT_REQUIRED[shape]


def _flattening(key: str) -> BeforeValidator:
    """Return what puts the entries under `key` of each object of a list beside its other keys, as some write them."""

    def flatten(raw: object, info: ValidationInfo) -> object:
        if not isinstance(raw, list | tuple):
            return raw
        notes = cast(SpellingNotes, info.context)
        return [notes.join(item, key) if isinstance(item, Mapping) else item for item in raw]

    return BeforeValidator(flatten)


def _shape(hint: Any) -> Any:
    """Return what a type hint demands of JSON: lists for tuples, typed dicts for dataclasses, the rest as it is."""
    if hint == _JSON_VALUE:
        return Any
    if dataclasses.is_dataclass(hint):
        return _object_shape(cast(type, hint))
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _ANNOTATED[(_shape(arguments[0]), *arguments[1:])]
    if origin is tuple:
        items = tuple(item if item is ... else _shape(item) for item in arguments)
        return _ANNOTATED[_TUPLE[items], Strict(strict=False)]
    if origin in (Union, types.UnionType):
        return _choice([_shape(argument) for argument in arguments], arguments)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _DICT[str, _shape(arguments[1])]
    return hint


def _choice(shapes: list[Any], hints: tuple[Any, ...]) -> Any:
    """Return a choice; several dataclasses are told apart by their literal `type`."""
    union = _UNION[tuple(shapes)]
    classes = [hint for hint in hints if dataclasses.is_dataclass(hint)]
    return _ANNOTATED[union, Field(discriminator="type")] if len(classes) > 1 else union
