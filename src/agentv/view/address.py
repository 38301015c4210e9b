"""The query of an address: the filter, order and page of rows that it asks for, and addresses like it."""

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Self, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

from msgspec import Struct

from agentv.storage.index.row_query import OUTCOMES, SORT_KEYS, Outcome, Range, RowQuery
from agentv.types.errors import ConfigError

Pair: TypeAlias = tuple[str, str]
Choice = TypeVar("Choice", bound=str)

PAGE_ROWS = 100
_MAX_TEXT_CHARS = 200
_MAX_VALUES = 100
"""The most values of a key that can be chosen at once; SQLite refuses a condition of some hundred parts."""
ALL_TRIALS = "all"
"""The value of `trial` by which each trial is listed by itself."""
LIST_KEYS = ("state", "evaluator", "target", "prompt", "tag", "suite")
"""The keys that may occur several times, of which one must match."""
_PAGE_KEYS = ("page", "after", "before", "from")
"""The keys of a page of a list; another filter starts at the first page."""


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
        return type(self)(tuple(pair for pair in self.without(*_PAGE_KEYS).pairs if pair != (key, value)))

    def adding(self, key: str, value: str) -> Self:
        """Return the query with one more value of a key, from its first page on."""
        return type(self)((*self.without_pair(key, value).pairs, (key, value)))

    def with_value(self, key: str, value: str) -> Self:
        """Return the query in which a key has only this value."""
        return type(self)((*self.without(key).pairs, (key, value)))

    def choosing(self, key: str, value: str | None) -> Self:
        """Return the query in which a key has only this value, or none, from its first page on."""
        rest = self.without(key, *_PAGE_KEYS)
        return rest if value is None else rest.with_value(key, value)

    def address(self, path: str) -> str:
        """Return the address of this query at a path."""
        return f"{path}?{urlencode(self.pairs, quote_via=quote)}" if self.pairs else path


def path_to(*parts: str) -> str:
    """Return a path of names, each of which may contain any character."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def row_query(query: Query) -> RowQuery:
    """Return the rows that an address asks for. Raises BadAddressError for a part that cannot be understood."""
    sort = query.last("sort") or "written"
    key = sort.removeprefix("-")
    known = next((each for each in SORT_KEYS if each == key), None)
    if known is None:
        raise BadAddressError(f"sort={key!r} is unknown; use one of {_listed(SORT_KEYS)}, with - for descending")
    for each in LIST_KEYS:
        if len(query.all(each)) > _MAX_VALUES:
            raise BadAddressError(f"{each} has {len(query.all(each)):,} values; choose at most {_MAX_VALUES}")
    return RowQuery(
        suites=query.all("suite"),
        targets=query.all("target"),
        prompts=query.all("prompt"),
        states=query.all("state"),
        tags=query.all("tag"),
        q=(query.last("q") or "")[:_MAX_TEXT_CHARS],
        evaluators=tuple(map(_outcome, query.all("evaluator"))),
        trial=_trial(query.last("trial")),
        score=_range(query, "score"),
        cost=_range(query, "cost"),
        duration=_range(query, "ms"),
        sort=known,
        is_descending=sort.startswith("-"),
        page=page_number(query),
        after=query.last("after"),
        before=query.last("before"),
        page_size=PAGE_ROWS,
    )


def _outcome(text: str) -> tuple[str, Outcome]:
    name, colon, found = text.rpartition(":")
    outcome = next((each for each in OUTCOMES if each == found), None)
    if not colon or outcome is None:
        raise BadAddressError(f"evaluator={text!r} is not NAME:OUTCOME; an outcome is one of {_listed(OUTCOMES)}")
    return name, outcome


def _trial(text: str | None) -> int | None:
    if text is None or text == ALL_TRIALS:
        return None
    if not (text.isascii() and text.isdecimal() and int(text[:9]) > 0):
        raise BadAddressError(f"trial={text!r} is neither the number of a trial, from 1, nor {ALL_TRIALS}")
    return int(text[:9]) - 1


def _range(query: Query, key: str) -> Range | None:
    """Return a range such as `0..0.5`, `..0.5`, `0.5..`, or one value."""
    text = query.last(key)
    if text is None:
        return None
    low, dots, high = text.partition("..")
    try:
        found = (_bound(low), _bound(high if dots else low))
    except ValueError:
        found = (None, None)
    if found == (None, None):
        raise BadAddressError(f"{key}={text!r} is not a range; write two numbers with dots: 0..0.5, ..0.5 or 0.5..")
    return found


def _bound(text: str) -> float | None:
    if not text.strip():
        return None
    value = float(text)
    if not isfinite(value):
        raise ValueError(text)
    return value


def page_number(query: Query) -> int:
    """Return the page of a list that an address asks for, from 1. Raises BadAddressError."""
    text = query.last("page")
    if text is None:
        return 1
    if not (text.isascii() and text.isdecimal() and int(text[:9]) > 0):
        raise BadAddressError(f"page={text!r} is not a page number")
    return int(text[:9])


def choice_of(query: Query, key: str, choices: Sequence[Choice], default: Choice) -> Choice:
    """Return the value of a key, which must be one of `choices`. Raises BadAddressError."""
    value = query.last(key) or default
    known = next((each for each in choices if each == value), None)
    if known is None:
        raise BadAddressError(f"{key}={value!r} is unknown; use one of {_listed(choices)}")
    return known


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
