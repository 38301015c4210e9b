"""Batch endpoints of model APIs: what they have in common. Pure, but for the protocol's use of `Send`."""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from agentv.providers.http import HttpReply, HttpRequest
from agentv.providers.request_json import json_bytes
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject
from agentv.types.provider import BatchState

Send: TypeAlias = Callable[[HttpRequest], Awaitable[HttpReply]]
"""Sends a request, with what proves who asks, and returns a reply with a status of 2xx."""

Outcome: TypeAlias = HttpReply | Failure
"""What became of one request of a batch: the reply that it would have got by itself, or why there is none."""

MAX_RESULTS_BYTES = 512 * 2**20
LOST = Failure("server_error", "the batch ended without a reply to this request", retryable=True)
EXPIRED = Failure("deadline", "the batch ended before this request was answered", retryable=True)
CANCELLED = Failure("cancelled", "the batch was cancelled before this request was answered")


class BatchEndpoint(Protocol):
    """How one API takes batches. Requests are known by names such as `r0`, which every API accepts."""

    async def submit(self, bodies: Mapping[str, JsonObject], send: Send) -> str:
        """Hand in request bodies by name, and return the batch's id."""

    async def poll(self, batch_id: str, send: Send) -> BatchState:
        """Tell how far a batch is. Raises ProviderError when it failed as a whole."""

    async def fetch(self, batch_id: str, send: Send) -> Mapping[str, Outcome]:
        """Return what became of the requests by name; one may be missing."""


def request_names(keys: Sequence[str]) -> Mapping[str, str]:
    """Return a name for each key; keys of ours may hold what no API takes as a name."""
    return {key: f"r{number}" for number, key in enumerate(keys)}


def json_lines(values: Sequence[JsonObject]) -> bytes:
    """Return one line of JSON for each value."""
    return b"".join(json_bytes(value) + b"\n" for value in values)


def parse_lines(body: bytes) -> Iterator[JsonObject]:
    """Yield the object on each line of a results file. Raises ProviderError for a line that is none."""
    for number, line in enumerate(body.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode())
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, Mapping):
            raise ProviderError(Failure("malformed_reply", f"line {number} of the batch's results is no JSON object"))
        yield value
