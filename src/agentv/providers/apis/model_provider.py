"""The provider that all model APIs share: conversations with a model and its tools."""

import asyncio
import mimetypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import cast

from msgspec import structs
from msgspec.structs import replace

from agentv.execution.cancelled_calls import attach_call, attached_call
from agentv.execution.user_code import DeadlineError, call_user_code, described, load_callable
from agentv.providers.apis.credentials import Credentials
from agentv.providers.apis.dialogue import (
    Conversation,
    Dialogue,
    Image,
    Turn,
    continue_conversation,
    open_conversation,
    parse_turn,
)
from agentv.providers.apis.http import HttpRequest
from agentv.providers.apis.model_settings import ModelSettings
from agentv.providers.apis.streamed_response import StreamedResponse
from agentv.providers.apis.structured_output import SchemaTrial
from agentv.providers.apis.transport import Listener, send
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message, ToolCall
from agentv.types.messages_json import compact_json
from agentv.types.protocols import ProviderTools
from agentv.types.provider import ProviderError, ProviderRequest, ProviderResponse, last_answer
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage, total_usage

CHARACTERS_PER_TOKEN = 4.0
_FUNCTION_PREFIX = "python:"


class CannedTools:
    """Canned outputs by tool name: any JSON, or `python:path.py:function`, called with the tool's input.

    The function may also be written as a mapping, `{python: path.py:function}`.
    """

    def __init__(self, answers: JsonObject, base_dir: str) -> None:
        self._outputs = answers
        self._functions = {
            name: load_callable(reference, base_dir)
            for name, answer in answers.items()
            if (reference := _function_reference(answer)) is not None
        }

    async def answer(self, calls: Sequence[ToolCall], *, timeout_s: float) -> tuple[ToolCall, ...]:
        """Return the calls with their outputs; () if one of them has no output, which ends the conversation.

        Raises ProviderError if a function raises or does not return within `timeout_s`.
        """
        if not all(call.tool in self._outputs for call in calls):
            return ()
        return tuple([replace(call, output=await self._output(call, timeout_s)) for call in calls])

    async def _output(self, call: ToolCall, timeout_s: float) -> JsonValue:
        function = self._functions.get(call.tool)
        if function is None:
            return self._outputs[call.tool]
        try:
            return cast(JsonValue, await call_user_code(function, call.input, timeout_s=timeout_s))
        except DeadlineError:
            message = f"the function of tool {call.tool!r} did not return within {round(timeout_s, 2):g} s"
            raise ProviderError(Failure("deadline", message)) from None
        except (Exception, SystemExit) as error:
            message = f"the function of tool {call.tool!r} raised {described(error)}"
            raise ProviderError(Failure("plugin_error", message)) from error


def _function_reference(answer: JsonValue) -> str | None:
    if isinstance(answer, str) and answer.startswith(_FUNCTION_PREFIX):
        return answer.removeprefix(_FUNCTION_PREFIX).strip()
    if isinstance(answer, Mapping) and answer.keys() == {"python"}:
        return str(answer["python"])
    return None


IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class ModelProvider:
    """Requests one turn, and further turns as long as the model calls tools with canned outputs."""

    kind = "model"
    is_code = False
    keeps_deadlines = True

    def __init__(
        self, target: ResolvedTarget, tools: ProviderTools, *, dialogue: Dialogue, credentials: Credentials
    ) -> None:
        self._settings = cast(ModelSettings, target.settings)
        self._target = target
        self._shared = tools.shared
        self._dialogue = dialogue
        self._credentials = credentials
        self._tools = CannedTools(self._settings.tool_responses, target.base_dir)
        self._schema_trial = SchemaTrial()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Return the model's answer, with all turns as output messages if tools were called.

        A ProviderError holds the response so far in `partial`, with the text of an interrupted stream. After the first
        turn, `failure.details` has the `usage` of the earlier turns. A CancelledError holds the same partial response
        (`attached_call`).
        """
        ends_at = asyncio.get_running_loop().time() + (request.timeout_s or self._target.try_timeout_s)
        return await self._schema_trial.invoke(request, partial(self._converse, ends_at=ends_at))

    async def _converse(self, request: ProviderRequest, *, ends_at: float) -> ProviderResponse:
        now = asyncio.get_running_loop().time
        started_at = now()
        conversation = self._open(request)
        turns: list[Message] = []
        usage: Usage | None = None
        first_token_ms: float | None = None
        while True:
            try:
                turn = await self._next_turn(conversation, now=now, started_at=started_at, ends_at=ends_at)
                requested_calls = turn.tool_calls if len(turns) < self._settings.max_steps else ()
                usage = turn.usage if usage is None or turn.usage is None else usage + turn.usage
                first_token_ms = turn.first_token_ms if first_token_ms is None else first_token_ms
                turns.append(to_message(turn))
                calls = await self._tools.answer(requested_calls, timeout_s=ends_at - now()) if requested_calls else ()
            except ProviderError as error:
                if not turns:
                    raise
                raise _with_earlier_turns(error, turns, usage, first_token_ms) from error
            except asyncio.CancelledError as error:
                cancelled = attached_call(error) or ProviderError(Failure("cancelled", "the call was cancelled"))
                if turns:
                    attach_call(error, _with_earlier_turns(cancelled, turns, usage, first_token_ms).partial)
                raise
            if not calls:
                return to_response(turn, turns, usage, first_token_ms=first_token_ms)
            turns[-1] = to_message(turn, calls)
            conversation = continue_conversation(self._dialogue, conversation, turn, calls)

    def _open(self, request: ProviderRequest) -> Conversation:
        if request.system_prompt is None and self._target.system_prompt is not None:
            request = replace(request, system_prompt=self._target.system_prompt)
        images = _images(request.input_files)
        return open_conversation(self._dialogue, request, images, system_role=self._settings.system_role)

    async def _next_turn(
        self, conversation: Conversation, *, now: Callable[[], float], started_at: float, ends_at: float
    ) -> Turn:
        auth = await self._credentials.headers(timeout_s=ends_at - now())
        request: HttpRequest = self._dialogue.build_request(conversation, auth)
        stream: StreamedResponse | None = None

        def make_listener() -> Listener:
            nonlocal stream
            stream = StreamedResponse(self._dialogue.collector(), now=now)
            return stream.feed

        try:
            response = await send(request, self._shared, timeout_s=ends_at - now(), make_listener=make_listener)
            turn = parse_turn(self._dialogue, response, None if stream is None else stream.finish())
        except ProviderError as error:
            interrupted = self._interrupted_turn(stream, started_at)
            if interrupted is None:
                raise
            raise ProviderError(error.failure, partial=_interrupted_response(interrupted)) from error
        except asyncio.CancelledError as error:
            interrupted = self._interrupted_turn(stream, started_at)
            if interrupted is not None:
                attach_call(error, _interrupted_response(interrupted))
            raise
        return turn if stream is None else replace(turn, first_token_ms=stream.first_token_ms(started_at))

    def _interrupted_turn(self, stream: StreamedResponse | None, started_at: float) -> Turn | None:
        """Return the turn that a stream contained before it failed; None if there was none."""
        value = None if stream is None else stream.so_far()
        if stream is None or value is None:
            return None
        try:
            return replace(self._dialogue.parse(value), first_token_ms=stream.first_token_ms(started_at))
        except ProviderError:
            return None


def to_message(turn: Turn, calls: Sequence[ToolCall] = ()) -> Message:
    """Return a turn as a message; `calls` are its tool calls with their outputs, if there are any."""
    return Message("assistant", turn.text or None, tool_calls=tuple(calls) or turn.tool_calls)


def to_response(
    turn: Turn, turns: Sequence[Message], usage: Usage | None, *, first_token_ms: float | None = None
) -> ProviderResponse:
    """Return the last turn as the answer; `turns` are included if tools were called."""
    used_tools = any(message.tool_calls for message in turns)
    return ProviderResponse(
        text=turn.text,
        output_messages=tuple(turns) if used_tools else None,
        usage=usage,
        finish_reason=turn.finish_reason,
        request_id=turn.request_id,
        model=turn.model,
        quota=turn.quota,
        reasoning=turn.reasoning,
        first_token_ms=first_token_ms,
        notes=("the response was truncated at the limit of output tokens",) if turn.is_cut else (),
    )


def _interrupted_response(turn: Turn) -> ProviderResponse:
    """Return an interrupted turn as a response; output tokens that its usage does not include yet are estimated."""
    usage = turn.usage
    if usage is not None:
        calls = [compact_json(call.input) for call in turn.tool_calls]
        written = sum(map(len, (turn.text, turn.reasoning or "", *calls)))
        output = max(usage.output, round(written / CHARACTERS_PER_TOKEN))
        usage = replace(usage, output=output, total=usage.input + output)
    response = to_response(turn, [to_message(turn)], usage, first_token_ms=turn.first_token_ms)
    return replace(response, estimated=usage is not None)


def _with_earlier_turns(
    error: ProviderError, turns: Sequence[Message], usage: Usage | None, first_token_ms: float | None
) -> ProviderError:
    """Return an error that also holds the turns before it, and their usage, which is billed."""
    interrupted = error.partial
    messages = list(turns)
    if interrupted is not None:
        messages += interrupted.output_messages or [Message("assistant", interrupted.text)]
    partial = ProviderResponse(
        last_answer(messages) or "",
        output_messages=tuple(messages),
        usage=total_usage((usage, None if interrupted is None else interrupted.usage)),
        first_token_ms=first_token_ms,
        estimated=interrupted is not None and (interrupted.estimated or usage is not None),
    )
    details = error.failure.details
    if usage is not None:
        details = {**(details or {}), "usage": structs.asdict(usage)}
    return ProviderError(replace(error.failure, details=details), calls=error.calls, partial=partial)


def _images(paths: Sequence[str]) -> list[Image]:
    """Read the images among a case's files; text files are already part of the prompt."""
    if not paths:
        return []
    typed = ((path, mimetypes.guess_type(path)[0]) for path in paths)
    return [Image(media_type, Path(path).read_bytes()) for path, media_type in typed if media_type in IMAGE_TYPES]
