"""Lists of objects given from Python as objects, dicts or texts, which are read as the same lists in files are."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Literal, TypeAlias, cast

ListName: TypeAlias = Literal["rubrics", "criteria"]

_READER = "agentv.loading.given"
"""The module with the reader, in a room above this one: imported by name, as plug-ins are, when it is needed."""


def read_list(name: ListName, given: Sequence[object], *, where: str) -> tuple[Any, ...]:
    """Return the objects in a list named `name`. Raises EvalFileError with all their problems, at paths in `where`."""
    read = cast(Callable[..., tuple[Any, ...]], import_module(_READER).read_list)
    return read(name, given, where=where)


def read_criterion(given: object, *, where: str) -> Any:
    """Return the criterion in a dict. Raises EvalFileError with all its problems."""
    return cast(Callable[..., Any], import_module(_READER).read_criterion)(given, where=where)
