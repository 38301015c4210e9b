"""`otel: true` on commands, web services and functions: their spans arrive, and become tool calls, tokens and cost."""

import asyncio
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import _logs as logs
from opentelemetry import trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.support.asking import ask, failure_of, make_request, make_target, with_provider
from tests.support.ports import free_port
from tests.support.traced_agent import MODEL, answer_to, post, spans_of_call

from agentv.engine.plugins.loading import load_specs
from agentv.loading.targets.targets import load_targets
from agentv.providers.local.cli_settings import CliSettings
from agentv.providers.local.http_provider import HttpSettings
from agentv.providers.local.python import PythonSettings
from agentv.types.errors import EvalFileError
from agentv.types.messages import tool_calls_of
from agentv.types.provider import Provider, ProviderError, ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage

AGENT = Path(__file__).parents[1] / "support" / "traced_agent.py"
ORDER = "my order"
USED = Usage(20, 10, total=30, requests=2)


def command(*modes: str, **settings: Any) -> ResolvedTarget:
    template = shlex.join([sys.executable, str(AGENT)]) + " {PROMPT} " + " ".join(modes)
    return make_target("cli", CliSettings(command_template=template, otel=True, **settings))


def called(response: ProviderResponse) -> list[tuple[str, Any]]:
    return [(call.tool, call.input) for call in tool_calls_of(response.output_messages or ())]


def is_whole(response: ProviderResponse, question: str = ORDER) -> bool:
    calls = [("find_order", {"question": question})]
    return (response.text, called(response), response.usage) == (answer_to(question), calls, USED)


def test_a_command_without_glue_has_calls_and_tokens() -> None:
    response = ask(command(), make_request(ORDER))

    assert is_whole(response)
    assert (response.model, response.notes) == (MODEL, ())


def test_a_command_that_prints_nothing_answers_by_its_spans() -> None:
    assert is_whole(ask(command("quiet"), make_request(ORDER)))


def test_printed_messages_without_calls_do_not_hide_those_in_spans() -> None:
    assert is_whole(ask(command("json"), make_request(ORDER)))


def test_a_failed_command_keeps_its_tokens() -> None:
    target = command("fails")
    with pytest.raises(ProviderError) as raised:
        ask(target, make_request(ORDER))

    assert raised.value.failure.kind == "target_exit"
    assert raised.value.partial is not None
    assert is_whole(raised.value.partial)


def test_a_command_without_spans_is_noted_with_what_to_do() -> None:
    (note,) = ask(command("unsent", otel_wait_s=0.0), make_request(ORDER)).notes

    assert note.startswith("no spans arrived, so its tool calls are unknown: instrument it with OpenTelemetry")


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("OTEL_SDK_DISABLED", "true", "unset OTEL_SDK_DISABLED, which is `true`"),
        ("OTEL_TRACES_EXPORTER", "console", "unset OTEL_TRACES_EXPORTER, which is `console`"),
        ("LANGFUSE_PUBLIC_KEY", "pk", "Langfuse sends to its own server"),
    ],
)
def test_a_variable_that_keeps_spans_away_is_named(name: str, value: str, advice: str) -> None:
    (note,) = ask(command("unsent", otel_wait_s=0.0, env={name: value}), make_request(ORDER)).notes

    assert advice in note


