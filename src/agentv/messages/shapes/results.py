"""Convert results of frameworks to the parts of an answer.

The parts have our keys: `text`, `output_messages`, `usage`, `model`, `finish_reason`; the state of a LangGraph graph
has its own keys. Results are recognised by their attributes or keys, so that no framework is imported. Whole replies of
model APIs are read too, as JSON or as objects: a chat completion, a response, Google's candidates.
"""

from collections.abc import Mapping
from typing import cast

from agentv.messages.shapes.chat import ADVICE
from agentv.messages.shapes.fields import ROLE_NAMES
from agentv.messages.shapes.google import content_of
from agentv.messages.shapes.langchain import fields_of
from agentv.messages.shapes.objects import plain_json
from agentv.messages.shapes.pydantic_ai import KINDS
from agentv.messages.shapes.usages import member, usage_of_messages
from agentv.types.errors import MessageError
from agentv.types.json_value import JsonValue
from agentv.types.messages import Message
from agentv.types.messages_json import pretty_json

_OWN_KEYS = ("text", "output_messages", "outputMessages")


def read_result(given: object) -> Mapping[str, object] | None:
    """Return the result of a framework as the parts of an answer; None for an object of an unknown shape.

    A mapping with our keys or of an unknown shape is returned unchanged. A list is a list of messages. Raises
    MessageError for an empty list, for a result that failed or is still being streamed, and for a reply without exactly
    one answer.
    """
    if isinstance(given, list | tuple) and not hasattr(given, "_fields"):
        return _parts_of_list(given)
    if isinstance(given, Mapping):
        return _parts_of_mapping(given)
    if callable(getattr(given, "all_messages", None)) and hasattr(given, "output"):
        return _parts_of_pydantic_ai(given)
    if callable(getattr(given, "to_input_list", None)) and hasattr(given, "final_output"):
        return _parts_of_openai_agents(given)
    if _is_crewai_result(given):
        return _parts_of_crewai(given)
    messages = messages_of_reply(given, "the result")
    if messages is not None:
        return {**_facts_of(given), "output_messages": messages}
    if isinstance(getattr(given, "messages", None), list | tuple):
        return _parts_of_state({name: getattr(given, name, None) for name in ("messages", "structured_response")})
    value = plain_json(given, "the result")
    return {"output_messages": [value]} if isinstance(value, Message) else _parts_of_message(value, given)


def _parts_of_mapping(given: Mapping[str, object]) -> Mapping[str, object]:
    """Return the parts of an answer; a mapping of an unknown shape unchanged, so that an error can list its keys."""
    if is_ai_sdk_result(given):
        return _parts_of_ai_sdk(given)
    if any(given.get(name) is not None for name in _OWN_KEYS):
        return given
    if _is_crewai_result(given):
        return _parts_of_crewai(given)
    if given.get("messages") is not None:
        return _parts_of_state(given)
    messages = messages_of_reply(given, "the result")
    if messages is not None:
        return {**_facts_of(given), "output_messages": messages}
    return _parts_of_message(cast(JsonValue, given)) or given


def is_ai_sdk_result(given: Mapping[str, object]) -> bool:
    """Return True for a result of `generateText` of the AI SDK, as JSON.stringify writes it."""
    steps = given.get("steps")
    return isinstance(steps, list) and bool(steps) and "totalUsage" in given


def _parts_of_ai_sdk(given: Mapping[str, object]) -> Mapping[str, object]:
    """Return the parts of an answer from `steps`. The last step has the messages of all steps."""
    steps = cast(list[object], given["steps"])
    last, at = steps[-1], f"the result.steps[{len(steps) - 1}].response.messages"
    usage = usage_of_messages(steps)
    return {
        "output_messages": _listed(member(member(last, "response"), "messages"), at),
        "usage": usage if usage is not None else given["totalUsage"],
        "finish_reason": _first_text(last, "finishReason"),
        "model": _first_text(member(last, "model"), "modelId"),
    }


def _parts_of_list(given: list[object] | tuple[object, ...]) -> Mapping[str, object]:
    if not given:
        raise MessageError("the list", "is empty", ADVICE)
    return {"output_messages": given}


def _parts_of_message(value: JsonValue, given: object = None) -> Mapping[str, object] | None:
    """Return the parts of an answer that is a single message; None for any other value.

    `value` is JSON; `given` is the object that it was made from, None if it was JSON from the start.
    """
    if not isinstance(value, Mapping):
        return None
    known = value.get("role") in ROLE_NAMES or (value.get("kind") in KINDS and "parts" in value)
    if not known and fields_of(value) is None and content_of(value) is None:
        return None
    return {**_facts_of(given or value), "output_messages": [value]}


