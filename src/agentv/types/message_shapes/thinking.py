"""Separation of a model's reasoning from its answer: `<think>` at the start of a text, and parts of a message."""

import re
from collections.abc import Mapping, Sequence

from agentv.types.json_value import JsonValue
from agentv.types.message_shapes.fields import REASONING_PARTS
from agentv.types.messages import DataPart, Message

_OPENING_TAG = re.compile(r"\s*<(think|thinking)>")
_TEXT_KEYS = ("text", "thinking", "reasoning", "reasoning_content", "content")


def split_thinking(text: str) -> tuple[str, str | None]:
    """Return a text without `<think>…</think>` at its start, and the reasoning in it, None if there is none.

    A text without the closing `</think>` is reasoning only.
    """
    start = _OPENING_TAG.match(text)
    if start is None:
        return text, None
    thoughts, _, rest = text[start.end() :].partition(f"</{start[1]}>")
    return rest.lstrip(), thoughts.strip() or None


def reasoning_of(messages: Sequence[Message]) -> str | None:
    """Return the reasoning in the last assistant message; None if there is none."""
    last = next((message for message in reversed(messages) if message.role == "assistant"), None)
    parts = last.content if last is not None and isinstance(last.content, tuple) else ()
    thoughts = [part.value for part in parts if isinstance(part, DataPart) and part.type in REASONING_PARTS]
    return "\n".join(text for text in map(_text, thoughts) if text) or None


def _text(part: Mapping[str, JsonValue]) -> str | None:
    return next((text for name in _TEXT_KEYS if isinstance(text := part.get(name), str)), None)
