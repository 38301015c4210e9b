"""Sessions of OpenCode, in the form of `opencode export`: `{info, messages: [{info, parts}]}`.

OpenCode stores them in SQLite; the tables `session`, `message` and `part` have the same objects.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from agentv.messages.transcripts.steps import Called, Failed, Returned, Said, SessionInfo, Used, text_of, time_of_ms
from agentv.messages.transcripts.turns import ATTACHED, Asked, Conversation, Event, Record, Unread, make_turns
from agentv.types.json_value import JsonObject, JsonValue, object_of, objects_of
from agentv.types.usage import Usage, read_cost, read_count

_PARTS = tuple(
    "agent compaction file patch reasoning retry snapshot step-finish step-start subtask text tool".split()  # noqa: SIM905 - a list of words
)
_SUBAGENT_TOOL = "task"


def is_opencode(value: JsonObject) -> bool:
    """Return True for an exported session."""
    info = object_of(value.get("info"))
    return text_of(info.get("id")) is not None and "version" in info and isinstance(value.get("messages"), list)


def read_opencode_session(record: Record, children: Mapping[str, JsonObject] | None = None) -> Conversation:
    """Return the conversation of a session. `children` are the sessions of its subagents by id.

    A message has the line `line` if it has such a key, else that of the record.
    """
    info = object_of(record.value.get("info"))
    messages = objects_of(record.value.get("messages"))
    kept, removed = _without_reverted(messages, object_of(info.get("revert")))
    known = {"version": info.get("version"), "cwd": info.get("directory")}
    reader = _Reader(record.line, children or {})
    return Conversation(
        program="opencode",
        session=str(info.get("id") or ""),
        turns=make_turns(event for message in kept for event in reader.events(message)),
        metadata={name: value for name, value in known.items() if value is not None},
        subagent_of=text_of(info.get("parentID")),
        abandoned=tuple(reader.line_of(each) for each in removed if _prompt_text(each)),
        unread=tuple(_unread(messages, reader)),
    )


def _without_reverted(
    messages: Sequence[JsonObject], revert: JsonObject
) -> tuple[Sequence[JsonObject], Sequence[JsonObject]]:
    """Return the messages that are left, and those from the message on to which the user went back."""
    first = revert.get("messageID")
    place = next((at for at, each in enumerate(messages) if object_of(each.get("info")).get("id") == first), None)
    return (messages, ()) if first is None or place is None else (messages[:place], messages[place:])


def _unread(messages: Iterable[JsonObject], reader: "_Reader") -> Iterator[Unread]:
    for message in messages:
        for part in objects_of(message.get("parts")):
            if part.get("type") not in _PARTS:
                yield Unread(reader.line_of(message), f"part of unknown type {part.get('type')!r}")


def _prompt_text(message: JsonObject) -> str:
    """Return the text that the user wrote, without texts that the program added."""
    if object_of(message.get("info")).get("role") != "user":
        return ""
    hidden = ("synthetic", "ignored")
    parts = [part for part in objects_of(message.get("parts")) if not any(part.get(key) is True for key in hidden)]
    texts = [str(part["text"]) for part in parts if part.get("type") == "text" and text_of(part.get("text"))]
    return "\n".join(texts) or (ATTACHED if any(part.get("type") == "file" for part in parts) else "")


class _Reader:
    def __init__(self, line: int, children: Mapping[str, JsonObject]) -> None:
        self._line = line
        self._children = children
        self._placed: set[str] = set()

    def line_of(self, message: JsonObject) -> int:
        """Return the line of a message."""
        line = message.get("line")
        return line if isinstance(line, int) else self._line

    def events(self, message: JsonObject, parent: str | None = None) -> Iterator[Event]:
        """Yield the events of a message; below the tool call `parent`, those of a subagent."""
        info = object_of(message.get("info"))
        moment = time_of_ms(object_of(info.get("time")).get("created"))
        if info.get("role") == "user":
            text = _prompt_text(message)
            if text and parent is None:
                yield Asked(str(info.get("id", "")), self.line_of(message), text, moment)
        elif info.get("role") == "assistant":
            yield from self._steps(info, message, moment, parent)

    def _steps(self, info: JsonObject, message: JsonObject, moment: str | None, parent: str | None) -> Iterator[Event]:
        if parent is None:
            yield SessionInfo(model=text_of(info.get("modelID")), finish_reason=text_of(info.get("finish")))
        yield Used(_usage(object_of(info.get("tokens"))), read_cost(info.get("cost")) or None)
        for part in objects_of(message.get("parts")) if info.get("summary") is not True else ():
            time = object_of(part.get("time"))
            if part.get("type") == "text" and (text := text_of(part.get("text"))):
                yield Said(text, time_of_ms(time.get("end")) or moment, parent)
            elif part.get("type") == "tool":
                yield from self._call(part, moment, parent)
        if error := object_of(info.get("error")):
            details = object_of(error.get("data"))
            status = details.get("statusCode")
            text = text_of(details.get("message")) or text_of(error.get("name")) or "no details"
            yield Failed(text, status if isinstance(status, int) else None)

    def _call(self, part: JsonObject, moment: str | None, parent: str | None) -> Iterator[Event]:
        state = object_of(part.get("state"))
        time = object_of(state.get("time"))
        number = str(part.get("callID", ""))
        call = number if parent is None else f"{parent}/{number}"
        yield Called(
            call, str(part.get("tool", "")), state.get("input"), time_of_ms(time.get("start")) or moment, parent
        )
        child = str(object_of(state.get("metadata")).get("sessionId"))
        if part.get("tool") == _SUBAGENT_TOOL and child in self._children and child not in self._placed:
            self._placed.add(child)
            for message in objects_of(self._children[child].get("messages")):
                yield from self.events(message, call)
        if state.get("status") in ("completed", "error"):
            yield Returned(call, _output(state), time_of_ms(time.get("end")))


def _output(state: JsonObject) -> JsonValue:
    """Return what a tool returned; a command with an exit code other than 0 failed."""
    output, code = state.get("output"), object_of(state.get("metadata")).get("exit")
    if state.get("status") == "error":
        return {"error": state.get("error")}
    return output if code in (0, None) else {"error": output, "exit_code": code}


def _usage(tokens: JsonObject) -> Usage:
    """Return the usage of one model call; OpenCode counts tokens of the cache and of reasoning apart."""
    cache = object_of(tokens.get("cache"))
    cached = read_count(cache.get("read"))
    sent = read_count(tokens.get("input")) + cached + read_count(cache.get("write"))
    reasoning = read_count(tokens.get("reasoning"))
    received = read_count(tokens.get("output")) + reasoning
    return Usage(
        input=sent, output=received, cached_input=cached, reasoning=reasoning, total=sent + received, requests=1
    )
