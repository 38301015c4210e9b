"""`agentv score --otlp`: agents send their traces while they work, and their answers are judged as they come."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from tests.support.otlp import JSON, post
from tests.support.spans import export
from tests.support.waiting import until
from tests.telemetry.test_joining import agent, assistant, call, user

from agentv.cli.main import main
from agentv.storage.run.find import list_run_folders
from agentv.storage.run.stored import StoredRun

CONFIG = "evaluators: [{type: contains, name: way, value: way}]\n"
ANSWERS = ("It is on its way.", "No idea.")


class Scoring(Struct):
    """A process of `agentv score --otlp` that receives traces."""

    process: "subprocess.Popen[str]"
    folder: Path
    head: str
    """What it said first."""

    @property
    def port(self) -> int:
        return int(self.head.partition("ENDPOINT=http://")[2].splitlines()[0].rpartition(":")[2])

    def send(self, *spans: dict[str, Any], headers: dict[str, str] | None = None) -> int:
        body = json.dumps(export(*spans)).encode()
        return post(self.port, "/v1/traces", body, {**JSON, **(headers or {})}).status

    def judged(self) -> list[dict[str, Any]]:
        path = self.folder / "out.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def end(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        """End it with a signal; return its exit code and what it said since its head."""
        self.process.send_signal(number)
        said, _ = self.process.communicate(timeout=60)
        return self.process.returncode, said


@contextmanager
def scoring(
    folder: Path, *options: str, command: Sequence[str] = ("score", "--otlp", "127.0.0.1:0", "--config", "config.yaml")
) -> Iterator[Scoring]:
    words = [sys.executable, "-m", "agentv", *command, *options]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            head = ""
            while "Ctrl-C ends it." not in head:
                line = process.stdout.readline()
                assert line, head
                head += line
            yield Scoring(process, folder, head)
        finally:
            process.kill()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "config.yaml").write_text(CONFIG)
    return tmp_path


def stored(folder: Path) -> StoredRun:
    (run,) = list_run_folders(folder / ".agentv")
    return StoredRun(run)


def test_answers_are_judged_while_traces_are_received(folder: Path) -> None:
    with scoring(folder, "-o", "out.jsonl") as process:
        assert "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf" in process.head
        for number, text in enumerate(ANSWERS, 1):
            assert process.send(call(number, [user("Where?")], assistant(text))) == 200
        assert until(lambda: len(process.judged()) == 2)
        code, said = process.end()
    assert code == 1
    assert "FAIL: 1 of 2 judged lines passed (50 %)" in said
    sources = sorted((each["source"] for each in process.judged()), key=lambda each: int(each["line"]))
    assert sources == [
        {"file": "otlp", "line": number, "trace_id": f"{number:032x}", "span_id": f"{number:016x}"} for number in (1, 2)
    ]
    run = stored(folder)
    assert {row.status for row in run.results()} == {"pass", "fail"}
    assert [answer.origin.span_id for answer in run.all_answers() if answer.origin] == [f"{1:016x}", f"{2:016x}"]


def test_a_signal_ends_it_as_the_end_of_a_pipe_does(folder: Path) -> None:
    with scoring(folder) as process:
        process.send(call(1, [user("Where?")], assistant(ANSWERS[0])))
        code, said = process.end(signal.SIGTERM)  # before the trace has been waited for
    assert code == 0
    assert "PASS: 1 of 1 judged line passed" in said
    assert "Resume" not in said


def test_nothing_received_is_not_a_pass(folder: Path) -> None:
    with scoring(folder) as process:
        code, said = process.end()
    assert code == 5
    assert "NOTHING SELECTED: no traces arrived" in said


def test_wrong_requests_are_reported_at_once(folder: Path) -> None:
    with scoring(folder) as process:
        assert post(process.port, "/", b"{}", JSON).status == 404
        assert process.process.stdout is not None
        assert "HTTP 404" in process.process.stdout.readline()


def test_an_instrumentation_without_messages_is_reported_at_once(folder: Path) -> None:
    with scoring(folder, "--idle", "0.1") as process:
        process.send({**agent(1, None), "traceId": f"{1:032x}"})
        assert process.process.stdout is not None
        assert "have no messages" in process.process.stdout.readline()


def test_a_token_is_needed_and_not_shown_or_stored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTV_SCORE_OTLP_TOKEN", "s3cret-word")
    with scoring(folder, command=("score", "--otlp", "0.0.0.0:0", "--config", "config.yaml")) as process:
        span = call(1, [user("Where?")], assistant(ANSWERS[0]))
        assert process.send(span) == 401
        assert process.send(span, headers={"Authorization": "Bearer s3cret-word"}) == 200
        code, said = process.end()
    assert code == 0
    assert "OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20TOKEN" in process.head
    assert "s3cret" not in process.head + said
    for path in (folder / ".agentv").rglob("*"):
        assert not path.is_file() or b"s3cret" not in path.read_bytes()


def test_two_agents_with_the_real_exporter_are_judged(folder: Path) -> None:
    with scoring(folder, "-o", "out.jsonl") as process:
        providers = []
        for compression in (Compression.Gzip, Compression.Deflate):
            provider = TracerProvider()
            exporter = OTLPSpanExporter(f"http://127.0.0.1:{process.port}/v1/traces", compression=compression)
            provider.add_span_processor(BatchSpanProcessor(exporter))
            providers.append(provider)
        for number, provider in enumerate(providers * 20):
            tracer = provider.get_tracer("shop")
            with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
                turn = {"input": [user(f"{number}?")], "output": [assistant(ANSWERS[0])]}
                messages = {f"gen_ai.{name}.messages": json.dumps(value) for name, value in turn.items()}
                with tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat", **messages}):
                    pass
        for provider in providers:
            provider.shutdown()
        assert until(lambda: len(process.judged()) == 40)
        code, said = process.end()
    assert code == 0
    assert "PASS: 40 of 40 judged lines passed" in said


def test_a_killed_run_receives_again_and_judges_no_answer_twice(folder: Path) -> None:
    with scoring(folder, "-o", "out.jsonl") as process:
        process.send(call(1, [user("Where?")], assistant(ANSWERS[0])))
        assert until(process.judged)
        process.process.kill()
    run = stored(folder).run_id
    with scoring(folder, command=("resume", run)) as process:
        process.send(call(1, [user("Where?")], assistant(ANSWERS[0])))  # the same again
        process.send(call(2, [user("When?")], assistant(ANSWERS[0])))
        code, said = process.end()
    assert code == 0
    assert "PASS: 2 of 2 judged lines passed" in said
    assert [row.eval_id for row in stored(folder).results()] == [f"{1:016x}", f"{2:016x}"]


def test_a_failed_answer_that_is_received_again_counts_once(folder: Path) -> None:
    failed = {**call(1, [user("Where?")], assistant("")), "status": {"code": 2}}
    with scoring(folder) as process:
        process.send(failed)
        assert until(lambda: any(each.stat().st_size for each in folder.glob(".agentv/runs/*/results.jsonl")))
        process.process.kill()
    with scoring(folder, command=("resume", stored(folder).run_id)) as process:
        process.send(call(2, [user("When?")], assistant(ANSWERS[0])))
        process.send(failed)
        code, _ = process.end()
    assert code == 3
    rows = {row.eval_id: row.origin for row in stored(folder).results()}
    assert list(rows) == [f"{1:016x}", f"{2:016x}"]
    origin = rows[f"{1:016x}"]
    assert origin is not None
    assert (origin.file, origin.span_id) == ("otlp", f"{1:016x}")


def test_traces_are_shown_while_they_are_received(folder: Path) -> None:
    with scoring(folder, command=("traces", "show", "--otlp", "127.0.0.1:0")) as process:
        process.send(call(1, [user("Where?")], assistant(ANSWERS[0])))
        assert process.process.stdout is not None
        shown = [process.process.stdout.readline() for _ in range(5)]
        code, said = process.end()
    assert code == 0
    assert [line.split(maxsplit=1)[1].rstrip() for line in shown[2:4]] == ["Where?", ANSWERS[0]]
    assert said == "1 answer in 1 span of 1 trace\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--otlp", "127.0.0.1:0", "log.jsonl"], "--otlp receives traces instead of reading files"),
        ([], "name a FILE (- is standard input), or receive traces with --otlp"),
        (["--otlp", "http://127.0.0.1:4318"], "is not an address; write HOST:PORT, such as 127.0.0.1:4318"),
        (["--otlp", "127.0.0.1:99999"], "is not an address"),
        (["--otlp", "agents.example:4318"], "can be reached from other machines, so it needs a token"),
        (["--otlp", "127.0.0.1:0", "--otlp-token", ""], "--otlp-token must have printable ASCII"),
        (["--otlp-token", "x", "log.jsonl"], "--otlp-token requires --otlp"),
        (["--otlp", "nowhere.invalid:4318", "--otlp-token", "x"], "the name of the host cannot be resolved"),
    ],
)
def test_a_wrong_option_is_one_error(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as left:
        main(["score", "--config", "config.yaml", *words])
    said = " ".join(capsys.readouterr().err.split())
    assert left.value.code == 4
    assert message in said
    assert not (folder / ".agentv").exists()


def test_a_port_in_use_is_one_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SystemExit) as left:
            main(["score", "--config", "config.yaml", "--otlp", str(port)])
    assert left.value.code == 4
    assert f"error: --otlp 127.0.0.1:{port}: the port is in use" in capsys.readouterr().err
