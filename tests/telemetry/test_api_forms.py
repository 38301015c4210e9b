"""Messages that spans hold in the form of an API or a framework, as real instrumentations sent them."""

import json
from typing import Any

import pytest
from tests.support.spans import START, attribute, export, span
from tests.telemetry.test_joining import call, join, user

from agentv.telemetry.contents.tool_calls import tool_call
from agentv.telemetry.joining.answers import TracedAnswer
from agentv.types.messages_json import content_text

QUESTION, ANSWER, RESULT = "Where is it?", "On its way.", "state: sent"
CALLED = ("find", {"order": "7"}, "c1")
EXPECTED = [
    ("user", QUESTION, []),
    ("assistant", "", [CALLED]),
    ("tool", RESULT, []),
    ("assistant", ANSWER, []),
]


def heard(answer: TracedAnswer) -> list[tuple[str, str, list[tuple[Any, ...]]]]:
    return [
        (each.role, content_text(each.content or ""), [(one.tool, one.input, one.id) for one in each.tool_calls])
        for each in answer.messages
        if each.role != "system"
    ]


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def only(*spans: dict[str, Any]) -> TracedAnswer:
    (answer,), report = join(export(*spans))
    assert dict(report.problems) == {}
    return answer


ANTHROPIC = (
    {
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": QUESTION},
            {
                "role": "assistant",
                "content": [{"id": "c1", "caller": None, "input": {"order": "7"}, "name": "find", "type": "tool_use"}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": RESULT}]},
        ],
    },
    {"id": "m1", "type": "message", "role": "assistant", "content": [{"type": "text", "text": ANSWER}]},
)
UNSET = {"file_data": None, "thought": None, "inline_data": None}
GOOGLE = (
    {
        "model": "m-1",
        "contents": [
            {"role": "user", "parts": [{**UNSET, "text": QUESTION}]},
            {
                "role": "model",
                "parts": [{**UNSET, "function_call": {"id": "c1", "name": "find", "args": {"order": "7"}}}],
            },
            {
                "role": "user",
                "parts": [{**UNSET, "function_response": {"id": "c1", "name": "find", "response": RESULT}}],
            },
        ],
        "config": {"system_instruction": "Be brief."},
    },
    {"candidates": [{"content": {"role": "model", "parts": [{**UNSET, "text": ANSWER}]}, "finish_reason": "STOP"}]},
)
PYDANTIC_AI = (
    {
        "messages": [
            {
                "kind": "request",
                "parts": [
                    {"part_kind": "system-prompt", "content": "Be brief."},
                    {"part_kind": "user-prompt", "content": QUESTION},
                ],
            },
            {
                "kind": "response",
                "parts": [
                    {
                        "part_kind": "tool-call",
                        "tool_name": "find",
                        "args": '{"order": "7"}',
                        "tool_call_id": "c1",
                    }
                ],
            },
            {
                "kind": "request",
                "parts": [
                    {"part_kind": "tool-return", "tool_name": "find", "content": RESULT, "tool_call_id": "c1"},
                ],
            },
        ],
        "model_settings": {},
    },
    {"kind": "response", "parts": [{"part_kind": "text", "content": ANSWER}], "model_name": "m-1"},
)


def blocks(*given: dict[str, Any], role: str, **kwargs: Any) -> dict[str, Any]:
    return {"role": role, "additional_kwargs": kwargs, "blocks": list(given)}


LLAMA_INDEX = (
    {
        "messages": [
            blocks({"block_type": "text", "text": "Be brief."}, role="system"),
            blocks({"block_type": "text", "text": QUESTION}, role="user"),
            blocks(
                {
                    "block_type": "tool_call",
                    "tool_call_id": "c1",
                    "tool_name": "find",
                    "tool_kwargs": '{"order": "7"}',
                },
                role="assistant",
            ),
            blocks({"block_type": "text", "text": RESULT}, role="tool", tool_call_id="c1"),
        ],
        "kwargs": {"tools": []},
    },
    {"message": blocks({"block_type": "text", "text": ANSWER}, role="assistant"), "raw": {"id": "m1"}},
)
CONVERSE = (
    {
        "modelId": "m-1",
        "system": [{"text": "Be brief."}],
        "messages": [
            {"role": "user", "content": [{"text": QUESTION}]},
            {
                "role": "assistant",
                "content": [{"toolUse": {"toolUseId": "c1", "name": "find", "input": {"order": "7"}}}],
            },
            {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": RESULT}]}}]},
        ],
    },
    {"output": {"message": {"role": "assistant", "content": [{"text": ANSWER}]}}, "stopReason": "end_turn"},
)
API_FORMS = {
    "Anthropic": ANTHROPIC,
    "Converse": CONVERSE,
    "Google": GOOGLE,
    "LlamaIndex": LLAMA_INDEX,
    "pydantic-ai": PYDANTIC_AI,
}


@pytest.mark.parametrize("given", API_FORMS.values(), ids=API_FORMS)
def test_requests_and_responses_in_mlflow_are_read(given: tuple[Any, Any]) -> None:
    asked, got = given
    answer = only(
        span(
            1,
            None,
            {
                "mlflow.spanType": '"CHAT_MODEL"',
                "mlflow.spanInputs": json.dumps(asked),
                "mlflow.spanOutputs": json.dumps(got),
            },
        )
    )
    assert heard(answer) == EXPECTED
    assert content_text(answer.messages[0].content or "") == "Be brief."


def test_a_request_that_is_only_prepared_is_no_call_of_a_model() -> None:
    asked = [{"role": "user", "content": QUESTION}]
    model = {"mlflow.spanType": '"LLM"', "mlflow.spanInputs": json.dumps({"messages": asked})}
    counted = {"mlflow.chat.tokenUsage": json.dumps({"input_tokens": 12, "output_tokens": 5})}
    answer = only(
        span(
            1,
            None,
            {"mlflow.spanType": '"AGENT"', "mlflow.spanInputs": json.dumps({"user_msg": QUESTION, "ctx": None})},
        ),
        span(
            2, 1, {**model, "mlflow.spanOutputs": json.dumps({"messages": asked, "tools": [], "tool_choice": "auto"})}
        ),
        span(3, 1, {**model, **counted, "mlflow.spanOutputs": json.dumps({"role": "assistant", "content": ANSWER})}),
    )
    assert heard(answer) == [EXPECTED[0], EXPECTED[-1]]
    assert answer.usage is not None
    assert answer.usage.requests == 1


def test_an_unset_argument_is_not_an_instruction() -> None:
    asked = {"instructions": "<openai.Omit object at 0x7f1b6ed35b90>", "input": QUESTION}
    answer = only(
        span(
            1,
            None,
            {
                "mlflow.spanType": '"CHAT_MODEL"',
                "mlflow.spanInputs": json.dumps(asked),
                "mlflow.spanOutputs": json.dumps(ANSWER),
            },
        )
    )
    assert heard(answer) == [EXPECTED[0], EXPECTED[-1]]
    assert [each.role for each in answer.messages] == ["user", "assistant"]


def chunk(**delta: Any) -> dict[str, Any]:
    value = json.dumps({"object": "chat.completion.chunk", "choices": [{"delta": delta, "index": 0}]})
    return {"name": "mlflow.chunk.item.0", "attributes": [attribute("mlflow.chunk.value", value)]}


def test_streamed_calls_in_mlflow_are_read_from_the_chunks() -> None:
    empty = {"choices": [{"message": {"role": "assistant", "content": "", "tool_calls": None}, "index": 0}]}
    started = {"index": 0, "id": "c1", "type": "function", "function": {"name": "find", "arguments": ""}}
    parts = [{"index": 0, "id": None, "function": {"name": None, "arguments": text}} for text in ('{"order"', ': "7"}')]
    answer = only(
        span(
            1,
            None,
            {
                "mlflow.spanType": '"CHAT_MODEL"',
                "mlflow.spanInputs": json.dumps({"messages": [{"role": "user", "content": QUESTION}]}),
                "mlflow.spanOutputs": json.dumps(empty),
            },
            events=[chunk(role="assistant", content=""), *(chunk(tool_calls=[each]) for each in (started, *parts))],
        )
    )
    assert heard(answer) == EXPECTED[:2]


def test_a_call_has_the_tokens_that_only_the_call_inside_it_has() -> None:
    texts = {"mlflow.spanInputs": json.dumps(QUESTION), "mlflow.spanOutputs": json.dumps(ANSWER)}
    counted = {"mlflow.chat.tokenUsage": json.dumps({"input_tokens": 12, "output_tokens": 5}), "model": "m-1"}
    inner = {"mlflow.spanType": '"CHAT_MODEL"', **counted, "mlflow.llm.model": '"m-1"'}
    answer = only(
        span(1, None, {"mlflow.spanType": '"AGENT"', **texts}),
        span(2, 1, {"mlflow.spanType": '"CHAT_MODEL"', **texts}),
        span(3, 2, inner),
    )
    assert answer.usage is not None
    assert (answer.usage.input, answer.usage.output, answer.usage.requests, answer.model) == (12, 5, 1, "m-1")


def test_definitions_of_tools_in_langfuse_are_no_messages() -> None:
    tool = {"type": "function", "function": {"name": "find", "parameters": {}}}
    answer = only(
        span(
            1,
            None,
            {
                "langfuse.observation.type": "generation",
                "langfuse.observation.input": json.dumps(
                    [{"role": "user", "content": QUESTION}, {"role": "tool", "content": tool}]
                ),
                "langfuse.observation.output": json.dumps({"role": "assistant", "content": ANSWER}),
            },
        )
    )
    assert heard(answer) == [EXPECTED[0], EXPECTED[-1]]


CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"order": "7"}'}}
MESSAGES = "llm.input_messages"
NUMBERED_CALL = "message.tool_calls.0.tool_call"


def test_what_messages_of_openinference_lack_comes_from_the_values() -> None:
    """By Portkey, outputs are empty; by Mistral, calls have no ids."""
    asked = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": RESULT, "tool_call_id": "c1"},
    ]
    got = {"choices": [{"message": {"role": "assistant", "content": ANSWER}}]}
    answer = only(
        span(
            1,
            None,
            {
                "openinference.span.kind": "LLM",
                "input.value": json.dumps({"messages": asked, "model": "m-1"}),
                "output.value": json.dumps(got),
                f"{MESSAGES}.0.message.role": "user",
                f"{MESSAGES}.0.message.content": QUESTION,
                f"{MESSAGES}.1.message.role": "assistant",
                f"{MESSAGES}.1.{NUMBERED_CALL}.function.name": "find",
                f"{MESSAGES}.1.{NUMBERED_CALL}.function.arguments": '{"order": "7"}',
                f"{MESSAGES}.2.message.role": "tool",
                f"{MESSAGES}.2.message.content": RESULT,
                "llm.output_messages.0.message.role": "assistant",
            },
        )
    )
    assert heard(answer) == EXPECTED


