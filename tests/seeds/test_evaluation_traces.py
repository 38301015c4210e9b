"""Seed evaluation.md: traces, their summary, output messages, and what evaluators get of them."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentv import LlmJudgeEvaluator, TraceEvent, summarize_trace
from agentv.messages.shapes.reading import read_messages
from agentv.types.json_value import JsonValue
from agentv.types.messages import TRACE_EVENT_TYPES
from agentv.types.messages_json import trace_summary_to_json

SUITE = """
evalcases:
  - id: c
    expected_outcome: Searches
    input_messages: [{role: user, content: Search the docs}]
    evaluators:
      - {name: seen, type: code_judge, python: "seen.py:judge"}
"""
TARGETS = "targets: [{name: t, provider: cli, command_template: 'cp answer.json {OUTPUT_FILE}'}]"
SEEN = """
import json
from pathlib import Path

def judge(case):
    Path(__file__).with_name("seen.json").write_text(json.dumps(case))
    return {"score": 1}
"""
TRACE = [
    {"type": "tool_call", "name": "searchDocs"},
    {"type": "tool_result"},
    {"type": "tool_call", "name": "searchDocs"},
    {"type": "tool_result"},
    {"type": "tool_call", "name": "verify"},
    {"type": "tool_result"},
]
TRACE_SUMMARY = {
    "eventCount": 6,
    "toolNames": ["searchDocs", "verify"],
    "toolCallsByName": {"searchDocs": 2, "verify": 1},
    "errorCount": 0,
}
MESSAGES = [{"role": "assistant", "tool_calls": [{"tool": "searchDocs"}, {"tool": "verify"}]}]
MESSAGES_SUMMARY = {
    "eventCount": 2,
    "toolNames": ["searchDocs", "verify"],
    "toolCallsByName": {"searchDocs": 1, "verify": 1},
    "errorCount": 0,
}


@pytest.fixture
def answered(run: Callable[..., Any], tmp_path: Path) -> Callable[..., tuple[dict[str, Any], dict[str, Any]]]:
    """Return a function that lets a target answer with this object: the exported row, and what a code judge got."""

    def answer(given: dict[str, Any], suite: str = SUITE) -> tuple[dict[str, Any], dict[str, Any]]:
        files = {"evals/seen.py": SEEN, "evals/answer.json": json.dumps(given)}
        done = run(suite, "--include-trace", targets=TARGETS, files=files)
        (row,) = done.rows
        seen = tmp_path / "evals" / "seen.json"
        return row, json.loads(seen.read_text("utf-8")) if seen.exists() else {}

    return answer


def test_provider_returns_a_trace(answered: Callable[..., Any]) -> None:
    row, seen = answered({"text": "found", "trace": TRACE})
    assert row["trace_summary"] == TRACE_SUMMARY
    assert row["trace"] == TRACE
    assert seen["candidate_trace"] == TRACE
    assert seen["candidate_trace_summary"] == TRACE_SUMMARY


def test_provider_does_not_support_traces(answered: Callable[..., Any]) -> None:
    row, seen = answered({"text": "found"})
    assert row["status"] == "pass"
    assert seen["candidate_trace"] is None
    assert seen["candidate_trace_summary"] is None


def test_deterministic_trace_evaluator_reads_trace(answered: Callable[..., Any]) -> None:
    evaluators = """
      - {name: calls, type: tool_trajectory, mode: any_order, minimums: {searchDocs: 2, verify: 2}, weight: 3}
      - {name: text, type: contains, value: found, weight: 1}
"""
    suite = SUITE.replace(
        """
      - {name: seen, type: code_judge, python: "seen.py:judge"}
