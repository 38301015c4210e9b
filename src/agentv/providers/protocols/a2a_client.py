"""One agent, called through the A2A SDK: its card, its messages and tasks, and their failures."""

import asyncio
import json
import logging
import mimetypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import httpx
import msgspec
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import parse_agent_card
from a2a.client.errors import A2AClientError, A2AClientTimeoutError
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
)
from a2a.utils import errors
from a2a.utils.constants import TransportProtocol
from google.protobuf.json_format import MessageToDict, ParseError
from google.protobuf.message import Message as Protobuf
from pydantic import ValidationError

from agentv.providers.apis.response_body import MAX_STREAM_BYTES
from agentv.providers.protocols.a2a_addresses import check_reachable, host_of, is_same_host, is_same_origin
from agentv.providers.protocols.a2a_responses import A2aResponse
from agentv.providers.protocols.a2a_settings import A2aSettings
from agentv.providers.protocols.bounded_http import ACCEPT_ENCODING, BoundedBody, check_reply, json_rpc_id
from agentv.types.failures import Failure, FailureKind
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.provider import ProviderError
from agentv.version import __version__

# The SDK logs errors that become failures; without a handler, logging prints them to standard error.
for _name in ("a2a", "httpx"):
    logging.getLogger(_name).addHandler(logging.NullHandler())