def test_values_of_openinference_that_say_less_do_not_replace_its_messages() -> None:
    answer = only(
        span(
            1,
            None,
            {
                "openinference.span.kind": "LLM",
                "input.value": json.dumps([{"role": "user", "content": QUESTION}]),
                "output.value": json.dumps({"role": "assistant", "content": "Hm."}),
                f"{MESSAGES}.0.message.role": "user",
                f"{MESSAGES}.0.message.content": QUESTION,
                "llm.output_messages.0.message.role": "assistant",
                f"llm.output_messages.0.{NUMBERED_CALL}.function.name": "find",
                f"llm.output_messages.0.{NUMBERED_CALL}.function.arguments": '{"order": "7"}',
            },
        )
    )
    assert heard(answer) == [EXPECTED[0], ("assistant", "", [("find", {"order": "7"}, None)])]


def event(name: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "timeUnixNano": START, "attributes": [attribute(*each) for each in body.items()]}


def test_a_result_that_botocore_records_twice_is_read_once() -> None:
    called = {"toolUse": {"toolUseId": "c1", "name": "find", "input": {"order": "7"}}}
    result = {"toolResult": {"toolUseId": "c1", "content": [{"text": RESULT}]}}
    events = [
        event("gen_ai.user.message", {"content": [{"text": QUESTION}]}),
        event("gen_ai.assistant.message", {"content": [called], "tool_calls": [CALL]}),
        event("gen_ai.tool.message", {"id": "c1", "content": [{"text": RESULT}]}),
        event("gen_ai.user.message", {"content": [result]}),
        event("gen_ai.choice", {"message": {"role": "assistant", "content": [{"text": ANSWER}]}}),
    ]
    assert heard(only(span(1, None, {"gen_ai.operation.name": "chat"}, events=events))) == EXPECTED


