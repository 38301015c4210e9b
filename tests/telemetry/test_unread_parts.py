"""Parts of spans that are not understood: an error or a note with their place, never a message without them."""

import json
from typing import Any

import pytest
from tests.support.spans import attribute, export, span
from tests.telemetry.test_joining import assistant, call, join, user

from agentv.telemetry.contents.contents import said
from agentv.telemetry.joining.joining import JoinOptions
from agentv.types.messages import DataPart, Message
from agentv.types.messages_json import content_text

PLACE = "$.attributes.gen_ai.output.messages"


def why_not(answer: dict[str, Any]) -> str | None:
    """Return why a call with this answer has none that can be read."""
    (one,), _ = join(export(call(1, [user("Where?")], answer)))
    assert one.messages == ()
    return one.error


@pytest.mark.parametrize(
    ("fields", "place", "what"),
    [
        ({"content": [{"text": "Hm."}, {"toolUse": "find"}]}, ".content[1].toolUse", "must be an object, but is find"),
        ({"content": [{"toolResult": None}]}, ".content[0].toolResult", "must be an object, but is null"),
        ({"content": [{"tool_call": ["find"]}]}, ".content[0].tool_call", 'must be an object, but is ["find"]'),
        ({"content": [{"image": "x"}, {"text": "Hm."}]}, ".content[0].image", "must be an object, but is x"),
        ({"content": [{"reasoningContent": {"a": 1}}]}, ".content[0].reasoningContent", "has no text: {"),
        ({"content": [{"reasoning": {"reasoning_text": 1}}]}, ".content[0].reasoning", "has no text: {"),
        (
            {"parts": [{"type": "text", "content": "Hm."}], "tool_calls": ["find"]},
            ".tool_calls[0]",
            "is not a tool call: find",
        ),
        (
            {"parts": [{"type": "text", "content": "Hm."}], "tool_calls": {"a": 1}},
            ".tool_calls",
            "must be a list of tool calls, but is {",
        ),
    ],
)
def test_a_part_that_is_not_understood_is_an_error_with_its_place(
    fields: dict[str, Any], place: str, what: str
) -> None:
    error = why_not({"role": "assistant", **fields})
    assert error is not None
    assert error.startswith(f"cannot be read: gen_ai messages: {PLACE}[0]{place} {what}")


def test_calls_beside_parts_may_be_json() -> None:
    calls = json.dumps([{"id": "c1", "function": {"name": "find", "arguments": "{}"}}])
    answer = {**assistant("Hm."), "tool_calls": calls}
    (one,), _ = join(export(call(1, [user("Where?")], answer)))
    assert [each.tool for each in one.messages[-1].tool_calls] == ["find"]


def test_a_content_beside_an_empty_list_of_parts_is_read() -> None:
    (one,), _ = join(export(call(1, [{"role": "user", "parts": [], "content": "Where?"}], assistant("Here."))))
    assert one.messages[0] == Message("user", "Where?")


def test_redacted_reasoning_of_the_converse_api_is_a_part() -> None:
    content = [{"reasoningContent": {"redactedContent": "x"}}, {"cachePoint": {"type": "default"}}, {"text": "Here."}]
    (one,), _ = join(export(call(1, [user("Where?")], {"role": "assistant", "content": content})))
    parts = one.messages[-1].content
    assert isinstance(parts, tuple)
    assert parts[0] == DataPart("redacted_thinking", {"redactedContent": "x"})
    assert one.text == "Here."


@pytest.mark.parametrize(
    ("value", "text"),
    [([{"document": "Orders"}], "Orders"), ([{"text": "a"}, {"video": 5}], '[{"text":"a"},{"video":5}]')],
)
def test_an_input_with_the_keys_of_parts_may_be_any_value(value: Any, text: str) -> None:
    assert said(value, "user", "$") == (Message("user", text),)


def test_a_text_with_the_keys_of_parts_is_a_text() -> None:
    text = '[{"document": "Orders"}]'
    (one,), _ = join(export(call(1, [{"role": "user", "content": text}], assistant("Here."))))
    assert one.messages[0] == Message("user", text)


