"""Responses read by the HTTP clients of the MCP and A2A SDKs, with the limits of `http` targets. Imports neither."""

from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import msgspec

from agentv.providers.apis.http import is_event_stream
from agentv.providers.apis.response_body import MAX_BODY_BYTES, MAX_STREAM_BYTES, ResponseBody
from agentv.providers.apis.streamed_response import EventReader
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.provider import ProviderError

ACCEPT_ENCODING = {"Accept-Encoding": "gzip, deflate"}
"""The encodings that a BoundedBody decompresses."""


MAX_VALUES = 100_000
"""The maximum number of values in a JSON message; each of them takes many times the memory of its text."""


def check_values(message: bytes) -> None:
    """Raise ProviderError for JSON with more than `MAX_VALUES` values; what is not JSON passes."""
    if sum(map(message.count, (b",", b"[", b"{"))) < MAX_VALUES:  # an upper limit, which needs no memory
        return
    try:
        waiting: list[JsonValue] = [msgspec.json.decode(message)]
    except (msgspec.DecodeError, RecursionError):
        return
    count = 0
    while waiting:
        value = waiting.pop()
        count += 1
        if isinstance(value, list | dict):
            waiting += value.values() if isinstance(value, dict) else value
    if count > MAX_VALUES:
        raise ProviderError(Failure("too_large", f"a message of the server has more than {MAX_VALUES:,} values"))


def json_rpc_id(request: bytes) -> JsonValue:
    """Return the id of a JSON-RPC request, None for any other request."""
    try:
        asked = msgspec.json.decode(request)
    except msgspec.DecodeError:
        return None
    return asked.get("id") if isinstance(asked, dict) and "jsonrpc" in asked else None


def check_reply(reply: JsonObject, request_id: JsonValue, server: str) -> None:
    """Raise ProviderError for the response to another JSON-RPC request than `request_id`, if there is one.

    Messages of the server itself, which have a `method`, pass; so does an error without id, which is the response to a
    request whose id the server could not read. `server` is its name in the message.
    """
    replied_to = reply.get("id")
    if request_id in (None, replied_to) or "method" in reply or (replied_to is None and "error" in reply):
        return
    said = f"{server} replied to the JSON-RPC request {replied_to!r:.100} instead of {request_id!r}"
    raise ProviderError(Failure("malformed_reply", said))


class BoundedBody:
    """The body of a response in place of its `stream`: bytes that are decompressed, limited in size and observed.

    It removes the headers that describe the encoded body, so that the client decompresses nothing. A sub-class also
    inherits from the client's class of streams.
    """

    def __init__(self, stream: Any, headers: MutableMapping[str, str]) -> None:
        self.is_event_stream = is_event_stream({name.lower(): value for name, value in headers.items()})
        self.is_over = False
        limit = MAX_STREAM_BYTES if self.is_event_stream else MAX_BODY_BYTES
        self._body = ResponseBody(headers.pop("content-encoding", "identity"), limit)
        self._events = EventReader()
        self._pieces: list[bytes] = []
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the pieces of the body until its end, or until `is_over`.

        Raises ProviderError for a body, or an event of a stream, that is too large or cannot be read.
        """
        async for chunk in self._stream:
            for piece in self._body.pieces(chunk):
                self._check(piece)
                yield piece
            if self.is_over:
                return
        if self._body.is_truncated:
            raise ProviderError(Failure("malformed_reply", "the compressed response is truncated"))
        if not self.is_event_stream:
            self.check_message(b"".join(self._pieces))

    def _check(self, piece: bytes) -> None:
        if not self.is_event_stream:
            self._pieces.append(piece)
            return
        for event in self._events.feed(piece):
            self.check_message(event.data.encode())

    def check_message(self, message: bytes) -> None:
        """Raise ProviderError for a body, or an event's data, that must not be read.

        A sub-class sets `is_over` if no event can follow.
        """
        check_values(message)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()
