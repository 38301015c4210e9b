"""`http`: a web service, one request for each case."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, cast

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from agentv.execution.cancelled_calls import attach_call
from agentv.messages.shapes.reading import read_messages
from agentv.messages.shapes.usages import read_usage
from agentv.providers.agents.commands import run_healthcheck
from agentv.providers.apis.http import EVENT_STREAM, HttpRequest, HttpResponse, is_event_stream
from agentv.providers.apis.model_provider import to_message, to_response
from agentv.providers.apis.openai_chat import ChatCollector, parse_chat
from agentv.providers.apis.responses import (
    parse_cost,
    parse_json,
    parse_known,
    parse_named,
    parse_output,
    wrong_shape,
)
from agentv.providers.apis.streamed_response import StreamedResponse
from agentv.providers.apis.transport import send
from agentv.providers.healthchecks import Healthcheck
from agentv.providers.local.http_template import (
    JSON,
    AnswerPath,
    BodyTemplate,
    parse_body,
    parse_path,
    parse_url,
    value_of,
)
from agentv.providers.local.otel_settings import (
    DEFAULT_LISTEN,
    DEFAULT_WAIT_S,
    OtelForward,
    OtelWait,
    check_forward,
    check_receiver,
    check_wait,
    parse_listen,
)
from agentv.types.errors import MessageError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message
from agentv.types.messages_json import compact_json
from agentv.types.protocols import ProviderTools
from agentv.types.provider import ProviderError, ProviderRequest, ProviderResponse, last_answer
from agentv.types.targets import ResolvedTarget

if TYPE_CHECKING:
    from agentv.providers.local.call_spans import CallSpans
    from agentv.providers.local.span_receiver import SpanReceiver


class ServiceEvents:
    """Collects the events of a web service's stream, as the `collector` of a StreamedResponse.

    `event_text` is the path to the next piece of the answer in each event. Without it, the first event with `choices`
    and all later ones are read as chunks of OpenAI's chat API; `chat` collects them. For each of `answer_paths` and
    `usage_paths`, the last event with a value counts.
    """

    is_over = False

    def __init__(
        self, event_text: AnswerPath | None, *, answer_paths: Sequence[AnswerPath], usage_paths: Sequence[AnswerPath]
    ) -> None:
        self.chat: ChatCollector | None = None
        self._event_text = event_text
        self._answer_paths = answer_paths
        self._usage_paths = usage_paths
        self._texts: list[str] | None = None
        self._first_event: JsonObject = {}
        self._last_events: dict[str, JsonObject] = {}

    @property
    def is_complete(self) -> bool:
        """True if the stream may end here. Only the chat API has an event that marks the end."""
        return self.chat is None or self.chat.is_complete

    @property
    def text(self) -> str | None:
        """The text so far at the path `event_text`; None if no event had this path."""
        return None if self._texts is None else "".join(self._texts)

    def add(self, event: JsonObject) -> int:
        """Add an event and return how many characters of the answer it has."""
        self._first_event = self._first_event or event
        if self._event_text is None and isinstance(event.get("choices"), list):
            self.chat = self.chat or ChatCollector()
        if self.chat is not None:
            return self.chat.add(event) or 0
        for path in self._usage_paths:
            self._search_and_remember(path, event)
        answers = [value for path in self._answer_paths for value in self._search_and_remember(path, event)]
        if self._event_text is None:
            return sum(map(len, map(_text, answers)))
        return self._add_texts(self._event_text.search(event))

    def _search_and_remember(self, path: AnswerPath, event: JsonObject) -> list[JsonValue]:
        """Return the values at a path; if there are any, `source` returns this event for the path from now on."""
        found = path.search(event)
        if found:
            self._last_events[path.setting] = event
        return found

    def _add_texts(self, found: list[JsonValue]) -> int:
        if not found:
            return 0
        texts = [_text(value) for value in found if value is not None]
        self._texts = self._texts or []
        self._texts += texts
        return sum(map(len, texts))

    def value(self) -> JsonObject:
        """Return the chat completion if there is one, else the first event."""
        return self._first_event if self.chat is None else self.chat.value()

    def source(self, path: AnswerPath) -> JsonValue:
        """Return the JSON in which to search a path: the chat completion if there is one, else an event.

        It is the last event with a value at the path, else the first event, so that error messages can quote it.
        """
        return self._last_events.get(path.setting, self._first_event) if self.chat is None else self.chat.value()

    def check(self) -> None:
        """Raise ProviderError if the stream cannot have an answer; chunks of the chat API always pass.

        Other events need a value at `event_text` or, without this setting, a path to the answer in the settings.
        """
        if self.chat is not None or self._texts is not None:
            return
        if self._event_text is not None:
            self._event_text.find(self._first_event)  # raises, since no event has this path
        elif not self._answer_paths:
            needed = "event_text, the JSONPath to the text in an event, such as $.delta"
            raise wrong_shape(f"events of an unknown form (set {needed})", self._first_event)


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else compact_json(value)


class HttpSettings(Struct, frozen=True):
    """The request that is sent to a web service for a case, and the paths to the answer in its response."""

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
        Meta(description="JSONPath to the answer. Default: a key such as `text` or `answer`, else the whole text."),
    ] = None
    output_messages: Annotated[
        str | None, Meta(description="JSONPath to the messages of the conversation, with their tool calls.")
    ] = None
    usage: Annotated[
        str | None, Meta(description="JSONPath to the object with the token counts, such as `$.usage`.")
    ] = None
    cost: Annotated[str | None, Meta(description="JSONPath to the cost in dollars, such as `$.usage.cost`.")] = None
    stream: Annotated[
        bool, Meta(description="Ask for server-sent events with the header `Accept: text/event-stream`.")
    ] = False
    event_text: Annotated[
        str | None,
        Meta(
            description=(
                "JSONPath to the text in each event of an event stream, such as `$.delta`; the texts are joined. "
                "Default: the chunks of OpenAI's chat API."
            )
        ),
    ] = None
    healthcheck: Healthcheck = None
    otel: Annotated[
        bool,
        Meta(
            description=(
                "Send the header `traceparent`, receive the spans that the service exports by OpenTelemetry at "
                "`otel_listen`, and read its tool calls, tokens and cost from them."
            )
        ),
    ] = False
    otel_listen: Annotated[str, Meta(description="With `otel`: the address at which spans are received.")] = (
        DEFAULT_LISTEN
    )
    otel_token: Annotated[
        str | None,
        Meta(
            description=(
                "With `otel`: exporters must send `Authorization: Bearer TOKEN`; required unless the address is that "
                "of this machine alone. Write it as ${{ VARIABLE }}."
            )
        ),
    ] = None
    otel_wait_s: OtelWait = DEFAULT_WAIT_S
    otel_forward: OtelForward = False

    def __post_init__(self) -> None:
        """Reject invalid settings; the message starts with the setting's name."""
        check_wait(self.otel_wait_s)
        check_forward(self.otel_forward, otel=self.otel)
        check_receiver(self.otel_listen, token=self.otel_token, headers=self.headers, otel=self.otel)
        names = parse_url(self.url).names
        body = self.body_template()
        if body is not None and self.method == "GET":
            raise ValueError("body is not allowed with GET; write {{ question }} in the url, or use POST")
        if not names and (body is None or not body.names):
            raise ValueError(
                "body or url must contain {{ question }} or another variable; "
                "otherwise every case sends the same request"
            )
        # Each of these raises ValueError for an invalid path.
        self.response_path()
        self.messages_path()
        self.usage_path()
        self.cost_path()
        self.event_text_path()

    @property
    def takes_system_prompt(self) -> bool:
        """True if the request has a field of its own for the system prompt."""
        return "system_prompt" in self._names()

    @property
    def system_prompt_advice(self) -> str | None:
        """How a target with a `system_prompt` can use it; None if it does."""
        is_used = not self._names().isdisjoint(("system_prompt", "chat_prompt"))
        return None if is_used else "add {{ system_prompt }} or {{ chat_prompt }} to `body`"

    @property
    def why_not_on_nodes(self) -> str | None:
        """Why the nodes of a cluster cannot call the service; None if they can."""
        if not self.otel:
            return None
        return f"with `otel` the service sends its spans to {self.otel_listen}, which is one machine; remove `otel`"

    def _names(self) -> frozenset[str]:
        """Return the variables of the request."""
        body = self.body_template()
        return parse_url(self.url).names | (frozenset() if body is None else body.names)

    @property
    def content_type(self) -> str:
        """The Content-Type of the body: the header of this name, by default JSON."""
        named = {name.lower(): value for name, value in self.headers.items()}
        return named.get("content-type", JSON)

    def body_template(self) -> BodyTemplate | None:
        """Return the parsed body."""
        return None if self.body is None else parse_body(self.body, self.content_type)

    def response_path(self) -> AnswerPath | None:
        """Return the parsed path to the answer."""
        return None if self.response is None else parse_path(self.response, setting="response")

    def messages_path(self) -> AnswerPath | None:
        """Return the parsed path to the messages."""
        return None if self.output_messages is None else parse_path(self.output_messages, setting="output_messages")

    def usage_path(self) -> AnswerPath | None:
        """Return the parsed path to the token counts."""
        return None if self.usage is None else parse_path(self.usage, setting="usage")

    def cost_path(self) -> AnswerPath | None:
        """Return the parsed path to the cost."""
        return None if self.cost is None else parse_path(self.cost, setting="cost")

    def event_text_path(self) -> AnswerPath | None:
        """Return the parsed path to the text in an event."""
        return None if self.event_text is None else parse_path(self.event_text, setting="event_text")


