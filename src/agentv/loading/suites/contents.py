"""Reading of the content of a message: texts, and files that are attached."""

from collections.abc import Mapping, Sequence
from typing import TypeGuard, cast

from msgspec.structs import replace

from agentv.loading.files.attached import FileFinder
from agentv.loading.files.documents import JsonPath, shown_path
from agentv.loading.files.path_guard import FileProblemError
from agentv.loading.models.eval_files import PartModel
from agentv.loading.models.file_model import names_of
from agentv.loading.models.reader import Reader, kind_of
from agentv.messages.shapes.fields import read_part
from agentv.messages.shapes.objects import plain_json
from agentv.types.errors import MessageError
from agentv.types.json_value import JsonValue
from agentv.types.messages import Content, FilePart, Message, Part, Role, TextPart
from agentv.types.messages_json import compact_json


def read_case_messages(reader: Reader, at: JsonPath, role: Role, files: FileFinder) -> tuple[Message, ...]:
    """Return the messages of a case at a path; problems are recorded.

    They may be written as a list of messages, as one message, or as the content of one message with this role. A value
    of null, and an empty text or list as a reference answer, are no message.
    """
    raw = reader.document.at(at)
    if raw is None or (role == "assistant" and raw in ("", [], ())):
        return ()
    if at in reader.from_single_variables and isinstance(raw, bool | int | float):
        raw = compact_json(raw)
    if is_message(raw):
        read = [read_message(reader, at, files)]
    elif _may_be_messages(raw):
        read = [read_message(reader, (*at, index), files) for index in range(len(raw))]
    elif raw and (isinstance(raw, str | Mapping) or _are_parts(raw)):
        content = read_content_of(reader, at, raw, files)
        read = [None if content is None else Message(role, content)]
    else:
        read = []
        _report_no_messages(reader, at, raw)
    return tuple(message for message in read if message is not None)


def is_message(raw: JsonValue) -> bool:
    """Return True for an object that is written as a message, not as content."""
    return isinstance(raw, Mapping) and "role" in raw


def _may_be_messages(raw: JsonValue) -> TypeGuard[Sequence[JsonValue]]:
    """Return True for a list with an object that is not a part of a content."""
    return isinstance(raw, list | tuple) and any(isinstance(each, Mapping) and "type" not in each for each in raw)


def _are_parts(raw: JsonValue) -> bool:
    return isinstance(raw, list | tuple) and any(isinstance(each, Mapping) for each in raw)


def _report_no_messages(reader: Reader, at: JsonPath, raw: JsonValue) -> None:
    if raw in ("", [], (), {}):
        reader.error(at, "must not be empty")
        return
    is_scalar = isinstance(raw, bool | int | float)
    allowed = "put it in quotes" if is_scalar else "a message is {role: user, content: …}"
    reader.error(at, f"must be a text or messages, but is {kind_of(raw)}", allowed=allowed)


def read_message(reader: Reader, at: JsonPath, files: FileFinder) -> Message | None:
    """Return the message at a path, with its content read; None if it is invalid. Problems are recorded."""
    message = reader.read(Message, at)
    content = _read_content(reader, at, reader.document.at(at), files)
    if message is None:
        return None
    return message if message.content is content else replace(message, content=content)


def _read_content(reader: Reader, at: JsonPath, message: JsonValue, files: FileFinder) -> Content | None:
    """Return the content of the message at `at`, with its files read; None if it has none.

    Problems are recorded.
    """
    if not isinstance(message, Mapping):
        return None
    raw = message.get("content")
    if raw is None and names_of(Message).spelling_in(message, "tool_calls") is None:
        reader.error(at, "a message needs `content`, or `tool_calls`")
    return None if raw is None else read_content_of(reader, (*at, "content"), raw, files)


def read_content_of(reader: Reader, place: JsonPath, raw: JsonValue, files: FileFinder | None) -> Content | None:
    """Return the content at a path, with its files read; None if it is not understood. Problems are recorded.

    From Python, `files` is None, and the parts may have any known shape.
    """
    if isinstance(raw, str | Mapping):
        return raw
    if isinstance(raw, list | tuple):
        parts = [_part(reader, (*place, index), files) for index in range(len(raw))]
        return tuple(part for part in parts if part is not None)
    allowed = "put it in quotes" if isinstance(raw, int | float) else None
    reader.error(place, f"must be a string, a list of parts or an object, but is {kind_of(raw)}", allowed=allowed)
    return None


def _part(reader: Reader, at: JsonPath, files: FileFinder | None) -> Part | None:
    if files is None:
        return _part_from_python(reader, at)
    model = reader.read(PartModel, at)
    if model is None:
        return None
    if model.type == "text":
        return TextPart(model.value)
    return _attach(reader, (*at, "value"), model.value, files)


def _part_from_python(reader: Reader, at: JsonPath) -> Part | None:
    try:
        return read_part(cast(JsonValue, plain_json(reader.document.at(at), shown_path(at))), shown_path(at))
    except MessageError as error:
        reader.error(at, error.what, allowed=error.advice)
        return None


def _attach(reader: Reader, at: JsonPath, written: str, files: FileFinder) -> FilePart | None:
    try:
        return files.attach(written)
    except FileProblemError as error:
        reader.error(at, error.message, allowed=error.allowed, suggestion=error.suggestion)
        return None
