"""Separation of a model's reasoning from its answer: `<think>` at the start of a text, and parts of a message."""

from collections.abc import Mapping, Sequence

from agentv.messages.shapes.fields import REASONING_PARTS
from agentv.types.json_value import JsonValue
from agentv.types.messages import DataPart, Message

_TEXT_KEYS = ("text", "thinking", "reasoning", "reasoning_content", "content")


def reasoning_of(messages: Sequence[Message]) -> str | None:
    """Return the reasoning in the last assistant message; None if there is none."""
    last = next((message for message in reversed(messages) if message.role == "assistant"), None)
    parts = last.content if last is not None and isinstance(last.content, tuple) else ()
    thoughts = [part.value for part in parts if isinstance(part, DataPart) and part.type in REASONING_PARTS]
    return "\n".join(text for text in map(_text, thoughts) if text) or None


def _text(part: Mapping[str, JsonValue]) -> str | None:
    return next((text for name in _TEXT_KEYS if isinstance(text := part.get(name), str)), None)