def test_an_output_may_be_a_choice_of_the_api() -> None:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ANSWER}}
    answer = only(
        span(
            1,
            None,
            {
                "gen_ai.input.messages": json.dumps([{"role": "user", "content": QUESTION}]),
                "gen_ai.output.messages": json.dumps([choice]),
            },
        )
    )
    assert heard(answer) == [EXPECTED[0], EXPECTED[-1]]


@pytest.mark.parametrize(
    "result",
    [
        [{"type": "text", "text": RESULT}],
        [True, {"name": "find", "role": "function", "content": RESULT}],
        f"content={RESULT!r} name='find' tool_call_id='c1'",
        {"tool_name": "find", "raw_output": RESULT, "blocks": [{"block_type": "text", "text": RESULT}]},
        {"role": "tool", "tool_responses": [{"role": "tool", "tool_call_id": "c1", "content": RESULT}], "content": ""},
    ],
    ids=["MCP", "AG2", "LangChain in Python's form", "LlamaIndex", "AG2 for several"],
)
def test_results_of_tools_in_the_form_of_a_framework_are_their_texts(result: Any) -> None:
    texts = {"input.value": QUESTION, "output.value": ANSWER}
    tool = {"tool.name": "find", "tool_call.id": "c1", "input.value": '{"order": "7"}'}
    answer = only(
        span(1, None, {"openinference.span.kind": "AGENT", **texts}),
        span(2, 1, {"openinference.span.kind": "TOOL", **tool, "output.value": text_of(result)}),
    )
    assert heard(answer) == EXPECTED


