"""Messages of LangChain and LangGraph: objects and `model_dump`, `messages_to_dict`, and `dumpd` (`lc: 1`)."""

from collections.abc import Mapping

from agentv.messages.shapes.chat import content_of_message, read_calls
from agentv.messages.shapes.fields import optional_text, read_role, tool_message
from agentv.types.errors import MessageError
from agentv.types.json_value import JsonObject
from agentv.types.messages import Message, Role

_ROLES: Mapping[str, Role] = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
}
TYPES = frozenset({*_ROLES, "chat", "remove"})


def fields_of(value: JsonObject) -> JsonObject | None:
    """Return the fields of a LangChain message, with its `type`; None for any other value."""
    if "lc" in value:
        fields, path = value.get("kwargs"), value.get("id")
        class_name = str(path[-1]) if isinstance(path, list | tuple) and path else ""
    else:
        fields, class_name = value.get("data", value), str(value.get("type"))
    kind = class_name.removesuffix("Chunk").removesuffix("Message").lower()
    if not isinstance(fields, Mapping) or kind not in TYPES or "content" not in fields:
        return None
    is_other_shape = "role" in fields and kind != "chat"
    return None if is_other_shape else {**fields, "type": kind}


def read_langchain(fields: JsonObject, at: str) -> Message:
    """Read the fields of a message. Raises MessageError."""
    kind = str(fields["type"])
    if kind == "remove":
        raise MessageError(at, "is a RemoveMessage, which has no content", "return the messages of the graph's state")
    role = _ROLES.get(kind) or read_role(fields.get("role"), at)
    if fields.get("status") == "error":
        output = fields.get("content")
        tool = optional_text(fields.get("name"))
        return tool_message(output, call_id=optional_text(fields.get("tool_call_id")), tool=tool, failed=True)
    kwargs = fields.get("additional_kwargs")
    api_fields = kwargs if isinstance(kwargs, Mapping) else {}
    # Before LangChain 0.2 the calls were in `additional_kwargs`, in the form of the API. Keys with `__` are notes.
    kept = {key: item for key, item in api_fields.items() if not fields.get(key) and not key.startswith("__")}
    merged = {**kept, **_without_empty(fields)}
    calls = read_calls({key: item for key, item in merged.items() if key != "artifact"}, at)
    return Message(
        role=role,
        content=content_of_message(merged, at, has_calls=bool(calls)),
        name=optional_text(fields.get("name")),
        tool_calls=calls,
        tool_call_id=optional_text(fields.get("tool_call_id")),
    )


def _without_empty(fields: JsonObject) -> JsonObject:
    return {key: item for key, item in fields.items() if item not in (None, [], {})}