# --- attributes --------------------------------------------------------------------------------------------------

ASKED, REPLIED = json.dumps([user("Where?")]), json.dumps([assistant("Here.")])
CUT = "; if it was cut, raise OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"
ADK = "gcp.vertex.agent.llm_"
ADK_ASKED = json.dumps({"contents": [{"role": "user", "parts": [{"text": "Where?"}]}]})
ADK_REPLIED = json.dumps({"content": {"role": "model", "parts": [{"text": "Here."}]}})
LOGFIRE_REPLIED = json.dumps({"message": {"role": "assistant", "content": "Here."}})
OPENINFERENCE = {
    "openinference.span.kind": "LLM",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "Here.",
}


def chat(given: Any, output: Any = REPLIED) -> dict[str, Any]:
    return {"gen_ai.operation.name": "chat", "gen_ai.input.messages": given, "gen_ai.output.messages": output}


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        (chat(ASKED[:-9]), f"$.attributes.gen_ai.input.messages is not a list of messages{CUT}"),
        (chat("Where?"), f"$.attributes.gen_ai.input.messages is not a list of messages{CUT}"),
        (chat(["Where?"]), f"$.attributes.gen_ai.input.messages is not a list of messages{CUT}"),
        (chat([user("Where?"), "When?"]), f"$.attributes.gen_ai.input.messages is not a list of messages{CUT}"),
        (
            {f"{ADK}request": ADK_ASKED[:-9], f"{ADK}response": ADK_REPLIED},
            f"$.attributes.{ADK}request is not a JSON object{CUT}",
        ),
        (
            {"request_data": '{"messages": [{"ro', "response_data": LOGFIRE_REPLIED},
            f"$.attributes.request_data is not a JSON object{CUT}",
        ),
        (
            {**OPENINFERENCE, "llm.input_messages": '[{"message": {"ro'},
            f"$.attributes.llm.input_messages is not a list of messages{CUT}",
        ),
    ],
)
def test_a_call_whose_input_cannot_be_read_is_an_error_with_its_place(attributes: dict[str, Any], problem: str) -> None:
    (answer,), _ = join(export(span(1, None, attributes)))
    assert (answer.text, answer.error) == ("", f"cannot be read: {problem}")


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        (
            {"ai.operationId": "ai.generateText", "ai.prompt": '{"prompt": "Wh', "ai.response.text": "Here."},
            f"$.attributes.ai.prompt is not a JSON object{CUT}",
        ),
        (
            {"pydantic_ai.all_messages": ASKED[:-9], "final_result": "Here."},
            f"$.attributes.pydantic_ai.all_messages is not a list of messages{CUT}",
        ),
        (
            {"all_messages_events": '[{"event.name": "gen_ai.user.message"}, 5]', "final_result": "Here."},
            f"$.attributes.all_messages_events is not a list of messages{CUT}",
        ),
    ],
)
def test_an_agents_input_that_cannot_be_read_is_noted_with_its_place(attributes: dict[str, Any], problem: str) -> None:
    (answer,), report = join(export(span(1, None, attributes)))
    assert answer.text == "Here."
    assert [note.text for note in report.notes()] == [f"not read in 1 span: {problem}"]


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        (chat(ASKED, REPLIED[:-9]), f"$.attributes.gen_ai.output.messages is not a list of messages{CUT}"),
        (
            {f"{ADK}request": ADK_ASKED, f"{ADK}response": "<not serializable>"},
            f"$.attributes.{ADK}response is not a JSON object{CUT}",
        ),
        (
            {
                "ai.operationId": "ai.generateText.doGenerate",
                "ai.prompt": '{"prompt": "Where?"}',
                "ai.response.text": "Hm.",
                "ai.response.toolCalls": '[{"toolName": "fi',
            },
            "AI SDK: $.attributes.ai.response[0].tool_calls must be a list of tool calls, but is [{",
        ),
        (
            {
                **{key: value for key, value in OPENINFERENCE.items() if "content" not in key},
                "llm.output_messages.0.message.tool_calls": '[{"id',
            },
            "OpenInference: $.attributes.llm.output_messages[0].tool_calls must be a list of tool calls, but is [{",
        ),
        (
            {f"{ADK}request": json.dumps({"contents": ["Where?"]}), f"{ADK}response": ADK_REPLIED},
            f"Google ADK: $.attributes.{ADK}request.contents[0] is not a message, but a text",
        ),
    ],
)
def test_an_answer_that_cannot_be_read_is_an_error_with_its_place(attributes: dict[str, Any], problem: str) -> None:
    (answer,), report = join(export(span(1, None, attributes)))
    assert answer.error is not None
    assert answer.error.startswith(f"cannot be read: {problem}")
    assert list(report.notes()) == []


