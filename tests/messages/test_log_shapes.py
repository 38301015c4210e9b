"""Lines of logs: recognised by shape, read completely, refused with the way out."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.logs import ANSWER, QUESTION, SHAPES, conversations, logged
from tests.support.transcripts import TRANSCRIPTS

from agentv.engine.calling.given_answer import context_of_input
from agentv.messages.logs.fields import logged_moment
from agentv.messages.logs.mapping import parse_map
from agentv.messages.logs.reading import LoggedAnswer, TraceStep, read_logged
from agentv.telemetry.joining.joining import join_spans
from agentv.telemetry.otlp.spans import is_trace, spans_of
from agentv.types.errors import ConfigError, EvalFileError
from agentv.types.evaluation import EvaluationContext
from agentv.types.messages import tool_calls_of
from agentv.types.usage import Usage

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


def answer_of(line: Any, *given: str, **options: Any) -> LoggedAnswer:
    if isinstance(line, dict) and is_trace(line):  # a span is the only one of its trace here
        (joined,), _ = join_spans(spans_of(line))
        line = joined.to_line()
    answer = read_logged(line, paths=parse_map(given), **options)
    assert isinstance(answer, LoggedAnswer)
    return answer


def judged(answer: LoggedAnswer) -> EvaluationContext:
    """Return what evaluators see of it."""
    return context_of_input(answer.given, (), judge=None, now=NOON)


def refusal(line: Any, *given: str, **options: Any) -> str:
    with pytest.raises(EvalFileError) as raised:
        read_logged(line, paths=parse_map(given), **options)
    return str(raised.value)


@pytest.mark.parametrize("line", [line for shape in SHAPES for line in conversations(shape)])
def test_a_line_of_a_known_shape_has_its_question_answer_and_id(line: dict[str, Any]) -> None:
    context = judged(answer_of(line))
    assert context.candidate == ANSWER
    assert context.eval_case.id not in ("input", "s-9")
    is_lone_completion = "choices" in line and "messages" not in line
    assert context.prompt_inputs.question == ("" if is_lone_completion else QUESTION)


@pytest.mark.parametrize(
    ("shape", "place"), [("messages", 0), ("langsmith", 1), ("phoenix", 2)], ids=["own", "langgraph", "phoenix"]
)
def test_tool_calls_of_a_logged_conversation_are_seen_by_evaluators(shape: str, place: int) -> None:
    output = judged(answer_of(conversations(shape)[place])).output_messages
    assert [(call.tool, call.input) for call in tool_calls_of(output or ())] == [("lookup_order", {"order": "1001"})]


@pytest.mark.parametrize(("shape", "place"), [("prompt", 0), ("langfuse", 0), ("langsmith", 3), ("phoenix", 2)])
def test_what_the_log_says_about_the_call_is_read(shape: str, place: int) -> None:
    answer = answer_of(conversations(shape)[place])
    assert (answer.given.model, answer.given.duration_ms) == ("gpt-4.1-mini", 812)
    assert answer.given.usage == Usage(input=31, output=14, total=45)
    assert not answer.given.metadata.keys() & {"model", "usage", "duration_ms", "cost_usd", "tags"}
    assert answer.given.timestamp is not None
    assert answer.given.timestamp.hour == 12


@pytest.mark.parametrize("shape", ["langfuse", "langsmith", "phoenix"])
def test_the_conversation_groups_the_lines_of_a_session(shape: str) -> None:
    assert {answer_of(line).given.session_id for line in conversations(shape)} == {"s-9"}


@pytest.mark.parametrize("shape", ["langfuse", "langsmith"])
def test_a_step_inside_a_trace_is_no_conversation_unless_it_is_mapped(shape: str) -> None:
    line = logged(shape)[-1]
    step = read_logged(line)
    assert isinstance(step, TraceStep)
    assert "tool" in step.kind
    path = {"langfuse": "output", "langsmith": "outputs.output"}[shape]
    assert answer_of(line, f"response={path}").given.text


@pytest.mark.parametrize(
    "value",
    [
        "2026-11-23T12:00:00Z",
        "2026-11-23T13:00:00+01:00",
        "2026-11-23 12:00:00.000000",
        1795435200,
        1795435200.0,
        "1795435200",
        1795435200_000,
        1795435200_000_000,
        1795435200_000_000_000,
    ],
)
def test_times_are_told_apart(value: object) -> None:
    assert logged_moment(value) == NOON  # type: ignore[arg-type]  # JSON of any kind
    line = {"response": "Yes", "ts": value}
    assert answer_of(line).given.timestamp == NOON


@pytest.mark.parametrize("value", [812, -1, 10**21, "yesterday", True, [1795435200]])
def test_a_value_that_is_no_time_is_refused(value: object) -> None:
    assert refusal({"response": "Yes", "ts": value}).startswith("log line  $.ts")


def test_several_texts_of_a_known_run_are_refused_and_one_can_be_chosen() -> None:
    line = {**conversations("langsmith")[0], "outputs": {"answer": "Yes", "text": "yes"}}
    assert "has several texts, 'answer', 'text'; choose one with --map response=outputs.answer" in refusal(line)
    assert answer_of(line, "response=outputs.text").given.response == "yes"


def test_several_texts_of_a_prompt_are_refused_with_advice_on_the_prompt() -> None:
    line = {**conversations("langsmith")[0], "inputs": {"question": "Open?", "query": "open", "limit": 3}}
    assert "has several texts, 'question', 'query'; choose one with --map prompt=inputs.question" in refusal(line)
    assert answer_of(line, "prompt=inputs.question").given.prompt == "Open?"


def test_an_output_of_unknown_form_is_refused_with_its_keys_and_kept_whole_when_mapped() -> None:
    line = {**conversations("langsmith")[0], "outputs": {"city": "Rome", "days": 3}}
    assert refusal(line) == (
        "log line  $.outputs  holds no text or message that is understood; its keys: 'city', 'days'; "
        "name the answer with --map response=outputs.KEY"
    )
    assert answer_of(line, "response=outputs").given.response == '{"city":"Rome","days":3}'


def test_an_answer_that_is_json_itself_stays_whole() -> None:
    text = '{"answer": "Rome", "confidence": 0.9}'
    line = {**conversations("langfuse")[1], "output": text}
    assert answer_of(line).given.response == text
    assert answer_of({"id": "1", "response": text}).given.response == text


def test_an_input_of_unknown_form_is_the_question_as_json() -> None:
    line = {**conversations("langsmith")[0], "inputs": {"city": "Rome", "days": 3}}
    assert answer_of(line).given.prompt == '{"city":"Rome","days":3}'


@pytest.mark.parametrize(
    ("shape", "change", "reason"),
    [
        ("langsmith", {"outputs": None, "error": "RateLimitError()"}, "it failed: RateLimitError()"),
        ("langfuse", {"output": None, "level": "ERROR", "statusMessage": "timeout"}, "it failed: timeout"),
        ("langfuse", {"output": ""}, "export of Langfuse without an answer"),
        ("messages", {"messages": [{"role": "user", "content": "?"}]}, "no answer after the user's last message"),
        ("messages", {"messages": [{"role": "user", "text": "?"}]}, "$.messages[0]  has no content"),
        ("messages", {"messages": "hello"}, "$.messages  must be a list of messages"),
        ("prompt", {"latency_ms": "fast"}, "$.latency_ms  must be a number"),
        (
            "prompt",
            {"response": None},
            "$.response  is null or an empty cell; if the agent answered nothing, write an empty text in JSON",
        ),
    ],
)
def test_a_line_without_an_answer_is_never_an_empty_one(shape: str, change: dict[str, Any], reason: str) -> None:
    assert reason in refusal({**conversations(shape)[0], **change})


def test_a_line_of_unknown_shape_names_its_keys_and_the_way_out() -> None:
    message = refusal({"q": "Where?", "reply": {"body": "Here."}})
    assert "this line has the keys 'q', 'reply'" in message
    assert "--map prompt=PATH --map response=PATH" in message
    answer = answer_of({"q": "Where?", "reply": {"body": "Here."}}, "prompt=q", "response=$.reply.body")
    assert (answer.given.prompt, answer.given.response) == ("Where?", "Here.")


@pytest.mark.parametrize("key", ["output", "answer", "respnse"])
def test_the_likely_answer_is_suggested(key: str) -> None:
    assert refusal({"input": "Where?", key: "Here."}).endswith(f"did you mean '--map response={key}'?")


def test_unknown_keys_are_refused_or_kept() -> None:
    line = {"id": "1", "response": "Yes", "channel": "web"}
    assert "$.channel  unknown key 'channel'; store such keys with --extra metadata" in refusal(line)
    assert answer_of(line, extra="metadata").given.metadata == {"channel": "web"}
    assert answer_of(line, "metadata.source=channel").given.metadata == {"source": "web"}


@pytest.mark.parametrize(
    ("path", "text"),
    [("a.b", "one"), ("turns[0].text", "two"), ("turns[-1].text", "three"), ("raw.text", "four"), ("x.y.z", "five")],
)
def test_a_path_reaches_into_objects_lists_texts_of_json_and_keys_with_dots(path: str, text: str) -> None:
    line = {
        "a": {"b": "one"},
        "turns": [{"text": "two"}, {"text": "three"}],
        "raw": '{"text": "four"}',
        "x.y": {"z": "five"},
    }
    assert answer_of(line, f"response={path}", extra="metadata").given.response == text


def test_a_mapped_conversation_is_split_at_its_answer() -> None:
    line = {"data": {"chat": conversations("messages")[0]["messages"]}}
    assert judged(answer_of(line, "messages=data.chat")).candidate == ANSWER


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (("response",), "write FIELD=PATH"),
        (("response=",), "write FIELD=PATH"),
        (("respnse=a",), "Did you mean 'response'"),
        (("response=a", "response=b"), "given twice"),
    ],
)
def test_a_wrong_map_is_refused_before_anything_is_read(given: tuple[str, ...], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_map(given)


def test_a_line_tells_what_it_found_of_the_map() -> None:
    answer = answer_of({"a": "Yes"}, "response=a", "session_id=user.session")
    assert answer.mapped == ("response",)


def test_several_answers_to_one_question_are_refused() -> None:
    line = logged("openai")[0]
    line["choices"] *= 2
    assert "$.choices  has 2 answers; choose one with --map response=choices[0].message" in refusal(line)
    assert answer_of(line, "response=choices[1].message").given.text == ANSWER


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"tags": "[]"}, {"tags": ()}),
        ({"tags": '["a", "b"]'}, {"tags": ("a", "b")}),
        ({"tags": "[a]"}, {"tags": ("[a]",)}),
        ({"metadata": "{}"}, {"metadata": {}}),
        ({"metadata": "web"}, {"metadata": {"metadata": "web"}}),
    ],
)
def test_tags_and_metadata_may_be_json_in_a_text(change: dict[str, Any], expected: dict[str, Any]) -> None:
    given = answer_of({"response": "Yes", **change}).given
    assert {name: getattr(given, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tags": "{}"}, "$.tags  must be a list of strings"),
        ({"metadata": "[]"}, "$.metadata  must be an object, got list"),
    ],
)
def test_an_empty_json_value_of_the_wrong_kind_is_refused(change: dict[str, Any], reason: str) -> None:
    assert reason in refusal({"response": "Yes", **change})


@pytest.mark.parametrize("channel", ["web", []])
def test_a_mapped_metadata_key_replaces_that_of_the_metadata(channel: object) -> None:
    line = {"response": "Yes", "metadata": {"channel": "old", "shop": "Rome"}, "via": channel}
    answer = answer_of(line, "metadata.channel=via")
    assert answer.mapped == ("metadata.channel",)
    assert answer.given.metadata == {"channel": channel, "shop": "Rome"}


@pytest.mark.parametrize(
    "line",
    [
        {"id": None, "request_id": "r1"},
        {"request_id": "r1", "id": None},
        {"requestId": "r1", "request_id": None},
        {"requestId": "r1", "id": None, "request_id": None},
    ],
)
def test_a_null_does_not_hide_the_value_of_another_spelling(line: dict[str, Any]) -> None:
    given = answer_of({"response": "Yes", **line}).given
    assert (given.id, given.metadata) == ("r1", {})


@pytest.mark.parametrize(
    ("keys", "field", "value", "metadata"),
    [
        ({"durationMs": 5, "duration_ms": 7}, "duration_ms", 7, {"durationMs": 5}),
        ({"duration_ms": 7, "durationMs": 5}, "duration_ms", 7, {"durationMs": 5}),
        ({"latency_ms": 5, "durationMs": 7}, "duration_ms", 7, {"latency_ms": 5}),
        ({"conversation_id": "c", "thread_id": "t"}, "session_id", "c", {"thread_id": "t"}),
        ({"threadId": "t", "conversationId": "c"}, "session_id", "t", {"conversation_id": "c"}),
        (
            {"threadId": "x", "thread_id": "t", "session_id": "s"},
            "session_id",
            "s",
            {"threadId": "x", "thread_id": "t"},
        ),
        ({"userId": "a", "user_id": "b"}, "metadata", {"user_id": "b", "userId": "a"}, {"user_id": "b", "userId": "a"}),
        ({"id": 1, "requestId": "r"}, "id", "1", {"request_id": "r"}),
    ],
)
def test_a_further_spelling_of_a_field_becomes_metadata(
    keys: dict[str, Any], field: str, value: object, metadata: dict[str, Any]
) -> None:
    given = answer_of({"response": "Yes", **keys}).given
    assert (getattr(given, field), given.metadata) == (value, metadata)


def test_every_spelling_of_an_unknown_key_is_reported() -> None:
    message = refusal({"response": "Yes", "shopName": "a", "shop_name": "b"})
    assert "unknown key 'shopName'" in message
    assert "unknown key 'shop_name'" in message


@pytest.mark.parametrize(("value", "count"), [("a", 0), ("b", 1)])
def test_a_key_that_the_metadata_has_with_another_value_is_noted(value: str, count: int) -> None:
    line = {"response": "Yes", "user_id": value, "metadata": {"user_id": "a"}}
    answer = answer_of(line)
    assert answer.given.metadata == {"user_id": "a"}
    what = "$.user_id is not stored, because the metadata has another value under 'user_id'"
    assert answer.notes == (f"{what}; --map metadata.user_id=user_id stores it instead",) * count
    mapped = answer_of(line, "metadata.user_id=user_id")
    assert (mapped.given.metadata, mapped.notes) == ({"user_id": value}, ())


def test_a_response_without_input_says_how_to_add_it() -> None:
    (line,) = (each for each in logged("openai") if each.get("object") == "response")
    stored = {key: value for key, value in line.items() if key not in ("input", "messages")}
    (note,) = answer_of(stored).notes
    assert "the key `input`" in note
    assert 'client.responses.input_items.list(id, order="asc")' in note
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": QUESTION}]}
    answer = answer_of({**stored, "input": {"object": "list", "data": [item], "has_more": False}})
    assert (judged(answer).prompt_inputs.question, answer.notes) == (QUESTION, ())


def test_a_completion_without_messages_says_how_to_add_them() -> None:
    (note,) = answer_of(logged("openai")[-1]).notes
    assert "client.chat.completions.messages.list(id)" in note


@pytest.mark.parametrize("program", ["claude", "codex", "copilot"])
def test_a_record_of_a_transcript_in_a_stream_is_named(program: str) -> None:
    record = json.loads((TRANSCRIPTS / f"{program}.jsonl").read_text().splitlines()[-1])
    assert "which is read as a whole; give its file or folder instead of a stream" in refusal(record)
