"""Messages and events of AutoGen's agents, as `TaskResult.model_dump()` has them: a source, a type and a content."""

from collections.abc import Mapping

from agentv.messages.shapes.fields import optional_text, read_content, read_tool_calls, reasoning_part, tool_message
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message, Role

_REQUEST, _RESULTS, _THOUGHT = "ToolCallRequestEvent", "ToolCallExecutionEvent", "ThoughtEvent"


def is_autogen(value: JsonObject) -> bool:
    """Return True for a message of an agent, or an event in its work."""
    type_ = value.get("type")
    is_named = isinstance(type_, str) and type_.endswith(("Message", "Event"))
    return is_named and "source" in value and "content" in value and "role" not in value


def read_autogen(value: JsonObject, at: str) -> tuple[Message, ...]:
    """Read a message; an event other than calls, results and thoughts gives none. Raises MessageError."""
    type_, content, place = str(value["type"]), value.get("content"), f"{at}.content"
    if type_ == _REQUEST:
        return (Message("assistant", tool_calls=read_tool_calls(content, place)),)
    if type_ == _RESULTS:
        return tuple(_result(each) for each in (content if isinstance(content, list | tuple) else ()))
    if type_ == _THOUGHT:
        return (Message("assistant", (reasoning_part(optional_text(content) or ""),)),)
    if type_.endswith("Event"):
        return ()
    role: Role = "user" if value.get("source") == "user" else "assistant"
    return (Message(role, read_content(content, place), name=optional_text(value.get("source"))),)


def _result(value: JsonValue) -> Message:
    given = value if isinstance(value, Mapping) else {}
    call_id, tool = optional_text(given.get("call_id")), optional_text(given.get("name"))
    return tool_message(given.get("content"), call_id=call_id, tool=tool, failed=given.get("is_error") is True)
