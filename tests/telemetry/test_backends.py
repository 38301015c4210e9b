"""Traces downloaded from Jaeger and Grafana Tempo: they say the same as what the instrumentation sent."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.spans import export, span
from tests.telemetry.test_recorded_traces import COMPLETE, TRACES

from agentv.cli.main import main
from agentv.telemetry.joining.answers import TracedAnswer
from agentv.telemetry.joining.joining import join_spans
from agentv.telemetry.otlp.binary import read_export
from agentv.telemetry.otlp.spans import attributes_of, is_trace, spans_of


def as_jaeger(exported: dict[str, Any]) -> dict[str, Any]:
    """Return an export as Jaeger's API gives it: the mapping of the Collector's translator."""
    spans, processes = [], {}
    for number, resource in enumerate(exported["resourceSpans"], 1):
        service = attributes_of(resource["resource"].get("attributes")).get("service.name")
        processes[f"p{number}"] = {"serviceName": service, "tags": []}
        for scope in resource["scopeSpans"]:
            added = {"otel.scope.name": scope["scope"].get("name", "")}
            spans += [jaeger_span(each, f"p{number}", added) for each in scope["spans"]]
    return {"traceID": spans[0]["traceID"], "spans": spans, "processes": processes, "warnings": None}


def jaeger_span(value: dict[str, Any], process: str, added: dict[str, Any]) -> dict[str, Any]:
    kinds = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}
    tags = {**attributes_of(value.get("attributes")), **added}
    if value.get("kind") in kinds:
        tags["span.kind"] = kinds[value["kind"]]
    if value.get("status", {}).get("code") == 2:
        tags |= {"error": True, "otel.status_code": "ERROR", "otel.status_description": value["status"].get("message")}
    parent = {"refType": "CHILD_OF", "traceID": value["traceId"], "spanID": value.get("parentSpanId")}
    linked = {"refType": "FOLLOWS_FROM", "traceID": value["traceId"], "spanID": "0123456789abcdef"}
    start = int(value["startTimeUnixNano"]) // 1000
    return {
        "traceID": value["traceId"],
        "spanID": value["spanId"],
        "operationName": value.get("name", ""),
        "references": [parent, linked] if value.get("parentSpanId") else [linked],
        "startTime": start,
        "duration": int(value["endTimeUnixNano"]) // 1000 - start,
        "tags": jaeger_tags(tags),
        "logs": [
            {
                "timestamp": start,
                "fields": jaeger_tags({"event": event["name"], **attributes_of(event.get("attributes"))}),
            }
            for event in value.get("events", ())
        ],
        "processID": process,
        "warnings": None,
    }


def jaeger_tags(values: Any) -> list[dict[str, Any]]:
    """Return values as tags: lists and objects as the text of their JSON."""
    return [
        {"key": key, "type": "string", "value": json.dumps(value) if isinstance(value, list | dict) else value}
        for key, value in values.items()
    ]


def as_tempo(exported: dict[str, Any]) -> dict[str, Any]:
    """Return an export as Tempo's API gives it: as protocol buffers write JSON, with ids in Base64."""
    return {"batches": in_base64(exported["resourceSpans"])}


def in_base64(value: Any) -> Any:
    if isinstance(value, list):
        return [in_base64(each) for each in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {
        key: b64encode(bytes.fromhex(item)).decode() if key in ids else in_base64(item) for key, item in value.items()
    }


def said(answers: list[TracedAnswer]) -> list[dict[str, Any]]:
    # Jaeger's times are microseconds, and lists among the other attributes are texts there.
    lines = [answer.to_line() for answer in answers]
    return [{key: line[key] for key in line if key not in ("timestamp", "duration_ms", "metadata")} for line in lines]


@pytest.mark.parametrize("written", [as_jaeger, as_tempo])
@pytest.mark.parametrize("name", [name for name in COMPLETE if not (TRACES / f"{name}.logs.pb").exists()])
def test_answers_are_those_of_the_export(name: str, written: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    exported: Any = read_export((TRACES / f"{name}.pb").read_bytes())
    expected, expected_report = join_spans(spans_of(exported))
    found, report = join_spans(spans_of(json.loads(json.dumps(written(exported)))))
    assert said(found) == said(expected) != []
    assert list(report.notes()) == list(expected_report.notes())


FAILED = span(1, None, {"gen_ai.operation.name": "chat"}, status={"code": 2, "message": "quota"}, kind=3)


def test_a_span_of_jaeger_keeps_its_failure_kind_scope_and_service() -> None:
    exported = export(FAILED)
    exported["resourceSpans"][0]["resource"]["attributes"] = [{"key": "service.name", "value": {"stringValue": "shop"}}]
    exported["resourceSpans"][0]["scopeSpans"][0]["scope"] = {"name": "a.scope"}
    (found,) = spans_of(as_jaeger(exported))
    assert (found.error, found.kind, found.scope, found.service) == ("quota", "CLIENT", "a.scope", "shop")
    assert found.attributes == {"gen_ai.operation.name": "chat"}


def forms() -> Iterator[tuple[str, Any]]:
    exported = export(FAILED)
    trace = as_jaeger(exported)
    single = {**trace["spans"][0], "process": {"serviceName": "shop"}}
    yield "page of Jaeger", {"data": [trace], "total": 0, "errors": None}
    yield "API v3 of Jaeger", {"result": exported}
    yield "span of Jaeger", single
    yield "API v2 of Tempo", {"trace": {"resourceSpans": in_base64(exported["resourceSpans"])}}
    batch = {**as_tempo(exported)["batches"][0]}
    yield "old Tempo", {"batches": [{"resource": {}, "instrumentationLibrarySpans": batch["scopeSpans"]}]}


@pytest.mark.parametrize("value", [value for _, value in forms()], ids=[name for name, _ in forms()])
def test_files_of_each_api_are_read(value: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "traces.json"
    file.write_text(json.dumps(value, indent=1))
    with pytest.raises(SystemExit):
        main(["traces", "show", str(file)])
    assert "it failed: quota" in capsys.readouterr().out


@pytest.mark.parametrize(
    "value",
    [
        {"batches": [{"name": "of lemons"}]},
        {"trace": {"id": "t", "input": "Hi", "output": "Hello"}, "observations": []},
        {"spans": [], "traceID": "1"},
        {"result": {"score": 1}},
    ],
)
def test_other_objects_with_such_keys_are_no_traces(value: Any) -> None:
    assert not is_trace(value)


def test_a_span_of_zipkin_is_an_error_that_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "zipkin.json"
    zipkin = {"traceId": "1" * 32, "id": "1" * 16, "name": "chat", "localEndpoint": {}, "tags": {}}
    file.write_text(json.dumps([zipkin]))
    with pytest.raises(SystemExit):
        main(["traces", "show", str(file)])
    assert "zipkin.json:1  is a span of Zipkin" in capsys.readouterr().out
