"""Messages and events of AutoGen's agents, as `TaskResult.model_dump()` has them: a source, a type and a content."""

from collections.abc import Mapping

from agentv.messages.shapes.fields import (
    excerpt,
    optional_text,
    read_content,
    read_tool_calls,
    reasoning_part,
    tool_message,
)
from agentv.types.errors import MessageError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message, Role

_REQUEST, _RESULTS, _THOUGHT = "ToolCallRequestEvent", "ToolCallExecutionEvent", "ThoughtEvent"


def is_autogen(value: JsonObject) -> bool:
    """Return True for a message of an agent, or an event in its work."""
    type_ = value.get("type")
    is_named = isinstance(type_, str) and type_.endswith(("Message", "Event"))
    return is_named and "source" in value and "content" in value and "role" not in value


def read_autogen(value: JsonObject, at: str) -> tuple[Message, ...]:
    """Read a message; an event other than calls, results and thoughts gives none. Raises MessageError.

    The other events of AutoGen report what goes on between agents, such as who speaks next, and programs add their own.
    """
    type_, content, place = str(value["type"]), value.get("content"), f"{at}.content"
    if type_ == _REQUEST:
        return (Message("assistant", tool_calls=read_tool_calls(content, place)),)
    if type_ == _RESULTS:
        if not isinstance(content, list | tuple):
            raise MessageError(place, f"must be a list of results of tools, but is {excerpt(content)}")
        return tuple(_result(each, f"{place}[{index}]") for index, each in enumerate(content))
    if type_ == _THOUGHT:
        return (Message("assistant", (reasoning_part(optional_text(content) or ""),)),)
    if type_.endswith("Event"):
        return ()
    role: Role = "user" if value.get("source") == "user" else "assistant"
    return (Message(role, read_content(content, place), name=optional_text(value.get("source"))),)


def _result(value: JsonValue, at: str) -> Message:
    if not isinstance(value, Mapping) or "content" not in value:
        raise MessageError(at, f"is not the result of a tool: {excerpt(value)}", "write {call_id, name, content}")
    call_id, tool = optional_text(value.get("call_id")), optional_text(value.get("name"))
    return tool_message(value["content"], call_id=call_id, tool=tool, failed=value.get("is_error") is True)
