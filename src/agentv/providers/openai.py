"""`openai`: a chat model behind the OpenAI API or any server that speaks it."""

import asyncio
import mimetypes
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from agentv.providers.canned_tools import CannedTools
from agentv.providers.http import HttpReply
from agentv.providers.openai_chat import (
    ChatReply,
    Image,
    OpenAISettings,
    build_messages,
    build_request,
    parse_reply,
    tool_messages,
)
from agentv.providers.transport import send
from agentv.types.json_value import JsonObject
from agentv.types.messages import Message
from agentv.types.protocols import ProviderTools
from agentv.types.provider import ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage

DEFAULT_TIMEOUT_S = 600.0
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class OpenAIProvider:
    """Asks for one turn, and for more when tools have canned answers."""

    kind = "openai"

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:
        self._target = target
        self._shared = tools.shared
        self._settings = cast(OpenAISettings, target.settings)
        self._tools = CannedTools(self._settings.tool_responses, target.base_dir)

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Return the model's answer, with every tool call on the way as output messages."""
        if request.system_prompt is None:
            request = replace(request, system_prompt=self._target.system_prompt)
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + (request.timeout_s or self._target.timeout_s or DEFAULT_TIMEOUT_S)
        messages = build_messages(request, _images(request.input_files))
        turns: list[Message] = []
        usage: Usage | None = None
        while True:
            reply = parse_reply(await self._send(messages, request, timeout_s=ends_at - loop.time()))
            usage = reply.usage if usage is None or reply.usage is None else usage + reply.usage
            asked = reply.tool_calls if len(turns) < self._settings.max_steps else ()
            calls = await self._tools.answer(asked, timeout_s=ends_at - loop.time())
            turns.append(Message("assistant", reply.text or None, tool_calls=calls or reply.tool_calls))
            if not calls:
                return _response(reply, turns, usage)
            messages += [reply.message, *tool_messages(calls)]

    async def _send(self, messages: Sequence[JsonObject], request: ProviderRequest, *, timeout_s: float) -> HttpReply:
        return await send(build_request(messages, request, self._settings), self._shared, timeout_s=timeout_s)


def _response(reply: ChatReply, turns: Sequence[Message], usage: Usage | None) -> ProviderResponse:
    used_tools = any(turn.tool_calls for turn in turns)
    return ProviderResponse(
        text=reply.text,
        output_messages=tuple(turns) if used_tools else None,
        usage=usage,
        finish_reason=reply.finish_reason,
        request_id=reply.request_id,
        model=reply.model,
        notes=("the reply was cut off at the limit of output tokens",) if reply.finish_reason == "length" else (),
    )


def _images(paths: Sequence[str]) -> list[Image]:
    """Read the pictures among a case's files; text files stand in the question already."""
    typed = ((path, mimetypes.guess_type(path)[0]) for path in paths)
    return [Image(media_type, Path(path).read_bytes()) for path, media_type in typed if media_type in IMAGE_TYPES]
