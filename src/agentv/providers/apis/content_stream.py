"""Events of the streamGenerateContent API, collected into the JSON of one response. Pure."""

from collections.abc import Mapping

from agentv.providers.apis.replies import member, name_of, objects, wrong_shape
from agentv.providers.apis.streamed_reply import first_of_all, text_in
from agentv.types.json_value import JsonObject, JsonValue

_KEYS = ("candidates", "promptFeedback", "usageMetadata")
_TEXT_KEYS = frozenset({"text", "thought"})


class ContentCollector:
    """Collects responses, each of which holds the next parts of the first candidate."""

    is_over = False

    def __init__(self) -> None:
        self._head: dict[str, JsonValue] = {}
        self._candidate: dict[str, JsonValue] = {}
        self._content: dict[str, JsonValue] = {}
        self._parts: list[_Part] = []

    @property
    def is_complete(self) -> bool:
        """True if there is a reason for the end, or the prompt was blocked."""
        blocked = member(self._head, "promptFeedback", "blockReason")
        return self._candidate.get("finishReason") is not None or blocked is not None

    def add(self, event: JsonObject) -> int | None:
        """Add a response and return how many characters the model wrote in it; None if it is none of this API."""
        if not any(name in event for name in _KEYS):
            return None
        self._head.update({name: value for name, value in event.items() if name != "candidates"})
        given = event.get("candidates")
        if given is not None and not isinstance(given, list):
            raise wrong_shape(f"candidates that are {name_of(given)}", event)
        candidates = first_of_all(given)
        if not candidates:
            return 0
        candidate = candidates[0]
        self._candidate.update({name: value for name, value in candidate.items() if name != "content"})
        content = candidate.get("content")
        if content is None:
            return 0
        if not isinstance(content, Mapping):
            raise wrong_shape(f"a content that is {name_of(content)}", event)
        self._content.update({name: value for name, value in content.items() if name != "parts"})
        return sum(map(self._add_part, objects(content.get("parts"))))

    def _add_part(self, part: JsonObject) -> int:
        """Add a part; a text that goes on with the one before it becomes one part with it."""
        is_text = part.keys() <= _TEXT_KEYS
        if not is_text:
            self._parts.append(_Part(part, None))
            return max(1, len(str(part.get("text", ""))))
        text = text_in(part, "text")
        last = self._parts[-1] if self._parts else None
        if not text and last is not None:
            return 0
        if last is None or last.texts is None or last.part.get("thought") != part.get("thought"):
            self._parts.append(_Part(part, [text]))
        else:
            last.texts.append(text)
        return len(text)

    def value(self) -> JsonObject:
        """Return the response so far."""
        if not self._candidate and not self._content and not self._parts:
            return self._head
        content: JsonObject = {**self._content, "parts": [part.value() for part in self._parts]}
        return {**self._head, "candidates": [{**self._candidate, "content": content}]}


class _Part:
    """A part, and its pieces if it is only text."""

    def __init__(self, part: JsonObject, texts: list[str] | None) -> None:
        self.part = part
        self.texts = texts

    def value(self) -> JsonObject:
        return self.part if self.texts is None else {**self.part, "text": "".join(self.texts)}
