"""Types of values with bounds, which hold however a value was given: in a file, as a dict or in an object."""

import sys
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, cast, get_args, get_origin

from msgspec import Meta, Struct

Name: TypeAlias = Annotated[str, Meta(min_length=1)]
Count: TypeAlias = Annotated[int, Meta(ge=1)]
CountFromZero: TypeAlias = Annotated[int, Meta(ge=0)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0)]
Milliseconds: TypeAlias = Annotated[float, Meta(ge=0)]
Dollars: TypeAlias = Annotated[float, Meta(gt=0)]
FiniteDollars: TypeAlias = Annotated[float, Meta(gt=0, le=sys.float_info.max)]  # `lt` takes no infinity
Weight: TypeAlias = Annotated[float, Meta(ge=0)]
Workers: TypeAlias = Count | Literal["auto"]
"""A number of concurrent calls; `auto` follows what the server accepts."""
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]

_KIND_TEXTS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    tuple: "a list of strings",
}


class ValueType(Struct, frozen=True):
    """The type of a plain value: a bool, a number, a string, a few words, a number or a word, or a tuple of strings."""

    kind: type
    bounds: Meta = Meta()
    words: tuple[str, ...] = ()
    """The allowed strings; () if any is allowed. With a number as `kind`, they are allowed beside it."""
    may_be_none: bool = False

    def problem(self, value: object) -> str | None:
        """Return why a value is not of this type, such as `must be at least 1, not 0`; None if it is."""
        if value is None and self.may_be_none:
            return None
        if self.words and value in self.words:
            return None
        if self.words and self.kind is str:
            return f"must be {_any_of(self.words)}, not {value!r}"
        if not self._has_kind(value):
            others = f" or {_any_of(self.words)}" if self.words else ""
            return f"must be {_KIND_TEXTS[self.kind]}{others}, not {value!r}"
        if self.bounds.min_length and not cast(str, value).strip():
            return "must not be empty"
        return self._out_of_bounds(cast(float, value)) if self.kind in (int, float) else None

    def _has_kind(self, value: object) -> bool:
        if isinstance(value, bool):
            return self.kind is bool
        if self.kind is tuple:
            return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
        return isinstance(value, (int, float) if self.kind is float else self.kind)

    def _out_of_bounds(self, value: float) -> str | None:
        bounds = self.bounds
        if bounds.ge is not None and not value >= bounds.ge:
            return f"must be at least {bounds.ge}, not {value}"
        is_finite = bounds.le == sys.float_info.max
        if (bounds.gt is not None and not value > bounds.gt) or (is_finite and not value < float("inf")):
            return f"must be {'a finite number ' if is_finite else ''}above {bounds.gt}, not {value}"
        if bounds.le is not None and not value <= bounds.le:
            return f"must be at most {bounds.le}, not {value}"
        return None


@cache
def value_type(hint: Any) -> ValueType:
    """Return the type of a plain value from a type hint, whose bounds are in a `Meta`."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    wanted = [each for each in members if each is not NoneType]
    words = next((get_args(each) for each in wanted if get_origin(each) is Literal), ())
    others = [each for each in wanted if get_origin(each) is not Literal]
    kind, *marks = get_args(others[0]) if others and get_origin(others[0]) is Annotated else (*others[:1],) or (str,)
    plain = get_origin(kind) or kind
    if len(others) > 1 or plain not in _KIND_TEXTS:
        raise TypeError(f"{hint} is not the type of a plain value")
    bounds = next((mark for mark in marks if isinstance(mark, Meta)), Meta())
    return ValueType(plain, bounds, words, may_be_none=len(wanted) < len(members))


def _any_of(words: tuple[str, ...]) -> str:
    """Return words as `'a', 'b' or 'c'`."""
    *first, last = map(repr, words)
    return f"{', '.join(first)} or {last}" if first else last
