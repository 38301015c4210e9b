"""Rows from a Python function, as `data.py:rows`."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from msgspec import Struct

from agentv.execution.user_code import described, load_callable
from agentv.loading.datasets.rows import Row, plain_value
from agentv.loading.files.text import shown
from agentv.loading.models.reader import kind_of
from agentv.types.errors import EvalFileError, PluginError
from agentv.types.json_value import JsonValue
from agentv.types.problems import Problem

FUNCTION = re.compile(r"(?P<path>.+\.py):(?P<name>[^\W\d]\w*)")
"""A function of a file, as a dataset."""


class ListedRows(Struct, frozen=True):
    """Rows in memory: what a function returned as a list. A row's line is its number, from 1."""

    shown: str
    items: tuple[object, ...]

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows."""
        return (_row(number, item, self.shown) for number, item in enumerate(self.items, 1))

    def count(self) -> int:
        """Return the number of rows."""
        return len(self.items)


class CalledRows(Struct, frozen=True):
    """Rows that a function yields; it is called again on every iteration."""

    path: Path
    name: str
    shown: str

    def __iter__(self) -> Iterator[Row]:
        """Call the function and yield its rows. Raises EvalFileError for whatever it raises."""
        number = 0
        iterator = iter(_called(self.path, self.name, self.shown))
        while True:
            try:
                item = next(iterator)
            except StopIteration:
                return
            except Exception as error:
                raise _failed(self.shown, error) from error
            number += 1
            yield _row(number, item, self.shown)

    def count(self) -> int | None:
        """None: the function is not called just to count its rows."""
        return None


def function_rows(path: Path, name: str) -> ListedRows | CalledRows:
    """Call a function and return its rows: a list, or an iterator that is made anew on every iteration.

    Raises EvalFileError if the function cannot be loaded, fails, or returns something else.
    """
    called = f"{shown(path)}:{name}"
    found = _called(path, name, called)
    return ListedRows(called, tuple(found)) if isinstance(found, Sequence) else CalledRows(path, name, called)


def _called(path: Path, name: str, called: str) -> Iterable[object]:
    try:
        function = cast(Callable[[], object], load_callable(f"{path.name}:{name}", path.parent))
        found = function()
    except PluginError as error:
        raise EvalFileError(called, (Problem(called, str(error)),)) from error
    except Exception as error:
        raise _failed(called, error) from error
    if isinstance(found, str | bytes | Mapping) or not isinstance(found, Iterable):
        message = f"must return rows, a list or a generator of objects, but returns a {type(found).__name__}"
        raise EvalFileError(called, (Problem(called, message),))
    return found


def _failed(called: str, error: Exception) -> EvalFileError:
    return EvalFileError(called, (Problem(called, f"failed: {described(error)}"),))


def _row(number: int, item: object, called: str) -> Row:
    if isinstance(item, Mapping):
        return Row(number, {str(key): plain_value(value) for key, value in item.items()})
    message = f"a row must be an object, but is {kind_of(cast(JsonValue, item))}"
    return Row(number, {}, (Problem(called, message, number, 1),))
