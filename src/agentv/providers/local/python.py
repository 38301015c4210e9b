"""`python`: a user's function or the agent of a framework, called in this process."""

import functools
import inspect
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Annotated, Any, TypeAlias, cast

from msgspec import Meta, Struct

from agentv.execution.user_code import DeadlineError, call_user_code, described, load_object
from agentv.providers.apis.dialogue import build_prompt
from agentv.providers.apis.responses import parse_response
from agentv.types.errors import MessageError, PluginError, ProviderError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.message_shapes.results import read_result
from agentv.types.messages_json import compact_json
from agentv.types.protocols import ProviderTools
from agentv.types.provider import GUIDELINES_HEADING, ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget

_Arguments: TypeAlias = Callable[[ProviderRequest], tuple[tuple[object, ...], Mapping[str, object]]]
"""Makes the positional and named arguments of a call."""


class PythonSettings(Struct, frozen=True):
    """The settings of a `python` target."""

    callable: Annotated[
        str | Callable[..., object],
        Meta(
            description=(
                "`package.module:function` or `path/to/file.py:function`, relative to the targets file; "
                "from Python, the function itself. Gets a ProviderRequest; returns a string, a ProviderResponse, a "
                "dict, or what a framework returned. Also an agent object with `run`, `invoke` or `kickoff`, which "
                "gets the question."
            )
        ),
    ]


class PythonProvider:
    """Calls the function with a ProviderRequest: a coroutine function in the event loop, any other in a thread.

    An agent object gets the question of the request (`function_of`).
    """

    kind = "python"
    keeps_deadlines = True

    def __init__(self, target: ResolvedTarget, tools: ProviderTools | None) -> None:  # noqa: ARG002 - the factory's signature
        given = cast(PythonSettings, target.settings).callable
        self._name = given if isinstance(given, str) else getattr(given, "__name__", type(given).__name__)
        self._function = function_of(
            load_object(given, target.base_dir) if isinstance(given, str) else given, self._name
        )
        self._is_coroutine = inspect.iscoroutinefunction(self._function)
        self._timeout_s = target.timeout_s

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Return the function's response; an exception becomes a ProviderError."""
        timeout_s = request.timeout_s or self._timeout_s
        try:
            returned = await call_user_code(self._function, request, timeout_s=timeout_s, inline=self._is_coroutine)
        except ProviderError:
            raise
        except DeadlineError:
            message = f"{self._name} did not return within {timeout_s:g} s and was abandoned; it may still be running"
            raise ProviderError(Failure("target_timeout", message)) from None
        except (Exception, SystemExit) as error:
            message = f"{self._name} raised {described(error)}"
            raise ProviderError(Failure("plugin_error", message)) from error
        return self._response(returned)

    def _response(self, returned: object) -> ProviderResponse:
        if isinstance(returned, ProviderResponse):
            return returned
        if isinstance(returned, str):
            return ProviderResponse(returned)
        try:
            answer = read_result(returned)
            if answer is not None:
                return parse_response(answer)
            message = f"{self._name} returned a value of type {type(returned).__name__}; {_expected(returned)}"
        except MessageError as error:
            message = f"{self._name} returned a {type(returned).__name__} that cannot be read: {error}"
        except ValueError as error:
            message = f"{self._name} returned a {type(returned).__name__} that {error}"
        raise ProviderError(Failure("unexpected_shape", message))


class JudgeFunction(PythonProvider):
    """Calls a function as a judge: it returns its verdict as text, or as a dict, which becomes JSON."""

    def _response(self, returned: object) -> ProviderResponse:
        if isinstance(returned, Mapping) and returned.keys().isdisjoint(_RESPONSE_KEYS):
            try:
                return ProviderResponse(compact_json(cast(JsonObject, returned)))
            except (TypeError, ValueError) as error:
                message = f"{self._name} returned a dict that is not JSON: {error}"
                raise ProviderError(Failure("unexpected_shape", message)) from error
        return super()._response(returned)


_RESPONSE_KEYS = frozenset({"text", "output_messages", "outputMessages", "messages", "choices", "content"})
"""Keys of a dict that is a whole response instead of a verdict."""


def _expected(returned: object) -> str:
    if isinstance(returned, AsyncIterator | Iterator):
        return "it must return a list of what this yields"
    return "it must return a string, a ProviderResponse, a dict with its keys, or messages or a result of a framework"


def function_of(given: object, name: str) -> Callable[[ProviderRequest], Any]:
    """Return a function as it is, and an agent object as a function that calls it with the question of a request.

    The first of these methods that takes one question is used: `run`, `invoke` (`ainvoke` where there is one),
    `kickoff`; an object without any is called with the request. Raises PluginError, with `name`, for any other object.
    """
    if inspect.isroutine(given) or inspect.isclass(given) or isinstance(given, functools.partial):
        return given
    for method, arguments in _candidate_methods(given):
        if _takes_one(method):
            ask = _calling(method, arguments)
            return _without_usage(ask) if method.__name__ == "kickoff" else ask
    if callable(given):
        return given
    raise PluginError(
        f"cannot load {name!r}: it is of type {type(given).__name__}, which has no `run`, `invoke` or `kickoff` that "
        "takes a question, and is not a function; write a function that takes a request and calls it with "
        "request.question"
    )


def _candidate_methods(given: object) -> list[tuple[Callable[..., Any], _Arguments]]:
    """Return the methods that an agent may have, each with the arguments that it gets."""
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
    except ValueError:  # the parameters of a method written in C are not known
        return True
    return True


def _calling(method: Callable[..., Any], arguments: _Arguments) -> Callable[[ProviderRequest], Any]:
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
    """Return a function whose results have no usage: a crew reports the sum over all its calls so far."""

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
    """Return the argument of `kickoff`: inputs that fill the templates of a crew, or a text."""
    takes_inputs = callable(kickoff) and "inputs" in inspect.signature(kickoff).parameters
    return ((), {"inputs": {"question": _text(request)}}) if takes_inputs else _question(request)


def _state(given: object, request: ProviderRequest) -> tuple[tuple[object, ...], Mapping[str, object]]:
    """Return the argument of `invoke`: the messages of a graph's state, the variable of a chain, or a text."""
    config: Mapping[str, object] = {}
    if getattr(
        given, "checkpointer", None
    ):  # a graph with a checkpointer needs a conversation id; each call gets its own
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