def test_a_list_of_messages_in_one_attribute_of_openinference_is_read() -> None:
    given = json.dumps([{"message": {"role": "user", "content": "Where?"}}])
    (answer,), report = join(export(span(1, None, {**OPENINFERENCE, "llm.input_messages": given})))
    assert ([each.content for each in answer.messages], list(report.notes())) == (["Where?", "Here."], [])


def test_contents_of_openinference_that_are_a_text_are_read() -> None:
    asked = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.contents": "Where?"}
    (answer,), _ = join(export(span(1, None, {**OPENINFERENCE, **asked})))
    assert [content_text(each.content) for each in answer.messages] == ["Where?", "Here."]


def test_a_chunk_without_a_list_of_parts_is_not_lost() -> None:
    chunks = [{**assistant("It is "), "finish_reason": ""}, {"role": "assistant", "content": "here."}]
    (answer,), _ = join(export(span(1, None, chat(ASKED, json.dumps(chunks)))))
    assert [content_text(each.content) for each in answer.messages[1:]] == ["It is ", "here."]


@pytest.mark.parametrize(
    ("body", "content"),
    [
        ({"stringValue": "Where?"}, "Where?"),
        ({"stringValue": '{"content": "Where?"}'}, "Where?"),
        ({"kvlistValue": {"values": [attribute("content", "Where?")]}}, "Where?"),
    ],
)
@pytest.mark.parametrize("name", ["gen_ai.user.message", "gen_ai.content.prompt"])
def test_a_log_record_whose_body_is_a_text_is_a_message(name: str, body: dict[str, Any], content: str) -> None:
    one = span(1, None, {"gen_ai.operation.name": "chat", "gen_ai.output.messages": REPLIED})
    record = {"traceId": one["traceId"], "spanId": one["spanId"], "eventName": name, "body": body}
    logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    (answer,), _ = join(export(one), logs)
    assert [each.content for each in answer.messages[:1]] == [content]


@pytest.mark.parametrize("body", ["", "gen_ai.user.message", "A log record."])
def test_a_text_beside_the_content_of_an_event_is_not_the_message(body: str) -> None:
    one = span(1, None, {"gen_ai.operation.name": "chat"})
    ids = {"traceId": one["traceId"], "spanId": one["spanId"], "body": {"stringValue": body}}
    records = [
        {**ids, "eventName": "gen_ai.user.message", "attributes": [attribute("content", "Where?")]},
        {**ids, "eventName": "gen_ai.choice", "attributes": [attribute("message", "Here.")]},
    ]
    (answer,), _ = join(export(one), {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]})
    assert [each.content for each in answer.messages] == ["Where?", "Here."]


def test_an_event_whose_body_is_its_name_has_no_content() -> None:
    one = span(1, None, {"gen_ai.operation.name": "chat", "gen_ai.output.messages": REPLIED})
    name = "gen_ai.user.message"
    record = {"traceId": one["traceId"], "spanId": one["spanId"], "eventName": name, "body": {"stringValue": name}}
    (answer,), _ = join(export(one), {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]})
    assert [each.content for each in answer.messages] == ["", "Here."]