""",
        evaluators,
    )
    row, _ = answered({"text": "found", "trace": TRACE}, suite)
    assert [result["score"] for result in row["evaluator_results"]] == [0.5, 1.0]
    assert row["score"] == pytest.approx((3 * 0.5 + 1 * 1.0) / 4)


def _always(model: Any, _context: object) -> Any:
    return model


def test_llm_judge_may_consume_trace_opt_in(judge: Callable[..., Any], context: Callable[..., Any]) -> None:
    summary = summarize_trace([TraceEvent("tool_call", name="searchDocs")])
    for include, given, shown in [(True, summary, True), (False, summary, False), (True, None, False)]:
        model = judge('{"score": 1}')
        evaluator = LlmJudgeEvaluator(resolve_judge_provider=partial(_always, model), include_trace=include)
        score = asyncio.run(evaluator.evaluate(context("4", candidate_trace_summary=given)))
        assert score.score == 1.0
        assert ("searchDocs" in model.requests[0].question) is shown


EVERY_FIELD = {
    "timestamp": "2026-01-31T12:00:00Z",
    "id": "step-1",
    "name": "searchDocs",
    "input": {"query": "refund"},
    "output": ["page 1"],
    "text": "looking",
    "metadata": {"latency_ms": 150},
}


def test_traceevent_structure(answered: Callable[..., Any]) -> None:
    kinds = ["model_step", "tool_call", "tool_result", "message", "error"]
    bare, full = [{"type": kind} for kind in kinds], [{"type": kind, **EVERY_FIELD} for kind in kinds]
    row, seen = answered({"text": "found", "trace": [*bare, *full]})
    assert row["trace"] == seen["candidate_trace"] == [*bare, *full]
    assert (row["trace_summary"]["eventCount"], row["trace_summary"]["errorCount"]) == (10, 2)
    assert [TraceEvent(kind).text for kind in TRACE_EVENT_TYPES] == [None] * len(kinds)


@pytest.mark.parametrize("event", [{}, {"name": "searchDocs"}, {"type": "thought"}, {"type": 1}, "tool_call"])
def test_traceevent_structure_needs_a_known_type(event: object, answered: Callable[..., Any]) -> None:
    row, seen = answered({"text": "found", "trace": [{"type": "message"}, event]})
    assert (row["status"], seen) == ("error", {})
    assert "trace[1]" in row["error"]["message"]
    assert "model_step, tool_call, tool_result, message, error" in row["error"]["message"]


def test_traceevent_structure_is_deprecated_in_favour_of_output_messages(run: Callable[..., Any]) -> None:
    suite = SUITE + SUITE.partition("evalcases:")[2].replace("id: c", "id: d")
    files = {"evals/seen.py": SEEN}
    said: dict[str, str] = {}
    for key, value in (("trace", TRACE), ("output_messages", MESSAGES)):
        answer = {"evals/answer.json": json.dumps({"text": "x", key: value})}
        done = run(suite, "-v", targets=TARGETS, files={**files, **answer})
        assert [row["status"] for row in done.rows] == ["pass", "pass"]
        said[key] = done.output + done.errors
    assert said["trace"].count("target 't': its responses have the key 'trace', which is deprecated") == 1
    assert "deprecated" not in said["output_messages"]


def test_tracesummary_computation() -> None:
    summary = summarize_trace([TraceEvent(**event) for event in TRACE])  # type: ignore[arg-type]  # as above
    assert trace_summary_to_json(summary) == TRACE_SUMMARY


def test_tracesummary_from_outputmessages() -> None:
    camel_case: JsonValue = [{"role": "assistant", "toolCalls": [{"tool": "searchDocs"}, {"tool": "verify"}]}]
    messages = read_messages(camel_case, "messages")
    assert messages is not None
    assert trace_summary_to_json(summarize_trace(messages)) == MESSAGES_SUMMARY


def test_toolcall_with_optional_trace_fields(answered: Callable[..., Any]) -> None:
    call = {
        "tool": "searchDocs",
        "input": {"query": "test"},
        "output": {"results": []},
        "id": "call_123",
        "timestamp": "2025-01-01T00:00:00Z",
    }
    row, seen = answered({"output_messages": [{"role": "assistant", "tool_calls": [call]}]})
    assert row["output_messages"][0]["tool_calls"] == [call]
    assert seen["output_messages"][0]["tool_calls"] == [call]


def test_outputmessage_with_optional_metadata(answered: Callable[..., Any]) -> None:
    message = {
        "role": "assistant",
        "content": "response",
        "timestamp": "2025-01-01T00:00:00Z",
        "metadata": {"latency_ms": 150},
    }
    _, seen = answered({"output_messages": [message]})
    assert seen["output_messages"] == [message]
    assert seen["candidate_answer"] == "response"


def test_outputmessages_available_in_evaluator_context(answered: Callable[..., Any]) -> None:
    _, seen = answered({"output_messages": MESSAGES})
    assert [call["tool"] for call in seen["output_messages"][0]["tool_calls"]] == ["searchDocs", "verify"]
    assert seen["candidate_trace_summary"] == MESSAGES_SUMMARY


def test_fallback_to_trace_when_outputmessages_absent(answered: Callable[..., Any]) -> None:
    _, seen = answered({"text": "found", "trace": TRACE})
    assert seen["candidate_trace"] == TRACE
    assert seen["output_messages"] is None
