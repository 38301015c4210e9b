"""The query of an address: the filter, order and page of rows that it asks for, and addresses like it."""

from collections.abc import Iterable, Sequence
from typing import Self, TypeAlias
from urllib.parse import quote, urlencode

from msgspec import Struct

from agentv.storage.index.row_query import SORT_KEYS, RowQuery
from agentv.types.errors import ConfigError

Pair: TypeAlias = tuple[str, str]

PAGE_ROWS = 100
_MAX_TEXT_CHARS = 200
LIST_KEYS = ("state", "target", "prompt", "tag", "suite")
"""The keys that may occur several times, of which one must match."""


class BadAddressError(ConfigError):
    """A part of an address that cannot be understood."""


class Query(Struct, frozen=True):
    """The query of an address, in order."""

    pairs: tuple[Pair, ...] = ()

    @classmethod
    def of(cls, pairs: Iterable[Pair]) -> Self:
        """Return a query without empty values, as forms send them."""
        return cls(tuple((key, value) for key, value in pairs if value.strip()))

    def all(self, key: str) -> tuple[str, ...]:
        """Return the values of a key."""
        return tuple(dict.fromkeys(value for name, value in self.pairs if name == key))

    def last(self, key: str) -> str | None:
        """Return the last value of a key, or None."""
        return next((value for name, value in reversed(self.pairs) if name == key), None)

    def without(self, *keys: str) -> Self:
        """Return the query without these keys."""
        return type(self)(tuple(pair for pair in self.pairs if pair[0] not in keys))

    def without_pair(self, key: str, value: str) -> Self:
        """Return the query without one value of a key, from its first page on."""
        return type(self)(tuple(pair for pair in self.without("page", "after").pairs if pair != (key, value)))

    def adding(self, key: str, value: str) -> Self:
        """Return the query with one more value of a key, from its first page on."""
        return type(self)((*self.without_pair(key, value).pairs, (key, value)))

    def with_value(self, key: str, value: str) -> Self:
        """Return the query in which a key has only this value."""
        return type(self)((*self.without(key).pairs, (key, value)))

    def address(self, path: str) -> str:
        """Return the address of this query at a path."""
        return f"{path}?{urlencode(self.pairs, quote_via=quote)}" if self.pairs else path


def path_to(*parts: str) -> str:
    """Return a path of names, each of which may contain any character."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def row_query(query: Query) -> RowQuery:
    """Return the rows that an address asks for. Raises BadAddressError for an order that does not exist."""
    sort = query.last("sort") or "written"
    key = sort.removeprefix("-")
    known = next((each for each in SORT_KEYS if each == key), None)
    if known is None:
        raise BadAddressError(f"sort={key!r} is unknown; use one of {_listed(SORT_KEYS)}, with - for descending")
    return RowQuery(
        suites=query.all("suite"),
        targets=query.all("target"),
        prompts=query.all("prompt"),
        states=query.all("state"),
        tags=query.all("tag"),
        text=(query.last("q") or "")[:_MAX_TEXT_CHARS],
        sort=known,
        is_descending=sort.startswith("-"),
        page=_page_number(query.last("page")),
        page_size=PAGE_ROWS,
    )


def _page_number(text: str | None) -> int:
    if text is None:
        return 1
    if not (text.isascii() and text.isdecimal() and int(text[:9]) > 0):
        raise BadAddressError(f"page={text!r} is not a page number")
    return int(text[:9])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
