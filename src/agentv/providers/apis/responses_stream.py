"""Events of the Responses API's stream, collected into the JSON of a response. Pure."""

from collections.abc import Mapping

from agentv.providers.apis.replies import member, objects, wrong_shape
from agentv.providers.apis.streamed_reply import text_in
from agentv.types.json_value import JsonObject

_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_ITEM = frozenset({"response.output_item.added", "response.output_item.done"})
_PART = frozenset({"response.content_part.added", "response.content_part.done"})
_FIELDS = {
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
    "response.mcp_call_arguments.delta": "arguments",
    "response.code_interpreter_call_code.delta": "code",
}
_PARTS = {
    "response.output_text.delta": ("content", "content_index", "output_text", "text"),
    "response.refusal.delta": ("content", "content_index", "refusal", "refusal"),
    "response.reasoning_text.delta": ("content", "content_index", "reasoning_text", "text"),
    "response.reasoning_summary_text.delta": ("summary", "summary_index", "summary_text", "text"),
}
_Place = tuple[str, int, str, str]
"""The place of a text in an item: a list, the index, type and key of a part there; a key of the item if no list."""


class ResponsesCollector:
    """Collects events. The last one holds the whole response; what came before it serves a reply that is cut."""

    def __init__(self) -> None:
        self._response: JsonObject = {}
        self._items: dict[int, JsonObject] = {}
        self._pieces: dict[int, dict[_Place, list[str]]] = {}
        self.is_over = False

    @property
    def is_complete(self) -> bool:
        """True after the event with the whole response."""
        return self.is_over

    def add(self, event: JsonObject) -> int | None:
        """Add an event and return how many characters the model wrote in it; None if it is none of this API."""
        kind = event.get("type")
        if not isinstance(kind, str) or not kind.startswith("response."):
            return None
        response, item = event.get("response"), event.get("item")
        if isinstance(response, Mapping):
            self._response = response
        if kind in _ENDS:
            if not isinstance(response, Mapping):
                raise wrong_shape("no response in its last event", event)
            self.is_over = True
        elif kind in _ITEM and isinstance(item, Mapping):
            self._items[_index(event, "output_index")] = item
            if kind.endswith(".done"):
                self._pieces.pop(_index(event, "output_index"), None)
        elif kind in _FIELDS:
            return self._add_text(event, ("", 0, "", _FIELDS[kind]))
        elif kind in _PARTS:
            listed, index, type_, key = _PARTS[kind]
            return self._add_text(event, (listed, _index(event, index), type_, key))
        return 0

    def _add_text(self, event: JsonObject, place: _Place) -> int:
        text = text_in(event, "delta")
        self._pieces.setdefault(_index(event, "output_index"), {}).setdefault(place, []).append(text)
        return len(text)

    def value(self) -> JsonObject:
        """Return the response so far."""
        if self.is_over and self._response.get("output"):
            return self._response
        numbers = sorted(self._items.keys() | self._pieces.keys())
        return {**self._response, "output": [self._item(number) for number in numbers]}

    def _item(self, number: int) -> JsonObject:
        item = dict(self._items.get(number, {"type": "message", "role": "assistant"}))
        for (listed, index, type_, key), pieces in self._pieces.get(number, {}).items():
            text = "".join(pieces)
            if not listed:
                item[key] = text
                continue
            parts = objects(item.get(listed))[:index]
            item[listed] = [*parts, {"type": type_, key: text}]
        return item


def _index(event: JsonObject, name: str) -> int:
    index = member(event, name)
    return index if isinstance(index, int) else 0