_MODEL_KEYS = ("model", "model_name", "model_version", "modelVersion")


def _facts_of(given: object) -> Mapping[str, object]:
    """Return the model, finish reason and usage of a model's reply, if known."""
    choices = member(given, "choices")
    finished = choices[0] if isinstance(choices, list | tuple) and choices else given
    named = {"model": _first_text(given, *_MODEL_KEYS)}
    named["finish_reason"] = _first_text(finished, "stop_reason", "finish_reason")
    usage = usage_of_messages([given])
    found = {key: item for key, item in named.items() if item is not None}
    return found if usage is None else {**found, "usage": usage}


def _first_text(given: object, *names: str) -> str | None:
    values = (member(given, name) for name in names)
    return next((value for value in values if isinstance(value, str) and value), None)


def _output_text(output: object) -> str:
    """Return a final output as text: an object as JSON, None as an empty text."""
    if output is None or isinstance(output, str):
        return output or ""
    return pretty_json(cast(JsonValue, plain_json(output, "the output")))


def _parts_of_pydantic_ai(given: object) -> Mapping[str, object]:
    messages = given.all_messages()  # type: ignore[attr-defined]  # checked by the caller
    usage = getattr(given, "usage", None)
    if callable(usage) and not hasattr(usage, "input_tokens"):  # a method before pydantic-ai 2
        usage = usage()
    last = next((message for message in reversed(messages) if member(message, "kind") == "response"), None)
    return {
        **_facts_of(last),
        "text": _output_text(member(given, "output")),
        "output_messages": messages,
        "usage": usage,
    }


def _parts_of_openai_agents(given: object) -> Mapping[str, object]:
    if member(given, "is_complete") is False:
        raise MessageError("the result", "is still being streamed", "read all of its events first")
    usage = member(member(given, "context_wrapper"), "usage")
    return {
        "text": _output_text(member(given, "final_output")),
        "output_messages": given.to_input_list(),  # type: ignore[attr-defined]  # checked by the caller
        "usage": usage if usage is not None else usage_of_messages(member(given, "raw_responses")),
    }


def _is_crewai_result(given: object) -> bool:
    return isinstance(member(given, "raw"), str) and bool(_crew_usage(given) or member(given, "tasks_output"))


def _crew_usage(given: object) -> object:
    return member(given, "token_usage") or member(given, "usage_metrics")


def _parts_of_crewai(given: object) -> Mapping[str, object]:
    tasks = member(given, "tasks_output")
    places = {"the result": given}
    if isinstance(tasks, list | tuple) and tasks:
        places = {f"the result.tasks_output[{index}]": task for index, task in enumerate(tasks)}
    messages = [item for at, each in places.items() for item in _listed(member(each, "messages"), f"{at}.messages")]
    text = member(given, "raw")
    conversation: list[object] = [*messages, {"role": "assistant", "content": text}]
    return {"text": text, "output_messages": conversation, "usage": _crew_usage(given)}


def _listed(value: object, at: str) -> list[object]:
    """Return a list of messages, [] for None. Raises MessageError for any other value."""
    if value is not None and not isinstance(value, list | tuple):
        raise MessageError(at, "must be a list of messages", ADVICE)
    return list(value or ())


def _parts_of_state(state: Mapping[str, object]) -> Mapping[str, object]:
    """Return the state of a LangGraph graph with its structured response as `text`; its other keys are unchanged."""
    structured = state.get("structured_response")
    rest = {key: item for key, item in state.items() if key != "structured_response"}
    return rest if structured is None else {**rest, "text": _output_text(structured)}


def messages_of_reply(given: object, at: str) -> list[object] | None:
    """Return the messages, items or contents in a reply of a model API; None for any other value.

    Raises MessageError for a failed response, and for choices or candidates without exactly one answer.
    """
    for name, item_name in (("choices", "message"), ("candidates", "content")):
        listed = member(given, name)
        if isinstance(listed, list | tuple) and not _has_role(given):  # with a role it is a message
            return [_only_item(listed, item_name, f"{at}.{name}")]
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


def _only_item(listed: list[object] | tuple[object, ...], name: str, at: str) -> object:
    """Return the member `name` of the only element of a list. Raises MessageError for several or none."""
    found = [member(each, name) for each in listed]
    if len(found) != 1 or found[0] is None:
        raise MessageError(at, f"must hold one {name}, but holds {sum(each is not None for each in found)}")
    return found[0]
