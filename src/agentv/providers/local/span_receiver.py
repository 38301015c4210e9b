"""The receivers of the spans that commands and web services send while they are called, one per address and process."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from msgspec import Struct

from agentv.providers.local.call_spans import SpanInbox
from agentv.types.failures import Failure
from agentv.types.hosts import url_of
from agentv.types.protocols import SharedParts
from agentv.types.provider import ProviderError


class SpanReceiver(Struct, frozen=True):
    """A running receiver of OTLP over HTTP."""

    url: str
    """The address without a path."""
    inbox: SpanInbox


async def shared_receiver(
    shared: SharedParts, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None
) -> SpanReceiver:
    """Return the receiver of an address, which runs until the end of the process's part of the run.

    Port 0 is any free port. Raises ProviderError if the address cannot be used.
    """
    return await shared.get(f"spans {host}:{port} {token}", partial(_open, host, port, token))


@asynccontextmanager
async def _open(host: str, port: int, token: str | None) -> AsyncIterator[SpanReceiver]:
    # aiohttp is imported only if it is needed.
    from agentv.execution.otlp_receiver import OtlpReceiver  # noqa: PLC0415

    inbox = SpanInbox()
    receiver = OtlpReceiver(inbox.deliver, host=host, port=port, token=token, on_problem=inbox.problems.append)
    try:
        receiver.bind()
    except OSError as error:
        message = (
            f"the spans of `otel` cannot be received at {url_of(host, port)}: {_reason(error)}; end the "
            "program that uses the address, such as a collector, or set another one with `otel_listen`"
        )
        raise ProviderError(Failure("config_error", message)) from None
    async with receiver:
        yield SpanReceiver(receiver.url, inbox)


def why_no_spans(receiver: SpanReceiver) -> str:
    """Return what makes a web service send the spans of its requests."""
    if receiver.inbox.foreign:
        return (
            f"only spans of other traces arrived at {receiver.url}; instrument the web framework of the service, so "
            "that it continues the trace of the header `traceparent`, and set OTEL_BSP_SCHEDULE_DELAY=200, so that it "
            "sends its spans soon"
        )
    return (
        f"let the service export OTLP over HTTP to {receiver.url}, with OTEL_BSP_SCHEDULE_DELAY=200, and instrument "
        "its web framework with OpenTelemetry, so that it continues the trace of the header `traceparent`"
    )


def _reason(error: OSError) -> str:
    """Return the reason of the system alone: asyncio and socket add the address to it."""
    return os.strerror(error.errno) if error.errno else str(error)
