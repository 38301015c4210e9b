"""Value classes whose keywords may also be written in camelCase, as in JSON."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, StructMeta
from msgspec.structs import replace

from agentv.types.errors import ConfigError, UnknownNameError
from agentv.types.json_value import snake_case

_NO_NAMES: Mapping[str, str] = {}
Options = TypeVar("Options", bound=Struct)


class CamelKeywords(StructMeta):
    """The metaclass of value classes that take camelCase keywords: `EvalCase(id="a", inputMessages="Hello")`.

    `KEYWORDS` of a class maps further names, in snake_case, to its fields.
    """

    if not TYPE_CHECKING:  # type checkers know the signature of the class itself

        def __call__(cls, *arguments: Any, **keywords: Any) -> Any:  # noqa: N805 - of a metaclass
            """Make an instance; a camelCase keyword counts as the field that it spells."""
            try:
                return super().__call__(*arguments, **keywords)
            except TypeError:
                spelled = snake_keywords(keywords, cls.__struct_fields__, getattr(cls, "KEYWORDS", _NO_NAMES))
                if spelled == keywords:
                    raise
            return super().__call__(*arguments, **spelled)


def snake_keywords(
    keywords: Mapping[str, Any], known: tuple[str, ...], others: Mapping[str, str] = _NO_NAMES
) -> dict[str, Any]:
    """Return keywords with those in camelCase renamed to the known names that they spell; `others` are further names.

    Raises TypeError for a name that is given in both spellings.
    """
    spelled: dict[str, Any] = {}
    for name, value in keywords.items():
        own = name if name in known else snake_case(name)
        own = others.get(own, own)
        own = own if own in known else name
        if own in spelled:
            raise TypeError(f"{own!r} is given twice, in two spellings")
        spelled[own] = value
    return spelled


def make_options(
    kind: type[Options], given: Options | Mapping[str, Any] | None, keywords: Mapping[str, Any]
) -> Options:
    """Return options of a class from an object or a dict, and keywords that win over it; also in camelCase.

    Raises UnknownNameError for an unknown option, ConfigError for values of the wrong type or spelled twice.
    """
    known = kind.__struct_fields__
    try:
        named = snake_keywords(keywords, known)
        if isinstance(given, Mapping):
            named = {**snake_keywords(given, known), **named}
    except TypeError as error:
        raise ConfigError(f"{kind.__name__}: {error}") from error
    for name in named:
        if name not in known:
            raise UnknownNameError("option", name, known=known)
    if given is None or isinstance(given, Mapping):
        return kind(**named)
    if not isinstance(given, kind):
        raise ConfigError(f"options must be a {kind.__name__} or a dict of its fields, not a {type(given).__name__}")
    return replace(given, **named)
