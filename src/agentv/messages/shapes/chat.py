"""Messages with `role` and `content`: ours, OpenAI's chat API, Anthropic's content blocks, the AI SDK's messages.

Each step of an AI SDK message (after a part `step-start`) becomes a message, so that the last one is the answer.

A message without content and calls is refused if an unknown key has a value, or if all keys for content, reasoning,
calls and the id of a call are missing; one that is present but empty is enough. A message with a value under an unknown
key that looks like tool calls is always refused.
"""

import re
from collections.abc import Mapping
from itertools import chain

from agentv.messages.shapes.fields import (
    first,
    joined,
    optional_text,
    read_content,
    read_invalid_calls,
    read_part,
    read_role,
    read_tool_call,
    read_tool_calls,
    reasoning_part,
)
from agentv.types.errors import MessageError
from agentv.types.json_value import JsonObject, JsonValue, listed_keys
from agentv.types.messages import Content, Message, Part, TextPart, ToolCall

_UI_TOOL_PREFIX = "tool-"


def read_ui_message(value: JsonObject, at: str) -> tuple[Message, ...]:
    """Read a message of the AI SDK with `parts`, as one message for each step. Raises MessageError."""
    role = read_role(value.get("role"), at)
    parts = value.get("parts")
    if not isinstance(parts, list | tuple):
        raise MessageError(f"{at}.parts", "must be a list of parts")
    outer_calls = read_calls(value, at)
    steps = _steps(parts, f"{at}.parts")
    if not any(content or calls for content, calls in steps):
        content = content_of_message(value, at, has_calls=bool(outer_calls))
        return (_message(role, content, outer_calls, value),)
    ids_in_steps = {call.id for _, calls in steps for call in calls}
    _, first_calls = steps[0]
    first_calls.extend(call for call in outer_calls if call.id is None or call.id not in ids_in_steps)
    return tuple(_message(role, joined(content), tuple(without_repeats(calls)), value) for content, calls in steps)


def _message(role: str, content: object, calls: tuple[ToolCall, ...], value: JsonObject) -> Message:
    timestamp = optional_text(value.get("createdAt"))
    return Message(role, content, tool_calls=calls, timestamp=timestamp)  # type: ignore[arg-type]  # checked by the caller


def _steps(parts: list[JsonValue] | tuple[JsonValue, ...], at: str) -> list[tuple[list[Part], list[ToolCall]]]:
    """Return the content and the calls of each step, without empty ones; a single empty step if there is no other."""
    steps: list[tuple[list[Part], list[ToolCall]]] = [([], [])]
    for index, part in enumerate(parts):
        content, calls = steps[-1]
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == "step-start":
            if content or calls:
                steps.append(([], []))
        elif isinstance(part, Mapping) and _is_call(part):
            calls.append(_call(part, f"{at}[{index}]"))
        else:
            content.append(read_part(part, f"{at}[{index}]"))
    is_last_empty = not any(steps[-1])
    return steps[:-1] if is_last_empty and len(steps) > 1 else steps


def _is_call(part: JsonObject) -> bool:
    kind = str(part.get("type"))
    return kind in ("tool-invocation", "dynamic-tool") or (kind.startswith(_UI_TOOL_PREFIX) and "state" in part)


def _call(part: JsonObject, at: str) -> ToolCall:
    if part.get("type") == "tool-invocation":
        return read_tool_call(part.get("toolInvocation"), f"{at}.toolInvocation")
    name = part.get("toolName") or str(part["type"]).removeprefix(_UI_TOOL_PREFIX)
    output, error = part.get("output"), part.get("errorText")
    if error is not None:
        output = {"error": error}
    elif part.get("state") == "output-denied":
        output = {"error": "denied"}
    given = part.get("input") if part.get("input") is not None else part.get("rawInput")
    return read_tool_call({"tool": name, "input": given, "output": output, "id": part.get("toolCallId")}, at)


TOOL_FLAG = "isToolMessage"
"""The flag of a message with the result of a tool, whose role is then `data`."""
CONTENT_KEYS = ("content_parts", "contentParts", "content")
_CALL_LISTS = ("tool_calls", "toolCalls", "toolInvocations", "tool_invocations")
_SINGLE_CALL = ("function_call", "functionCall")
_INVALID_CALLS = ("invalid_tool_calls", "invalidToolCalls")
_CALL_ID_KEYS = ("tool_call_id", "toolCallId", "call_id", "tool_use_id")
_REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")
_READ_KEYS = frozenset(
    {"role", "parts", *CONTENT_KEYS, *_CALL_LISTS, *_SINGLE_CALL, *_INVALID_CALLS, *_CALL_ID_KEYS, *_REASONING_KEYS}
)
_ABOUT_MESSAGE = frozenset(
    {
        *("id", "type", "name", "refusal", "audio", "timestamp", "createdAt", "created_at", "metadata", "status"),
        *("model", "usage", "stop_reason", "stop_sequence", "stop_details", "finish_reason", "logprobs", "index"),
        *("container", "context_management", "annotations", "phase", "kind", "lc", "example", "revisionId"),
        *("response_metadata", "usage_metadata", "additional_kwargs", "reasoning_details", "provider"),
        *("providerOptions", "providerMetadata", "experimental_attachments", "tool_call_chunks", "chunk_position"),
        *("isStreaming", "isLoading", "isError", "isTyping", "isPending", "isComplete", "showToolCall", TOOL_FLAG),
    }
)
"""Keys with facts about a message. Without content, `refusal` and `audio` are read as the content."""

