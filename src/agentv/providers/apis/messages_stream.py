"""Events of the messages API's stream, collected into the JSON of a message. Pure."""

import json
from collections.abc import Mapping
from typing import cast

from agentv.providers.apis.replies import wrong_shape
from agentv.providers.apis.streamed_reply import text_in
from agentv.types.json_value import JsonObject, JsonValue

_KINDS = frozenset(
    {
        *("message_start", "message_delta", "message_stop", "ping"),
        *("content_block_start", "content_block_delta", "content_block_stop"),
    }
)
_TEXTS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
_INPUT = "partial_json"


class MessagesCollector:
    """Collects events: the message as it starts, its blocks, and what its end adds."""

    def __init__(self) -> None:
        self._message: dict[str, JsonValue] = {}
        self._blocks: dict[int, _Block] = {}
        self.is_over = False

    @property
    def is_complete(self) -> bool:
        """True after the event that ends the message."""
        return self.is_over

    def add(self, event: JsonObject) -> int | None:
        """Add an event and return how many characters the model wrote in it; None for an event of another type."""
        kind = event.get("type")
        if not isinstance(kind, str) or kind not in _KINDS:
            return None
        match kind:
            case "message_start":
                self._message = dict(_object(event, "message"))
            case "content_block_start":
                self._blocks[_index(event)] = _Block(_object(event, "content_block"))
            case "content_block_delta":
                block = self._blocks.get(_index(event))
                if block is None:
                    raise wrong_shape("a delta of a content block that has not begun", event)
                return block.add(_object(event, "delta"))
            case "message_delta":
                usage = {"usage": {**_mapping(self._message.get("usage")), **_known(event.get("usage"))}}
                self._message = {**self._message, **_object(event, "delta"), **usage}
            case "message_stop":
                self.is_over = True
        return 0

    def value(self) -> JsonObject:
        """Return the message so far."""
        return {**self._message, "content": [self._blocks[index].value() for index in sorted(self._blocks)]}


class _Block:
    """A content block and the pieces that fill it."""

    def __init__(self, start: JsonObject) -> None:
        self._start = start
        self._pieces: dict[str, list[str]] = {}
        self._citations: list[JsonValue] = []

    def add(self, delta: JsonObject) -> int:
        kind = delta.get("type")
        if kind == "citations_delta":
            self._citations.append(delta.get("citation"))
            return 0
        name = _INPUT if kind == "input_json_delta" else _TEXTS.get(str(kind))
        if name is None:
            return 0
        text = text_in(delta, name)
        self._pieces.setdefault(name, []).append(text)
        return 0 if name == "signature" else len(text)

    def value(self) -> JsonObject:
        joined: dict[str, JsonValue] = {name: "".join(pieces) for name, pieces in self._pieces.items()}
        given = joined.pop(_INPUT, "")
        block: dict[str, JsonValue] = {**self._start, **joined}
        if given:
            block["input"] = _parsed(str(given))
        if self._citations:
            block["citations"] = self._citations
        return block


def _parsed(text: str) -> JsonValue:
    """Parse the input of a tool; input that was cut stays a text."""
    try:
        return cast(JsonValue, json.loads(text))
    except (ValueError, RecursionError):
        return text


def _object(event: JsonObject, name: str) -> JsonObject:
    value = event.get(name)
    if not isinstance(value, Mapping):
        raise wrong_shape(f"an event without {name}", event)
    return value


def _index(event: JsonObject) -> int:
    index = event.get("index")
    if not isinstance(index, int):
        raise wrong_shape("an event without an index", event)
    return index


def _mapping(value: JsonValue) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


def _known(usage: JsonValue) -> JsonObject:
    return {name: count for name, count in _mapping(usage).items() if count is not None}
