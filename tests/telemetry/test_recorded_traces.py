"""Traces that real instrumentations sent: every one has the same three answers, with the tokens that were counted."""

import json
from pathlib import Path

import pytest
from tests.telemetry.agents import shop

from agentv.telemetry.answers import TracedAnswer
from agentv.telemetry.binary import read_export
from agentv.telemetry.joining import JoinOptions, JoinReport, join_spans
from agentv.telemetry.spans import Span, spans_of
from agentv.types.messages_json import content_text

TRACES = Path(__file__).parents[1] / "fixtures" / "traces"
RECORDED = json.loads((TRACES / "recorded.json").read_text())
WITHOUT_ANSWERS = ("without-content", "without-calls")
COMPLETE = sorted(set(RECORDED) - set(WITHOUT_ANSWERS))
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
        (each.role, content_text(each.content or ""), [(call.tool, call.input) for call in each.tool_calls])
        for each in answer.messages
        if each.role != "system"
    ]


EXPECTED = [
    [
        ("user", shop.QUESTIONS[0], []),
        ("assistant", "", [CALL]),
        ("tool", "Order 7 is on its way.", []),
        ("assistant", "Order 7 is on its way.", []),
    ],
    [("user", shop.QUESTIONS[1], []), ("assistant", "You are welcome.", [])],
    [("user", shop.QUESTIONS[2], []), ("assistant", "30 days.", [])],
]


@pytest.mark.parametrize("name", COMPLETE)
def test_every_instrumentation_has_the_same_answers(name: str) -> None:
    answers, report = read(name)
    ordered = sorted(answers, key=lambda answer: answer.start_ns)
    assert list(map(said, ordered)) == EXPECTED
    assert (report.open, report.ambiguous, report.guessed, dict(report.problems)) == (0, 0, 0, {})
    assert {answer.model for answer in answers} == {shop.MODEL}
    systems = {
        content_text(answer.messages[0].content or "") for answer in answers if answer.messages[0].role == "system"
    }
    assert systems <= {shop.SYSTEM}


@pytest.mark.parametrize("name", COMPLETE)
def test_tokens_are_those_that_the_server_counted(name: str) -> None:
    usages = [answer.usage for answer in read(name)[0] if answer.usage is not None]
    total = {"input": sum(usage.input for usage in usages), "output": sum(usage.output for usage in usages)}
    assert total == RECORDED[name]["tokens"]
    assert [usage.requests for usage in usages].count(2) == 1


@pytest.mark.parametrize("name", COMPLETE)
def test_calls_have_the_ids_of_their_results(name: str) -> None:
    (asked,) = [answer for answer in read(name)[0] if any(each.tool_calls for each in answer.messages)]
    calls = [call.id for each in asked.messages for call in each.tool_calls]
    assert calls == [each.tool_call_id for each in asked.messages if each.role == "tool"]
    assert all(calls)


@pytest.mark.parametrize("name", ["openinference-langchain", "official-langchain", "openllmetry-langchain"])
def test_a_shared_thread_id_is_one_session_of_three_answers(name: str) -> None:
    answers, _ = read(name)
    assert [answer.session for answer in answers] == ["one"] * 3
    (whole,), _ = join_spans(spans(name), JoinOptions(unit="conversation"))
    assert [text for role, text, _ in said(whole) if role == "user"] == list(shop.QUESTIONS)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("without-content", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only"),
        ("without-calls", "opentelemetry-instrumentation-genai-openai"),
    ],
)
def test_traces_without_content_are_reported_once_with_what_supplies_it(name: str, hint: str) -> None:
    answers, report = read(name)
    assert answers == []
    (note,) = report.notes()
    assert hint in note
