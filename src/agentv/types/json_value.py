"""JSON as Python sees it: the one name for data whose shape we do not know."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    JsonValue: TypeAlias = bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"] | None
    JsonObject: TypeAlias = Mapping[str, JsonValue]
else:
    # msgspec does not read recursive types.
    JsonValue = Any
    JsonObject = Mapping[str, Any]
