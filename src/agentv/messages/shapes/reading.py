"""Read messages of any known shape: recognise the shape of each, and join them into a conversation."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from agentv.messages.shapes.autogen import is_autogen, read_autogen
from agentv.messages.shapes.chat import ADVICE, CONTENT_KEYS, read_chat, read_ui_message
from agentv.messages.shapes.fields import REASONING_PARTS
from agentv.messages.shapes.google import content_of, read_content
from agentv.messages.shapes.langchain import fields_of, read_langchain
from agentv.messages.shapes.llama_index import is_blocks, read_llama_index
from agentv.messages.shapes.objects import plain_items, plain_json
from agentv.messages.shapes.pydantic_ai import KINDS, read_pydantic_ai
from agentv.messages.shapes.responses import is_item, read_item
from agentv.messages.shapes.results import messages_of_reply
from agentv.types.errors import MessageError
from agentv.types.json_value import JsonObject, JsonValue, listed_keys
from agentv.types.messages import DataPart, Message, Part, TextPart

_SHAPES_ADVICE = (
    f"{ADVICE}, or return messages of OpenAI (chat or Responses), Anthropic, Google, LangChain, pydantic-ai or the "
    "AI SDK as they are"
)


_KEYS_OF_OTHER_SHAPES = frozenset({"type", "kind", "lc", "data", "parts", "blocks"})


def read_messages(given: object, at: str) -> tuple[Message, ...]:
    """Read a list of messages, as JSON or as objects of a framework; `at` is its place in errors.

    Raises MessageError with the place of the part that cannot be read.
    """
    if isinstance(given, str | Mapping | Message) or not isinstance(given, Iterable):
        raise MessageError(at, f"must be a list of messages, but is {_kind(given)}", ADVICE)
    messages: list[Message] = []
    for index, (item, plain) in enumerate(plain_items(given, at)):
        messages += _messages_of(plain, f"{at}[{index}]", item)
    return join_reasoning(messages)


def read_message(given: object, at: str) -> tuple[Message, ...]:
    """Read one message, which may become several: one for each step, or for each of its tool results.

    Raises MessageError.
    """
    return _messages_of(plain_json(given, at), at, given)


def _messages_of(value: JsonValue | Message, at: str, given: object) -> tuple[Message, ...]:
    if isinstance(value, Message):
        return (value,)
    if not isinstance(value, Mapping):
        raise MessageError(at, f"is not a message, but {_kind(given)}", _SHAPES_ADVICE)
    return tuple(map(_with_content, _read(value, at)))


def _read(value: JsonObject, at: str) -> tuple[Message, ...]:
    if "role" in value and _KEYS_OF_OTHER_SHAPES.isdisjoint(value):  # most messages; no other shape has to be tried
        return (read_chat(value, at),)
    fields = fields_of(value)
    if fields is not None:
        return (read_langchain(fields, at),)
    if value.get("kind") in KINDS and "parts" in value:
        return read_pydantic_ai(value, at)
    if is_autogen(value):
        return read_autogen(value, at)
    if "role" in value and is_blocks(value):
        return (read_llama_index(value, at),)
    content = content_of(value)
    if content is not None:
        return read_content(value, content, at)
    reply = messages_of_reply(value, at)
    if reply is not None:
        return tuple(message for item in reply for message in read_message(item, at))
    if is_item(value):
        return (read_item(value, at),)
    if "role" not in value:
        keys = listed_keys(value)
        raise MessageError(at, f"has no role; its keys: {keys}", _SHAPES_ADVICE)
    return read_ui_message(value, at) if value.get("parts") is not None else (read_chat(value, at),)


def read_answer(given: object, at: str) -> Message:
    """Read a message as an answer; a message without a role is the assistant's. Raises MessageError.

    Several steps become one message: the last content, with the calls of all steps.
    """
    value = plain_json(given, at)
    lacks_role = isinstance(value, Mapping) and not _has_own_role(value)
    if isinstance(value, Mapping) and lacks_role:
        value = {"role": "assistant", **value}
    messages = read_message(value, at)
    if isinstance(value, Mapping) and lacks_role and value.keys().isdisjoint({"parts", *CONTENT_KEYS}):
        # A value with neither role nor content is a message only if it has calls.
        messages = tuple(each for each in messages if each.content or each.tool_calls)
    if not messages:
        raise MessageError(at, "holds no message", ADVICE)
    last = next((message for message in reversed(messages) if message.content), messages[-1])
    return replace(last, tool_calls=tuple(call for message in messages for call in message.tool_calls))


def _has_own_role(value: JsonObject) -> bool:
    return "role" in value or fields_of(value) is not None or value.get("kind") in KINDS or is_item(value)


def _with_content(message: Message) -> Message:
    """Return a message with an empty text as content if it has neither content nor calls, so that it can be stored."""
    return replace(message, content="") if message.content is None and not message.tool_calls else message


def join_reasoning(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return messages with reasoning-only messages joined to the assistant's message that follows."""
    joined: list[Message] = []
    for message in messages:
        last = joined[-1] if joined else None
        if last is not None and message.role == "assistant" and _is_reasoning(last):
            thoughts = last.content if isinstance(last.content, tuple) else ()
            joined[-1] = replace(message, content=(*thoughts, *_parts(message)))
        else:
            joined.append(message)
    return tuple(joined)


def _is_reasoning(message: Message) -> bool:
    parts = message.content
    return (
        message.role == "assistant"
        and isinstance(parts, tuple)
        and not message.tool_calls
        and bool(parts)
        and all(isinstance(part, DataPart) and part.type in REASONING_PARTS for part in parts)
    )


def _parts(message: Message) -> tuple[Part, ...]:
    content = message.content
    if isinstance(content, tuple):
        return content
    return (TextPart(content),) if isinstance(content, str) and content else ()


def _kind(given: object) -> str:
    if given is None:
        return "null"
    return "a text" if isinstance(given, str) else f"of type {type(given).__name__}"
