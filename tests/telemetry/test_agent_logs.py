"""Log records of Claude Code and Codex: each prompt is an answer, or the report says what is not recorded."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.support.spans import START, attribute

from agentv.telemetry.joining.answers import TracedAnswer
from agentv.telemetry.joining.joining import Joiner, JoinOptions, join_spans
from agentv.telemetry.joining.report import JoinReport
from agentv.telemetry.otlp.spans import Span, spans_of
from agentv.types.messages_json import content_text
from agentv.types.usage import Usage

LOGS = Path(__file__).parents[1] / "fixtures" / "agent-logs"
CLAUDE, CODEX = "com.anthropic.claude_code.events", "codex_otel.log_only"
SECOND = 10**9


def recorded(name: str) -> list[Span]:
    return [span for line in (LOGS / f"{name}.jsonl").read_text().splitlines() for span in spans_of(json.loads(line))]


def record(scope: str, name: str, at_s: float, attributes: dict[str, Any]) -> list[Span]:
    moment = str(int(START) + int(at_s * SECOND))
    given = {"event.name": name, **attributes}
    one: Any = {"timeUnixNano": moment, "attributes": [attribute(*item) for item in given.items()]}
    logs: Any = [{"scope": {"name": scope}, "logRecords": [one]}]
    export: Any = {"resourceLogs": [{"resource": {"attributes": []}, "scopeLogs": logs}]}
    return spans_of(export)


def claude(name: str, at_s: float, prompt_id: str = "p1", **attributes: Any) -> list[Span]:
    shared = {"session.id": "s", "prompt.id": prompt_id, "event.sequence": int(at_s)}
    return record(CLAUDE, name, at_s, {**shared, **attributes})


def said(answer: TracedAnswer) -> list[tuple[str, str, list[tuple[str, object, object]]]]:
    return [
        (
            each.role,
            content_text(each.content or ""),
            [(call.tool, call.input, call.output) for call in each.tool_calls],
        )
        for each in answer.messages
    ]


def asked_and_answered(prompt: str = "p1", at_s: float = 0) -> list[Span]:
    return [
        *claude("user_prompt", at_s, prompt, prompt=f"Question {prompt}"),
        *claude("assistant_response", at_s + 5, prompt, response=f"Answer {prompt}", query_source="sdk"),
    ]


def test_a_session_of_claude_code_has_its_answer_calls_tokens_and_cost() -> None:
    (answer,), report = join_spans(recorded("claude"))
    note, miss = (f"{command}" for command in ("printf '20 euros\\n' > notes.txt && cat notes.txt", "cat missing.txt"))
    written = {"file_path": "/example/workspace/new.txt", "content": "new\n"}
    assert said(answer) == [
        ("user", "[[ ## user_query ## ]]\n\nNote the amount, and write new.txt.", []),
        ("assistant", "", [("Bash", {"command": note, "description": "Look"}, "20 euros")]),
        ("assistant", "", [("Bash", {"command": miss, "description": "Look"}, "Shell command failed")]),
        ("assistant", "", [("Write", written, None)]),
        ("assistant", "The amount is in notes.txt, and new.txt is written.", []),
    ]
    assert answer.usage == Usage(input=400, output=40, cached_input=160, total=440, requests=4)
    assert answer.cost_usd == pytest.approx(0.001792)
    assert (answer.agent, answer.model) == ("Claude Code", "claude-opus-5-5")
    assert list(report.notes()) == []


def test_a_session_of_codex_is_reported_because_it_logs_no_answers() -> None:
    answers, report = join_spans(recorded("codex"))
    (note,) = report.notes()
    assert answers == []
    assert note.text.startswith("1 question has no answer in the traces of codex_otel: Codex logs prompts")
    assert "~/.codex/sessions" in note.text


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_order_and_copies_of_records_change_nothing(name: str) -> None:
    given, rng = recorded(name), random.Random(3)
    answers, report = join_spans(given)
    for _ in range(5):
        copies = [*given, *rng.choices(given, k=len(given))]
        rng.shuffle(copies)
        again, more = join_spans(copies)
        assert [(said(each), each.usage, each.cost_usd, each.id) for each in again] == [
            (said(each), each.usage, each.cost_usd, each.id) for each in answers
        ]
        assert list(more.notes()) == list(report.notes())


@pytest.mark.parametrize(
    ("prompt", "response", "note"),
    [
        ("<REDACTED>", "<REDACTED>", "1 answer has no messages in the traces of com.anthropic.claude_code: set OTEL"),
        ("<REDACTED>", "Yes.", "1 answer has no messages in the traces of com.anthropic.claude_code: set OTEL"),
        ("Really?", "<REDACTED>", "1 question has no answer in the traces of com.anthropic.claude_code: set OTEL"),
    ],
)
def test_texts_that_are_not_recorded_are_reported_with_what_records_them(prompt: str, response: str, note: str) -> None:
    answers, report = join_spans(
        [*claude("user_prompt", 0, prompt=prompt), *claude("assistant_response", 1, response=response)]
    )
    assert answers == []
    assert [each.text.startswith(note) and "OTEL_LOG_USER_PROMPTS=1" in each.text for each in report.notes()] == [True]


def test_inputs_of_tools_that_are_not_recorded_are_reported() -> None:
    (answer,), report = join_spans([*asked_and_answered(), *claude("tool_result", 2, tool_name="Bash")])
    assert [call.tool for each in answer.messages for call in each.tool_calls] == ["Bash"]
    (note,) = report.notes()
    assert note.text == "not read in 1 span: claude_code.tool_result has no tool_input; set OTEL_LOG_TOOL_DETAILS=1"


def test_earlier_prompts_of_a_session_are_history() -> None:
    answers, _ = join_spans([*asked_and_answered("p2", 100), *asked_and_answered("p1")])
    assert [[text for _, text, _ in said(each)] for each in answers] == [
        ["Question p1", "Answer p1"],
        ["Question p1", "Answer p1", "Question p2", "Answer p2"],
    ]
    assert {each.session for each in answers} == {"s"}
    (whole,), _ = join_spans(
        [*asked_and_answered("p2", 100), *asked_and_answered("p1")], JoinOptions(unit="conversation")
    )
    assert [text for _, text, _ in said(whole)] == ["Question p1", "Answer p1", "Question p2", "Answer p2"]


def test_what_subagents_and_titles_say_is_not_the_answer_but_costs() -> None:
    title = claude("assistant_response", 8, response="A title", query_source="generate_session_title")
    request = claude("api_request", 7, input_tokens="5", output_tokens="1", cost_usd="0.5", query_source="agent:x")
    (answer,), _ = join_spans([*asked_and_answered(), *title, *request])
    assert answer.text == "Answer p1"
    assert (answer.usage, answer.cost_usd) == (Usage(input=5, output=1, total=6, requests=1), 0.5)


def test_a_failed_prompt_says_why() -> None:
    failed = claude("api_error", 3, error="529 overloaded")
    (answer,), _ = join_spans([*claude("user_prompt", 0, prompt="Really?"), *failed])
    assert answer.error == "has no answer, because it failed: 529 overloaded"


def test_events_without_a_prompt_are_reported() -> None:
    answers, report = join_spans(record(CODEX, "codex.tool_result", 0, {"conversation.id": "c", "tool_name": "x"}))
    assert answers == []
    assert [note.text.partition(":")[0] for note in report.notes()] == [
        "1 answer has no messages in the traces of codex_otel"
    ]


def test_a_stream_has_the_answers_of_a_session_when_it_is_idle() -> None:
    joiner = Joiner(JoinOptions(is_endless=True))
    for span in asked_and_answered():
        joiner.add(span)
    assert joiner.ready() == []
    for span in record(CLAUDE, "user_prompt", 700, {"session.id": "other", "prompt.id": "p", "prompt": "More?"}):
        joiner.add(span)
    assert [each.text for each in joiner.ready()] == ["Answer p1"]
    joiner.close()


def report_of(spans: list[Span]) -> JoinReport:
    return join_spans(spans)[1]


@pytest.mark.parametrize("wrong", [None, 5, -1, True, "", "x", [], {}, "1e400", "nan"])
@pytest.mark.parametrize(
    "key", ["prompt", "tool_name", "tool_input", "input_tokens", "cost_usd", "duration_ms", "model"]
)
def test_wrong_values_of_attributes_are_no_traceback(key: str, wrong: Any) -> None:
    for name in ("user_prompt", "tool_result", "api_request", "assistant_response", "api_error"):
        for answer in join_spans([*asked_and_answered(), *claude(name, 2, **{key: wrong})])[0]:
            answer.to_line()
