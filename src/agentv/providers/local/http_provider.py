"""`http`: a web service, one request for each case."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, cast

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from agentv.providers.apis.dialogue import build_prompt
from agentv.providers.apis.http import HttpRequest, HttpResponse
from agentv.providers.apis.replies import (
    last_answer,
    parse_cost,
    parse_json,
    parse_output,
    parse_usage,
    wrong_shape,
)
from agentv.providers.apis.transport import send
from agentv.providers.local.cli_settings import CommandHealthcheck, HttpHealthcheck
from agentv.providers.local.healthchecks import run_healthcheck
from agentv.providers.local.http_template import JSON, AnswerPath, BodyTemplate, parse_body, parse_path, parse_url
from agentv.types.errors import MessageError, ProviderError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonValue
from agentv.types.message_shapes.reading import read_messages
from agentv.types.messages import ChatMessage, Message
from agentv.types.messages_json import compact_json
from agentv.types.protocols import ProviderTools
from agentv.types.provider import ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget


class HttpSettings(Struct, frozen=True):
    """The request that a web service is sent for a case, and the path to the answer in its response."""

    url: Annotated[str, Meta(description="URL of the service; {{ variables }} may follow the host.")]
    method: Annotated[
        Literal["GET", "POST", "PUT", "PATCH", "DELETE"], Meta(description="HTTP method of the request.")
    ] = "POST"
    headers: Annotated[
        Mapping[str, str], Meta(description="Headers of the request; write secrets as ${{ VARIABLE }}.")
    ] = field(default_factory=dict)
    body: Annotated[
        JsonValue,
        Meta(
            description=(
                "Body of the request: an object, or JSON as text, with {{ question }} and other {{ variables }}. With "
                "another Content-Type header: a form or plain text."
            )
        ),
    ] = None
    response: Annotated[
        str | None,
        Meta(description="JSONPath to the answer. Default: `text` or `output_messages`, else the whole response."),
    ] = None
    output_messages: Annotated[
        str | None, Meta(description="JSONPath to the messages of the conversation, with their tool calls.")
    ] = None
    usage: Annotated[
        str | None, Meta(description="JSONPath to the object with the token counts, such as `$.usage`.")
    ] = None
    cost: Annotated[str | None, Meta(description="JSONPath to the cost in dollars, such as `$.usage.cost`.")] = None
    healthcheck: Annotated[
        HttpHealthcheck | CommandHealthcheck | None,
        Meta(
            description=(
                "Check before the first case: {type: http, url, timeout_seconds} or "
                "{type: command, command_template, cwd, timeout_seconds}."
            )
        ),
    ] = None

    def __post_init__(self) -> None:
        """Reject invalid settings; the message starts with the setting's name."""
        names = parse_url(self.url).names
        body = self.body_template()
        if body is not None and self.method == "GET":
            raise ValueError("body is not allowed with GET; write {{ question }} in the url, or use POST")
        if not names and (body is None or not body.names):
            raise ValueError("body must contain {{ question }} or another variable: every case sends the same request")
        self.response_path()
        self.messages_path()
        self.usage_path()
        self.cost_path()

    @property
    def content_type(self) -> str:
        """The Content-Type of the body."""
        named = {name.lower(): value for name, value in self.headers.items()}
        return named.get("content-type", JSON)

    def body_template(self) -> BodyTemplate | None:
        """Return the parsed body."""
        return None if self.body is None else parse_body(self.body, self.content_type)

    def response_path(self) -> AnswerPath | None:
        """Return the parsed path to the answer."""
        return None if self.response is None else parse_path(self.response, called="response")

    def messages_path(self) -> AnswerPath | None:
        """Return the parsed path to the messages."""
        return None if self.output_messages is None else parse_path(self.output_messages, called="output_messages")

    def usage_path(self) -> AnswerPath | None:
        """Return the parsed path to the token counts."""
        return None if self.usage is None else parse_path(self.usage, called="usage")

    def cost_path(self) -> AnswerPath | None:
        """Return the parsed path to the cost."""
        return None if self.cost is None else parse_path(self.cost, called="cost")