Source: TypeAlias = Callable[[AnswerPath], JsonValue]
"""Returns the JSON in which to search a path."""


class HttpProvider:
    """Fills the templates of the request, sends the request, and extracts the answer from the response."""

    kind = "http"

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:
        self._target = target
        self._tools, self._shared = tools, tools.shared
        self._settings = cast(HttpSettings, target.settings)
        self._url = parse_url(self._settings.url)
        self._body = self._settings.body_template()
        self._response_path = self._settings.response_path()
        self._messages_path = self._settings.messages_path()
        self._usage_path = self._settings.usage_path()
        self._cost_path = self._settings.cost_path()
        self._event_text = self._settings.event_text_path()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Return the service's answer to one case.

        If a stream fails or is cancelled, the ProviderError or CancelledError holds the part of the answer so far.
        """
        return await (self._answer_with_spans(request) if self._settings.otel else self._answer(request, None))

    async def _answer_with_spans(self, request: ProviderRequest) -> ProviderResponse:
        """Return the service's answer to one case, completed by the spans that it sends."""
        # The reader of traces is imported only if it is needed.
        from agentv.providers.local.call_spans import call_with_spans  # noqa: PLC0415
        from agentv.providers.local.span_receiver import why_no_spans  # noqa: PLC0415

        receiver = await self._receiver()

        async def call(spans: "CallSpans") -> ProviderResponse:
            return await self._answer(request, spans.traceparent)

        return await call_with_spans(
            receiver.inbox,
            call,
            wait_s=self._settings.otel_wait_s,
            timeout_s=request.timeout_s or self._target.try_timeout_s,
            why_none=partial(why_no_spans, receiver),
        )

    async def _receiver(self) -> "SpanReceiver":
        from agentv.providers.local.span_receiver import shared_receiver  # noqa: PLC0415

        host, port = parse_listen(self._settings.otel_listen)
        settings = self._settings
        return await shared_receiver(
            self._tools, host=host, port=port, token=settings.otel_token, forward=settings.otel_forward
        )

    async def _answer(self, request: ProviderRequest, traceparent: str | None) -> ProviderResponse:
        """Return the service's answer to one case, sent with a `traceparent` if there is one."""
        now = asyncio.get_running_loop().time
        started_at = now()
        timeout_s = request.timeout_s or self._target.try_timeout_s
        events = ServiceEvents(
            self._event_text,
            answer_paths=[path for path in (self._response_path, self._messages_path) if path is not None],
            usage_paths=[path for path in (self._usage_path, self._cost_path) if path is not None],
        )
        stream = StreamedResponse(events, now=now)
        try:
            response = await send(
                self._build_request(request, traceparent),
                self._shared,
                timeout_s=timeout_s,
                make_listener=lambda: stream.feed,
            )
            if not is_event_stream(response.headers):
                return self._parse(response)
            stream.finish()
            events.check()
            answer = self._parse_events(events)
        except ProviderError as error:
            if stream.so_far() is None:
                raise
            partial = self._partial(events, first_token_ms=stream.first_token_ms(started_at))
            raise ProviderError(error.failure, partial=partial) from error
        except asyncio.CancelledError as error:
            if stream.so_far() is None:
                raise
            partial = self._partial(events, first_token_ms=stream.first_token_ms(started_at))
            if partial is not None:
                attach_call(error, partial)
            raise
        return replace(answer, request_id=response.request_id, first_token_ms=stream.first_token_ms(started_at))

    async def healthcheck(self) -> None:
        """Raise ProviderError with kind `healthcheck` if the configured healthcheck fails."""
        await self.healthcheck_in((self._target.base_dir,))

    async def healthcheck_in(self, eval_dirs: Sequence[str]) -> None:
        """Run the configured healthcheck. Raises as `healthcheck` does, also if spans cannot be received.

        A relative working folder starts from each of `eval_dirs`; a command runs once in each resulting folder.
        """
        if self._settings.otel:
            await self._receiver()
        await run_healthcheck(self._settings.healthcheck, self._target, self._shared, eval_dirs=eval_dirs)

    def _build_request(self, request: ProviderRequest, traceparent: str | None) -> HttpRequest:
        def find(name: str) -> JsonValue:
            return value_of(request, name)

        headers = dict(self._settings.headers)
        if self._settings.stream and not any(name.lower() == "accept" for name in headers):
            headers["Accept"] = EVENT_STREAM
        if traceparent is not None:
            headers["traceparent"] = traceparent
        body = b""
        if self._body is not None:
            body = self._body.fill(find)
            if not any(name.lower() == "content-type" for name in headers):
                headers["Content-Type"] = self._settings.content_type
        return HttpRequest(self._url.fill(find), headers, body, self._settings.method)

    def _parse(self, response: HttpResponse) -> ProviderResponse:
        """Return the answer in a response that is not a stream. Raises ProviderError if there is none."""
        paths = (self._response_path, self._messages_path, self._usage_path, self._cost_path)
        value = parse_json(response.body) if any(paths) else None

        def source(_path: AnswerPath) -> JsonValue:
            return value

        if self._response_path is None and self._messages_path is None:
            answer = _parse_whole(response)
        else:
            answer = self._at_paths(source)
        return replace(self._with_usage_and_cost(answer, source), request_id=response.request_id)

    def _parse_events(self, events: ServiceEvents) -> ProviderResponse:
        """Return the answer in the events of a stream. Raises ProviderError if there is none."""
        if events.text is not None:
            path = self._messages_path
            found = [] if path is None else path.search(events.source(path))
            answer = ProviderResponse(events.text, output_messages=_messages_in(found) if found else None)
        elif self._response_path is None and self._messages_path is None:
            turn = parse_chat(events.value())
            answer = to_response(turn, [to_message(turn)], turn.usage)
        else:
            answer = self._at_paths(events.source)
        return self._with_usage_and_cost(answer, events.source)

    def _partial(self, events: ServiceEvents, *, first_token_ms: float | None) -> ProviderResponse | None:
        """Return the part of the answer in an incomplete stream; None if there is none or it cannot be read."""
        try:
            events.check()
            return replace(self._parse_events(events), first_token_ms=first_token_ms)
        except ProviderError:
            return None

    def _at_paths(self, source: Source) -> ProviderResponse:
        """Return the answer at the configured paths. Raises ProviderError if one of them has no value."""
        messages: tuple[Message, ...] | None = None
        searched: JsonValue = None
        if self._messages_path is not None:
            searched = source(self._messages_path)
            messages = _messages_in(self._messages_path.find(searched))
        if self._response_path is not None:
            text = "\n".join(_answer_text(found) for found in self._response_path.find(source(self._response_path)))
            return ProviderResponse(text, output_messages=messages)
        return ProviderResponse(_required_answer(messages or (), searched), output_messages=messages)

    def _with_usage_and_cost(self, answer: ProviderResponse, source: Source) -> ProviderResponse:
        """Return an answer with the tokens and dollars at the configured paths; a missing value adds a note."""
        usage = None if self._usage_path is None else read_usage(_first_at(self._usage_path, source))
        cost = None if self._cost_path is None else parse_cost({"cost": _first_at(self._cost_path, source)})
        missing = [
            path for path, found in ((self._usage_path, usage), (self._cost_path, cost)) if path and found is None
        ]
        notes = tuple(
            f"{path.setting}: the response has no {_EXPECTED[path.setting]} at {path.text}" for path in missing
        )
        return replace(
            answer,
            usage=usage or answer.usage,
            cost_usd=answer.cost_usd if cost is None else cost,
            notes=(*answer.notes, *notes),
        )


