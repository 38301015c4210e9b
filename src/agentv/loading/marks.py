"""What the type of a field in a file says beside its type: bounds, a check, where its schema stands."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct


class Limits(Struct, frozen=True):
    """Bounds of a number, or of the length of a text or list; None is no bound."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    min_length: int | None = None

    def given(self) -> dict[str, Any]:
        """Return the bounds that there are, by name."""
        named = {"ge": self.ge, "gt": self.gt, "le": self.le, "min_length": self.min_length}
        return {name: bound for name, bound in named.items() if bound is not None}


class Checked(Struct, frozen=True, eq=False):
    """A check of a value that has the right type; it returns the value, or raises ValueError with a plain sentence."""

    check: Callable[[Any], object]


class DefinedAs(Struct, frozen=True):
    """A value that is read apart; its schema stands under `$defs` with that name, once the whole is put together."""

    name: str
