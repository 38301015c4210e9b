"""The receivers of the spans that commands and web services send while they are called, one per address and process."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

from msgspec import Struct

from agentv.providers.local.call_spans import SpanInbox
from agentv.providers.local.otel_settings import OtelForward
from agentv.telemetry.sending.collector import find_collector
from agentv.telemetry.sending.forwarding import Forwarded, Forwarder
from agentv.types.errors import ConfigError
from agentv.types.failures import Failure
from agentv.types.hosts import is_loopback, url_of
from agentv.types.protocols import ProviderTools
from agentv.types.provider import ProviderError


class SpanReceiver(Struct, frozen=True):
    """A running receiver of OTLP over HTTP."""

    url: str
    """The address without a path."""
    inbox: SpanInbox
    forward: OtelForward = False
    """The collector that gets what arrives."""


async def shared_receiver(
    tools: ProviderTools,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    forward: OtelForward = False,
) -> SpanReceiver:
    """Return the receiver of an address, which runs until the end of the process's part of the run.

    Port 0 is any free port. What arrives is passed on to the collector that `forward` names. Raises ProviderError if
    the address or the collector cannot be used.
    """
    key = f"spans {host}:{port} {token}" + (f" {forward}" if not port else "")
    receiver = await tools.shared.get(key, partial(_open, tools, host, port, token, forward))
    if receiver.forward != forward:
        raise _config_error(f"targets that receive spans at {host}:{port} must have the same `otel_forward`")
    return receiver


@asynccontextmanager
async def _open(
    tools: ProviderTools, host: str, port: int, token: str | None, forward: OtelForward
) -> AsyncIterator[SpanReceiver]:
    # aiohttp is imported only if it is needed.
    from agentv.execution.otlp_receiver import OtlpReceiver  # noqa: PLC0415

    inbox = SpanInbox()
    forwarder = None if forward is False else _forwarder(forward, host, port)
    receiver = OtlpReceiver(
        inbox.deliver,
        host=host,
        port=port,
        token=token,
        on_problem=inbox.problems.append,
        on_accepted=_ignore if forwarder is None else forwarder.put,
    )
    try:
        receiver.bind()
    except OSError as error:
        raise _config_error(
            f"the spans of `otel` cannot be received at {url_of(host, port)}: {_reason(error)}; end the "
            "program that uses the address, such as a collector, or set another one with `otel_listen`"
        ) from None
    async with receiver:
        try:
            yield SpanReceiver(receiver.url, inbox, forward)
        finally:
            if forwarder is not None:
                done = await asyncio.to_thread(forwarder.close)
                if done.unsent:
                    tools.note(_unsent_text(done))


def _ignore(_signal: str, _content_type: str, _body: bytes) -> None:
    pass


def _forwarder(forward: OtelForward, host: str, port: int) -> Forwarder:
    try:
        collector = find_collector(forward if isinstance(forward, str) else None, os.environ)
    except ConfigError as error:
        raise _config_error(f"otel_forward: {str(error).removeprefix('--otel: ')}") from None
    for endpoint in collector.endpoints.values():
        parts = urlsplit(endpoint.url)
        if port and parts.port == port and (parts.hostname == host or is_loopback(parts.hostname or "")):
            raise _config_error(
                f"otel_forward: {collector.shown} is the address at which spans are received; set another one with "
                "`otel_listen`"
            )
    return Forwarder(collector)


def _unsent_text(done: Forwarded) -> str:
    total = done.sent + done.unsent
    return f"otel_forward: {done.unsent:,} of {total:,} exports not passed on to {done.shown} ({done.reason})"


def _config_error(message: str) -> ProviderError:
    return ProviderError(Failure("config_error", message))


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
