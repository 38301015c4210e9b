"""Events of the chat API's stream, collected into the JSON of a chat completion. Pure."""

from collections.abc import Mapping

from agentv.providers.apis.replies import name_of, objects, wrong_shape
from agentv.providers.apis.streamed_reply import first_of_all, text_in
from agentv.types.json_value import JsonObject, JsonValue


class ChatCollector:
    """Collects chunks. Of several choices only the first counts, as in a plain response."""

    def __init__(self) -> None:
        self._head: dict[str, JsonValue] = {}
        self._usage: JsonValue = None
        self._began = False
        self._finish_reason: JsonValue = None
        self._content: list[JsonValue] = []
        self._texts: dict[str, list[str]] = {}
        self._others: dict[str, JsonValue] = {}
        self._calls = _Calls()

    is_over = False

    @property
    def is_complete(self) -> bool:
        """True if a finish reason was received; some servers omit the final `[DONE]` after it."""
        return self._finish_reason is not None

    def add(self, event: JsonObject) -> int | None:
        """Add a chunk and return how many characters the model wrote in it; None if it is not a chunk."""
        choices, usage = event.get("choices"), event.get("usage")
        if not isinstance(choices, list) and not isinstance(usage, Mapping):
            return None
        self._usage = usage if isinstance(usage, Mapping) else self._usage
        for name in ("id", "model"):
            if event.get(name):
                self._head.setdefault(name, event[name])
        return sum(self._add_choice(choice) for choice in first_of_all(choices))

    def _add_choice(self, choice: JsonObject) -> int:
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        delta = choice.get("delta")
        if delta is None and not self._began:
            delta = choice.get("message")  # some servers send a whole message in one event
        if delta is None:
            return 0
        if not isinstance(delta, Mapping):
            raise wrong_shape(f"a delta that is {name_of(delta)}", choice)
        self._began = True
        return sum(self._add_field(name, delta) for name in delta)

    def _add_field(self, name: str, delta: JsonObject) -> int:
        value = delta[name]
        if value is None or name == "role":
            return 0
        if name == "tool_calls":
            return sum(map(self._calls.add, objects(value)))
        if name == "function_call" and isinstance(value, Mapping):
            return self._calls.add_single(value)
        if name == "content" and isinstance(value, list):
            self._content += value
            return sum(len(str(part.get("text", ""))) for part in objects(value))
        if name == "content":
            self._content.append(text_in(delta, name))
            return len(text_in(delta, name))
        if isinstance(value, str):
            self._texts.setdefault(name, []).append(value)
            return len(value)
        self._others[name] = value
        return 0

    def value(self) -> JsonObject:
        """Return the chat completion so far."""
        message: dict[str, JsonValue] = {
            "role": "assistant",
            "content": self._joined_content(),
            **self._others,
            **{name: "".join(texts) for name, texts in self._texts.items()},
            **self._calls.value(),
        }
        choice: JsonObject = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        return {**self._head, "choices": [choice] if self._began else [], "usage": self._usage}

    def _joined_content(self) -> JsonValue:
        """Return the text, or a list of parts if the server sent parts; None without text, as in a refusal."""
        if all(isinstance(piece, str) for piece in self._content):
            return "".join(map(str, self._content)) or None
        return [{"type": "text", "text": piece} if isinstance(piece, str) else piece for piece in self._content]


class _Call:
    """One tool call, the arguments of which come in pieces."""

    def __init__(self) -> None:
        self.head: dict[str, JsonValue] = {}
        self.kind = "function"
        self.name: JsonValue = None
        self.given: dict[str, list[JsonValue]] = {}

    def add(self, delta: JsonObject) -> int:
        for name in ("id", "type"):
            if delta.get(name):
                self.head.setdefault(name, delta[name])
        nested = next((kind for kind in ("function", "custom") if isinstance(delta.get(kind), Mapping)), None)
        if nested is None:
            return 0
        self.kind = nested
        return self.add_fields(delta[nested])

    def add_fields(self, fields: JsonValue) -> int:
        if not isinstance(fields, Mapping):
            return 0
        self.name = self.name or fields.get("name")
        pieces = {name: piece for name, piece in fields.items() if name != "name" and piece is not None}
        for name, piece in pieces.items():
            self.given.setdefault(name, []).append(piece)
        return sum(len(piece) for piece in pieces.values() if isinstance(piece, str))

    def fields(self) -> JsonObject:
        joined = {
            name: "".join(map(str, pieces)) if _are_texts(pieces) else pieces[-1] for name, pieces in self.given.items()
        }
        return {"name": self.name, **joined}


def _are_texts(pieces: list[JsonValue]) -> bool:
    return all(isinstance(piece, str) for piece in pieces)


class _Calls:
    """The tool calls of a message, and the single call of the older API."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._at: dict[JsonValue, _Call] = {}
        self._single: _Call | None = None

    def add(self, delta: JsonObject) -> int:
        """Add a piece to the call at its index, without an index to the last call; a new index or id begins a call."""
        index, id_ = delta.get("index"), delta.get("id")
        call = self._at.get(index) if isinstance(index, int) else self._calls[-1] if self._calls and not id_ else None
        if call is None or (id_ and call.head.get("id", id_) != id_):
            call = _Call()
            self._calls.append(call)
        if isinstance(index, int):
            self._at[index] = call
        return call.add(delta)

    def add_single(self, fields: JsonObject) -> int:
        """Add a piece of `function_call`."""
        self._single = self._single or _Call()
        return self._single.add_fields(fields)

    def value(self) -> JsonObject:
        """Return the keys of the message that hold the calls."""
        calls: JsonValue = [{**call.head, call.kind: call.fields()} for call in self._calls]
        single = {} if self._single is None else {"function_call": self._single.fields()}
        return {**({"tool_calls": calls} if self._calls else {}), **single}
