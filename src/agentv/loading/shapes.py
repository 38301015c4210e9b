"""Dataclasses as the shapes of what people write: models of files and settings of plug-ins alike.

A value is held against a shape by pydantic's core alone. The rest of pydantic takes as long to import as all else that
reads a file, so it is left to JSON Schemas, and to types that are not known here.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

from pydantic_core import SchemaValidator

from agentv.loading.core_shapes import UnknownHintError, object_schema
from agentv.loading.spellings import SpellingNotes

T = TypeVar("T")


def reader_of(kind: type[T]) -> Callable[[object, SpellingNotes], T]:
    """Return what reads a mapping as an instance of a dataclass; it notes keys that nobody knows.

    It raises pydantic_core.ValidationError with every problem.
    """
    return _reader_of(cast(type, kind))


@cache
def _reader_of(kind: type) -> Callable[[object, SpellingNotes], Any]:
    try:
        validator: Any = SchemaValidator(object_schema(kind))
    except UnknownHintError:
        from agentv.loading.json_shapes import adapter_of  # noqa: PLC0415 - few plug-ins have such settings

        validator = adapter_of(kind)
    return lambda raw, notes: validator.validate_python(raw, context=notes)
