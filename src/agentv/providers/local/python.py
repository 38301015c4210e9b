"""`python`: a user's function or the agent of a framework, called in this process."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Annotated, cast

from msgspec import Meta, Struct

from agentv.execution.user_code import DeadlineError, call_user_code, described, load_object
from agentv.providers.apis.replies import parse_response
from agentv.providers.local.agent_objects import function_of
from agentv.types.errors import MessageError, ProviderError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject
from agentv.types.message_shapes.results import read_result
from agentv.types.messages_json import compact_json
from agentv.types.protocols import ProviderTools
from agentv.types.provider import ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget


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
