"""Spans downloaded from Weave, Opik and Braintrust: an answer has the calls of tools and the tokens of its trace."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.telemetry.test_api_forms import heard

from agentv.cli.main import main
from agentv.telemetry.joining.answers import TracedAnswer
from agentv.telemetry.joining.joining import join_spans
from agentv.telemetry.joining.report import JoinReport
from agentv.telemetry.otlp.spans import is_trace, spans_of

ASKED = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Where?"}]
CALL = {"id": "c1", "type": "function", "function": {"name": "find_order", "arguments": '{"order": "7"}'}}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
HISTORY = [*ASKED, CALLS, {"role": "tool", "tool_call_id": "c1", "content": "sent"}]
HERE = {"role": "assistant", "content": "Here."}
EXPECTED = [
    ("user", "Where?", []),
    ("assistant", "", [("find_order", {"order": "7"}, "c1")]),
    ("tool", "sent", []),
    ("assistant", "Here.", []),
]
TIMES = [f"2026-01-01T00:00:0{second}.000000Z" for second in range(8)]


def choices(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"index": 0, "finish_reason": "stop", "message": message}]


def opik(kind: str, name: str, number: int, given: Any, made: Any, **more: Any) -> dict[str, Any]:
    """A span of Opik; that of a function has its result as `output`."""
    return {
        "id": f"span-{number}",
        "trace_id": "trace-1",
        "project_id": "p",
        "name": name,
        "type": kind,
        **({"parent_span_id": "span-0"} if number else {}),
        "start_time": TIMES[number],
        "end_time": TIMES[number + 1] if number else TIMES[7],
        "input": given,
        "output": made,
        **more,
    }


OPIK_USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12, "original_usage.prompt_tokens": 10}
OPIK = [
    opik("general", "ask", 0, {"question": "Where?"}, {"output": "Here."}),
    opik("llm", "chat", 1, {"messages": ASKED}, {"choices": choices(CALLS)}, model="m-1", usage=OPIK_USAGE),
    opik("tool", "find_order", 2, {"order": "7"}, {"output": "sent"}),
    opik("llm", "chat", 3, {"messages": HISTORY}, {"choices": choices(HERE)}, model="m-1", usage=OPIK_USAGE),
]


def weave(op: str, number: int, given: Any, made: Any, **more: Any) -> dict[str, Any]:
    """A call of Weave, whose parents have the tokens, too."""
    usage = {"m-1": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12, "requests": 1}}
    return {
        "id": f"call-{number}",
        "project_id": "me/shop",
        "op_name": f"weave:///me/shop/op/{op}:Ab{number}",
        "trace_id": "trace-1",
        "parent_id": "call-0" if number else None,
        "thread_id": "one",
        "attributes": {},
        "started_at": TIMES[number],
        "ended_at": TIMES[number + 1] if number else TIMES[7],
        "exception": None,
        "inputs": given,
        "output": made,
        "summary": {"usage": usage},
        **more,
    }


WEAVE = [
    weave("ask", 0, {"question": "Where?"}, "Here."),
    weave("openai.chat.completions.create", 1, {"model": "m-1", "messages": ASKED}, {"choices": choices(CALLS)}),
    weave("find_order", 2, {"order": "7"}, "sent"),
    weave("openai.chat.completions.create", 3, {"model": "m-1", "messages": HISTORY}, {"choices": choices(HERE)}),
]


def braintrust(kind: str, name: str, number: int, given: Any, made: Any, **more: Any) -> dict[str, Any]:
    """A span of Braintrust, whose times are with the tokens."""
    seconds = {"start": 1767225600.0 + number, "end": 1767225601.0 + (number or 7)}
    return {
        "id": f"row-{number}",
        "span_id": f"span-{number}",
        "root_span_id": "span-0",
        "is_root": not number,
        "span_parents": ["span-0"] if number else None,
        "span_attributes": {"name": name, "type": kind},
        "input": given,
        "output": made,
        "error": None,
        "metrics": {**seconds, **more},
        "metadata": {"model": "m-1"},
    }


TOKENS = {"prompt_tokens": 10, "completion_tokens": 2, "tokens": 12}
BRAINTRUST = [
    braintrust("task", "ask", 0, {"question": "Where?"}, "Here."),
    braintrust("llm", "Chat Completion", 1, ASKED, choices(CALLS), **TOKENS),
    braintrust("tool", "find_order", 2, {"order": "7"}, "sent"),
    braintrust("llm", "Chat Completion", 3, HISTORY, choices(HERE), **TOKENS),
]
ROWS = {"opik": OPIK, "weave": WEAVE, "braintrust": BRAINTRUST}


def joined(*values: dict[str, Any]) -> tuple[list[TracedAnswer], JoinReport]:
    assert all(map(is_trace, values))
    return join_spans([span for value in values for span in spans_of(value)])


@pytest.mark.parametrize("service", ROWS)
def test_the_spans_of_a_trace_are_one_answer(service: str) -> None:
    (answer,), report = joined(*ROWS[service])
    assert heard(answer) == EXPECTED
    assert answer.usage is not None
    assert (answer.model, answer.usage.input, answer.usage.output, answer.usage.requests) == ("m-1", 20, 4, 2)
    assert (dict(report.problems), report.open, answer.end_ns - answer.start_ns >= 7 * 10**9) == ({}, 0, True)


def test_an_output_of_opik_may_be_a_text() -> None:
    (answer,), _ = joined({**OPIK[0], "output": "Here."}, *OPIK[1:])
    assert heard(answer) == EXPECTED
    (answer,), _ = joined({**OPIK[0], "type": "llm", "input": {"messages": ASKED}, "output": "Here."})
    assert answer.text == "Here."


@pytest.mark.parametrize("service", ROWS)
def test_calls_without_a_function_around_them_are_joined(service: str) -> None:
    first, last = (dict(ROWS[service][number]) for number in (1, 3))
    for number, each in enumerate((first, last)):
        each |= {"parent_span_id": None, "parent_id": None, "span_parents": None}
        each |= {"trace_id": f"trace-{number}", "root_span_id": f"trace-{number}"}
    (answer,), _ = joined(first, last)
    assert heard(answer) == EXPECTED


@pytest.mark.parametrize(
    ("service", "failed"),
    [
        ("opik", {"error_info": {"exception_type": "ValueError", "message": "no order"}}),
        ("weave", {"exception": "no order"}),
        ("braintrust", {"error": "no order"}),
    ],
)
def test_a_trace_that_failed_is_an_error_with_its_reason(service: str, failed: dict[str, Any]) -> None:
    outer, *inner = ROWS[service]
    (answer,), _ = joined({**outer, "output": None, **failed}, *inner[:2])
    assert answer.error == "has no answer, because it failed: no order"


def test_a_trace_that_opik_exports_has_its_session() -> None:
    trace = {"id": "trace-1", "name": "ask", "start_time": TIMES[0], "end_time": TIMES[7], "thread_id": "one"}
    (answer,), _ = joined({"trace": {**trace, "input": {}, "output": {}}, "spans": OPIK, "project_name": "shop"})
    assert (heard(answer), answer.session) == (EXPECTED, "one")


def test_a_trace_of_opik_without_one_outermost_span_is_the_answer() -> None:
    trace = {"id": "trace-1", "name": "ask", "start_time": TIMES[0], "end_time": TIMES[7], "thread_id": None}
    told = {**trace, "input": {"question": "Where?"}, "output": {"answer": "Here."}}
    spans = [{**each, "parent_span_id": None} for each in OPIK[1:]]
    (answer,), _ = joined({"trace": told, "spans": spans})
    assert heard(answer) == EXPECTED
    (alone,), _ = joined({"trace": told, "spans": []})
    assert heard(alone) == [EXPECTED[0], EXPECTED[-1]]


@pytest.mark.parametrize(("service", "number"), [("weave", 0), ("braintrust", 0)])
def test_the_session_is_that_of_the_outermost_span(service: str, number: int) -> None:
    rows = [dict(row) for row in ROWS[service]]
    rows[number] |= {"metadata": {"session_id": "one"}}
    (answer,), _ = joined(*rows)
    assert answer.session == "one"


@pytest.mark.parametrize("service", ROWS)
@pytest.mark.parametrize("is_list", [False, True])
def test_downloaded_files_are_shown(
    service: str, is_list: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / ("spans.json" if is_list else "spans.jsonl")
    lines = json.dumps(ROWS[service]) if is_list else "\n".join(map(json.dumps, ROWS[service]))
    file.write_text(lines)
    with pytest.raises(SystemExit, match="0"):
        main(["traces", "show", str(file)])
    assert "1 answer in 4 spans of 1 trace" in capsys.readouterr().out


def test_observations_of_langfuse_are_no_spans_of_opik() -> None:
    row = {"id": "1", "traceId": "t", "trace_id": "t", "type": "TOOL", "start_time": TIMES[0], "input": 1, "output": 2}
    assert not is_trace(row)


@pytest.mark.parametrize("service", ROWS)
@pytest.mark.parametrize("wrong", [None, "x", 10**30, 1e300, [], [[]], {}, {"a": 1}])
def test_wrong_values_of_a_span_are_never_a_traceback(service: str, wrong: Any) -> None:
    for key in ROWS[service][1]:
        rows = [{**row, key: wrong} for row in ROWS[service]]
        join_spans([span for row in rows if is_trace(row) for span in spans_of(row)])
