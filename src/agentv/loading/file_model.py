"""The base of every model of what people write: strict, nothing unknown, every spelling accepted."""

from collections.abc import Mapping
from functools import cache
from typing import ClassVar, cast

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationInfo, model_validator
from pydantic.config import JsonDict
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from agentv.loading.schema_parts import with_spellings
from agentv.loading.spellings import Names, SpellingNotes, make_names
from agentv.types.json_value import JsonValue

DEPRECATED: JsonDict = {"deprecated": True}
"""What a field has as `json_schema_extra` when its key is still read, but no longer named to people."""


class FileModel(BaseModel):
    """An object in a file. Subclasses end with a method that makes the frozen dataclass.

    `ALIASES` maps other spellings to field names; camelCase twins need no entry. `ELSEWHERE` tells of keys that are
    often put here where they belong. A field whose key is no Python name has it as its pydantic alias.
    """

    # Built when it is first read with: most commands read few of the kinds of files that there are.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, defer_build=True)
    ALIASES: ClassVar[Mapping[str, str]] = {}
    ELSEWHERE: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def names(cls) -> Names:
        """Return the keys that this object may have."""
        return _names_of(cls)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe the keys with all their spellings."""
        return with_spellings(handler.resolve_ref_schema(handler(core_schema)), cls.names())

    @model_validator(mode="before")
    @classmethod
    def _spell(cls, raw: object, info: ValidationInfo) -> object:
        if not isinstance(raw, Mapping):
            return raw
        return cast(SpellingNotes, info.context).rename(cast(Mapping[str, JsonValue], raw), cls.names())


@cache
def _names_of(model: type[FileModel]) -> Names:
    own = model.__annotations__
    fields = sorted(model.model_fields.items(), key=lambda item: item[0] not in own)  # a base class's keys come last
    keys = {field.alias or name: field.json_schema_extra == DEPRECATED for name, field in fields}
    current = [key for key, is_deprecated in keys.items() if not is_deprecated]
    return make_names(current, {**model.ALIASES, **{key: key for key in keys if keys[key]}}, model.ELSEWHERE)
