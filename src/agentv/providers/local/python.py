"""`python`: a user's function or the agent of a framework, called in this process."""

import functools
import inspect
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType
from typing import Annotated, Any, TypeAlias, cast

from msgspec import Meta, Struct
from msgspec.structs import replace

from agentv.execution.user_code import DeadlineError, call_user_code, described, load_object
from agentv.providers.local.otel_settings import DEFAULT_WAIT_S, OtelWait, check_sdk, check_wait
from agentv.types.errors import MessageError, PluginError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json
from agentv.types.protocols import ProviderTools
from agentv.types.provider import GUIDELINES_HEADING, ProviderError, ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget

_MakeArguments: TypeAlias = Callable[[ProviderRequest], tuple[tuple[object, ...], Mapping[str, object]]]
"""Makes the positional and keyword arguments of a call from a request."""


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
    takes_system_prompt: Annotated[
        bool,
        Meta(
            description=(
                "The function reads `request.system_prompt`: system prompts of cases and `prompts` are there and not "
                "in `request.question`."
            )
        ),
    ] = False
    otel: Annotated[
        bool,
        Meta(
            description=(
                "Read the tool calls, tokens and cost of a call from the OpenTelemetry spans that it makes. Needs the "
                "package opentelemetry-sdk."
            )
        ),
    ] = False
    otel_wait_s: OtelWait = DEFAULT_WAIT_S

    def __post_init__(self) -> None:
        """Reject `otel` where OpenTelemetry is not installed, and a wait that is too long."""
        check_wait(self.otel_wait_s)
        check_sdk(otel=self.otel)

    def code_files(self, base_dir: str) -> tuple[str, ...]:
        """Return the file of the function, if its path is given; it must exist."""
        file = self.callable.rpartition(":")[0] if isinstance(self.callable, str) else ""
        return (str(Path(base_dir, file).resolve()),) if file.endswith(".py") else ()


class PythonProvider:
    """Calls the function with a ProviderRequest: a coroutine function in the event loop, any other in a thread.

    An agent object gets the question of the request (`function_of`). `keeps_deadlines` means that `invoke` enforces the
    timeout itself, so that its caller sets no timer.
    """

    kind = "python"
    keeps_deadlines = True

    def __init__(self, target: ResolvedTarget, tools: ProviderTools | None) -> None:  # noqa: ARG002 - the factory's signature
        settings = cast(PythonSettings, target.settings)
        configured = settings.callable
        if isinstance(configured, str):
            self._name, loaded = configured, load_object(configured, target.base_dir)
        else:
            self._name, loaded = getattr(configured, "__name__", type(configured).__name__), configured
        self._function = function_of(loaded, self._name)
        self._is_coroutine = inspect.iscoroutinefunction(self._function)
        self._timeout_s = target.timeout_s
        self._call_with_spans: Callable[..., Awaitable[ProviderResponse]] | None = None
        if settings.otel:
            from agentv.providers.local.process_spans import call_in_process  # noqa: PLC0415 - needs OpenTelemetry

            self._call_with_spans = functools.partial(call_in_process, wait_s=settings.otel_wait_s)
        self._expects_system_prompt = not settings.takes_system_prompt and reads_system_prompt(self._function)

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Return the function's response.

        Raises ProviderError if the function raises an exception, is too late, or returns a value that cannot be read.
        """
        if self._call_with_spans is None:
            return await self._answer(request)
        timeout_s = request.timeout_s or self._timeout_s
        return await self._call_with_spans(functools.partial(self._answer, request), timeout_s=timeout_s)

    async def _answer(self, request: ProviderRequest) -> ProviderResponse:
        """Return the function's response. Raises as `invoke` does."""
        timeout_s = request.timeout_s or self._timeout_s
        started = time.monotonic()
        try:
            returned = await call_user_code(self._function, request, timeout_s=timeout_s, inline=self._is_coroutine)
            if isinstance(returned, str):
                return self._noted(ProviderResponse(returned), request)
            # The fields of an object may be code of the user, which takes its time.
            left_s = None if timeout_s is None else max(0.0, timeout_s - (time.monotonic() - started))
            is_plain = _is_plain(returned)
            read = self._response if request.response_schema is None else self._structured_response
            response: ProviderResponse = await call_user_code(read, returned, timeout_s=left_s, inline=is_plain)
        except ProviderError:
            raise
        except DeadlineError:
            message = f"{self._name} did not return within {timeout_s:g} s and was abandoned; it may still be running"
            raise ProviderError(Failure("target_timeout", message)) from None
        except (Exception, SystemExit) as error:
            message = f"{self._name} raised {described(error)}"
            raise ProviderError(Failure("plugin_error", message)) from error
        return self._noted(response, request)

    def _noted(self, response: ProviderResponse, request: ProviderRequest) -> ProviderResponse:
        """Return a response, with a note if the function looks for a system prompt that is in the question."""
        if self._expects_system_prompt and request.question.startswith(_SYSTEM_MARK):
            return replace(response, notes=(*response.notes, SYSTEM_PROMPT_NOTE))
        return response

    def _structured_response(self, returned: object) -> ProviderResponse:
        """Return a value as a response to a request for JSON, such as that of a judge: a dict becomes JSON."""
        from agentv.messages.shapes.objects import limited_values, plain_json  # noqa: PLC0415 - most judges return a text

        if not isinstance(returned, Mapping) or not returned.keys().isdisjoint(_RESPONSE_KEYS):
            return self._response(returned)
        try:
            with limited_values():
                plain_json(returned, "the verdict")  # raises for one that is too large to be encoded
            return ProviderResponse(compact_json(cast(JsonObject, returned)))
        except (TypeError, ValueError, RecursionError) as error:
            message = f"{self._name} returned a dict that is not JSON: {error}"
            raise ProviderError(Failure("unexpected_shape", message)) from error

    def _response(self, returned: object) -> ProviderResponse:
        """Return a returned value as a response. Raises ProviderError if the value cannot be read."""
        from agentv.messages.shapes.objects import limited_values  # noqa: PLC0415
        from agentv.messages.shapes.results import read_result  # noqa: PLC0415
        from agentv.providers.apis.responses import parse_response, with_plain_parts  # noqa: PLC0415 - most functions return a text

        try:
            with limited_values():
                if isinstance(returned, ProviderResponse):
                    return with_plain_parts(returned)
                answer = read_result(returned)
                if answer is not None:
                    return parse_response(answer)
            message = f"{self._name} returned a value of type {type(returned).__name__}; {_advice(returned)}"
        except MessageError as error:
            message = f"{self._name} returned a {type(returned).__name__} that cannot be read: {error}"
        except ValueError as error:  # of parse_response: its text continues the sentence
            message = f"{self._name} returned a {type(returned).__name__} that {error}"
        raise ProviderError(Failure("unexpected_shape", message))


