"""Cursors: the place of a result in an order, as an opaque text that URLs can carry."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TypeAlias

import msgspec
from msgspec import Struct

from agentv.storage.index.row_query import RowQuery

SortValue: TypeAlias = str | int | float | None


class Cursor(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A result in the order `order`, such as `-cost`: its value, and its line, by which equal values are sorted."""

    order: str
    value: str | int | float | None
    line: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Cursor).decode
_VALUES: dict[str, tuple[type, ...]] = {"written": (int,), "id": (str,), "state": (int,)}
_NUMBER_OR_ABSENT = (int, float, type(None))
_LINE_LIMIT = 2**63


def order_name(query: RowQuery) -> str:
    """Return the order of a query: its sort key, after `-` if it is descending."""
    return f"-{query.sort}" if query.is_descending else query.sort


def encode_cursor(query: RowQuery, value: SortValue, line: int) -> str:
    """Return the cursor of a result."""
    return urlsafe_b64encode(_encode(Cursor(order_name(query), value, line))).rstrip(b"=").decode()


def decode_cursor(text: str, query: RowQuery) -> Cursor:
    """Return the place that a cursor names. Raises ValueError if it is broken, or of another order than the query."""
    try:
        cursor = _decode(urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)))
    except ValueError as error:
        raise ValueError(f"the cursor {text[:40]!r} is broken; begin at the first page") from error
    if cursor.order != order_name(query):
        raise ValueError(
            f"the cursor {text[:40]!r} is of the order {cursor.order[:20]!r}, but the results are sorted by "
            f"{order_name(query)!r}; begin at the first page"
        )
    allowed = _VALUES.get(query.sort, _NUMBER_OR_ABSENT)
    is_valid = isinstance(cursor.value, allowed) and 0 < cursor.line < _LINE_LIMIT
    if not is_valid or (isinstance(cursor.value, int) and abs(cursor.value) >= _LINE_LIMIT):
        raise ValueError(f"the cursor {text[:40]!r} is broken; begin at the first page")
    return cursor
