"""The base of everything that people write in files: strict, nothing unknown, every spelling accepted."""

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, cast

from msgspec import Meta, Struct, structs

from agentv.loading.spellings import Names, make_names
from agentv.types.json_value import JsonObject
from agentv.types.struct_fields import struct_fields

DEPRECATED = Meta(extra={"deprecated": True})
"""Marks a field whose key is still read, but no longer named to people."""


class FileModel(Struct, frozen=True):
    """An object in a file. Subclasses are frozen Structs whose types say what may stand there (shapes.py).

    `ALIASES` maps other spellings to field names; camelCase twins need no entry. `ELSEWHERE` tells of keys that are
    often put here where they belong. `KEYS` has the key of a field where that is no Python name. A subclass may refuse
    values in `__post_init__` by a ValueError with a plain sentence, and ends with a method that makes what the object
    stands for.
    """

    ALIASES: ClassVar[Mapping[str, str]] = {}
    ELSEWHERE: ClassVar[Mapping[str, str]] = {}
    KEYS: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def names(cls) -> Names:
        """Return the keys that this object may have."""
        return _names_of(cast(type, cls))

    def given(self) -> JsonObject:
        """Return the fields that have a value, models and lists in them as plain values of their own."""
        values = structs.asdict(self)
        return {name: _plain(value) for name, value in values.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return {name: _plain(item) for name, item in structs.asdict(value).items()}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return type(value)(map(_plain, value)) if isinstance(value, tuple | list) else value


@cache
def _names_of(model: type) -> Names:
    own, kind = model.__annotations__, cast(type[FileModel], model)
    # A base class's keys come last.
    listed = sorted(struct_fields(model), key=lambda each: each.name not in own)
    keys = {kind.KEYS.get(each.name, each.name): "deprecated" in each.extra for each in listed}
    current = [key for key, is_deprecated in keys.items() if not is_deprecated]
    return make_names(current, {**kind.ALIASES, **{key: key for key in keys if keys[key]}}, kind.ELSEWHERE)