ASKED = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "find", "arguments": {"order": "7"}}]}
FOUND = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": RESULT}]}
REPLIED = {"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}
NOTHING = {"role": "assistant", "parts": []}


def test_a_call_whose_output_says_nothing_is_continued() -> None:
    """OpenLLMetry records no calls of tools in the answers of Ollama."""
    first = call(1, [user(QUESTION)], NOTHING)
    second = call(2, [user(QUESTION), ASKED, FOUND], REPLIED, at_s=1)
    (answer,), report = join(export(first), export(second))
    assert heard(answer) == EXPECTED
    assert (answer.usage and answer.usage.requests, report.open) == (2, 0)


def test_an_answer_that_says_nothing_is_not_incomplete() -> None:
    (answer,), report = join(export(call(1, [user(QUESTION)], NOTHING)))
    assert (answer.text, answer.is_open, report.open) == ("", False, 0)


def test_the_agents_of_openai_in_logfire_are_one_answer_with_their_session() -> None:
    run = {"logfire.msg_template": "OpenAI Agents trace: {name}", "name": "Agent workflow", "group_id": "one"}
    agent = {"logfire.msg_template": "Agent run: {name!r}", "name": "shop"}
    tool = {"logfire.msg_template": "Function: {name}", "name": "find", "input": '{"order": "7"}', "output": RESULT}
    asked = [{"role": "user", "content": QUESTION}]
    got = [{"role": "assistant", "content": ANSWER}]
    model = {
        "logfire.msg_template": "Chat completion with {gen_ai.request.model!r}",
        "request_data": json.dumps({"model": "m-1", "messages": [*asked, *got]}),
        "input": json.dumps(asked),
        "output": json.dumps(got),
    }
    answer = only(span(1, None, run), span(2, 1, agent), span(3, 2, tool), span(4, 2, model))
    assert (answer.session, answer.agent, answer.model) == ("one", "shop", "m-1")
    assert [each[:2] for each in heard(answer)] == [each[:2] for each in EXPECTED]


SERVICES = {
    "AgentOps": (
        {
            "agentops.span.kind": "session",
            "agentops.entity.input": json.dumps({"args": [QUESTION], "kwargs": {}}),
            "agentops.entity.output": ANSWER,
        },
        {
            "agentops.span.kind": "tool",
            "operation.name": "find",
            "agentops.tool.input": json.dumps({"args": [], "kwargs": {"order": "7"}}),
            "agentops.tool.output": RESULT,
        },
        {"agentops.span.kind": "AgentOpsSpanKindValues.TOOL", "tool.name": "find", "tool.parameters": "{}"},
    ),
    "Judgment": (
        {
            "judgment.span_kind": "agent",
            "judgment.input": json.dumps({"question": QUESTION}),
            "judgment.output": ANSWER,
            "judgment.session_id": "one",
        },
        {"judgment.span_kind": "tool", "judgment.input": json.dumps({"order": "7"}), "judgment.output": RESULT},
        {
            "judgment.span_kind": "llm",
            "judgment.llm.model": "m-1",
            "judgment.usage.metadata": json.dumps({"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}),
            "gen_ai.completion": json.dumps({"choices": [{"message": {"role": "assistant", "content": ANSWER}}]}),
        },
    ),
}


@pytest.mark.parametrize("service", SERVICES)
def test_functions_that_decorators_trace_are_agents_and_tools(service: str) -> None:
    run, tool, inner = SERVICES[service]
    answer = only(span(1, None, run), {**span(2, 1, tool), "name": "find"}, span(3, 1, inner))
    assert [each[:2] for each in heard(answer)] == [each[:2] for each in EXPECTED]
    assert [call[:2] for _, _, calls in heard(answer) for call in calls] == [CALLED[:2]]
    if service == "Judgment":
        assert answer.usage is not None
        assert (answer.usage.input, answer.usage.output, answer.model, answer.session) == (12, 5, "m-1", "one")


def test_arguments_of_a_tool_in_pythons_form_are_read() -> None:
    texts = {"input.value": QUESTION, "output.value": ANSWER}
    tool = {"tool.name": "find", "tool_call.id": "c1", "input.value": "{'order': '7'}", "output.value": RESULT}
    answer = only(
        span(1, None, {"openinference.span.kind": "AGENT", **texts}),
        span(2, 1, {"openinference.span.kind": "TOOL", **tool}),
    )
    assert heard(answer) == EXPECTED


def test_the_messages_of_a_task_of_autogen_are_one_answer() -> None:
    """Its result repeats the question."""
    told = [
        {"source": "user", "type": "TextMessage", "content": QUESTION},
        {
            "source": "shop",
            "type": "ToolCallRequestEvent",
            "content": [{"id": "c1", "name": "find", "arguments": '{"order": "7"}'}],
        },
        {
            "source": "shop",
            "type": "ToolCallExecutionEvent",
            "content": [{"call_id": "c1", "name": "find", "content": RESULT, "is_error": False}],
        },
        {"source": "shop", "type": "MemoryQueryEvent", "content": []},
        {"source": "shop", "type": "TextMessage", "content": ANSWER},
    ]
    answer = only(
        span(
            1,
            None,
            {
                "mlflow.spanType": '"AGENT"',
                "mlflow.spanInputs": json.dumps({"task": QUESTION}),
                "mlflow.spanOutputs": json.dumps({"messages": told, "stop_reason": None}),
            },
        )
    )
    assert heard(answer) == EXPECTED


def test_a_pipeline_of_haystack_is_one_answer_with_the_tokens_of_its_generator() -> None:
    asked: list[dict[str, Any]] = [{"role": "user", "meta": {}, "name": None, "content": [{"text": QUESTION}]}]
    usage = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}
    reply = {"role": "assistant", "meta": {"model": "m-1", "usage": usage}, "content": [{"text": ANSWER}]}
    pipeline = {
        "haystack.pipeline.input_data": json.dumps({"llm": {"messages": asked}}),
        "haystack.pipeline.output_data": json.dumps({"llm": {"replies": [reply]}}),
    }
    generator = {
        "haystack.component.name": "llm",
        "haystack.component.input": json.dumps({"messages": asked}),
        "haystack.component.output": json.dumps({"replies": [reply]}),
    }
    answer = only(
        {**span(1, None, pipeline), "name": "haystack.pipeline.run"},
        {**span(2, 1, generator), "name": "haystack.component.run"},
    )
    assert heard(answer) == [EXPECTED[0], EXPECTED[-1]]
    assert answer.usage is not None
    assert (answer.usage.input, answer.usage.output, answer.model) == (12, 5, "m-1")


def in_agent(*calls: dict[str, Any]) -> TracedAnswer:
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "find",
        "gen_ai.tool.call.arguments": '{"order": "7"}',
        "gen_ai.tool.call.result": RESULT,
    }
    agent = {**span(9, None, {"gen_ai.operation.name": "invoke_agent"}), "traceId": f"{7:032x}"}
    answers, report = join(export(agent, {**span(8, 9, tool), "traceId": f"{7:032x}"}, *calls))
    assert report.guessed == 0
    (answer,) = answers
    return answer


def test_a_call_that_repeats_the_input_of_one_that_asked_for_a_tool_continues_it() -> None:
    """OpenLIT records neither the call nor its result in the next input of the OpenAI Agents SDK."""
    first = call(1, [user(QUESTION)], ASKED, trace=7, parent=9)
    second = call(2, [user(QUESTION)], REPLIED, trace=7, parent=9, at_s=1)
    assert heard(in_agent(first, second)) == EXPECTED


def test_a_call_whose_input_has_the_call_of_a_tool_as_a_text_continues_it() -> None:
    """smolagents tells its model of calls and results in texts."""
    told = {"role": "assistant", "parts": [{"type": "text", "content": "Calling tools: find"}]}
    first = call(1, [user(QUESTION)], ASKED, trace=7, parent=9)
    second = call(2, [user(QUESTION), told, user("Observation: sent")], REPLIED, trace=7, parent=9, at_s=1)
    messages = heard(in_agent(first, second))
    assert [calls for _, _, calls in messages if calls] == [[CALLED]]
    assert ("assistant", "Calling tools: find", []) not in messages
    assert messages[-1] == EXPECTED[-1]


def test_agents_that_are_asked_the_same_at_the_same_time_are_two_conversations() -> None:
    first = call(1, [user(QUESTION)], ASKED, trace=7, parent=9)
    second = call(2, [user(QUESTION)], REPLIED, trace=7, parent=9)
    agent = {**span(9, None, {"gen_ai.operation.name": "invoke_agent"}), "traceId": f"{7:032x}"}
    _, report = join(export(agent, first, second))
    assert report.guessed == 1


def test_arguments_in_pythons_form_become_json() -> None:
    call = tool_call("find", "c1", "{'ids': {7}, 'raw': b'x', 1: (2, None)}", "here")
    assert call is not None
    assert call.input == {"ids": [7], "raw": "eA==", "1": [2, None]}
