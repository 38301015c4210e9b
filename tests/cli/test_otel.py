"""`--otel`: evaluations sent to an OpenTelemetry collector while a run goes on, and later."""

import json
import shlex
import sys
import time
from pathlib import Path

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)
from tests.support.carrying import Project
from tests.support.collectors import Collector, Respond, collecting
from tests.support.loopback import Answer, hang_up, never_answer, serving

from agentv.engine.stored.sending import END_WAIT_S

DEAD = "http://127.0.0.1:9"
TRACED_AGENT = Path(__file__).parents[1] / "support" / "traced_agent.py"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENDPOINT", "HEADERS", "TRACES_ENDPOINT", "LOGS_ENDPOINT", "PROTOCOL", "TIMEOUT"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)


def refusing(status: int, *, path: str = "", body: bytes = b"") -> Respond:
    def respond(request: web.Request, _: Collector) -> web.Response | None:
        return web.Response(status=status, body=body) if path in request.path else None

    return respond


def test_a_run_sends_each_judgement_as_span_and_event(project: Project) -> None:
    with collecting() as collector:
        code, said = project.call("run", "suite.yaml", f"--otel={collector.url}")
    assert code == 0
    assert f"otel: 3 results sent to {collector.url}\n" in said
    assert sorted(span.attributes["test.case.name"] for span in collector.evaluations()) == ["a", "b", "c"]
    assert sorted(log.attributes["test.case.name"] for log in collector.logs) == ["a", "b", "c"]
    assert {log.name for log in collector.logs} == {"gen_ai.evaluation.result"}
    assert {span.resource["service.name"] for span in collector.spans} == {"agentv"}
    assert {span.attributes["agentv.run.id"] for span in collector.spans} == {project.run.name}


def forwarding(project: Project, url: str) -> None:
    """Make the target a program whose spans are passed on."""
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(TRACED_AGENT))} {{PROMPT}}"
    settings = {"name": "t", "provider": "cli", "command_template": command, "otel": True, "otel_forward": url}
    (project.folder / "targets.yaml").write_text(json.dumps({"targets": [settings]}))


def test_a_collector_has_the_spans_of_targets_that_evaluations_are_below(project: Project) -> None:
    with collecting() as collector:
        forwarding(project, collector.url)
        _, said = project.call("run", "suite.yaml", f"--otel={collector.url}")
    assert f"otel: 3 results sent to {collector.url}\n" in said
    made = {span.span_id: span.trace_id for span in collector.spans if span.name == "span 0"}
    judged = {span.parent_id: span.trace_id for span in collector.evaluations()}
    assert len(judged) == 3
    assert judged.items() <= made.items()


def test_spans_of_targets_that_were_not_passed_on_are_a_note_of_the_run(project: Project) -> None:
    forwarding(project, DEAD)
    _, said = project.call("run", "suite.yaml")
    assert f"otel_forward: 3 of 3 exports not passed on to {DEAD} (connection refused)" in said


def test_what_was_sent_is_not_sent_again_except_on_request(project: Project) -> None:
    with collecting() as collector:
        project.call("run", "suite.yaml", f"--otel={collector.url}")
        code, said = project.call("runs", "export", f"--otel={collector.url}", "latest")
        assert (code, said) == (0, f"otel: nothing more to send to {collector.url}\n")
        assert set(collector.span_ids().values()) == {1}
        project.call("runs", "export", f"--otel={collector.url}", "--resend")
    assert set(collector.span_ids().values()) == {2}