SYSTEM_PROMPT_NOTE = (
    "its function reads `system_prompt`, but gets the system prompts of cases in `question`, with role markers; "
    "`takes_system_prompt: true` on the target moves them"
)
"""The note on an answer of a function that looks for a system prompt in the wrong place."""
_SYSTEM_MARK = "@[System]:\n"


def reads_system_prompt(function: Callable[..., object]) -> bool:
    """Return True if the code of a function has the attribute or name `system_prompt`; functions it calls may, too."""
    plain = inspect.unwrap(function.func if isinstance(function, functools.partial) else function)
    method = plain if inspect.isroutine(plain) else type(plain).__call__
    found = getattr(method, "__code__", None)
    waiting = [found] if isinstance(found, CodeType) else []
    while waiting:
        code = waiting.pop()
        if "system_prompt" in code.co_names:
            return True
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
    return False


_PLAIN_TYPES = frozenset({str, int, float, bool, type(None)})
_MOST_PLAIN_VALUES = 1_000


def _is_plain(value: object) -> bool:
    """Return True for a little JSON of Python's own types, alone or in a response: reading it runs no other code."""
    if type(value) is ProviderResponse:
        return not (value.output_messages or value.trace or value.metadata or value.request)
    waiting, left = [value], _MOST_PLAIN_VALUES
    while waiting and left > 0:
        item = waiting.pop()
        kind = type(item)
        left -= 1
        if kind is dict or kind is list:
            parts = cast(dict[object, object] | list[object], item)
            if len(parts) > left:
                return False
            waiting += [*parts, *parts.values()] if isinstance(parts, dict) else parts
        elif kind not in _PLAIN_TYPES:
            return False
    return not waiting


_RESPONSE_KEYS = frozenset({"text", "output_messages", "outputMessages", "messages", "choices", "content"})
"""A dict with one of these keys is a response, not a verdict."""


def _advice(returned: object) -> str:
    """Return what a function must return, as the end of a message."""
    if isinstance(returned, AsyncIterator | Iterator):
        return "it must return a list of the values that the iterator yields"
    return (
        "it must return a string, a ProviderResponse, a dict with the keys of a ProviderResponse, messages, "
        "or a result of a framework"
    )


def function_of(given: object, name: str) -> Callable[[ProviderRequest], Any]:
    """Return a function unchanged; for an agent object, return a function that calls it with a request's question.

    An agent is called by the first of these methods that takes one argument: `run`, `ainvoke`, `invoke`, `kickoff`.
    A class is returned unchanged, and so is a callable object without such a method. Raises PluginError, with `name`,
    for any other object.
    """
    if inspect.isroutine(given) or inspect.isclass(given) or isinstance(given, functools.partial):
        return given
    for method, make_arguments in _candidate_methods(given):
        if _takes_one_argument(method):
            call = _agent_function(method, make_arguments)
            return _without_usage(call) if method.__name__ == "kickoff" else call
    if callable(given):
        return given
    raise PluginError(
        f"cannot load {name!r}: it is of type {type(given).__name__}, which has no `run`, `ainvoke`, "
        "`invoke` or `kickoff` that takes a question, and is not a function; write a function that takes a request and "
        "passes request.question to the object"
    )


