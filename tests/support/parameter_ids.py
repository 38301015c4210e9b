"""Readable ids for the parameters of tests, where pytest would number them: `settings0`, `expected3`."""

from collections.abc import Iterable
from datetime import date
from enum import Enum
from types import FunctionType
from typing import Any

from msgspec import Struct

_LONGEST, _DEEPEST = 60, 4


def parameter_id(value: object) -> str | None:
    """Return a short text that says what a value is, the same in every process. None leaves it to pytest."""
    if isinstance(value, Enum) or not (text := _said(value)):
        return None
    text = "".join(each if each.isprintable() else repr(each)[1:-1] for each in " ".join(text.split()))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _said(value: object, depth: int = 0) -> str | None:
    """Return what a value says; None if it is of an unknown class, whose text may have an address."""
    match value:
        case str():
            return value
        case bool() | float() | None | date():
            return str(value)
        case int():
            return str(value) if abs(value) < 10**_LONGEST else None
        case bytes():
            return value[:_LONGEST].decode("ascii", "backslashreplace")
        case BaseException():
            return f"{type(value).__name__}: {value}"
        case type() | FunctionType() if value.__name__ != "<lambda>":
            return value.__name__
        case Struct() if isinstance(name := getattr(value, "name", None), str):
            return name
    return _said_of_several(value, depth + 1)


def _said_of_several(value: Any, depth: int) -> str | None:
    kind = type(value)  # classes derived from these may do anything
    if depth == _DEEPEST:
        return "..."
    if kind is dict:
        said = ((key, _said(each, depth)) for key, each in value.items())
        return _joined("{}", (None if each is None else f"{key}={each}" for key, each in said))
    if kind in (set, frozenset):
        return _joined("{}", sorted(_said(each, depth) or "" for each in value))
    return _joined("()", (_said(each, depth) for each in value[:_LONGEST])) if isinstance(value, list | tuple) else None


def _joined(empty: str, texts: Iterable[str | None]) -> str | None:
    """Return the known texts in a row, `empty` if there are no texts, None if none is known."""
    given = list(texts)
    return ", ".join(text for text in given if text is not None) or None if given else empty