def test_a_bare_option_takes_no_argument_and_uses_the_variables(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        project.call("run", "suite.yaml")
        assert not collector.requests
        code, said = project.call("runs", "export", "--otel", "latest")
    assert code == 0, said
    assert len(collector.evaluations()) == 3


def test_a_dead_collector_changes_nothing_but_the_end_line(project: Project) -> None:
    code, said = project.call("run", "suite.yaml", f"--otel={DEAD}")
    assert code == 0
    run = project.run.name
    assert (
        f"otel: 0 results sent to {DEAD}, 3 unsent (connection refused)\n"
        f"      send them later: agentv runs export --otel={DEAD} {run}\n" in said
    )
    code, said = project.call("runs", "export", f"--otel={DEAD}", "--json")
    assert code == 3
    assert {key: json.loads(said)[key] for key in ("sent", "unsent", "reason")} == {
        "sent": 0,
        "unsent": 3,
        "reason": "connection refused",
    }


@pytest.mark.parametrize("answer", [pytest.param(never_answer, id="silent"), pytest.param(hang_up, id="resets")])
def test_the_end_of_a_run_waits_for_a_bad_collector_only_so_long(project: Project, answer: Answer) -> None:
    with serving(answer) as server:
        project.call("run", "suite.yaml", "--name", "without")
        began = time.monotonic()
        code, said = project.call("run", "suite.yaml", f"--otel={server.url}")
        took_s = time.monotonic() - began
    assert code == 0
    assert "0 results sent" in said
    assert "3 unsent" in said
    assert took_s < END_WAIT_S + 7  # a loaded machine


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        pytest.param(405, {}, id="405"),
        pytest.param(429, {"Retry-After": "600"}, id="429"),
        pytest.param(503, {}, id="503"),
    ],
)
def test_a_refusing_collector_gets_the_rest_later(project: Project, status: int, headers: dict[str, str]) -> None:
    is_refusing = True

    def respond(_: web.Request, __: Collector) -> web.Response | None:
        return web.Response(status=status, headers=headers) if is_refusing else None

    with collecting(respond) as collector:
        code, said = project.call("run", "suite.yaml", f"--otel={collector.url}")
        assert code == 0
        assert f"3 unsent (HTTP {status}" in said
        is_refusing = False
        code, said = project.call("runs", "export", f"--otel={collector.url}", "latest")
    assert code == 0
    assert "3 results sent" in said
    assert len(collector.evaluations()) == 3
    assert set(collector.span_ids().values()) == {1}


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (401, "check OTEL_EXPORTER_OTLP_HEADERS"),
        (405, "check that this is the address of a collector for OTLP over HTTP"),
    ],
)
def test_a_collector_that_never_takes_results_is_named_with_what_to_check(
    project: Project, status: int, advice: str
) -> None:
    with collecting(refusing(status)) as collector:
        _, said = project.call("run", "suite.yaml", f"--otel={collector.url}")
    assert f"3 unsent (HTTP {status}: {advice})" in said


def test_a_collector_of_traces_only_gets_traces(project: Project) -> None:
    with collecting(refusing(405, path="/v1/logs")) as collector:
        code, said = project.call("run", "suite.yaml", f"--otel={collector.url}")
    assert code == 0
    assert "3 results sent" in said
    assert "traces only: it takes no logs (HTTP 405)" in said
    assert len(collector.evaluations()) == 3


def test_a_smaller_request_follows_one_that_is_too_large(project: Project) -> None:
    def respond(request: web.Request, _: Collector) -> web.Response | None:
        return web.Response(status=413) if (request.content_length or 0) > 500 else None

    with collecting(respond) as collector:
        _, said = project.call("run", "suite.yaml")
        code, said = project.call("runs", "export", f"--otel={collector.url}")
    assert code == 0, said
    assert len(collector.evaluations()) == 3


def test_content_is_sent_with_its_switch_only(project: Project) -> None:
    with collecting() as collector:
        project.call("run", "suite.yaml", f"--otel={collector.url}")
        assert not [body for body in collector.bodies if b"question a" in body or b"answer" in body]
        project.call("runs", "export", f"--otel={collector.url}", "--otel-content")
    answer = next(span for span in collector.spans if "gen_ai.output.messages" in span.attributes)
    assert json.loads(answer.attributes["gen_ai.output.messages"])[0]["parts"][0]["content"].startswith("answer to")
    assert json.loads(answer.attributes["gen_ai.input.messages"])[0]["parts"][0]["content"].startswith("question")


def test_headers_are_sent_and_stored_nowhere(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "s3same-0pen-now"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"x-api-key={secret}")
    agent = "import os\ndef answer(_): return 'answer ' + os.environ['OTEL_EXPORTER_OTLP_HEADERS']\n"
    (project.folder / "agent.py").write_text(agent)
    with collecting() as collector:
        _, said = project.call("run", "suite.yaml", f"--otel={collector.url}", "--otel-content")
    assert collector.headers[0]["x-api-key"] == secret
    assert secret not in said
    stored = [path for path in project.run.rglob("*") if path.is_file() and secret in path.read_text(errors="replace")]
    assert stored == []
    assert not [body for body in collector.bodies if secret.encode() in body]


def test_a_rescored_run_sends_new_judgements_of_the_same_answers(project: Project) -> None:
    with collecting() as collector:
        project.call("run", "suite.yaml", f"--otel={collector.url}")
        project.evaluators = "{name: has, type: contains, value: answer to}"
        code, said = project.call("rescore", "latest", f"--otel={collector.url}")
    assert code == 0, said
    assert "3 results sent" in said
    assert len(collector.evaluations()) == 6
    assert {span.parent_id for span in collector.evaluations()} == {
        span.span_id for span in collector.spans if span.name.startswith("case ")
    }
    assert set(collector.span_ids().values()) == {1}