CALL_KEYS = frozenset({*_CALL_LISTS, *_SINGLE_CALL, *_INVALID_CALLS})
_CALL_LIKE_KEY = re.compile(r"tool|call|function", re.IGNORECASE)
_KNOWN_KEYS = _READ_KEYS | _ABOUT_MESSAGE | {"tool_name", "toolName", "tool_kind"}
ADVICE = "write {role, content, tool_calls: [{tool, input, output}]}"


_OTHER_CONTENT = frozenset({"content_parts", "contentParts", *_REASONING_KEYS})
"""Keys with content besides `content`."""


def read_chat(value: JsonObject, at: str) -> Message:
    """Read a message with a role. Raises MessageError."""
    role = "tool" if value.get(TOOL_FLAG) is True else read_role(value.get("role"), at)
    calls = read_calls(value, at)
    metadata = value.get("metadata")
    return Message(
        role=role,
        content=content_of_message(value, at, has_calls=bool(calls)),
        name=optional_text(first(value, "name", "tool_name", "toolName")),
        tool_calls=calls,
        tool_call_id=optional_text(first(value, *_CALL_ID_KEYS)),
        timestamp=optional_text(value.get("timestamp")),
        metadata=metadata if isinstance(metadata, Mapping) else None,
    )


def read_calls(value: JsonObject, at: str) -> tuple[ToolCall, ...]:
    """Return the tool calls outside a message's content, each id once. Raises MessageError for an unknown form."""
    for key in value.keys() - _KNOWN_KEYS:
        if value[key] and _CALL_LIKE_KEY.search(key):
            raise MessageError(f"{at}.{key}", "is not understood", ADVICE)
    if CALL_KEYS.isdisjoint(value):
        kwargs = value.get("additional_kwargs")  # of LangChain, where old versions of Langfuse leave them
        return read_calls(kwargs, f"{at}.additional_kwargs") if isinstance(kwargs, Mapping) else ()
    listed = [read_tool_calls(value.get(key), f"{at}.{key}") for key in _CALL_LISTS]
    single = [read_tool_call(value[key], f"{at}.{key}") for key in _SINGLE_CALL if value.get(key) is not None]
    invalid = [read_invalid_calls(value.get(key), f"{at}.{key}") for key in _INVALID_CALLS]
    return tuple(without_repeats([*chain.from_iterable(listed), *single, *chain.from_iterable(invalid)]))


def without_repeats(calls: list[ToolCall]) -> list[ToolCall]:
    """Return calls without those that have the id of an earlier call."""
    seen: set[str] = set()
    unique = []
    for call in calls:
        if call.id is None or call.id not in seen:
            unique.append(call)
        if call.id is not None:
            seen.add(call.id)
    return unique


def content_of_message(value: JsonObject, at: str, *, has_calls: bool) -> Content | None:
    """Return a message's content, None if it has none.

    Reasoning under a key of its own becomes the first part; it is left out if the content is an object. Raises
    MessageError for a part that cannot be read, and for a message that `_check_empty` refuses.
    """
    text = value.get("content")
    if isinstance(text, str) and text and _OTHER_CONTENT.isdisjoint(value):
        return text
    key = next((key for key in CONTENT_KEYS if not _is_empty(value.get(key))), "content")
    content = read_content(value.get(key), f"{at}.{key}")
    if not content:
        content = _refusal_or_transcript(value) or content
    written = [item for item in map(value.get, _REASONING_KEYS) if not _is_empty(item) and not isinstance(item, bool)]
    if not content and not has_calls:
        _check_empty(value, at)
    if not written or isinstance(content, Mapping):
        return content
    parts: list[Part] = [reasoning_part(optional_text(written[0]) or "")]
    if isinstance(content, tuple):
        parts += content
    elif content:
        parts.append(TextPart(content))
    return joined(parts)


def _refusal_or_transcript(value: JsonObject) -> str | None:
    """Return a refusal, or the transcript of a spoken answer."""
    audio = value.get("audio")
    transcript = audio.get("transcript") if isinstance(audio, Mapping) else None
    return next((text for text in (value.get("refusal"), transcript) if isinstance(text, str) and text), None)


def _check_empty(value: JsonObject, at: str) -> None:
    """Raise MessageError for a value under an unknown key, and for a message with no key of `_READ_KEYS` but `role`."""
    unread = [key for key, item in value.items() if key not in _KNOWN_KEYS and not _is_empty(item)]
    if unread:
        keys = listed_keys(unread)
        raise MessageError(at, f"has no content, and its {keys} {_verb(unread)} not understood", ADVICE)
    if not any(key in value for key in _READ_KEYS - {"role"}):
        raise MessageError(at, "has neither content nor tool calls", ADVICE)


def _is_empty(item: JsonValue) -> bool:
    return item is None or item in ("", [], (), {})


def _verb(keys: list[str]) -> str:
    return "is" if len(keys) == 1 else "are"
