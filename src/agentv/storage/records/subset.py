"""A base class for partial records: a reader declares the few fields that it needs, and the others are not decoded."""

from typing import ClassVar

from msgspec import Struct


class Subset(Struct, frozen=True, gc=False):
    """Some fields of the record type `WHOLE`; a test checks that both declare them in the same way."""

    WHOLE: ClassVar[type[Struct]]
