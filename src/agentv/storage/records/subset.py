"""A base class for partial records: readers that need few fields of a line declare these and skip the rest."""

from typing import ClassVar

from msgspec import Struct


class Subset(Struct, frozen=True, gc=False):
    """Some fields of the record type `WHOLE`; a test compares them with it."""

    WHOLE: ClassVar[type[Struct]]