def test_a_resumed_run_sends_what_the_killed_one_did_not(project: Project) -> None:
    project.call("run", "suite.yaml")
    project.forget("results.jsonl", [2])
    project.forget("answers.jsonl", [2])
    with collecting() as collector:
        code, said = project.call("resume", "latest", f"--otel={collector.url}")
    assert code == 0, said
    assert "3 results sent" in said
    assert set(collector.span_ids().values()) == {1}


def test_a_retry_sends_its_results(project: Project) -> None:
    (project.folder / "broken").write_text("b")
    with collecting() as collector:
        project.call("run", "suite.yaml", "--max-retries", "0", f"--otel={collector.url}")
        (project.folder / "broken").unlink()
        code, said = project.call("retry", "latest", "--errors", f"--otel={collector.url}")
    assert code == 0, said
    assert "1 result sent" in said
    assert sorted(span.attributes["test.case.name"] for span in collector.evaluations()) == ["a", "b", "c"]
    (failed,) = [span for span in collector.spans if span.is_error]
    assert failed.attributes["test.case.name"] == "b"


def test_scored_answers_are_sent_below_their_own_spans(project: Project) -> None:
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    metadata = {"trace_id": trace, "span_id": span}
    lines = [{"id": "1", "prompt": "Hi", "response": "Hello", "metadata": metadata}]
    (project.folder / "log.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (project.folder / "config.yaml").write_text("evaluators: [{name: has, type: contains, value: Hello}]\n")
    with collecting() as collector:
        code, said = project.call("score", "log.jsonl", "--config", "config.yaml", f"--otel={collector.url}")
    assert code == 0, said
    assert "1 result sent" in said
    (judged,) = collector.spans
    assert (judged.trace_id, judged.parent_id) == (trace, span)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("run", "suite.yaml", "--otel=1"), "--otel must be the URL", id="no-url"),
        pytest.param(("run", "suite.yaml", "--otel", DEAD), "after an equals sign: --otel=URL", id="space"),
        pytest.param(("run", "suite.yaml", "--otel-content"), "--otel-content requires --otel", id="content-alone"),
        pytest.param(("runs", "export"), "-o FILE", id="nothing-to-do"),
        pytest.param(("runs", "export", "--resend", "-o", "x.yaml"), "--resend requires", id="resend-alone"),
        pytest.param(("runs", "export", "--otel", "--failed"), "omit -o and the options", id="selection"),
    ],
)
def test_options_that_do_not_fit_are_refused(project: Project, arguments: tuple[str, ...], said: str) -> None:
    code, found = project.call(*arguments)
    assert code == 4
    assert said in found
    assert not list(Path(project.folder).glob(".agentv/runs/*"))


def test_a_merged_run_has_the_ids_of_its_shards(project: Project) -> None:
    with collecting() as collector:
        for part in ("1/2", "2/2"):
            project.call("run", "suite.yaml", "--shard", part, "--name", part[0], f"--otel={collector.url}")
        code, said = project.call("merge", "1", "2", f"--otel={collector.url}")
    assert code == 0, said
    assert "3 results sent" in said
    assert len(collector.spans) == 12
    assert set(collector.span_ids().values()) == {2}


def test_what_a_collector_drops_is_reported_without_its_secrets(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=s3same-0pen-now")
    partial = ExportTracePartialSuccess(rejected_spans=2, error_message="no room for s3same-0pen-now")
    body = ExportTraceServiceResponse(partial_success=partial).SerializeToString()
    respond = refusing(200, path="/v1/traces", body=body)
    with collecting(respond) as collector:
        code, said = project.call("run", "suite.yaml", f"--otel={collector.url}")
    assert code == 0
    assert "(2 records dropped by the collector; the collector reported: no room for ***)" in said


def test_a_run_with_blobs_and_many_results_is_sent_whole(project: Project) -> None:
    project.cases = {f"c{number}": "question" for number in range(600)} | {"big": "x" * 300_000}
    with collecting() as collector:
        project.call("run", "suite.yaml", "--display", "none")
        code, said = project.call("runs", "export", f"--otel={collector.url}", "--otel-content")
    assert code == 0, said
    assert "601 results sent" in said
    assert len(collector.evaluations()) == 601
    assert collector.requests["/v1/traces"] >= 3
    assert all("gen_ai.input.messages" in span.attributes for span in collector.spans if span.name.startswith("case "))


def test_a_run_folder_that_is_gone_changes_no_more_than_without_the_option(project: Project) -> None:
    agent = (
        "import shutil\ndef answer(_):\n    shutil.rmtree('.agentv/runs', ignore_errors=True)\n    return 'answer'\n"
    )
    (project.folder / "agent.py").write_text(agent)
    (without, _), (code, said) = project.call("run", "suite.yaml"), project.call("run", "suite.yaml", f"--otel={DEAD}")
    assert code == without
    assert "Traceback" not in said