def variables(monkeypatch: pytest.MonkeyPatch, inherited: dict[str, str], **settings: Any) -> dict[str, str]:
    """Return the variables of OpenTelemetry and of proxies that a command gets."""
    for name in [name for name in os.environ if name.startswith("OTEL_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name, value in inherited.items():
        monkeypatch.setenv(name, value)
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    template = shlex.join([sys.executable, "-S", "-c", program])
    made = CliSettings(command_template=template, otel=True, otel_wait_s=0.0, **settings)
    text = ask(make_target("cli", made)).text
    found: dict[str, str] = json.loads(text)
    return {name: value for name, value in found.items() if "OTEL" in name or "TRACE" in name or "proxy" in name}


def test_a_command_gets_an_endpoint_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    given = variables(monkeypatch, {})
    endpoint = given["OTEL_EXPORTER_OTLP_ENDPOINT"]

    assert endpoint.startswith("http://127.0.0.1:")
    assert "/row/" in endpoint
    assert given["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] == f"{endpoint}/v1/traces"
    assert given["OTEL_EXPORTER_OTLP_PROTOCOL"] == "http/protobuf"
    assert given["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] == "span_only"
    version, trace_id, parent, flags = given["TRACEPARENT"].split("-")
    assert (version, len(trace_id), len(parent), flags) == ("00", 32, 16, "01")
    assert variables(monkeypatch, {})["OTEL_EXPORTER_OTLP_ENDPOINT"] != endpoint


def test_the_receiver_counts_before_the_user_s_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    inherited = {f"OTEL_EXPORTER_OTLP{part}_ENDPOINT": "http://collector" for part in ("", "_TRACES", "_LOGS")}
    given = variables(monkeypatch, {**inherited, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"})

    assert "http://collector" not in given.values()
    assert given["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] == "http/protobuf"


def test_other_variables_of_the_user_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    given = variables(monkeypatch, {"OTEL_BSP_SCHEDULE_DELAY": "5"}, env={"TRACELOOP_TRACE_CONTENT": "false"})

    assert (given["OTEL_BSP_SCHEDULE_DELAY"], given["TRACELOOP_TRACE_CONTENT"]) == ("5", "false")
    assert given["OTEL_BLRP_SCHEDULE_DELAY"] == "200"


def test_spans_do_not_go_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no_proxy" not in variables(monkeypatch, {})
    given = variables(monkeypatch, {"HTTP_PROXY": "http://proxy", "no_proxy": "example.com"})

    assert given["no_proxy"] == "example.com,127.0.0.1"


@contextmanager
def service(send: Callable[[str, str], None]) -> Iterator[str]:
    """Serve answers; `send` gets the question and the traceparent of each request after its response."""

    class Service(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["question"]
            body = json.dumps({"answer": answer_to(question)}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()
            send(question, self.headers["traceparent"])

        def log_message(self, *_arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/ask"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def web(url: str, port: int, **settings: Any) -> ResolvedTarget:
    made = HttpSettings(url=url, body={"question": "{{ question }}"}, otel=True, **settings)
    return make_target("http", HttpSettings(**{**_fields(made), "otel_listen": f"127.0.0.1:{port}"}))


def _fields(settings: HttpSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__struct_fields__}


def test_spans_of_a_web_service_after_its_response_are_waited_for() -> None:
    port = free_port()

    def send(question: str, traceparent: str) -> None:
        _, trace_id, parent, _ = traceparent.split("-")
        for each in spans_of_call(question, trace_id=trace_id, parent=parent):
            post(f"http://127.0.0.1:{port}", [each])

    with service(send) as url:
        response = ask(web(url, port), make_request(ORDER))
    assert is_whole(response)
    assert response.notes == ()


def test_spans_of_requests_at_the_same_time_do_not_mix() -> None:
    port = free_port()
    lock = threading.Lock()
    waiting: list[tuple[str, str]] = []

    def send(question: str, traceparent: str) -> None:
        """Send the spans of all eight requests together, mixed, with the last one."""
        with lock:
            waiting.append((question, traceparent))
            if len(waiting) < 8:
                return
        traces = [
            spans_of_call(each, trace_id=parent.split("-")[1], parent=parent.split("-")[2]) for each, parent in waiting
        ]
        for same_place in zip(*traces, strict=True):
            post(f"http://127.0.0.1:{port}", list(same_place))

    questions = [f"order {number}" for number in range(8)]

    async def ask_all(provider: Provider) -> list[ProviderResponse]:
        return await asyncio.gather(*(provider.invoke(make_request(each)) for each in questions))

    with service(send) as url:
        responses = with_provider(web(url, port), ask_all)
    assert all(map(is_whole, responses, questions))


def test_a_service_that_begins_traces_of_its_own_is_named() -> None:
    port = free_port()

    def send(question: str, _traceparent: str) -> None:
        post(f"http://127.0.0.1:{port}", spans_of_call(question, trace_id="c" * 32, parent=""))

    async def ask_twice(provider: Provider) -> ProviderResponse:
        await provider.invoke(make_request(ORDER))
        return await provider.invoke(make_request(ORDER))

    with service(send) as url:
        (note,) = with_provider(web(url, port, otel_wait_s=0.2), ask_twice).notes
    assert f"only spans of other traces arrived at http://127.0.0.1:{port}; instrument the web framework" in note


def test_a_service_without_spans_is_noted_with_the_address() -> None:
    port = free_port()
    with service(lambda _question, _traceparent: None) as url:
        (note,) = ask(web(url, port, otel_wait_s=0.0), make_request(ORDER)).notes
    assert f"export OTLP over HTTP to http://127.0.0.1:{port}, with OTEL_BSP_SCHEDULE_DELAY=200" in note


def test_a_wrong_export_is_noted() -> None:
    port = free_port()

    def send(question: str, traceparent: str) -> None:
        _, trace_id, parent, _ = traceparent.split("-")
        with pytest.raises(OSError, match="404"):
            post(f"http://127.0.0.1:{port}/wrong", [])
        post(f"http://127.0.0.1:{port}", spans_of_call(question, trace_id=trace_id, parent=parent))

    with service(send) as url:
        (note,) = ask(web(url, port), make_request(ORDER)).notes
    assert note == "a request was refused with HTTP 404: /wrong is not known here"


def test_an_address_that_is_in_use_fails_before_the_first_case() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        target = web("http://127.0.0.1:1/ask", port)
        failure = failure_of(target)

        async def check(provider: Any) -> str:
            with pytest.raises(ProviderError) as raised:
                await provider.healthcheck()
            return raised.value.failure.message

        assert with_provider(target, check) == failure.message
    assert failure.kind == "config_error"
    assert failure.message == (
        f"the spans of `otel` cannot be received at http://127.0.0.1:{port}: Address already in use; end the program "
        "that uses the address, such as a collector, or set another one with `otel_listen`"
    )


TRACER = trace.get_tracer("tests")


def make_spans(question: str) -> str:
    """Make the spans of an answer as an instrumented framework does, with the current context."""
    with TRACER.start_as_current_span("agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
        for made in spans_of_call(question, trace_id="", parent="")[:-1]:
            attributes = {each["key"]: next(iter(each["value"].values())) for each in made["attributes"]}
            numbers = {key: int(value) for key, value in attributes.items() if key.startswith("gen_ai.usage.")}
            with TRACER.start_as_current_span("chat", attributes={**attributes, **numbers}):
                pass
    return answer_to(question)


def function(call: Callable[[ProviderRequest], Any], **settings: Any) -> ResolvedTarget:
    return make_target("python", PythonSettings(callable=call, otel=True, **settings))


def sync(request: ProviderRequest) -> str:
    return make_spans(request.question)


async def asynchronous(request: ProviderRequest) -> str:
    await asyncio.sleep(0)
    return await asyncio.to_thread(make_spans, request.question)


@pytest.mark.parametrize("call", [sync, asynchronous])
def test_spans_of_a_function_are_read_in_its_process(call: Callable[[ProviderRequest], Any]) -> None:
    response = ask(function(call), make_request(ORDER))

    assert is_whole(response)
    assert response.notes == ()


@pytest.mark.parametrize("call", [sync, asynchronous])
def test_functions_at_the_same_time_have_their_own_spans(call: Callable[[ProviderRequest], Any]) -> None:
    questions = [f"order {number}" for number in range(16)]

    async def ask_all(provider: Provider) -> list[ProviderResponse]:
        return await asyncio.gather(*(provider.invoke(make_request(each)) for each in questions))

    assert all(map(is_whole, with_provider(function(call), ask_all), questions))


def test_an_open_span_of_a_function_is_waited_for() -> None:
    ended = threading.Event()

    async def call(request: ProviderRequest) -> str:
        async def work() -> None:
            with TRACER.start_as_current_span("background", attributes={"gen_ai.operation.name": "invoke_agent"}):
                await asyncio.sleep(0.01)
                make_spans(request.question)
            ended.set()

        tasks.append(asyncio.create_task(work()))
        await asyncio.sleep(0)
        return answer_to(request.question)

    tasks: list[asyncio.Task[None]] = []
    assert is_whole(ask(function(call), make_request(ORDER)))
    assert ended.is_set()


def test_spans_in_threads_without_the_context_are_named() -> None:
    def lost(request: ProviderRequest) -> str:
        with ThreadPoolExecutor() as pool:
            return pool.submit(make_spans, request.question).result()

    (note,) = ask(function(lost), make_request(ORDER)).notes
    assert "spans began outside of the context of a call; pass the context on to threads of your own" in note


def test_log_records_of_a_function_are_read_too() -> None:
    """Some instrumentations have the messages in log records."""

    def call(request: ProviderRequest) -> str:
        with TRACER.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}):
            logger = logs.get_logger_provider().get_logger("tests")
            records: tuple[tuple[str, Any], ...] = (
                ("gen_ai.user.message", {"content": request.question}),
                ("gen_ai.choice", {"index": 0, "message": {"content": "From a log record."}}),
            )
            for name, body in records:
                logger.emit(logs.LogRecord(event_name=name, body=body))
        return ""

    assert ask(function(call), make_request(ORDER)).text == "From a log record."


def test_exporters_of_the_user_get_the_spans_of_functions_as_well() -> None:
    ask(function(sync), make_request(ORDER))  # sets a provider if there is none
    provider, exporter = trace.get_tracer_provider(), InMemorySpanExporter()
    assert isinstance(provider, TracerProvider)
    assert isinstance(logs.get_logger_provider(), LoggerProvider)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    response = ask(function(sync), make_request(ORDER))

    judged = [f"{span.context.span_id:016x}" for span in exporter.get_finished_spans() if span.context]
    assert response.spans is not None
    assert response.spans.span_id in judged


def test_a_function_needs_opentelemetry(tmp_path: Path) -> None:
    """Where the package is missing, the check of the targets file says what to install."""
    (tmp_path / "targets.yaml").write_text(
        "targets: [{name: t, provider: python, callable: 'agent.py:answer', otel: true}]"
    )
    program = (
        "import sys; sys.modules['opentelemetry'] = None; from agentv.cli.main import main; "
        "main(['check', 'targets.yaml'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert "otel needs the package opentelemetry-sdk: pip install opentelemetry-sdk" in done.stdout + done.stderr
    assert done.returncode == 4


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        (
            "provider: cli, command_template: 'x {PROMPT} {CASES_FILE}', otel: true, provider_batching: true",
            "otel  cannot be used with provider_batching",
        ),
        (
            "provider: cli, command_template: 'x {PROMPT}', otel: true, env: {OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c'}",
            "env must not set OTEL_EXPORTER_OTLP_ENDPOINT: `otel` sets it",
        ),
        (
            "provider: http, url: 'http://c/{{ question }}', method: GET, otel: true, headers: {Traceparent: x}",
            "headers must not set traceparent",
        ),
        (
            "provider: http, url: 'http://c/{{ question }}', method: GET, otel: true, otel_listen: '0.0.0.0:4318'",
            "0.0.0.0 can be reached from other machines, so `otel_token` is required",
        ),
        (
            "provider: http, url: 'http://c/{{ question }}', method: GET, otel: true, otel_listen: '4318'",
            "otel_listen must be HOST:PORT",
        ),
        (
            "provider: cli, command_template: 'x {PROMPT}', otel: true, otel_wait_s: 61",
            "otel_wait_s must be a number of seconds from 0 to 60",
        ),
    ],
)
def test_settings_of_otel_that_cannot_work_are_problems(target: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "targets.yaml"
    path.write_text(f"targets: [{{name: t, {target}}}]")
    with pytest.raises(EvalFileError, match=re.escape(problem)):
        load_targets(path, specs=load_specs())


@pytest.mark.parametrize(
    "target",
    [
        "provider: cli, command_template: 'x {PROMPT}', env: {OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c'}",
        "provider: http, url: 'http://c/{{ question }}', method: GET, headers: {traceparent: x}",
        "provider: http, url: 'http://c/{{ question }}', method: GET, otel: true, otel_listen: '[::1]:4318'",
        "provider: http, url: 'http://c/{{ question }}', method: GET, otel: true, otel_listen: 'c:1', otel_token: x",
    ],
)
def test_settings_of_otel_that_can_work_are_none(target: str, tmp_path: Path) -> None:
    path = tmp_path / "targets.yaml"
    path.write_text(f"targets: [{{name: t, {target}}}]")
    assert load_targets(path, specs=load_specs())
