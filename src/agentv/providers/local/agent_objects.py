"""Agent objects of frameworks as functions of a request: by their methods `run`, `invoke` or `kickoff`."""

import functools
import inspect
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from agentv.providers.apis.dialogue import build_prompt
from agentv.types.errors import PluginError
from agentv.types.json_value import JsonValue
from agentv.types.message_shapes.results import read_result
from agentv.types.provider import GUIDELINES_HEADING, ProviderRequest

_Arguments: TypeAlias = Callable[[ProviderRequest], tuple[tuple[object, ...], Mapping[str, object]]]
"""Makes the positional and named arguments of a call."""


def function_of(given: object, name: str) -> Callable[[ProviderRequest], Any]:
    """Return a function as it is, and an agent object as a function that asks it the question of a request.

    The first method counts that takes one question: `run`, `invoke` (`ainvoke` where there is one), `kickoff`; an
    object without any is called with the request. Raises PluginError, called `name`, for any other object.
    """
    if inspect.isroutine(given) or inspect.isclass(given) or isinstance(given, functools.partial):
        return given
    for method, arguments in _ways(given):
        if _takes_one(method):
            ask = _asking(method, arguments)
            return _without_usage(ask) if method.__name__ == "kickoff" else ask
    if callable(given):
        return given
    raise PluginError(
        f"cannot load {name!r}: it is of type {type(given).__name__}, which has no `run`, `invoke` or `kickoff` that "
        "takes a question, and is not a function; write a function that takes a request and calls it with "
        "request.question"
    )


def _ways(given: object) -> list[tuple[Callable[..., Any], _Arguments]]:
    """Return the methods that an agent may have, each with what it is given."""
    named = {name: getattr(given, name, None) for name in ("run", "ainvoke", "invoke", "kickoff")}
    ways: Mapping[str, _Arguments] = {
        "run": _question,
        "ainvoke": functools.partial(_state, given),
        "invoke": functools.partial(_state, given),
        "kickoff": functools.partial(_inputs, named["kickoff"]),
    }
    return [(method, ways[name]) for name, method in named.items() if callable(method)]


def _takes_one(method: Callable[..., Any]) -> bool:
    """Return True if a method can be called with one argument."""
    try:
        inspect.signature(method).bind("a question")
    except TypeError:
        return False
    except ValueError:  # a method written in C does not say what it takes
        return True
    return True


def _asking(method: Callable[..., Any], arguments: _Arguments) -> Callable[[ProviderRequest], Any]:
    if inspect.iscoroutinefunction(method):

        async def ask(request: ProviderRequest) -> Any:
            given, named = arguments(request)
            return await method(*given, **named)

        return ask

    def ask_plainly(request: ProviderRequest) -> Any:
        given, named = arguments(request)
        return method(*given, **named)

    return ask_plainly


def _without_usage(ask: Callable[[ProviderRequest], Any]) -> Callable[[ProviderRequest], Any]:
    """Return a function whose results have no usage: that of a crew is the sum of all its results."""

    def ask_once(request: ProviderRequest) -> Any:
        returned = ask(request)
        answer = None if isinstance(returned, str) else read_result(returned)
        return returned if answer is None else {**answer, "usage": None}

    return ask_once


def _text(request: ProviderRequest) -> str:
    """Return the question, after the system prompt of the target and the guidelines of the case."""
    guidelines = f"{GUIDELINES_HEADING}\n\n{request.guidelines}" if request.guidelines else ""
    return "\n\n".join(text for text in (request.system_prompt, guidelines, request.question) if text)


def _question(request: ProviderRequest) -> tuple[tuple[object, ...], Mapping[str, object]]:
    return (_text(request),), {}


def _inputs(kickoff: object, request: ProviderRequest) -> tuple[tuple[object, ...], Mapping[str, object]]:
    """Return what `kickoff` takes: inputs that fill the templates of a crew, or a text."""
    takes_inputs = callable(kickoff) and "inputs" in inspect.signature(kickoff).parameters
    return ((), {"inputs": {"question": _text(request)}}) if takes_inputs else _question(request)


def _state(given: object, request: ProviderRequest) -> tuple[tuple[object, ...], Mapping[str, object]]:
    """Return what `invoke` takes: the messages of a graph's state, the variable of a chain, or a text."""
    config: Mapping[str, object] = {}
    if getattr(given, "checkpointer", None):  # which needs a conversation, here a new one for each call
        config = {"config": {"configurable": {"thread_id": uuid.uuid4().hex}}}
    schema = getattr(given, "get_input_jsonschema", None)
    described = schema() if callable(schema) else None
    properties = described.get("properties") if isinstance(described, Mapping) else None
    keys = list(properties) if isinstance(properties, Mapping) else []
    if "messages" in keys:
        return ({"messages": _messages(request)},), config
    return ({keys[0]: _text(request)} if len(keys) == 1 else _text(request),), config


def _messages(request: ProviderRequest) -> list[JsonValue]:
    prompt = build_prompt(request)
    system: list[JsonValue] = [{"role": "system", "content": prompt.system}] if prompt.system else []
    return [*system, *({"role": turn.role, "content": turn.content} for turn in prompt.turns)]