_CARD_PATHS = (".well-known/agent-card.json", ".well-known/agent.json")
_BINDINGS = [TransportProtocol.JSONRPC.value, TransportProtocol.HTTP_JSON.value]
_CONNECT_S = 30.0
_CANCEL_S = 5.0
_REST_S = 1.0
"""Seconds to wait for the end of a stream after the last event of a response, which might contradict it."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
"""Seconds between requests for the state of a task; each pause is twice as long as the one before, up to a limit."""

_NOT_FOUND = (404, 405, 410)
"""The statuses of a URL that has no agent card."""

_KINDS_BY_STATUS: Mapping[int, FailureKind] = {401: "auth", 403: "auth", 429: "rate_limited"}
_SERVER_ERRORS = 500
_EXCERPT = 500


class A2aAgent:
    """An agent. Its card, which says where and how to send messages, is read before the first message."""

    def __init__(self, settings: A2aSettings) -> None:
        self._settings = settings
        self._http = httpx.AsyncClient(
            headers={"User-Agent": f"agentv/{__version__}", **ACCEPT_ENCODING, **settings.headers},
            timeout=httpx.Timeout(None, connect=_CONNECT_S),
            limits=httpx.Limits(max_connections=None),
            event_hooks={"response": [_limit_body]},
        )
        self._opening = asyncio.Lock()
        self._client: Client | None = None

    async def connect(self) -> Client:
        """Return the SDK's client for the agent. The first call reads the card.

        Raises ProviderError if there is no usable card; exceptions of the SDK are passed on (see `failure_of`).
        """
        async with self._opening:
            if self._client is None:
                await check_reachable(self._settings.url, self._settings.allow_hosts)
                card = await self._card()
                await self._apply_settings(card)
                config = ClientConfig(
                    streaming=self._settings.streaming != "off",
                    polling=True,
                    httpx_client=self._http,
                    supported_protocol_bindings=_BINDINGS,
                )
                self._client = ClientFactory(config).create(card)
        return self._client

    async def send(self, message: Message, response: A2aResponse) -> None:
        """Send a message, and collect the events of the response until the agent has finished.

        Raises ProviderError as `connect` does, and for an empty response; exceptions of the SDK and of httpx are passed
        on (see `failure_of`).
        """
        client = await self.connect()
        try:
            await _receive(client, message, response)
        except (A2AClientError, httpx.HTTPError):
            # A complete response stays valid. A task continues without its stream, and its state is polled below.
            if response.is_empty:
                raise
        if response.is_empty:
            raise ProviderError(Failure("unexpected_shape", "the agent replied with neither a message nor a task"))
        pause_s, size = _FIRST_PAUSE_S, 0
        while not response.is_over:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            task = await client.get_task(GetTaskRequest(id=response.task_id))
            size += task.ByteSize()
            if size > MAX_STREAM_BYTES:
                limit = f"{MAX_STREAM_BYTES / 2**20:g} MiB"
                raise ProviderError(Failure("too_large", f"the states of the task are larger than {limit} together"))
            response.add({"task": _json(task)})

    async def cancel(self, response: A2aResponse) -> str:
        """Cancel the task of a response if it is in progress; return the result as the end of a message, else ""."""
        if self._client is None or not response.task_id or response.is_over:
            return ""
        try:
            async with asyncio.timeout(_CANCEL_S):
                await self._client.cancel_task(CancelTaskRequest(id=response.task_id))
        except Exception as error:  # noqa: BLE001 - the call has failed already, for a reason that is reported
            return f"; its task could not be cancelled ({_error_text(error)})"
        return "; its task was cancelled"

    async def aclose(self) -> None:
        """Close the connections."""
        with suppress(A2AClientError):
            if self._client is not None:
                await self._client.close()
        await self._http.aclose()

    async def _card(self) -> AgentCard:
        """Return the card from the first of the possible URLs that has one. Raises ProviderError without one."""
        places = list(_card_places(self._settings.url))
        for place in places:
            try:
                response = await self._http.get(place, headers={"Accept": "application/json"})
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise ProviderError(failure_of(error)) from None
            if response.status_code in _NOT_FOUND:
                continue
            if not response.is_success:
                raise ProviderError(_status_failure(response, f"the request for the agent's card at {place}"))
            try:
                return parse_agent_card(response.json())
            except (json.JSONDecodeError, UnicodeDecodeError, ParseError) as error:
                message = f"the agent's card at {place} cannot be read: {error}"
                raise ProviderError(Failure("malformed_reply", message)) from None
        message = f"no agent card found at {', '.join(places)}; set `url` to the URL of the card"
        raise ProviderError(Failure("target_missing", message))

    async def _apply_settings(self, card: AgentCard) -> None:
        """Write the setting `endpoint` into a card. Raises ProviderError if the card does not fit the settings."""
        settings = self._settings
        interfaces = card.supported_interfaces
        usable = [interface for interface in interfaces if interface.protocol_binding in _BINDINGS]
        if not usable:
            offered = ", ".join(interface.protocol_binding for interface in interfaces) or "no interface"
            message = f"the agent's card offers {offered}; agentv needs one of {', '.join(_BINDINGS)}"
            raise ProviderError(Failure("config_error", message))
        if settings.streaming == "on" and not card.capabilities.streaming:
            message = "the agent's card offers no streaming; remove `streaming: on`"
            raise ProviderError(Failure("config_error", message))
        if settings.endpoint is not None:
            for interface in usable:
                interface.url = settings.endpoint
        for interface in usable:
            if settings.endpoint is None:
                self._check_address(interface.url)
            await check_reachable(interface.url, settings.allow_hosts)

    def _check_address(self, url: str) -> None:
        """Raise ProviderError for an address in the card that may not get the messages, or not the headers."""
        settings = self._settings
        if settings.headers and not is_same_origin(url, settings.url):
            message = (
                f"the agent's card names {url}, a server other than that of `url`, as the address for messages; "
                f"it would receive `headers`; to allow this, set `endpoint: {url}`"
            )
            raise ProviderError(Failure("config_error", message))
        host = host_of(url)
        if not is_same_host(url, settings.url) and host not in map(str.lower, settings.allow_hosts):
            message = (
                f"the agent's card names {url}, on a host other than that of `url`, as the address for messages; "
                f"to allow this, set `allow_hosts: [{host}]`"
            )
            raise ProviderError(Failure("config_error", message))


async def _receive(client: Client, message: Message, response: A2aResponse) -> None:
    """Send a message and add the events of its response, until the response or its stream ends.

    After the last event of a response, the end of its stream is awaited for a second.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as rest:
            async for event in client.send_message(SendMessageRequest(message=message)):
                response.add(_json(event))
                if response.is_over and rest.when() is None:
                    rest.reschedule(loop.time() + _REST_S)
    except TimeoutError:
        if not response.is_over:
            raise


async def _limit_body(response: httpx.Response) -> None:
    try:
        response.stream = _Body(response)
    except ProviderError:
        await response.aclose()
        raise


