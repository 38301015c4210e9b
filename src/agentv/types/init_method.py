"""The `__init__` of a dataclass, written from its fields."""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, Field, fields
from typing import Any


def write_init(kind: type[Any], statements: Iterable[str], **known: object) -> Callable[..., None]:
    """Return an `__init__` with the class's fields as parameters, which does `statements`, then what the class checks.

    Each statement is a line of Python; `known` are the names in it that are neither `self` nor fields.
    """
    listed = fields(kind)
    known |= {f"_default_{field.name}": _default(field) for field in listed if not _is_wanted(field)}
    body = [f"if {each} is _default_{each}: {each} = {each}()" for each in _made_anew(listed)]
    body += [*statements, "self.__post_init__()" if hasattr(kind, "__post_init__") else "return"]
    source = [f"def _write({', '.join(known)}):", f" def __init__({', '.join(_parameters(listed))}):"]
    source += [*(f"  {line}" for line in body), " return __init__"]
    written: dict[str, Any] = {}
    module = sys.modules.get(kind.__module__)
    exec("\n".join(source), vars(module) if module else {}, written)  # noqa: S102 - our own field names, as dataclasses do
    init: Callable[..., None] = written["_write"](**known)
    init.__annotations__ = {**{field.name: field.type for field in listed}, "return": None}
    return init


def _is_wanted(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _default(field: Field[Any]) -> object:
    return field.default_factory if field.default is MISSING else field.default


def _made_anew(listed: Sequence[Field[Any]]) -> list[str]:
    """Return the fields whose default is made for each instance; in the parameters its maker stands for it."""
    return [field.name for field in listed if field.default is MISSING and field.default_factory is not MISSING]


def _parameters(listed: Sequence[Field[Any]]) -> list[str]:
    """Return the parameters in their order."""
    named = {field.name: field.name if _is_wanted(field) else f"{field.name}=_default_{field.name}" for field in listed}
    positional = [named[field.name] for field in listed if not field.kw_only]
    by_name = [named[field.name] for field in listed if field.kw_only]
    return ["self", *positional, *(["*", *by_name] if by_name else [])]
