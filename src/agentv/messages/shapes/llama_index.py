"""Messages of LlamaIndex: a role, `blocks` with texts, media and calls, and `additional_kwargs`."""

from collections.abc import Mapping

from agentv.messages.shapes.fields import (
    joined,
    optional_text,
    read_part,
    read_role,
    read_tool_call,
    read_tool_calls,
    reasoning_part,
)
from agentv.types.json_value import JsonObject
from agentv.types.messages import DataPart, Message, Part, ToolCall

_ROLES: Mapping[str, str] = {"chatbot": "assistant", "model": "assistant"}


def is_blocks(value: JsonObject) -> bool:
    """Return True for a message whose content is a list of blocks with their types."""
    blocks = value.get("blocks")
    return isinstance(blocks, list | tuple) and all(
        isinstance(each, Mapping) and "block_type" in each for each in blocks
    )


def read_llama_index(value: JsonObject, at: str) -> Message:
    """Read a message. Raises MessageError."""
    blocks = value.get("blocks")
    content: list[Part] = []
    calls: list[ToolCall] = []
    for index, block in enumerate(blocks if isinstance(blocks, list | tuple) else ()):
        if not isinstance(block, Mapping):
            continue
        place, kind = f"{at}.blocks[{index}]", str(block.get("block_type"))
        if kind == "tool_call":
            call = {"id": block.get("tool_call_id"), "name": block.get("tool_name"), "args": block.get("tool_kwargs")}
            calls.append(read_tool_call(call, place))
        elif kind == "text":
            content.append(read_part({"type": "text", "text": block.get("text")}, place))
        elif kind == "thinking":
            content.append(reasoning_part(optional_text(block.get("content")) or ""))
        else:
            content.append(DataPart(kind, {key: item for key, item in block.items() if key != "block_type"}))
    kwargs = value.get("additional_kwargs")
    more = kwargs if isinstance(kwargs, Mapping) else {}
    if not calls:  # before LlamaIndex 0.14
        calls.extend(read_tool_calls(more.get("tool_calls"), f"{at}.additional_kwargs.tool_calls"))
    role = value.get("role")
    return Message(
        read_role(_ROLES.get(str(role), role), at),
        joined(content),
        tool_calls=tuple(calls),
        tool_call_id=optional_text(more.get("tool_call_id")),
    )
