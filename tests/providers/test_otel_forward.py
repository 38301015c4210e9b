"""`otel_forward`: what a target exports while it is called is passed on to a collector, and slows down nothing."""

import asyncio
import re
import threading
from pathlib import Path

import pytest
from aiohttp import web
from tests.providers.test_otel_targets import ORDER, command, is_whole, service
from tests.providers.test_otel_targets import web as web_target
from tests.support.asking import ask, failure_of, make_request, with_provider
from tests.support.collectors import Collector, collecting, handling
from tests.support.ports import free_port
from tests.support.traced_agent import post, spans_of_call

from agentv.engine.plugins.loading import load_specs
from agentv.loading.targets.targets import load_targets
from agentv.telemetry.sending.collector import find_collector
from agentv.telemetry.sending.forwarding import Forwarder
from agentv.types.errors import EvalFileError
from agentv.types.provider import Provider, ProviderResponse

DEAD = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENDPOINT", "TRACES_ENDPOINT", "LOGS_ENDPOINT", "HEADERS"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)


def test_the_spans_of_a_command_reach_the_collector_as_they_came() -> None:
    with collecting() as collector:
        response = ask(command(otel_forward=collector.url), make_request(ORDER))
        assert is_whole(response)
        assert response.spans is not None
        assert len(collector.spans) == 3
        assert {span.trace_id for span in collector.spans} == {response.spans.trace_id}
        assert response.spans.span_id in {span.span_id for span in collector.spans}
        assert [headers["Content-Type"] for headers in collector.headers] == ["application/json"]


def test_true_stands_for_the_collector_of_the_standard_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s3cret")
        assert is_whole(ask(command(otel_forward=True), make_request(ORDER)))
        assert len(collector.spans) == 3
        assert {headers["api-key"] for headers in collector.headers} == {"s3cret"}


def test_a_command_without_it_passes_nothing_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        assert is_whole(ask(command(), make_request(ORDER)))
        assert collector.requests == {}


def test_all_that_a_web_service_exports_is_passed_on() -> None:
    port = free_port()

    def send(question: str, traceparent: str) -> None:
        _, trace_id, parent, _ = traceparent.split("-")
        post(f"http://127.0.0.1:{port}", spans_of_call("other", trace_id="c" * 32, parent=""))
        post(f"http://127.0.0.1:{port}", spans_of_call(question, trace_id=trace_id, parent=parent))

    with collecting() as collector, service(send) as url:
        assert is_whole(ask(web_target(url, port, otel_forward=collector.url), make_request(ORDER)))
        assert len(collector.spans) == 5


@pytest.mark.parametrize("name", ["dead", "refusing"])
def test_what_a_collector_did_not_take_is_a_note_of_the_run(name: str) -> None:
    def refuse(_request: web.Request, _collector: Collector) -> web.Response:
        return web.Response(status=400)

    notes: list[str] = []
    with collecting(refuse) as refusing:
        url, reason = (DEAD, "connection refused") if name == "dead" else (refusing.url, "HTTP 400")

        async def use(provider: Provider) -> ProviderResponse:
            return await provider.invoke(make_request(ORDER))

        assert is_whole(with_provider(command(otel_forward=url), use, notes=notes))
    assert notes == [f"otel_forward: 1 of 1 exports not passed on to {url} ({reason})"]


def test_no_call_waits_for_a_collector() -> None:
    may_answer, notes = threading.Event(), list[str]()

    async def handle(request: web.Request) -> web.Response:
        await request.content.read()
        await asyncio.to_thread(may_answer.wait)
        return web.Response()

    async def use(provider: Provider) -> ProviderResponse:
        response = await provider.invoke(make_request(ORDER))
        assert not may_answer.is_set()
        may_answer.set()
        return response

    with handling(handle) as url:
        assert is_whole(with_provider(command(otel_forward=url), use, notes=notes))
    assert notes == []


def test_a_collector_that_is_busy_for_a_moment_gets_the_rest() -> None:
    answers = iter([web.Response(status=503)])
    with collecting(lambda _request, _collector: next(answers, None)) as collector:
        forwarder = Forwarder(find_collector(collector.url, {}))
        forwarder.put("logs", "application/x-protobuf", b"")
        assert collector.arrived.wait(10)
        done = forwarder.close()
    assert (done.sent, done.unsent, done.reason) == (1, 0, None)


def test_what_waits_is_bounded_and_the_rest_is_counted() -> None:
    forwarder = Forwarder(find_collector(DEAD, {}), most_bytes=2**20)
    for _ in range(3):
        forwarder.put("traces", "application/json", b"x" * 600_000)
    forwarder.put("metrics", "application/json", b"x")
    done = forwarder.close()
    assert (done.sent, done.unsent) == (0, 3)


def test_the_address_of_the_receiver_itself_is_refused() -> None:
    port = free_port()
    failure = failure_of(web_target("http://127.0.0.1:1/ask", port, otel_forward=f"http://localhost:{port}"))
    assert failure.kind == "config_error"
    assert failure.message == (
        f"otel_forward: http://localhost:{port} is the address at which spans are received; set another one with "
        "`otel_listen`"
    )


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("otel_forward: true", "otel_forward requires `otel: true`"),
        ("otel: true, otel_forward: 'localhost:4318'", "otel_forward must be true or the URL of a collector"),
        ("otel: true, otel_forward: 3", "otel_forward"),
    ],
)
def test_settings_that_cannot_work_are_problems(settings: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "targets.yaml"
    path.write_text(f"targets: [{{name: t, provider: cli, command_template: 'x {{PROMPT}}', {settings}}}]")
    with pytest.raises(EvalFileError, match=re.escape(problem)):
        load_targets(path, specs=load_specs())