def test_a_list_of_texts_in_an_event_is_its_json() -> None:
    events = [
        {"name": "gen_ai.content.prompt", "attributes": [attribute("gen_ai.prompt", '[{"role": "user"}, "Where?"]')]},
        {"name": "gen_ai.content.completion", "attributes": [attribute("gen_ai.completion", "Here.")]},
    ]
    (answer,), _ = join(export(span(1, None, {"gen_ai.operation.name": "chat"}, events=events)))
    assert [each.content for each in answer.messages] == ['[{"role": "user"}, "Where?"]', "Here."]


def genkit(content: list[Any]) -> dict[str, Any]:
    """A call of a model whose answer has these parts."""
    return {
        "genkit:type": "action",
        "genkit:metadata:subtype": "model",
        "genkit:name": "m",
        "genkit:input": json.dumps({"messages": [{"role": "user", "content": [{"text": "Where?"}]}]}),
        "genkit:output": json.dumps({"message": {"role": "model", "content": content}}),
    }


def test_texts_among_the_parts_of_genkit_are_read() -> None:
    (answer,), _ = join(export(span(1, None, genkit(["It is ", {"text": "here."}]))))
    assert answer.text == "It is \nhere."


@pytest.mark.parametrize(
    ("part", "what"),
    [({"toolRequest": "find"}, "tool_calls[0] is not a tool call"), (5, "content[0] is not a content part: 5")],
)
def test_parts_of_genkit_that_are_not_understood_are_errors(part: Any, what: str) -> None:
    (answer,), _ = join(export(span(1, None, genkit([part]))))
    assert answer.error is not None
    assert answer.error.startswith(f"cannot be read: Genkit: $.attributes.genkit:output[0].{what}")


def test_an_unread_turn_of_a_conversation_is_noted() -> None:
    thread = {"gen_ai.conversation.id": "one"}
    lost = call(1, [user("Where?")], {"role": "assistant", "content": [{"toolUse": 1}]}, more=thread)
    (whole,), report = join(
        export(lost),
        export(call(2, [user("When?")], assistant("Soon."), at_s=1, more=thread)),
        options=JoinOptions(unit="conversation"),
    )
    assert (whole.text, whole.error) == ("Soon.", None)
    (note,) = report.notes()
    assert note.text.startswith(f"not read in 1 span: gen_ai messages: {PLACE}[0].content[0].toolUse must be")


@pytest.mark.parametrize(
    "attributes", [{"events": "3"}, {"events": '[{"a": 1}]'}, {"request_data": "name=Ann"}, {"response_data": ["a"]}]
)
def test_attributes_of_other_programs_with_common_names_are_no_messages(attributes: dict[str, Any]) -> None:
    run = span(1, None, {**chat(ASKED), "gen_ai.operation.name": "invoke_agent"})
    other = {**span(3, None, attributes), "traceId": "9" * 32}
    answers, report = join(export(run, span(2, 1, attributes), other))
    assert [(each.text, each.error) for each in answers] == [("Here.", None)]
    (note,) = report.notes()
    assert note.text == "1 trace has no agent and no call of a model, so that there is no answer"


@pytest.mark.parametrize(
    "attributes",
    [
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.input": json.dumps(
                [
                    {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "find"}}]},
                    {"role": ["find"], "content": "Where?"},
                ]
            ),
        },
        {
            "mlflow.spanType": '"CHAT_MODEL"',
            "mlflow.spanInputs": '"Where?"',
            "mlflow.spanOutputs": '{"role": "assistant", "content": ""}',
        },
    ],
)
def test_lists_in_place_of_texts_are_reported_or_read(attributes: dict[str, Any]) -> None:
    chunk = {"choices": [{"delta": {"tool_calls": [{"index": [0], "function": {"name": "find", "arguments": "{}"}}]}}]}
    events = [{"name": "chunk", "attributes": [attribute("mlflow.chunk.value", json.dumps(chunk))]}]
    (answer,), _ = join(export(span(1, None, attributes, events=events)))
    assert answer.error is not None or [each.tool for each in answer.messages[-1].tool_calls] == ["find"]