def _candidate_methods(given: object) -> list[tuple[Callable[..., Any], _MakeArguments]]:
    """Return the methods by which an agent may be called, each with a function that makes its arguments."""
    methods = {name: getattr(given, name, None) for name in ("run", "ainvoke", "invoke", "kickoff")}
    makers: Mapping[str, _MakeArguments] = {
        "run": _question_arguments,
        "ainvoke": functools.partial(_invoke_arguments, given),
        "invoke": functools.partial(_invoke_arguments, given),
        "kickoff": functools.partial(_kickoff_arguments, methods["kickoff"]),
    }
    return [(method, makers[name]) for name, method in methods.items() if callable(method)]


def _takes_one_argument(method: Callable[..., Any]) -> bool:
    """Return True if a method can be called with one argument."""
    try:
        inspect.signature(method).bind("a question")
    except TypeError:
        return False
    except ValueError:  # the parameters of a method written in C are not known
        return True
    return True


def _agent_function(method: Callable[..., Any], make_arguments: _MakeArguments) -> Callable[[ProviderRequest], Any]:
    """Return a function that calls an agent's method for a request; a coroutine function for a coroutine method."""
    if inspect.iscoroutinefunction(method):

        async def call(request: ProviderRequest) -> Any:
            positional, keywords = make_arguments(request)
            return await method(*positional, **keywords)

        return call

    def call_sync(request: ProviderRequest) -> Any:
        positional, keywords = make_arguments(request)
        return method(*positional, **keywords)

    return call_sync


def _without_usage(call: Callable[[ProviderRequest], Any]) -> Callable[[ProviderRequest], Any]:
    """Return a function whose results have no usage: a crew of CrewAI reports the sum of all its calls so far."""
    from agentv.messages.shapes.results import read_result  # noqa: PLC0415 - used by crews of CrewAI alone

    def call_without_usage(request: ProviderRequest) -> Any:
        returned = call(request)
        answer = None if isinstance(returned, str) else read_result(returned)
        return returned if answer is None else {**answer, "usage": None}

    return call_without_usage


def _whole_question(request: ProviderRequest) -> str:
    """Return the question, after the system prompt of the target and the guidelines of the case."""
    guidelines = f"{GUIDELINES_HEADING}\n\n{request.guidelines}" if request.guidelines else ""
    return "\n\n".join(text for text in (request.system_prompt, guidelines, request.question) if text)


def _question_arguments(request: ProviderRequest) -> tuple[tuple[object, ...], Mapping[str, object]]:
    return (_whole_question(request),), {}


def _kickoff_arguments(kickoff: object, request: ProviderRequest) -> tuple[tuple[object, ...], Mapping[str, object]]:
    """Return the arguments of `kickoff`: inputs for the templates of a crew of CrewAI, or the question as text."""
    takes_inputs = callable(kickoff) and "inputs" in inspect.signature(kickoff).parameters
    return ((), {"inputs": {"question": _whole_question(request)}}) if takes_inputs else _question_arguments(request)


def _invoke_arguments(given: object, request: ProviderRequest) -> tuple[tuple[object, ...], Mapping[str, object]]:
    """Return the arguments of `invoke` or `ainvoke`.

    They are the messages of a LangGraph graph, the single variable of a LangChain chain, or a text.
    """
    config: Mapping[str, object] = {}
    if getattr(given, "checkpointer", None):
        # A LangGraph graph with a checkpointer needs a conversation id; each call gets a new one.
        config = {"config": {"configurable": {"thread_id": uuid.uuid4().hex}}}
    get_schema = getattr(given, "get_input_jsonschema", None)
    schema = get_schema() if callable(get_schema) else None
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    keys = list(properties) if isinstance(properties, Mapping) else []
    if "messages" in keys:
        return ({"messages": _messages(request)},), config
    question = _whole_question(request)
    return ({keys[0]: question} if len(keys) == 1 else question,), config


def _messages(request: ProviderRequest) -> list[JsonValue]:
    """Return the system prompt and the turns of a request as chat messages."""
    from agentv.providers.apis.dialogue import build_prompt  # noqa: PLC0415 - only LangGraph graphs take messages

    prompt = build_prompt(request)
    system: list[JsonValue] = [{"role": "system", "content": prompt.system}] if prompt.system else []
    return [*system, *({"role": turn.role, "content": turn.content} for turn in prompt.turns)]
