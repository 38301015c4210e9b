"""OTLP exports in JSON: spans of the semantic conventions, OpenLLMetry, pydantic-ai and OpenInference as answers."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.spans import attribute, export, span

from agentv.messages.logs.reading import LoggedAnswer, read_logged
from agentv.telemetry.contents.parts import without_parts
from agentv.telemetry.conventions.reading import CONVENTIONS as READERS
from agentv.telemetry.joining.joining import join_spans
from agentv.telemetry.otlp.spans import is_trace, spans_of
from agentv.types.errors import EvalFileError
from agentv.types.messages import DataPart, Message
from agentv.types.messages_json import content_text

QUESTION, ANSWER = "Can I return it?", "Yes, within 30 days."


def read_value(value: dict[str, Any]) -> list[LoggedAnswer]:
    assert is_trace(value)
    logged = [read_logged(each.to_line()) for each in join_spans(spans_of(value))[0]]
    return [each for each in logged if isinstance(each, LoggedAnswer)]


def read(*spans: dict[str, Any]) -> list[LoggedAnswer]:
    return read_value(export(*spans))


def answer(attributes: dict[str, Any], **more: Any) -> LoggedAnswer:
    [one] = read(span(1, None, attributes, **more))
    return one


def said(logged: LoggedAnswer) -> list[tuple[str, str]]:
    history = [(each.role, content_text(each.content)) for each in logged.given.message_history]
    asked = [("user", logged.given.prompt)] if logged.given.prompt else []
    return [*history, *asked, ("assistant", logged.given.text)]


def part(text: str) -> dict[str, str]:
    return {"type": "text", "content": text}


ASKED = [{"role": "user", "parts": [part(QUESTION)]}]
REPLIED = [{"role": "assistant", "parts": [part(ANSWER)], "finish_reason": "stop"}]
CONVENTIONS: dict[str, dict[str, Any]] = {
    "messages as JSON": {
        "gen_ai.input.messages": json.dumps(ASKED),
        "gen_ai.output.messages": json.dumps(REPLIED),
    },
    "messages as values": {"gen_ai.input.messages": ASKED, "gen_ai.output.messages": REPLIED},
    "OpenLLMetry call": {
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": QUESTION,
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": ANSWER,
    },
    "OpenLLMetry workflow": {
        "traceloop.span.kind": "workflow",
        "traceloop.entity.input": json.dumps({"args": [QUESTION], "kwargs": {}}),
        "traceloop.entity.output": json.dumps(ANSWER),
    },
    "OpenLLMetry of LangChain": {
        "traceloop.span.kind": "workflow",
        "traceloop.entity.input": json.dumps({"inputs": {"question": QUESTION}, "tags": []}),
        "traceloop.entity.output": json.dumps({"outputs": {"answer": ANSWER}}),
    },
    "OpenInference": {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": QUESTION,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": ANSWER,
    },
    "Genkit flow": {
        "genkit:type": "action",
        "genkit:metadata:subtype": "flow",
        "genkit:input": json.dumps(QUESTION),
        "genkit:output": json.dumps(ANSWER),
    },
    "Genkit call": {
        "genkit:type": "action",
        "genkit:metadata:subtype": "model",
        "genkit:input": json.dumps({"messages": [{"role": "user", "content": [{"text": QUESTION}]}]}),
        "genkit:output": json.dumps({"candidates": [{"message": {"role": "model", "content": [{"text": ANSWER}]}}]}),
    },
    "Google ADK": {
        "gcp.vertex.agent.llm_request": json.dumps({"contents": [{"role": "user", "parts": [{"text": QUESTION}]}]}),
        "gcp.vertex.agent.llm_response": json.dumps({"content": {"role": "model", "parts": [{"text": ANSWER}]}}),
    },
    "Laminar": {
        "lmnr.span.type": "LLM",
        "lmnr.span.input": json.dumps([{"role": "user", "content": QUESTION}]),
        "lmnr.span.output": json.dumps([{"role": "assistant", "content": ANSWER}]),
    },
    "Mastra before version 1": {
        "gen_ai.operation.name": "agent.run",
        "mastra.span.type": "agent_run",
        "input": QUESTION,
        "output": json.dumps({"text": ANSWER, "files": []}),
    },
    "VoltAgent": {"entity.type": "agent", "input": QUESTION, "output": ANSWER},
    "pydantic-ai": {
        "pydantic_ai.all_messages": json.dumps([*ASKED, *REPLIED]),
        "gen_ai.agent.name": "shop",
    },
}


@pytest.mark.parametrize("form", CONVENTIONS)
def test_every_convention_is_read(form: str) -> None:
    logged = answer(CONVENTIONS[form])
    assert said(logged) == [("user", QUESTION), ("assistant", ANSWER)]
    assert logged.given.id == f"{1:016x}"
    assert logged.given.duration_ms == 250.0
    assert logged.given.timestamp is not None
    assert logged.given.timestamp.isoformat() == "2026-01-01T00:00:00.250000+00:00"


def test_messages_as_events_are_read() -> None:
    events = [
        {"name": "gen_ai.system.message", "attributes": [attribute("content", "Be brief.")]},
        {"name": "gen_ai.user.message", "attributes": [attribute("content", QUESTION)]},
        {"name": "gen_ai.choice", "attributes": [attribute("message", json.dumps({"content": ANSWER}))]},
    ]
    logged = answer({"gen_ai.operation.name": "chat"}, events=events)
    assert said(logged) == [("system", "Be brief."), ("user", QUESTION), ("assistant", ANSWER)]


def test_texts_of_content_events_are_read() -> None:
    events = [
        {"name": "gen_ai.content.prompt", "attributes": [attribute("gen_ai.prompt", QUESTION)]},
        {"name": "gen_ai.content.completion", "attributes": [attribute("gen_ai.completion", ANSWER)]},
    ]
    logged = answer({"gen_ai.operation.name": "chat"}, events=events)
    assert said(logged) == [("user", QUESTION), ("assistant", ANSWER)]


def test_tool_calls_model_and_usage_are_read() -> None:
    call = {"type": "tool_call", "id": "c1", "name": "find", "arguments": {"order": "1001"}}
    result = {"type": "tool_call_response", "id": "c1", "response": {"state": "shipped"}}
    asked = [*ASKED, {"role": "assistant", "parts": [call]}, {"role": "tool", "parts": [result]}]
    logged = answer(
        {
            "gen_ai.system_instructions": json.dumps([part("Be brief.")]),
            "gen_ai.input.messages": json.dumps(asked),
            "gen_ai.output.messages": json.dumps(REPLIED),
            "gen_ai.response.model": "m-1",
            "gen_ai.usage.input_tokens": 12,
            "gen_ai.usage.output_tokens": 5,
            "gen_ai.conversation.id": "s1",
        }
    )
    assert [each.role for each in logged.given.message_history] == ["system", "user", "assistant", "tool"]
    [made] = logged.given.message_history[2].tool_calls
    assert (made.tool, made.input) == ("find", {"order": "1001"})
    assert (logged.given.model, logged.given.session_id) == ("m-1", "s1")
    assert logged.given.usage is not None
    assert (logged.given.usage.input, logged.given.usage.output) == (12, 5)


def test_a_span_of_the_sdk_is_read_as_it_is() -> None:
    line: dict[str, Any] = {"name": "chat", "context": {"trace_id": "0x1", "span_id": "0x2"}, "parent_id": None,
            "start_time": "2026-01-01T00:00:00Z", "end_time": "2026-01-01T00:00:01Z",
            "attributes": CONVENTIONS["messages as JSON"], "events": []}  # fmt: skip
    [logged] = read_value(line)
    assert (logged.given.text, logged.given.duration_ms) == (ANSWER, 1000.0)
    [one] = join_spans(spans_of(line))[0]
    assert (one.trace_id, one.span_id) == ("1", "2"), "other programs have the ids without 0x"


def test_a_failed_span_is_an_error_that_says_why() -> None:
    status = {"code": 2, "message": "rate limited"}
    failed = span(1, None, {"gen_ai.input.messages": json.dumps(ASKED), "gen_ai.output.messages": ""}, status=status)
    (one,), _ = join_spans(spans_of(export(failed)))
    assert one.error == "has no answer, because it failed: rate limited"


@pytest.mark.parametrize("wrong", [[], {}, 5, None, "x", [None]])
@pytest.mark.parametrize(
    "key", ["traceId", "spanId", "parentSpanId", "attributes", "events", "startTimeUnixNano", "status"]
)
def test_wrong_parts_of_spans_are_errors_or_left_out(key: str, wrong: Any) -> None:
    said = span(1, None, CONVENTIONS["messages as JSON"])
    try:
        read(({**said, key: wrong}), span(2, 1, CONVENTIONS["OpenInference"]))
    except EvalFileError as error:
        assert "$" in str(error)  # noqa: PT017 - no other exception is raised


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"resourceSpans": [{"scopeSpans": {"spans": []}}]}, "$.resourceSpans[0].scopeSpans"),
        ({"resourceSpans": [{"scopeSpans": []}, "junk"]}, "$.resourceSpans[1]"),
        ({"resource_spans": [{"scope_spans": [5]}]}, "$.resource_spans[0].scope_spans[0]"),
        (export("junk"), "$.resourceSpans[0].scopeSpans[0].spans[0]"),  # type: ignore[arg-type] # what is wrong
        (export(span(1, None, {}, events=[1])), "$.resourceSpans[0].scopeSpans[0].spans[0].events[0]"),
        (export(span(1, None, {}) | {"attributes": "x"}), "$.resourceSpans[0].scopeSpans[0].spans[0].attributes"),
    ],
)
def test_a_part_of_an_export_that_is_no_object_is_an_error_with_its_path(given: dict[str, Any], path: str) -> None:
    assert is_trace(given)
    with pytest.raises(EvalFileError) as caught:
        list(spans_of(given))
    assert [problem.json_path for problem in caught.value.problems] == [path]


def test_parts_that_are_no_text_are_kept() -> None:
    image = {"type": "uri", "modality": "image", "uri": "https://example.com/a.png"}
    file = {"type": "blob", "mime_type": "application/pdf", "content": "JVBERg=="}
    thought = {"type": "reasoning", "content": "Within 30 days?"}
    asked = [{"role": "user", "parts": [part(QUESTION), image, file, {"type": "place", "name": "Rome"}]}]
    replied = [{"role": "assistant", "parts": [thought, part(ANSWER)]}]
    logged = answer({"gen_ai.input.messages": json.dumps(asked), "gen_ai.output.messages": json.dumps(replied)})
    [question] = logged.given.message_history
    assert isinstance(question.content, tuple)
    assert [each.type for each in question.content if isinstance(each, DataPart)] == ["image", "file", "data-place"]
    assert logged.given.text == ANSWER
    assert "Within 30 days?" in str(logged.given.response)


@pytest.mark.parametrize("as_text", [True, False])
def test_tool_calls_of_events_are_read(as_text: bool) -> None:
    calls: Any = [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"order": 7}'}}]
    calls = json.dumps(calls) if as_text else calls
    events = [
        {"name": "gen_ai.user.message", "attributes": [attribute("content", QUESTION)]},
        {"name": "gen_ai.assistant.message", "attributes": [attribute("tool_calls", calls)]},
        {"name": "gen_ai.tool.message", "attributes": [attribute("id", "c1"), attribute("content", "shipped")]},
        {
            "name": "gen_ai.choice",
            "attributes": [attribute("message", json.dumps({"content": ANSWER})), attribute("tool_calls", calls)],
        },
    ]
    logged = answer({"gen_ai.operation.name": "chat"}, events=events)
    asked = [call for message in logged.given.message_history for call in message.tool_calls]
    assert [(call.tool, call.input) for call in asked] == [("find", {"order": 7})]
    assert isinstance(logged.given.response, Message)
    assert [call.tool for call in logged.given.response.tool_calls] == ["find"]


@pytest.mark.parametrize(
    "call",
    [
        {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"order": 7}'}},
        {"id": "c1", "tool": "find", "input": {"order": 7}},
    ],
    ids=["of the API", "in our own form"],
)
def test_calls_beside_parts_keep_the_name_of_the_tool(call: dict[str, Any]) -> None:
    [asking] = without_parts({"role": "assistant", "parts": [part("A moment.")], "tool_calls": [call]}, "$")
    assert isinstance(asking, dict)
    assert asking["tool_calls"] == [{"id": "c1", "tool": "find", "input": {"order": 7}}]


def test_tool_calls_that_are_no_list_are_an_error() -> None:
    events = [{"name": "gen_ai.choice", "attributes": [attribute("content", ANSWER), attribute("tool_calls", "find")]}]
    (one,), _ = join_spans(spans_of(export(span(1, None, {"gen_ai.operation.name": "chat"}, events=events))))
    assert one.error is not None
    assert one.error.startswith("cannot be read: gen_ai events: $.events")


ASKED_BY_EVENT = [
    {"name": "gen_ai.user.message", "attributes": [attribute("content", QUESTION)]},
    {"name": "gen_ai.choice", "attributes": [attribute("message", json.dumps({"content": ANSWER}))]},
]


@pytest.mark.parametrize("form", [form for form in CONVENTIONS if form != "OpenInference"])
@pytest.mark.parametrize("instructions", [json.dumps([part("Be brief.")]), "Be brief.", [part("Be brief.")]])
def test_system_instructions_stand_before_every_form_of_messages(form: str, instructions: Any) -> None:
    logged = answer({**CONVENTIONS[form], "gen_ai.system_instructions": instructions})
    assert said(logged) == [("system", "Be brief."), ("user", QUESTION), ("assistant", ANSWER)]


def test_system_instructions_stand_before_messages_of_events() -> None:
    logged = answer({"gen_ai.system_instructions": json.dumps([part("Be brief.")])}, events=ASKED_BY_EVENT)
    assert said(logged) == [("system", "Be brief."), ("user", QUESTION), ("assistant", ANSWER)]


@pytest.mark.parametrize(
    ("counts", "usage", "notes"),
    [
        ({"input_tokens": 12}, (12, 0), []),
        ({"input_tokens": 12, "output_tokens": {"doubleValue": 7.0}}, (12, 7), []),
        ({"input_tokens": 12, "output_tokens": {"doubleValue": 7.5}}, (12, 0), ["output_tokens"]),
        ({"input_tokens": {"stringValue": "many"}}, None, ["input_tokens"]),
    ],
)
def test_token_counts_that_are_understood_are_read_and_others_noted(
    counts: dict[str, Any], usage: tuple[int, int] | None, notes: list[str]
) -> None:
    given = span(1, None, CONVENTIONS["messages as JSON"])
    given["attributes"] += [
        {"key": f"gen_ai.usage.{name}", "value": count if isinstance(count, dict) else {"intValue": str(count)}}
        for name, count in counts.items()
    ]
    (one,), report = join_spans(spans_of(export(given)))
    found = one.usage
    assert (None if found is None else (found.input, found.output)) == usage
    assert [problem.split()[0] for problem in report.problems] == [
        f"$.attributes.gen_ai.usage.{name}" for name in notes
    ]


OLDER: dict[str, dict[str, Any]] = {
    "Logfire with request and response": {
        "request_data": json.dumps({"model": "m-1", "messages": [{"role": "user", "content": QUESTION}]}),
        "response_data": json.dumps(
            {
                "message": {"role": "assistant", "content": ANSWER},
                "usage": {"prompt_tokens": 12, "completion_tokens": 5},
            }
        ),
    },
    "pydantic-ai with events": {
        "model_name": "m-1",
        "gen_ai.aggregated_usage.input_tokens": 12,
        "gen_ai.aggregated_usage.output_tokens": 5,
        "all_messages_events": json.dumps(
            [
                {"event.name": "gen_ai.user.message", "role": "user", "content": QUESTION},
                {"event.name": "gen_ai.choice", "message": {"role": "assistant", "content": ANSWER}},
            ]
        ),
    },
    "Langfuse with a trace": {
        "langfuse.observation.type": "agent",
        "langfuse.trace.input": QUESTION,
        "langfuse.trace.output": ANSWER,
        "langfuse.observation.model.name": "m-1",
        "langfuse.observation.usage_details": json.dumps({"input": 12, "output": 5}),
    },
    "AI SDK with objects": {
        "ai.operationId": "ai.generateObject",
        "ai.prompt": json.dumps({"prompt": QUESTION}),
        "ai.response.object": ANSWER,
        "ai.model.id": "m-1",
        "ai.usage.promptTokens": 12,
        "ai.usage.completionTokens": 5,
    },
    "MLflow agent": {
        "mlflow.spanType": '"CHAT_MODEL"',
        "mlflow.spanInputs": json.dumps({"model": "m-1", "input": QUESTION}),
        "mlflow.spanOutputs": json.dumps(ANSWER),
        "mlflow.chat.tokenUsage": json.dumps({"input_tokens": 12, "output_tokens": 5}),
    },
    "OpenInference from 1": {
        "openinference.span.kind": "LLM",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.content": QUESTION,
        "llm.output_messages.1.message.role": "assistant",
        "llm.output_messages.1.message.content": ANSWER,
        "llm.model_name": "m-1",
        "llm.token_count.prompt": 12,
        "llm.token_count.completion": 5,
    },
}


@pytest.mark.parametrize("form", OLDER)
def test_messages_model_and_tokens_of_other_forms_are_read(form: str) -> None:
    logged = answer(OLDER[form])
    assert said(logged) == [("user", QUESTION), ("assistant", ANSWER)]
    assert logged.given.model == "m-1"
    assert logged.given.usage is not None
    assert (logged.given.usage.input, logged.given.usage.output) == (12, 5)


@pytest.mark.parametrize("type_", ["tool_use", "tool_call", "tool-call"])
def test_calls_among_the_contents_of_openinference_are_read_once(type_: str) -> None:
    call = "llm.output_messages.0.message.tool_calls.0.tool_call"
    logged = answer(
        {
            **CONVENTIONS["OpenInference"],
            "llm.output_messages.0.message.content": "",
            "llm.output_messages.0.message.contents.0.message_content.type": "text",
            "llm.output_messages.0.message.contents.0.message_content.text": ANSWER,
            "llm.output_messages.0.message.contents.1.message_content.type": type_,
            "llm.output_messages.0.message.contents.1.tool_call.id": "c1",
            f"{call}.id": "c1",
            f"{call}.function.name": "find",
            f"{call}.function.arguments": '{"order": "7"}',
        }
    )
    assert said(logged) == [("user", QUESTION), ("assistant", ANSWER)]
    assert isinstance(logged.given.response, Message)
    assert [(each.tool, each.input) for each in logged.given.response.tool_calls] == [("find", {"order": "7"})]


def test_a_result_that_openinference_has_as_a_message_of_the_user_is_one_of_the_tool() -> None:
    """As in the client of Anthropic for JavaScript."""
    call = "llm.input_messages.1.message.tool_calls.0.tool_call"
    logged = answer(
        {
            **CONVENTIONS["OpenInference"],
            "llm.input_messages.1.message.role": "assistant",
            f"{call}.id": "c1",
            f"{call}.function.name": "find",
            "llm.input_messages.2.message.role": "user",
            "llm.input_messages.2.message.tool_call_id": "c1",
            "llm.input_messages.2.message.content": "here",
        }
    )
    assert said(logged)[2] == ("tool", "here")


@pytest.mark.parametrize(
    ("event", "role", "read_as"),
    [
        ("system", "instruction", "system"),
        ("user", "customer", "user"),
        ("assistant", "bot", "assistant"),
        ("tool", "function", "tool"),
    ],
)
def test_event_roles_that_only_a_vendor_knows_follow_the_event_name(event: str, role: str, read_as: str) -> None:
    body = {"content": "Hm.", "role": role, **({"id": "c1"} if event == "tool" else {})}
    events = [
        {"name": f"gen_ai.{event}.message", "attributes": [attribute(*each) for each in body.items()]},
        *ASKED_BY_EVENT,
    ]
    logged = answer({"gen_ai.operation.name": "chat"}, events=events)
    assert said(logged)[0] == (read_as, "Hm.")


def test_instructions_and_a_system_prompt_that_repeats_them_are_read_once() -> None:
    told = {
        "gen_ai.system_instructions": json.dumps([part("Be brief."), part("You serve a shop.")]),
        "gen_ai.input.messages": json.dumps([{"role": "system", "parts": [part("You serve a shop.")]}, *ASKED]),
        "gen_ai.output.messages": json.dumps(REPLIED),
    }
    assert said(answer(told)) == [
        ("system", "Be brief.\nYou serve a shop."),
        ("user", QUESTION),
        ("assistant", ANSWER),
    ]


def test_calls_that_the_provider_executes_are_calls_of_tools() -> None:
    search = {"type": "server_tool_call", "id": "s1", "name": "web_search"}
    found = {"type": "server_tool_call_response", "id": "s1", "server_tool_call_response": {"type": "web", "hits": 2}}
    replied = [
        {
            "role": "assistant",
            "parts": [{**search, "server_tool_call": {"type": "web", "query": "returns"}}, found, part(ANSWER)],
        }
    ]
    logged = answer({"gen_ai.input.messages": json.dumps(ASKED), "gen_ai.output.messages": json.dumps(replied)})
    messages = (*logged.given.message_history, logged.given.response)
    calls = [call for each in messages if isinstance(each, Message) for call in each.tool_calls]
    assert [(call.tool, call.input) for call in calls] == [("web_search", {"type": "web", "query": "returns"})]
    assert any(each.role == "tool" and "hits" in content_text(each.content) for each in logged.given.message_history)
    assert logged.given.text == ANSWER


def test_a_function_call_of_openinference_is_a_call_of_a_tool() -> None:
    logged = answer(
        {
            **CONVENTIONS["OpenInference"],
            "llm.output_messages.0.message.function_call_name": "find",
            "llm.output_messages.0.message.function_call_arguments_json": '{"order": "7"}',
        }
    )
    assert isinstance(logged.given.response, Message)
    assert [(each.tool, each.input) for each in logged.given.response.tool_calls] == [("find", {"order": "7"})]


@pytest.mark.parametrize("name", ["llm.model_name", "llm.response.model_name", "llm.request.model_name"])
def test_each_name_of_the_model_of_openinference_is_read(name: str) -> None:
    assert answer({**CONVENTIONS["OpenInference"], name: "m-1"}).given.model == "m-1"


def test_the_cost_and_the_model_of_mlflow_are_read() -> None:
    logged = answer(
        {
            "mlflow.spanType": '"CHAT_MODEL"',
            "mlflow.spanInputs": json.dumps({"messages": [{"role": "user", "content": QUESTION}]}),
            "mlflow.spanOutputs": json.dumps(ANSWER),
            "mlflow.llm.cost": json.dumps({"input_cost": 0.1, "output_cost": 0.2, "total_cost": 0.3}),
            "mlflow.llm.model": '"m-1"',
        }
    )
    assert (logged.given.model, logged.given.cost_usd) == ("m-1", 0.3)


def test_results_of_the_ai_sdk_before_version_4_are_read() -> None:
    calls = [{"toolCallId": "c1", "toolName": "find", "args": {"order": "7"}}]
    logged = answer(
        {
            "ai.operationId": "ai.generateText.doGenerate",
            "ai.prompt.messages": json.dumps([{"role": "user", "content": [{"type": "text", "text": QUESTION}]}]),
            "ai.result.text": ANSWER,
            "ai.result.toolCalls": json.dumps(calls),
        }
    )
    assert said(logged) == [("user", QUESTION), ("assistant", ANSWER)]
    assert isinstance(logged.given.response, Message)
    assert [each.tool for each in logged.given.response.tool_calls] == ["find"]


def test_the_messages_among_the_arguments_of_a_traced_function_are_the_input() -> None:
    asked = [{"role": "user", "content": QUESTION}]
    logged = answer(
        {
            "openinference.span.kind": "LLM",
            "input.value": json.dumps([asked, [{"type": "function", "function": {"name": "find"}}]]),
            "output.value": json.dumps({"role": "assistant", "content": ANSWER}),
        }
    )
    assert said(logged) == [("user", QUESTION), ("assistant", ANSWER)]


def test_results_that_openinference_leaves_out_come_from_the_input() -> None:
    """Of the results of concurrent calls, the client of Anthropic for JavaScript has the last one."""
    calls = [{"id": each, "type": "function", "function": {"name": "find", "arguments": "{}"}} for each in ("c1", "c2")]
    asked = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": None, "tool_calls": calls},
        *({"role": "tool", "tool_call_id": call["id"], "content": f"of {call['id']}"} for call in calls),
    ]
    prefix = "llm.input_messages"
    numbered = {
        f"{prefix}.1.message.tool_calls.{number}.tool_call.{key}": value
        for number in range(2)
        for key, value in (("id", f"c{number + 1}"), ("function.name", "find"), ("function.arguments", "{}"))
    }
    logged = answer(
        {
            **CONVENTIONS["OpenInference"],
            f"{prefix}.1.message.role": "assistant",
            **numbered,
            f"{prefix}.2.message.role": "user",
            f"{prefix}.2.message.tool_call_id": "c2",
            f"{prefix}.2.message.content": "of c2",
            "input.value": json.dumps({"messages": asked}),
        }
    )
    assert [text for role, text in said(logged) if role == "tool"] == ["of c1", "of c2"]


@pytest.mark.parametrize("is_typed", [True, False])
def test_calls_in_events_of_strands_are_read(is_typed: bool) -> None:
    """Its JavaScript has the type of a part beside the other values."""
    call = {"name": "find", "toolUseId": "c1", "input": {"order": "7"}}
    choice = [{"type": "toolUse", **call} if is_typed else {"toolUse": call}]
    logged = answer(
        {"gen_ai.operation.name": "chat"},
        events=[
            {"name": "gen_ai.user.message", "attributes": [attribute("content", json.dumps([{"text": QUESTION}]))]},
            {"name": "gen_ai.choice", "attributes": [attribute("message", json.dumps(choice))]},
        ],
    )
    assert isinstance(logged.given.response, Message)
    (made,) = logged.given.response.tool_calls
    assert (made.tool, made.id, made.input) == ("find", "c1", {"order": "7"})


@pytest.mark.parametrize("prefix", ["ai.telemetry.metadata", "ai.settings.context"])
@pytest.mark.parametrize("name", ["sessionId", "session_id", "threadId", "conversationId", "chatId"])
def test_each_name_of_a_session_in_the_metadata_of_the_ai_sdk_is_read(prefix: str, name: str) -> None:
    logged = answer({**CONVENTIONS["messages as JSON"], f"{prefix}.{name}": "s1"})
    assert logged.given.session_id == "s1"


def test_parts_of_genkit_that_are_no_text_are_kept() -> None:
    photo, data = {"url": "data:image/png;base64,AA==", "contentType": "image/png"}, {"a": 1}
    content = [{"text": "See"}, {"media": photo}, {"data": data}, {"reasoning": "Hm."}, {"unknown": 1}]
    logged = answer(
        {
            "genkit:type": "action",
            "genkit:metadata:subtype": "model",
            "genkit:name": "googleai/m-1",
            "genkit:input": json.dumps({"messages": [{"role": "user", "content": content}]}),
            "genkit:output": json.dumps(
                {"message": {"role": "model", "content": [{"text": ANSWER}]}, "usage": {"inputTokens": 12}}
            ),
        }
    )
    assert logged.given.model == "m-1"
    assert logged.given.usage is not None
    assert logged.given.usage.input == 12
    [question] = logged.given.message_history
    assert isinstance(question.content, tuple)
    kept = [each.type for each in question.content if isinstance(each, DataPart)]
    assert kept == ["image", "data-data", "reasoning", "data-unknown"]


@pytest.mark.parametrize("is_wrapped", [True, False])
def test_results_whose_role_is_the_name_of_the_tool_in_langfuse_are_results(is_wrapped: bool) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "find", "content": "here", "additional_kwargs": {}},
    ]
    logged = answer(
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.input": json.dumps({"messages": messages} if is_wrapped else messages),
            "langfuse.observation.output": json.dumps({"role": "assistant", "content": ANSWER}),
        }
    )
    assert said(logged)[2:] == [("tool", "here"), ("assistant", ANSWER)]


def test_the_page_of_traces_lists_the_conventions_in_their_order() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/traces.md").read_text()
    table = page.partition("| convention | attributes and events | read from |\n")[2].partition("\n\n")[0]
    sources = [re.findall(r"([\w./-]+) `([0-9a-f]{12})`", row.split("|")[3]) for row in table.splitlines()[1:]]
    assert [each for each in sources if each] == [
        [tuple(source.split("@")) for source in convention.source.split()] for convention in READERS
    ]


def test_the_page_of_traces_names_an_attribute_of_each_convention() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/traces.md").read_text()
    for convention in READERS:
        assert any(f"`{prefix}" in page for prefix in convention.prefixes), convention.name
