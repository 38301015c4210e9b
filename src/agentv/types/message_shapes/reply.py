"""Whole replies of model APIs: a chat completion, a response, Google's candidates; JSON or an object of a vendor."""

from collections.abc import Mapping
from typing import cast

from agentv.types.errors import MessageError
from agentv.types.message_shapes.usages import member


def messages_of_reply(given: object, at: str) -> list[object] | None:
    """Return the messages, items or contents in a reply; None for a value that is no reply.

    Raises MessageError for a reply without an answer or with several.
    """
    for name, of_one in (("choices", "message"), ("candidates", "content")):
        listed = member(given, name)
        if isinstance(listed, list | tuple) and not _has_role(given):
            return [_only(listed, of_one, f"{at}.{name}")]
    output = member(given, "output")
    is_response = member(given, "object") == "response" or member(given, "response_id") is not None
    if not isinstance(output, list | tuple) or not is_response:
        return None
    error = member(given, "error")
    if error is not None and not output:
        raise MessageError(at, f"is a failed response: {member(error, 'message') or error}")
    return list(cast(list[object], output))


def _has_role(given: object) -> bool:
    return isinstance(given, Mapping) and "role" in given


def _only(listed: list[object] | tuple[object, ...], name: str, at: str) -> object:
    found = [member(each, name) for each in listed]
    if len(found) != 1 or found[0] is None:
        raise MessageError(at, f"must hold one {name}, but holds {len([each for each in found if each is not None])}")
    return found[0]
