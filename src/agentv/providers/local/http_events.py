"""The events of a web service: chunks of OpenAI's chat API, or objects to whose parts the settings have paths. Pure."""

from collections.abc import Sequence

from agentv.providers.apis.openai_chat import ChatCollector
from agentv.providers.apis.replies import wrong_shape
from agentv.providers.local.http_template import AnswerPath
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json


class ServiceEvents:
    """Collects events. Without `event_text` chunks of the chat API are recognised by their `choices`.

    At the path `event_text` each event has the next piece of the answer. What is at `answer` and `spent` comes once:
    the last event that has it counts.
    """

    is_over = False

    def __init__(
        self, event_text: AnswerPath | None, *, answer: Sequence[AnswerPath], spent: Sequence[AnswerPath]
    ) -> None:
        self.chat: ChatCollector | None = None
        self._event_text = event_text
        self._answer = answer
        self._spent = spent
        self._texts: list[str] | None = None
        self._first: JsonObject = {}
        self._having: dict[str, JsonObject] = {}

    @property
    def is_complete(self) -> bool:
        """True if the stream may end here; only that of the chat API has an end that can be recognised."""
        return self.chat is None or self.chat.is_complete

    @property
    def text(self) -> str | None:
        """The text so far at the path `event_text`; None if no event had it."""
        return None if self._texts is None else "".join(self._texts)

    def add(self, event: JsonObject) -> int:
        """Add an event and return how many characters of the answer it brought."""
        self._first = self._first or event
        if self._event_text is None and isinstance(event.get("choices"), list):
            self.chat = self.chat or ChatCollector()
        if self.chat is not None:
            return self.chat.add(event) or 0
        for path in self._spent:
            self._found_at(path, event)
        answers = [value for path in self._answer for value in self._found_at(path, event)]
        if self._event_text is None:
            return sum(map(len, map(_text, answers)))
        return self._add_texts(self._event_text.search(event))

    def _found_at(self, path: AnswerPath, event: JsonObject) -> list[JsonValue]:
        found = path.search(event)
        if found:
            self._having[path.called] = event
        return found

    def _add_texts(self, found: list[JsonValue]) -> int:
        if not found:
            return 0
        texts = [_text(value) for value in found if value is not None]
        self._texts = self._texts or []
        self._texts += texts
        return sum(map(len, texts))

    def value(self) -> JsonObject:
        """Return the chat completion; for other events the first one, as an example."""
        return self._first if self.chat is None else self.chat.value()

    def source(self, path: AnswerPath) -> JsonValue:
        """Return the JSON in which to look for a path: the last event that has it, or the chat completion."""
        return self._having.get(path.called, self._first) if self.chat is None else self.chat.value()

    def check(self) -> None:
        """Raise ProviderError if the events have no place for an answer."""
        if self.chat is not None or self._texts is not None:
            return
        if self._event_text is not None:
            self._event_text.find(self._first)
        elif not self._answer:
            needed = "event_text, the JSONPath to the text in an event, such as $.delta"
            raise wrong_shape(f"events of an unknown form; set {needed}", self._first)


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else compact_json(value)
