"""The shape of an object in a line, declared once: its fields, in the order in which they are written."""

from datetime import datetime
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from agentv.scoring.aggregation import TOLERANCE
from agentv.storage.record_fields import time_text, usage_to_record
from agentv.types.json_value import JsonValue
from agentv.types.results import Slot
from agentv.types.usage import Usage

StoredScore: TypeAlias = Annotated[float, msgspec.Meta(ge=-TOLERANCE, le=1 + TOLERANCE)]
"""A score, or a criterion's value, as it is read: one outside 0 to 1 was written by nobody, and no mean can have it."""

ALWAYS: Final[Any] = object()
"""The default of a field that is always written: nothing that it can be is this."""


class Entry(msgspec.Struct, omit_defaults=True, gc=False):
    """An object that is written. A field that is its default is left out; one without, or ALWAYS, is always written.

    Times in it are in UTC. Made and encoded in C, it takes a third of the time of a dict that is filled key by key. Its
    values are given in order: msgspec looks for one that is given by name among all names, which takes as long again.
    """

    def to_record(self) -> dict[str, JsonValue]:
        """Return what is written, as a dict; what a plug-in gave stands in it as it is."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        defaults = dict(zip(reversed(self.__struct_fields__), reversed(self.__struct_defaults__), strict=False))
        written = (name for name, value in fields.items() if value is not defaults.get(name, msgspec.NODEFAULT))
        return {name: _to_value(fields[name]) for name in written}


def _to_value(value: object) -> JsonValue:
    if isinstance(value, Entry):
        return value.to_record()
    if isinstance(value, Slot):
        return value.to_json()
    if isinstance(value, Usage):
        return usage_to_record(value)
    if isinstance(value, datetime):
        return time_text(value)
    if type(value) is list and value and isinstance(value[0], Entry):
        return [_to_value(each) for each in value]
    return value  # type: ignore[return-value]  # or what a plug-in gave in its place, which `fitted` sees to
