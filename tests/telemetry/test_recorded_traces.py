"""Traces that real instrumentations sent: every one has the same three answers, with the tokens that were counted."""

import json
import random
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.nightly import IS_NIGHTLY
from tests.telemetry.agents import shop

from agentv.engine.logs.trace_lines import TraceLines
from agentv.execution.processes.line_stream import Line
from agentv.telemetry.joining.answers import TracedAnswer
from agentv.telemetry.joining.joining import JoinOptions, join_spans
from agentv.telemetry.joining.report import JoinReport
from agentv.telemetry.otlp.binary import read_export
from agentv.telemetry.otlp.spans import Span, SpanEvent, spans_of
from agentv.types.messages_json import content_text

TRACES = Path(__file__).parents[1] / "fixtures" / "traces"
RECORDED = json.loads((TRACES / "recorded.json").read_text())
WITHOUT_ANSWERS = ("without-content", "without-calls", "openllmetry-openai-agents-chat")
WITHOUT_IDS = ("openinference-google-genai", "openinference-haystack", "adk-js", "adk-1.0")
"""Their spans have no ids of calls; the spans of Haystack have no results of tools either."""
WITH_TOTALS = ("voltagent",)
"""Their spans have the tokens of all calls, and not those of each call."""
COMPLETE = sorted(set(RECORDED) - set(WITHOUT_ANSWERS))
EQUAL = [name for name in COMPLETE if name not in ("openinference-smolagents", "openinference-haystack")]
CALL = ("find_order", {"order": "7"})


def spans(name: str) -> list[Span]:
    return [
        span
        for path in sorted(TRACES.glob(f"{name}*.pb"))
        if path.name in (f"{name}.pb", f"{name}.logs.pb")
        for span in spans_of(read_export(path.read_bytes()))
    ]


def read(name: str) -> tuple[list[TracedAnswer], JoinReport]:
    return join_spans(spans(name))


def said(answer: TracedAnswer) -> list[tuple[str, str, list[tuple[str, object]]]]:
    """Return roles, texts and calls, without a system prompt, which not every instrumentation sends."""
    return [
        (
            each.role,
            plain(content_text(each.content or "")),
            [(unqualified(call.tool), call.input) for call in each.tool_calls],
        )
        for each in answer.messages
        if each.role != "system"
    ]


def plain(text: str) -> str:
    """Return a text without what a framework adds to a question or, as Google's or Pipecat's, to a tool's result."""
    text = unqualified(json.loads(text) if text.startswith('"') else text)
    asked = next((question for question in shop.QUESTIONS if question in text), None)
    result = json.loads(text)["result"] if text.startswith("{") and '"result"' in text else text
    return asked or result


def unqualified(name: str) -> str:
    """Return the name of a tool without that of its plug-in in Semantic Kernel."""
    return name.replace("Orders-", "")


EXPECTED: list[list[tuple[str, str, list[tuple[str, object]]]]] = [
    [
        ("user", shop.QUESTIONS[0], []),
        ("assistant", "", [CALL]),
        ("tool", "Order 7 is on its way.", []),
        ("assistant", "Order 7 is on its way.", []),
    ],
    [("user", shop.QUESTIONS[1], []), ("assistant", "You are welcome.", [])],
    [("user", shop.QUESTIONS[2], []), ("assistant", "30 days.", [])],
]


@pytest.mark.parametrize("name", EQUAL)
def test_every_instrumentation_has_the_same_answers(name: str) -> None:
    answers, report = read(name)
    ordered = sorted(answers, key=lambda answer: answer.start_ns)
    assert list(map(said, ordered)) == EXPECTED
    assert (report.open, report.ambiguous, report.guessed, dict(report.problems)) == (0, 0, 0, {})
    models = {answer.model for answer in answers} - {None}  # LiteLLM by OpenInference names some
    assert {model.removeprefix("openai/").removesuffix("-2025-08-07") for model in models if model} == {shop.MODEL}
    systems = {
        content_text(answer.messages[0].content or "") for answer in answers if answer.messages[0].role == "system"
    }
    assert all(shop.SYSTEM in system for system in systems)


@pytest.mark.parametrize("name", COMPLETE)
def test_tokens_are_those_that_the_server_counted(name: str) -> None:
    usages = [answer.usage for answer in read(name)[0] if answer.usage is not None]
    total = {"input": sum(usage.input for usage in usages), "output": sum(usage.output for usage in usages)}
    assert total == RECORDED[name]["tokens"]
    assert [usage.requests for usage in usages].count(2) == (name not in WITH_TOTALS)


@pytest.mark.parametrize("name", [name for name in COMPLETE if name not in WITHOUT_IDS])
def test_calls_have_the_ids_of_their_results(name: str) -> None:
    asked = next(answer for answer in read(name)[0] if any(each.tool_calls for each in answer.messages))
    calls = [call.id for each in asked.messages for call in each.tool_calls]
    assert calls == [each.tool_call_id for each in asked.messages if each.role == "tool"]
    assert all(calls)


