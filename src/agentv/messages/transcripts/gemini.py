"""Chats of Gemini CLI: the lines of `chats/session-*.jsonl`, or one JSON document of older versions.

A message is written again when it changes: the last line of an id wins. `$set` changes the chat as a whole, `$rewindTo`
takes messages back.
"""

from collections.abc import Iterable, Iterator

from agentv.messages.transcripts.steps import Called, Failed, Returned, Said, SessionInfo, Step, Used, text_of
from agentv.messages.transcripts.turns import ATTACHED, Asked, Conversation, Event, Record, Unread, make_turns
from agentv.types.json_value import JsonObject, JsonValue, object_of, objects_of
from agentv.types.usage import Usage, read_count

_TYPES = ("user", "gemini", "info", "error", "warning")
_NOT_PROMPTS = ("<session_context>", "<state_snapshot>", "<system-reminder>", "This is the Gemini CLI.")


def is_gemini(value: JsonObject) -> bool:
    """Return True for the head of a chat, or a whole chat of an older version."""
    return {"sessionId", "projectHash", "startTime"} <= value.keys()


def read_gemini_session(records: Iterable[Record]) -> Conversation:
    """Return the conversation of a chat; messages that a compression of the chat replaced stay in it."""
    chat = _Chat()
    for record in records:
        chat.add(record)
    head = chat.head
    is_subagent = head.get("kind") == "subagent"
    events = (event for record in chat.messages.values() for event in _events_of(record))
    return Conversation(
        program="gemini",
        session=str(head.get("sessionId") or ""),
        turns=make_turns(events),
        subagent_of="another session" if is_subagent else None,
        abandoned=tuple(each.line for each in chat.removed if _prompt_text(each.value)),
        unread=tuple(chat.unread),
    )


class _Chat:
    """The messages of a chat by id, with the line on which each was first written."""

    def __init__(self) -> None:
        self.head: JsonObject = {}
        self.messages: dict[str, Record] = {}
        self.removed: list[Record] = []
        self.unread: list[Unread] = []

    def add(self, record: Record) -> None:
        """Add one line."""
        value = record.value
        if is_gemini(value):
            self.head = value
            self._put_all(value.get("messages"), record.line)
        elif "$set" in value:
            self._put_all(object_of(value["$set"]).get("messages"), record.line)
        elif "$rewindTo" in value:
            self._rewind(str(value["$rewindTo"]))
        elif text_of(value.get("id")) and value.get("type") in _TYPES:
            self._put(value, record.line)
        else:
            self.unread.append(Unread(record.line, f"message of unknown type {value.get('type')!r}"))

    def _put_all(self, messages: JsonValue, line: int) -> None:
        for message in objects_of(messages):
            if text_of(message.get("id")):
                self._put(message, line)

    def _put(self, message: JsonObject, line: int) -> None:
        known = self.messages.get(str(message["id"]))
        self.messages[str(message["id"])] = Record(known.line if known else line, message)

    def _rewind(self, first: str) -> None:
        """Take back the message with an id and all after it; all messages if there is none with the id."""
        ids = list(self.messages)
        gone = ids[ids.index(first) :] if first in self.messages else ids
        self.removed += [self.messages.pop(each) for each in gone]


def _text(content: JsonValue) -> str:
    if isinstance(content, str):
        return content
    parts = objects_of(content if isinstance(content, list) else [content])
    return "".join(str(part["text"]) for part in parts if text_of(part.get("text")) and part.get("thought") is not True)


def _prompt_text(message: JsonObject) -> str:
    """Return the text that the user wrote; empty for results of tools and for texts of the program."""
    text = _text(message.get("content")) if message.get("type") == "user" else ""
    if message.get("type") == "user" and not text:
        has_files = any("inlineData" in part or "fileData" in part for part in objects_of(message.get("content")))
        return ATTACHED if has_files else ""
    return "" if text.lstrip().startswith(_NOT_PROMPTS) else text


def _events_of(record: Record) -> Iterator[Event]:
    message, moment = record.value, text_of(record.value.get("timestamp"))
    match message.get("type"):
        case "user":
            if text := _prompt_text(message):
                yield Asked(str(message.get("id", "")), record.line, text, moment)
        case "gemini":
            yield SessionInfo(model=text_of(message.get("model")))
            if tokens := object_of(message.get("tokens")):
                yield Used(_usage(tokens))
            if text := _text(message.get("content")):
                yield Said(text, moment)
            for call in objects_of(message.get("toolCalls")):
                yield from _call(call, moment)
        case "error":
            yield Failed(_text(message.get("content")) or "no details")


def _call(call: JsonObject, moment: str | None) -> Iterator[Step]:
    number = str(call.get("id", ""))
    yield Called(number, str(call.get("name", "")), call.get("args"), moment)
    if "result" in call:
        output = _output(call.get("result"), number)
        is_wrong = call.get("status") in ("error", "cancelled") and not isinstance(output, dict)
        yield Returned(number, {"error": output} if is_wrong else output, text_of(call.get("timestamp")))


def _output(result: JsonValue, number: str) -> JsonValue:
    """Return what a tool returned: an object with only an output as this."""
    responses = [object_of(part.get("functionResponse")) for part in objects_of(result)]
    own = next((each for each in responses if each.get("id") == number), responses[0] if responses else {})
    response = object_of(own.get("response"))
    return response["output"] if set(response) == {"output"} else response or result


def _usage(tokens: JsonObject) -> Usage:
    """Return the usage of one model call; the model's thoughts count as output."""
    sent = read_count(tokens.get("input"))
    thoughts = read_count(tokens.get("thoughts"))
    received = read_count(tokens.get("output")) + thoughts
    return Usage(
        input=sent,
        output=received,
        cached_input=read_count(tokens.get("cached")),
        reasoning=thoughts,
        total=sent + received,
        requests=1,
    )
