"""OTLP collectors on loopback: a healthy one that decodes with opentelemetry-proto, and ones that misbehave."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from aiohttp import web
from msgspec import Struct, field
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Received(Struct):
    """A span or log record that a collector has decoded."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    resource: dict[str, Any]
    start_ns: int
    end_ns: int
    is_error: bool = False


class Collector(Struct):
    """A collector, and what it got."""

    url: str = ""
    spans: list[Received] = field(default_factory=list)
    logs: list[Received] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    requests: Counter[str] = field(default_factory=Counter)
    arrived: threading.Event = field(default_factory=threading.Event)

    def evaluations(self) -> list[Received]:
        """Return the spans of judgements."""
        return [span for span in self.spans if span.name.startswith("evaluation ")]

    def span_ids(self) -> Counter[str]:
        """Return how often each span came."""
        return Counter(span.span_id for span in self.spans)


Respond = Callable[[web.Request, Collector], web.Response | None]
"""Returns a response instead of accepting a request, or None to accept it."""


def values_of(attributes: Any) -> dict[str, Any]:
    """Return OTLP's attributes as a dict."""
    return {each.key: value_of(each.value) for each in attributes}


def value_of(value: Any) -> Any:
    """Return OTLP's AnyValue as a value of Python."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(each) for each in value.array_value.values]
    return getattr(value, kind)


def take(collector: Collector, path: str, body: bytes) -> None:
    """Decode a request with opentelemetry-proto. Raises DecodeError."""
    if path.endswith("/v1/traces"):
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = values_of(group.resource.attributes)
            for span in (span for scope in group.scope_spans for span in scope.spans):
                collector.spans.append(
                    Received(
                        span.name,
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        values_of(span.attributes),
                        resource,
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                        span.status.code == 2,
                    )
                )
    else:
        for records in ExportLogsServiceRequest.FromString(body).resource_logs:
            resource = values_of(records.resource.attributes)
            for log in (log for scope in records.scope_logs for log in scope.log_records):
                collector.logs.append(
                    Received(
                        log.event_name,
                        log.trace_id.hex(),
                        log.span_id.hex(),
                        "",
                        values_of(log.attributes),
                        resource,
                        log.time_unix_nano,
                        log.observed_time_unix_nano,
                    )
                )


def take_json(collector: Collector, body: bytes) -> None:
    """Read the spans of a request in JSON, which are sent as they were received."""
    for group in json.loads(body)["resourceSpans"]:
        for span in (span for scope in group["scopeSpans"] for span in scope["spans"]):
            ids = (span["traceId"], span["spanId"], span.get("parentSpanId", ""))
            collector.spans.append(Received(span["name"], *ids, values_of([]), {}, 0, 0))


Handle = Callable[[web.Request], Awaitable[web.Response]]


@contextmanager
def handling(handle: Handle) -> Iterator[str]:
    """Answer POST requests in a thread; yield the URL."""
    ready, loop = threading.Event(), asyncio.new_event_loop()
    urls: list[str] = []

    async def start() -> web.AppRunner:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/{path:.*}", handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        urls.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
        return runner

    def serve() -> None:
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(start())
        ready.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


@contextmanager
def collecting(
    respond: Respond = lambda _request, _collector: None, *, on_taken: Callable[[str], None] = lambda _path: None
) -> Iterator[Collector]:
    """Serve a collector in a thread. `on_taken` is called with the path of a request before it is answered."""
    collector = Collector()

    async def handle(request: web.Request) -> web.Response:
        body = await request.content.read()
        collector.requests[request.path] += 1
        collector.headers.append(dict(request.headers))
        response = respond(request, collector)
        if response is None:
            collector.bodies.append(body)
            if request.content_type == "application/json":
                take_json(collector, body)
            else:
                take(collector, request.path, body)
            on_taken(request.path)
            response = web.Response(content_type="application/x-protobuf")
        collector.arrived.set()
        return response

    with handling(handle) as collector.url:
        yield collector