class HttpProvider:
    """Fills the request's templates, sends it, and extracts the answer from the response."""

    kind = "http"

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:
        self._target = target
        self._shared = tools.shared
        self._settings = cast(HttpSettings, target.settings)
        self._url = parse_url(self._settings.url)
        self._body = self._settings.body_template()
        self._response = self._settings.response_path()
        self._messages = self._settings.messages_path()
        self._usage = self._settings.usage_path()
        self._cost = self._settings.cost_path()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Return the service's answer to one case."""
        timeout_s = request.timeout_s or self._target.try_timeout_s
        response = await send(self._build_request(request), self._shared, timeout_s=timeout_s)
        return self._with_spent(self._parse(response), response)

    async def healthcheck(self) -> None:
        """Raise ProviderError with kind `healthcheck` if the configured healthcheck fails."""
        await self.healthcheck_in((self._target.base_dir,))

    async def healthcheck_in(self, eval_dirs: Sequence[str]) -> None:
        """Run the configured healthcheck for eval files in these folders. Raises as `healthcheck` does."""
        await run_healthcheck(self._settings.healthcheck, self._target, self._shared, eval_dirs=eval_dirs)

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

    def _with_spent(self, answer: ProviderResponse, response: HttpResponse) -> ProviderResponse:
        """Return an answer with the tokens and dollars at the configured paths; what is missing becomes a note."""
        if self._usage is None and self._cost is None:
            return answer
        value = parse_json(response.body)
        usage = None if self._usage is None else parse_usage(_at(self._usage, value))
        cost = None if self._cost is None else parse_cost({"cost": _at(self._cost, value)})
        missing = [path for path, found in ((self._usage, usage), (self._cost, cost)) if path and found is None]
        notes = tuple(f"{path.called}: its responses have no {_MEANT[path.called]} at {path.text}" for path in missing)
        return replace(
            answer,
            usage=usage or answer.usage,
            cost_usd=answer.cost_usd if cost is None else cost,
            notes=(*answer.notes, *notes),
        )

    def _parse(self, response: HttpResponse) -> ProviderResponse:
        if self._response is None and self._messages is None:
            return replace(_parse_whole(response), request_id=response.request_id)
        value = parse_json(response.body)
        messages = None if self._messages is None else _messages_in(self._messages.find(value))
        if self._response is not None:
            text = "\n".join(_answer_text(found) for found in self._response.find(value))
        else:
            text = _last_answer(messages or (), value)
        return ProviderResponse(text, output_messages=messages, request_id=response.request_id)


_MEANT = {"usage": "token counts", "cost": "amount in dollars"}


def _at(path: AnswerPath, value: JsonValue) -> JsonValue:
    """Return the first value at a path; None if there is none."""
    try:
        return path.find(value)[0]
    except ProviderError:
        return None


def _value_of(request: ProviderRequest, name: str) -> JsonValue:
    if name == "chat_prompt":
        prompt = build_prompt(request)
        system = [ChatMessage("system", prompt.system)] if prompt.system else []
        return [{"role": turn.role, "content": turn.content} for turn in (*system, *prompt.turns)]
    root, *keys = name.split(".")
    value: JsonValue = getattr(request, root)
    for key in keys:
        if not isinstance(value, Mapping) or key not in value:
            raise ProviderError(Failure("bad_request", f"the request needs {name}, which is missing from this case"))
        value = value[key]
    return value


def _parse_whole(response: HttpResponse) -> ProviderResponse:
    """Return the answer without a path: by its keys in an object with known keys, else the whole response."""
    if not response.body.strip():
        raise ProviderError(Failure("malformed_reply", "the response is empty"))
    if "json" in response.headers.get("content-type", ""):
        value = parse_json(response.body)
        if not isinstance(value, Mapping):
            return ProviderResponse(_answer_text(value))
    try:
        return parse_output(response.body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        message = f"the response is not UTF-8 (first invalid byte at offset {error.start})"
        raise ProviderError(Failure("malformed_reply", message)) from None


def _answer_text(found: JsonValue) -> str:
    if found is None:
        raise wrong_shape("null where the answer should be", found)
    return found if isinstance(found, str) else compact_json(found)


def _messages_in(found: list[JsonValue]) -> tuple[Message, ...]:
    """Return the messages at a path: the items of one list, or each object found."""
    given = found[0] if len(found) == 1 and isinstance(found[0], list) else found
    try:
        return read_messages(given, "output_messages")
    except MessageError as error:
        raise ProviderError(Failure("unexpected_shape", f"the response cannot be read: {error}")) from None


def _last_answer(messages: tuple[Message, ...], value: JsonValue) -> str:
    text = last_answer(messages)
    if text is None:
        raise wrong_shape("no assistant message with content", value)
    return text