class _Body(BoundedBody, httpx.AsyncByteStream):
    """A limited body, which must belong to its request if this is one of JSON-RPC. It ends after a final event."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(response.stream, response.headers)
        self._request_id = json_rpc_id(response.request.content) if response.is_success else None

    def check_message(self, message: bytes) -> None:
        """Raise ProviderError for the response to another request."""
        super().check_message(message)
        try:
            value = msgspec.json.decode(message)
        except (msgspec.DecodeError, RecursionError):
            return  # the SDK reports it
        if not isinstance(value, dict):
            return
        check_reply(value, self._request_id, "the agent")
        result = value.get("result", value)
        update = result.get("statusUpdate", result) if isinstance(result, dict) else None
        self.is_over |= isinstance(update, dict) and update.get("final") is True


def _card_places(url: str) -> Iterator[str]:
    """Yield the URLs at which an agent's card may be.

    That is `url` itself if its path ends in .json, else the usual places below `url`, then those below its host.
    """
    parts = urlsplit(url)
    if parts.path.endswith(".json"):
        yield url
        return
    folders = dict.fromkeys((parts.path.rstrip("/"), ""))
    for folder in folders:
        for path in _CARD_PATHS:
            yield urlunsplit((parts.scheme, parts.netloc, f"{folder}/{path}", "", ""))


def make_message(
    texts: Sequence[str], files: Sequence[str] = (), *, context_id: str = "", task_id: str = ""
) -> Message:
    """Return a message of the user, with files attached. Raises ProviderError for a file that cannot be read."""
    parts = [Part(text=text) for text in texts]
    for path in map(Path, files):
        try:
            content = path.read_bytes()
        except OSError as error:
            message = f"the attached file {path} cannot be read: {error.strerror}"
            raise ProviderError(Failure("bad_request", message)) from None
        media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        parts.append(Part(raw=content, filename=path.name, media_type=media_type))
    return Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=parts, context_id=context_id, task_id=task_id)


def _json(message: Protobuf) -> JsonObject:
    return cast(JsonObject, _normalized(MessageToDict(message)))


def _normalized(value: JsonValue) -> JsonValue:
    """Return JSON with `7` for `7.0` and sorted keys.

    JSON values in protobuf (`Struct`) have only floats, and no fixed order of keys.
    """
    if isinstance(value, dict):
        return {key: _normalized(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_normalized(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


_KINDS_BY_EXCEPTION: tuple[tuple[type[Exception], FailureKind], ...] = (
    (errors.InvalidAgentResponseError, "unexpected_shape"),
    (errors.InternalError, "server_error"),
    (errors.A2AError, "bad_request"),
    (ValidationError, "unexpected_shape"),
    (ParseError, "unexpected_shape"),
    (ValueError, "unexpected_shape"),
)
"""The kinds of failures; of the types that fit an exception, the first counts."""


_MESSAGE_STARTS: Mapping[str, str] = {
    "bad_request": "the agent refused the message",
    "server_error": "the agent failed",
}


def failure_of(error: Exception) -> Failure:
    """Return the failure for any exception of a call: of the SDK, of httpx, or a ProviderError of ours."""
    if isinstance(error, ProviderError):
        return error.failure
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, httpx.HTTPError | httpx.InvalidURL):
        cause = cause.__cause__
    if isinstance(cause, httpx.HTTPStatusError):
        return _status_failure(cause.response, "the message")
    if isinstance(cause, httpx.RequestError):
        host = cause.request.url.netloc.decode(errors="replace").rpartition("@")[2]
        is_unconnected = isinstance(cause, httpx.ConnectError)
        what = f"no connection to {host}" if is_unconnected else f"the connection to {host} was lost"
        return Failure("transport", f"{what} ({_error_text(cause)})", retryable=is_unconnected)
    if isinstance(cause, httpx.InvalidURL):
        return Failure("config_error", f"the URL cannot be used: {cause}")
    if isinstance(error, A2AClientTimeoutError):
        return Failure("transport", f"the connection was lost ({_error_text(error)})")
    if isinstance(error.__cause__, json.JSONDecodeError) or "Invalid JSON-RPC" in str(error):
        return Failure("malformed_reply", f"the agent's response cannot be read: {_error_text(error)}")
    if isinstance(error, A2AClientError):
        return Failure("server_error", f"the agent replied with an error: {_error_text(error)}")
    kinds = (kind for exception, kind in _KINDS_BY_EXCEPTION if isinstance(error, exception))
    kind: FailureKind = next(kinds, "malformed_reply")
    what = _MESSAGE_STARTS.get(kind, "the agent's response cannot be used")
    return Failure(kind, f"{what}: {_error_text(error)}")


def _status_failure(response: httpx.Response, subject: str) -> Failure:
    """Return the failure that a status means; `subject` names the request at the beginning of the message."""
    status = response.status_code
    kind: FailureKind = _KINDS_BY_STATUS.get(status, "server_error" if status >= _SERVER_ERRORS else "bad_request")
    message = f"{subject} was answered with HTTP status {status}"
    if response.has_redirect_location:
        message += f", a redirect to {response.headers['location']}; set this URL as `url` or `endpoint`"
    with suppress(httpx.ResponseNotRead, httpx.StreamClosed):
        if excerpt := response.text.strip()[:_EXCERPT]:
            message += f": {excerpt}"
    return Failure(kind, message, http_status=status)


def _error_text(error: BaseException) -> str:
    return str(error).strip() or type(error).__name__
