"""Items of OpenAI's Responses API without a role: calls, their outputs and reasoning, as openai-agents returns them."""

import re
from collections.abc import Mapping

from agentv.messages.shapes.fields import excerpt, first, optional_text, read_tool_call, reasoning_part, tool_message
from agentv.types.errors import MessageError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import DataPart, Message

_CALL = re.compile(r"(\w+)_call")
_OUTPUT = re.compile(r"(\w+)_(?:call_)?output")
_CALLS_WITH_NAME = frozenset({"function", "custom_tool", "mcp"})
_INPUTS = ("arguments", "input", "action", "actions", "operation", "queries", "code", "revised_prompt")
_OUTPUTS = ("output", "outputs", "results", "result", "error")
_STORED_AS_IS = frozenset({"compaction", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "program"})


def is_item(value: JsonObject) -> bool:
    """Return True for an item of the Responses API that is not a message."""
    kind = value.get("type")
    if "role" in value or not isinstance(kind, str):
        return False
    is_call_or_output = _CALL.fullmatch(kind) is not None or _OUTPUT.fullmatch(kind) is not None
    return is_call_or_output or kind == "reasoning" or kind in _STORED_AS_IS


def read_item(value: JsonObject, at: str) -> Message:
    """Read an item. Raises MessageError."""
    kind = str(value["type"])
    if kind == "reasoning":
        return Message("assistant", (reasoning_part(_thoughts(value, at)),))
    if kind in _STORED_AS_IS:
        return Message("assistant", (DataPart(kind, {key: item for key, item in value.items() if key != "type"}),))
    call_id = optional_text(first(value, "call_id", "id"))
    call = _CALL.fullmatch(kind)
    if call is None:
        return tool_message(first(value, *_OUTPUTS), call_id=call_id, tool=optional_text(value.get("name")))
    if call[1] in _CALLS_WITH_NAME:
        name: JsonValue = value.get("name")
    else:
        name = call[1]
    call_input = first(value, *_INPUTS)
    key = "arguments" if "arguments" in value else "input"
    output = None if kind == "function_call" else first(value, *_OUTPUTS)
    tool_call = read_tool_call({"tool": name, key: call_input, "output": output, "id": call_id}, at)
    return Message("assistant", tool_calls=(tool_call,))


def _thoughts(value: JsonObject, at: str) -> str:
    """Return the texts of a reasoning item's content, else of its summary. Raises MessageError."""
    key = "content" if value.get("content") else "summary"
    given, place = value.get(key) or (), f"{at}.{key}"
    if isinstance(given, str):
        return given
    if not isinstance(given, list | tuple):
        raise MessageError(place, f"must be a text or a list of texts, but is {excerpt(given)}")
    return "\n".join(_thought(each, f"{place}[{index}]") for index, each in enumerate(given))


def _thought(item: JsonValue, at: str) -> str:
    text = item.get("text") if isinstance(item, Mapping) else item
    if not isinstance(text, str):
        raise MessageError(at, f"is reasoning without a text: {excerpt(item)}")
    return text