_EXPECTED = {"usage": "token counts", "cost": "amount in dollars"}


def _first_at(path: AnswerPath, source: Source) -> JsonValue:
    """Return the first value at a path; None if there is none, or the JSON is nested too deeply."""
    try:
        return next(iter(path.search(source(path))), None)
    except ProviderError:
        return None


def _parse_whole(response: HttpResponse) -> ProviderResponse:
    """Return the answer if no path to it is configured: by the known keys of a JSON object, else the whole response.

    Raises ProviderError if the response is empty or null, or cannot be read.
    """
    if not response.body.strip():
        raise ProviderError(Failure("malformed_reply", "the response is empty"))
    if "json" in response.headers.get("content-type", ""):
        value = parse_json(response.body)
        if not isinstance(value, Mapping):
            return ProviderResponse(_answer_text(value))
        return parse_known(value) or parse_named(value, "the response", _PATH_ADVICE)
    try:
        return parse_output(response.body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        message = f"the response is not UTF-8 (first invalid byte at offset {error.start})"
        raise ProviderError(Failure("malformed_reply", message)) from None


_PATH_ADVICE = "name the answer with `response: $.KEY` in the target, or take the whole response with `response: $`"


def _answer_text(found: JsonValue) -> str:
    """Return a value as the text of an answer. Raises ProviderError for null."""
    if found is None:
        raise wrong_shape("null where the answer should be", found)
    return found if isinstance(found, str) else compact_json(found)


def _messages_in(found: list[JsonValue]) -> tuple[Message, ...]:
    """Return the messages at a path: the items if the only value found is a list, else the values found.

    Raises ProviderError for messages that cannot be read.
    """
    given = found[0] if len(found) == 1 and isinstance(found[0], list) else found
    try:
        return read_messages(given, "output_messages")
    except MessageError as error:
        raise ProviderError(Failure("unexpected_shape", f"the response cannot be read: {error}")) from None


def _required_answer(messages: tuple[Message, ...], searched: JsonValue) -> str:
    """Return the last assistant message with content. Without one, raise ProviderError that quotes `searched`."""
    text = last_answer(messages)
    if text is None:
        raise wrong_shape("no assistant message with content", searched)
    return text