@pytest.mark.parametrize(
    "name",
    [
        *("openinference-langchain", "official-langchain", "openllmetry-langchain", "langsmith"),
        *("ai-sdk-7", "openinference-ai-sdk", "laminar-js", "voltagent"),
        *("langfuse-langchain", "laminar", "langwatch", "monocle", "pipecat"),
    ],
)
def test_a_shared_thread_id_is_one_session_of_three_answers(name: str) -> None:
    answers, _ = read(name)
    assert [answer.session for answer in answers] == ["one"] * 3
    (whole,), _ = join_spans(spans(name), JoinOptions(unit="conversation"))
    assert [text for role, text, _ in said(whole) if role == "user"] == list(shop.QUESTIONS)


def test_the_nodes_of_a_graph_are_not_the_agent() -> None:
    assert [answer.agent for answer in read("langfuse-langchain")[0]] == ["shop"] * 3


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("without-content", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only"),
        ("without-calls", "opentelemetry-instrumentation-genai-openai"),
        ("openllmetry-openai-agents-chat", "openinference-instrumentation-openai-agents"),
    ],
)
def test_traces_without_content_are_reported_once_with_what_supplies_it(name: str, hint: str) -> None:
    answers, report = read(name)
    assert answers == []
    (note,) = report.notes()
    assert hint in note.text


def test_calls_whose_results_are_not_recorded_are_in_one_answer() -> None:
    answers, report = read("openinference-haystack")
    first, *others = [said(answer) for answer in sorted(answers, key=lambda answer: answer.start_ns)]
    assert first == [*EXPECTED[0][:2], ("tool", "", []), EXPECTED[0][3]]
    assert (others, report.guessed) == (EXPECTED[1:], 0)


def test_an_answer_by_a_tool_follows_its_call() -> None:
    answers, report = read("openinference-smolagents")
    first, second, _ = [said(answer) for answer in sorted(answers, key=lambda answer: answer.start_ns)]
    answer = ("final_answer", {"answer": "Order 7 is on its way."})
    assert [calls for _, _, calls in first if calls] == [[CALL], [answer]]
    assert [text for role, text, _ in first if role == "tool"][1:] == ["Order 7 is on its way."]
    assert (first[-1], second[-1]) == (EXPECTED[0][-1], EXPECTED[1][-1])
    assert dict(report.problems) == {}


def test_messages_without_their_contents_are_reported_like_no_messages() -> None:
    """openai-v2 sends them in log records unless it is asked to capture content."""
    bare = [replace(span, events=tuple(map(without_content, span.events))) for span in spans("openai-v2")]
    answers, report = join_spans(bare)
    assert answers == []
    (note,) = report.notes()
    assert "no messages in the traces of opentelemetry.instrumentation.openai_v2: set OTEL_" in note.text


def without_content(event: SpanEvent) -> SpanEvent:
    body = dict(event.body) if isinstance(event.body, dict) else {}
    if isinstance(body.get("message"), dict):
        body["message"] = {key: value for key, value in body["message"].items() if key != "content"}
    return replace(event, body={key: value for key, value in body.items() if key != "content"})


def exported(path: Path) -> dict[str, Any]:
    return dict(read_export(path.read_bytes()))


def exports_of(name: str) -> list[dict[str, Any]]:
    """Return an export for each span and each log record."""
    return [
        {kind: [{**resource, scopes: [{**scope, records: [one]}]}]}
        for path in (TRACES / f"{name}.pb", TRACES / f"{name}.logs.pb")
        if path.exists()
        for kind, scopes, records in (
            ("resourceSpans", "scopeSpans", "spans"),
            ("resourceLogs", "scopeLogs", "logRecords"),
        )
        for resource in exported(path).get(kind, [])
        for scope in resource[scopes]
        for one in scope[records]
    ]


def told(lines: Sequence[Line]) -> tuple[list[Any], list[str]]:
    """Return the answers in lines of traces, in order of time, and the notes."""
    with closing(TraceLines(JoinOptions(), ["a", "b"])) as traces:
        assert [traces.take(line) for line in lines] == [None] * len(lines)
        found = [json.loads(line.data) for line in traces.rest() if isinstance(line, Line)]
        rows = (
            [each["timestamp"], each["id"], each["messages"], each.get("usage"), each["session_id"]] for each in found
        )
        return sorted(rows, key=lambda row: row[:2]), sorted(note.text for note in traces.notes())


@settings(max_examples=300 if IS_NIGHTLY else 25)
@given(st.sampled_from(COMPLETE), st.randoms(use_true_random=False), st.integers(1, 9))
def test_any_split_order_and_copies_of_exports_have_the_same_answers(name: str, rng: random.Random, size: int) -> None:
    exports = exports_of(name)
    sent = [*exports, *rng.choices(exports, k=size)]
    rng.shuffle(sent)
    lines = [line_of(sent[place : place + size], rng.choice("ab"), place) for place in range(0, len(sent), size)]
    assert told(lines) == told([line_of(exports, "a", 1)])


def line_of(exports: Sequence[dict[str, Any]], file: str, number: int) -> Line:
    """Return exports as one."""
    joined: dict[str, list[Any]] = {}
    for export in exports:
        for kind, resources in export.items():
            joined.setdefault(kind, []).extend(resources)
    return Line(file, number, json.dumps(joined).encode())
