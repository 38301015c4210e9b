"""`http`: a web service answers, one request for each case."""

from collections.abc import Mapping
from typing import cast

from msgspec.structs import replace

from agentv.providers.dialogue import build_prompt
from agentv.providers.healthchecks import run_healthcheck
from agentv.providers.http import HttpReply, HttpRequest
from agentv.providers.http_settings import HttpSettings
from agentv.providers.http_template import parse_url
from agentv.providers.replies import last_answer, parse_output
from agentv.providers.reply_json import parse_json, wrong_shape
from agentv.providers.transport import send
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonValue
from agentv.types.messages import ChatMessage, Message
from agentv.types.messages_json import compact_json, messages_from_json
from agentv.types.protocols import ProviderTools
from agentv.types.provider import ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget


class HttpProvider:
    """Fills the request's templates, sends it, and takes the answer from the reply."""

    kind = "http"

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:
        self._target = target
        self._shared = tools.shared
        self._settings = cast(HttpSettings, target.settings)
        self._url = parse_url(self._settings.url)
        self._body = self._settings.body_template()
        self._response = self._settings.response_path()
        self._messages = self._settings.messages_path()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Return the service's answer to one case."""
        timeout_s = request.timeout_s or self._target.try_timeout_s
        return self._parse(await send(self._build_request(request), self._shared, timeout_s=timeout_s))

    async def healthcheck(self) -> None:
        """Raise ProviderError with kind `healthcheck` when the configured probe fails; without one, do nothing."""
        await run_healthcheck(self._settings.healthcheck, self._target, self._shared)

    def _build_request(self, request: ProviderRequest) -> HttpRequest:
        def value_of(name: str) -> JsonValue:
            return _value_of(request, name)

        headers = dict(self._settings.headers)
        body = b""
        if self._body is not None:
            body = self._body.fill(value_of)
            if not any(name.lower() == "content-type" for name in headers):
                headers["Content-Type"] = self._settings.content_type
        return HttpRequest(self._url.fill(value_of), headers, body, self._settings.method)

    def _parse(self, reply: HttpReply) -> ProviderResponse:
        if self._response is None and self._messages is None:
            return replace(_parse_whole(reply), request_id=reply.request_id)
        value = parse_json(reply.body)
        messages = None if self._messages is None else _messages_in(self._messages.find(value))
        if self._response is not None:
            text = "\n".join(_answer_text(found) for found in self._response.find(value))
        else:
            text = _last_answer(messages or (), value)
        return ProviderResponse(text, output_messages=messages, request_id=reply.request_id)


def _value_of(request: ProviderRequest, name: str) -> JsonValue:
    if name == "chat_prompt":
        prompt = build_prompt(request)
        system = [ChatMessage("system", prompt.system)] if prompt.system else []
        return [{"role": turn.role, "content": turn.content} for turn in (*system, *prompt.turns)]
    root, *keys = name.split(".")
    value: JsonValue = getattr(request, root)
    for key in keys:
        if not isinstance(value, Mapping) or key not in value:
            raise ProviderError(Failure("bad_request", f"the request needs {name}, which this case does not have"))
        value = value[key]
    return value


def _parse_whole(reply: HttpReply) -> ProviderResponse:
    """Return a reply of which no path is known: by its keys when it is an object of ours, else all of it."""
    if not reply.body.strip():
        raise ProviderError(Failure("malformed_reply", "the reply is empty"))
    if "json" in reply.headers.get("content-type", ""):
        value = parse_json(reply.body)
        if not isinstance(value, Mapping):
            return ProviderResponse(_answer_text(value))
    try:
        return parse_output(reply.body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        message = f"the reply is not UTF-8 (first bad byte at offset {error.start})"
        raise ProviderError(Failure("malformed_reply", message)) from None


def _answer_text(found: JsonValue) -> str:
    if found is None:
        raise wrong_shape("null where the answer should be", found)
    return found if isinstance(found, str) else compact_json(found)


def _messages_in(found: list[JsonValue]) -> tuple[Message, ...]:
    """Return the messages that a path led to: the items of one list, or each object by itself."""
    given = found[0] if len(found) == 1 and isinstance(found[0], list) else found
    messages = messages_from_json(given) or ()
    if given and not messages:
        raise wrong_shape("no messages with a role where output_messages should be", given)
    return messages


def _last_answer(messages: tuple[Message, ...], value: JsonValue) -> str:
    text = last_answer(messages)
    if text is None:
        raise wrong_shape("no assistant message with content", value)
    return text
