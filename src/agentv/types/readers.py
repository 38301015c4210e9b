"""Values given from Python as dicts or texts, and messages of other programs, read by the rooms above this one.

The readers are imported by name when they are needed, as plug-ins are: most values are objects already.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Literal, TypeAlias

from agentv.types.json_value import JsonValue
from agentv.types.messages import Message
from agentv.types.usage import Usage

ListName: TypeAlias = Literal["rubrics", "criteria", "turns"]


def read_list(name: ListName, given: Sequence[object], *, where: str) -> tuple[Any, ...]:
    """Return the rubric items, criteria or turns in a list.

    Raises EvalFileError with all problems, at paths in `where`.
    """
    read: tuple[Any, ...] = _reader("agentv.loading.python_values:read_list")(name, given, where=where)
    return read


def read_criterion(given: object, *, where: str) -> Any:
    """Return the criterion in a dict. Raises EvalFileError with all its problems."""
    return _reader("agentv.loading.python_values:read_criterion")(given, where=where)


def read_messages(given: object, at: str) -> tuple[Message, ...]:
    """Return a list of messages of any known shape. Raises MessageError for what is not understood."""
    read: tuple[Message, ...] = _reader("agentv.messages.shapes.reading:read_messages")(given, at)
    return read


def read_message(given: JsonValue, at: str) -> tuple[Message, ...]:
    """Return the messages in one message of any known shape. Raises MessageError if it is not understood."""
    read: tuple[Message, ...] = _reader("agentv.messages.shapes.reading:read_message")(given, at)
    return read


def read_answer_object(given: JsonValue, at: str) -> str | Message | None:
    """Return the answer in an object of any known shape. Raises MessageError if it is not understood."""
    read: str | Message | None = _reader("agentv.messages.shapes.answers:read_answer_object")(given, at)
    return read


def read_usage(given: JsonValue) -> Usage | None:
    """Return the token counts in an object; None if it has none under known names."""
    read: Usage | None = _reader("agentv.messages.shapes.usages:read_usage")(given)
    return read


def _reader(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)
