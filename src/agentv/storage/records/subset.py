"""Parts of a stored shape: what readers declare that need a few fields of each line and skip the rest unread."""

from typing import ClassVar

from msgspec import Struct


class Subset(Struct, frozen=True, gc=False):
    """Some fields of the stored shape `WHOLE`; a test holds them against it."""

    WHOLE: ClassVar[type[Struct]]
