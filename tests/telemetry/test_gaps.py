"""What instrumentations leave out, and what failed: never an empty answer in silence."""

import json
from base64 import b64encode
from typing import Any

import pytest
from tests.support.spans import attribute, export, span
from tests.telemetry.test_joining import ASKS, FOUND, agent, assistant, call, join, user

from agentv.telemetry.joining.answers import TracedAnswer
from agentv.types.messages_json import content_text

FAILED = {"code": 2, "message": "rate limited"}


def told(answer: TracedAnswer) -> list[str]:
    """Return the messages, each as a text or the names of its calls."""
    return [
        content_text(each.content or "") or ", ".join(called.tool for called in each.tool_calls)
        for each in answer.messages
    ]


def raised(message: str, **more: Any) -> dict[str, Any]:
    """The event of an exception."""
    return {"name": "exception", "attributes": [attribute("exception.message", message)], **more}


def inside(number: int, messages: list[dict[str, Any]], answer: dict[str, Any], at_s: float = 0.0) -> dict[str, Any]:
    """A call in the agent with the number 1."""
    return {**call(number, messages, answer, at_s=at_s), "parentSpanId": f"{1:016x}", "traceId": root()["traceId"]}


def tool(**more: Any) -> dict[str, Any]:
    """The call of a tool in the agent with the number 1."""
    names = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.id": "c1"}
    return {**span(3, 1, {**names, **more}), "traceId": root()["traceId"]}


def root(**more: Any) -> dict[str, Any]:
    return {**agent(1, None), "endTimeUnixNano": str(int(agent(1, None)["startTimeUnixNano"]) + 9 * 10**9), **more}


def test_results_alone_continue_the_call_that_requests_them() -> None:
    """The server keeps the conversation, and the id of the previous response is not recorded."""
    other = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c2", "name": "look", "arguments": {}}]}
    answers, report = join(
        export(call(1, [user("Where?")], ASKS)),
        export(call(2, [user("Why?")], other, at_s=1)),
        export(call(3, [FOUND], assistant("Here."), at_s=2)),
    )
    assert [told(each) for each in answers] == [["Where?", "find", "here", "Here."], ["Why?", "look"]]
    assert (report.ambiguous, [each.is_open for each in answers]) == (0, [False, True])


def cut(made: dict[str, Any], key: str) -> dict[str, Any]:
    """Return a span with the beginning of a value, as a limit of the length of attributes leaves it."""
    return {
        **made,
        "attributes": [
            attribute(each["key"], each["value"]["stringValue"][:30]) if each["key"] == key else each
            for each in made["attributes"]
        ],
    }


def test_an_answer_that_was_cut_is_an_error_that_says_so() -> None:
    made = cut(call(1, [user("Where?")], assistant("Here.")), "gen_ai.output.messages")
    (answer,), _ = join(export(made))
    assert answer.error is not None
    assert "gen_ai.output.messages is not a list of messages; if it was cut, raise" in answer.error


def test_a_question_that_was_cut_is_an_error_that_says_so() -> None:
    made = cut(call(1, [user("Where?")], assistant("Here.")), "gen_ai.input.messages")
    (answer,), _ = join(export(made))
    assert answer.error is not None
    assert "gen_ai.input.messages is not a list of messages; if it was cut, raise" in answer.error


def test_an_answer_in_an_agent_is_read_though_the_input_of_its_call_was_cut() -> None:
    made = cut(inside(2, [user("Where?")], assistant("Here.")), "gen_ai.input.messages")
    (answer,), report = join(export(root(), made))
    assert (answer.text, answer.error) == ("Here.", None)
    (note,) = report.notes()
    assert "gen_ai.input.messages is not a list of messages; if it was cut, raise" in note.text


def test_the_output_of_an_agent_that_was_cut_is_not_the_answer() -> None:
    """The text of an earlier call is in the part of the output that is left."""
    state = json.dumps({"messages": [{"type": "ai", "content": "A draft."}, {"type": "ai", "content": "Final."}]})
    values = {"openinference.span.kind": "AGENT", "output.value": state[:60]}
    outer = {**span(1, None, values), "traceId": root()["traceId"], "endTimeUnixNano": root()["endTimeUnixNano"]}
    calls = [
        inside(2, [user("Write")], assistant("A draft.")),
        inside(3, [user("Better")], assistant("Final."), at_s=1),
    ]
    (answer,), report = join(export(outer, *calls))
    assert (answer.text, answer.error) == ("Final.", None)
    assert any("output.value is not whole JSON: it was cut" in note.text for note in report.notes())


def test_an_output_that_was_cut_is_an_error_and_no_answer() -> None:
    values = {"openinference.span.kind": "AGENT", "input.value": "Where?", "output.value": '{"answer": "He'}
    (answer,), _ = join(export(span(1, None, values)))
    assert answer.error == (
        "cannot be read: $.attributes.output.value is not whole JSON: it was cut, as by "
        "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"
    )


def test_a_call_that_the_program_repeats_is_no_error() -> None:
    """As by a decorator for retries, without an agent around the calls."""
    failed = {**call(1, [user("Where?")], assistant(""), trace=9), "status": FAILED}
    failed["attributes"] = [each for each in failed["attributes"] if each["key"] != "gen_ai.output.messages"]
    repeated = call(2, [user("Where?")], assistant("Here."), at_s=1, trace=9)
    other = {**failed, "spanId": f"{3:016x}", "traceId": f"{8:032x}"}
    answers, _ = join(export(failed, repeated), export(other))
    assert sorted((each.text, each.error is None) for each in answers) == [("", False), ("Here.", True)]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"gen_ai.request.choice.count": 2}, "First."),
        ({"llm.invocation_parameters": '{"n": 2}'}, "First."),
        ({"llm.invocation_parameters": '{"n": 1}'}, "Second."),
        ({}, "Second."),
    ],
)
def test_the_first_of_several_choices_is_the_answer(more: dict[str, Any], text: str) -> None:
    choices = json.dumps([assistant("First."), assistant("Second.")])
    made = call(1, [user("Where?")], assistant(""), more={**more, "gen_ai.output.messages": choices})
    (answer,), _ = join(export(made))
    assert answer.text == text


def test_messages_that_each_end_the_answer_are_choices() -> None:
    """As OpenLLMetry records them, without their number."""
    choices = json.dumps([{**assistant(text), "finish_reason": "stop"} for text in ("First.", "Second.")])
    made = call(1, [user("Where?")], assistant(""), more={"gen_ai.output.messages": choices})
    (answer,), _ = join(export(made))
    assert answer.text == "First."


def test_a_trace_of_an_unknown_instrumentation_is_named() -> None:
    made = export(span(1, None, {"my.prompt": "Where?"}))
    made["resourceSpans"][0]["scopeSpans"][0]["scope"] = {"name": "homemade"}
    answers, report = join(made)
    assert answers == []
    assert [note.text for note in report.notes()] == [
        "1 trace has no agent and no call of a model, so that there is no answer (spans of homemade)"
    ]


def test_a_text_that_begins_like_json_is_an_answer() -> None:
    values = {"openinference.span.kind": "AGENT", "input.value": "Where?", "output.value": "[1] says: here"}
    (answer,), _ = join(export(span(1, None, values)))
    assert (answer.text, answer.error) == ("[1] says: here", None)


def test_results_with_ids_of_their_own_continue_the_newest_call_that_requests_any() -> None:
    found = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "other", "response": "here"}]}
    (answer,), _ = join(export(call(1, [user("Where?")], ASKS)), export(call(2, [found], assistant("Here."), at_s=1)))
    assert told(answer) == ["Where?", "find", "here", "Here."]


def test_a_call_of_a_tool_that_was_not_recorded_comes_from_the_next_call() -> None:
    """Some instrumentations lose the calls of tools in streams."""
    (answer,), report = join(
        export(call(1, [user("Where?")], assistant(""))),
        export(call(2, [user("Where?"), ASKS, FOUND], assistant("Here."), at_s=1)),
    )
    assert told(answer) == ["Where?", "find", "here", "Here."]
    assert dict(report.empty) == {}


def test_an_empty_answer_is_counted_and_noted() -> None:
    (answer,), report = join(export(call(1, [user("Where?")], assistant(""))))
    assert (answer.text, answer.is_open, report.open) == ("", False, 0)
    (note,) = report.notes()
    assert note.text.startswith("1 answer is empty in the traces of")


def test_a_call_that_failed_while_it_answered_is_an_error() -> None:
    (answer,), _ = join(export({**call(1, [user("Where?")], assistant("It is")), "status": FAILED}))
    assert answer.error == "its answer is not complete, because it failed: rate limited"
    assert told(answer) == ["Where?", "It is"]


def test_an_agent_that_failed_after_a_call_of_a_tool_is_an_error() -> None:
    failed = {"code": 2, "message": "no such order"}
    (answer,), report = join(
        export(root(status=failed), inside(2, [user("Where?")], ASKS), {**tool(), "status": failed})
    )
    assert answer.error == "has no answer, because it failed: no such order"
    assert told(answer) == ["Where?", "find", '{"error":"no such order"}']
    assert report.open == 0


def test_an_agent_that_answers_after_a_failed_call_is_no_error() -> None:
    failed = {**inside(2, [user("Where?")], assistant("")), "status": FAILED}
    (answer,), _ = join(export(root(), failed, inside(3, [user("Where?")], assistant("Here."), at_s=1)))
    assert (answer.error, answer.text) == (None, "Here.")


def test_an_agent_that_ends_with_a_call_of_a_tool_says_so() -> None:
    (answer,), report = join(export(root(), inside(2, [user("Where?")], ASKS)))
    assert (answer.is_open, answer.error, report.open) == (True, None, 1)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("It broke.", "It broke."),
        ("It broke.Traceback (most recent call last):\n  File\nValueError: no", "It broke."),
        ("Traceback (most recent call last):\n  File\nValueError: no\n", "ValueError: no"),
    ],
)
def test_the_reason_of_a_failure_comes_from_the_exception_if_the_status_has_none(message: str, reason: str) -> None:
    failed = {**call(1, [user("Where?")], assistant("")), "status": {"code": 2}, "events": [raised(message)]}
    (answer,), _ = join(export(failed))
    assert answer.error == f"has no answer, because it failed: {reason}"


def test_an_exception_with_the_status_ok_is_an_error_only_without_an_answer() -> None:
    given = [
        {**call(number, [user("Where?")], assistant(text)), "status": {"code": 1}, "events": [raised("It broke.")]}
        for number, text in ((1, ""), (2, "Here."))
    ]
    lost, answered = join(*map(export, given))[0]
    assert (lost.error, answered.error) == ("has no answer, because it failed: It broke.", None)


def test_the_result_of_a_tool_is_the_message_beside_other_keys() -> None:
    """OpenLLMetry has the arguments of LangChain's callback beside the message."""
    message = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "ToolMessage"]}
    result = {
        "output": {**message, "kwargs": {"content": "here", "type": "tool", "tool_call_id": "c1"}},
        "kwargs": {"color": "green", "name": "find"},
    }
    found = tool(**{"gen_ai.tool.call.result": json.dumps(result)})
    (answer,), _ = join(export(root(), inside(2, [user("Where?")], ASKS), found))
    assert told(answer) == ["Where?", "find", "here"]


def test_an_output_with_an_unknown_role_is_the_assistants() -> None:
    said = {**assistant("Here."), "role": "unknown"}
    (answer,), report = join(export(call(1, [user("Where?")], said)))
    assert (answer.text, dict(report.problems)) == ("Here.", {})


def test_the_definitions_of_tools_are_no_messages_of_langfuse() -> None:
    definition = {"type": "function", "function": {"name": "find", "parameters": {}}}
    asked = [{"role": "user", "content": "Where?"}, {"role": "tool", "content": definition}]
    attributes = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.input": json.dumps(asked),
        "langfuse.observation.output": json.dumps({"role": "assistant", "content": "Here."}),
    }
    (answer,), _ = join(export(span(1, None, attributes)))
    assert told(answer) == ["Where?", "Here."]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"generations": [[]], "llm_output": None}, []),
        ({"output": {"order": "7", "late": 1}}, ['{"order":"7","late":1}']),
    ],
)
def test_outputs_of_langsmith_are_read(output: dict[str, Any], expected: list[str]) -> None:
    attributes = {"langsmith.span.kind": "llm", "gen_ai.operation.name": "chat", "gen_ai.prompt": "Where?"}
    given = span(1, None, {**attributes, "gen_ai.completion": json.dumps(output)}, status=FAILED)
    (answer,), _ = join(export(given))
    assert told(answer) == ["Where?", *expected]


def test_a_template_of_langsmith_is_no_call_of_a_model() -> None:
    kinds = {"gen_ai.operation.name": "chat", "gen_ai.prompt": "Where?", "gen_ai.completion": "Here."}
    whole = span(1, None, {**kinds, "gen_ai.operation.name": "chain", "langsmith.span.kind": "chain"})
    parts = [
        span(number, 1, {**kinds, "langsmith.span.kind": kind, "gen_ai.usage.input_tokens": 3})
        for number, kind in ((2, "prompt"), (3, "llm"))
    ]
    (answer,), _ = join(export(whole, *parts))
    assert answer.usage is not None
    assert (answer.usage.requests, answer.usage.input) == (1, 3)


def test_a_tool_that_ends_the_agent_is_an_error_though_the_outermost_span_is_not() -> None:
    """The OpenAI Agents SDK reports the error of the tool, and none of the run."""
    failed = {**tool(**{"gen_ai.tool.call.result": "null"}), "status": {"code": 2, "message": "no such order"}}
    (answer,), report = join(export(root(), inside(2, [user("Where?")], ASKS), failed))
    assert answer.error == "has no answer, because it failed: no such order"
    assert told(answer) == ["Where?", "find", '{"error":"no such order"}']
    assert report.open == 0


def test_an_agent_inside_a_tool_does_not_name_the_answer() -> None:
    inner = {**agent(4, 3), "attributes": [attribute("gen_ai.operation.name", "invoke_agent")]}
    inner["attributes"].append(attribute("gen_ai.agent.name", "billing"))
    (answer,), _ = join(export(root(), inside(2, [user("Where?")], assistant("Here.")), tool(), inner))
    assert answer.agent == "shop"


def test_a_workflow_names_the_answer_only_without_an_agent() -> None:
    flow = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": "flow"}
    outer = span(1, None, flow, traceId=root()["traceId"])
    answered = inside(2, [user("Where?")], assistant("Here."))
    (named,), _ = join(export(outer, agent(3, 1), answered))
    (unnamed,), _ = join(export(outer, answered))
    assert (named.agent, unnamed.agent) == ("shop", "flow")


def test_runs_of_the_openai_agents_sdk_by_logfire_are_read() -> None:
    question, reply = {"role": "user", "content": "Where?"}, {"role": "assistant", "content": "Here."}
    called = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    asks, found = {"role": "assistant", "tool_calls": [called]}, {"role": "tool", "tool_call_id": "c1", "content": "x"}

    def chat(number: int, given: list[dict[str, Any]], output: dict[str, Any]) -> dict[str, Any]:
        attributes = {
            "logfire.msg_template": "Chat completion with {gen_ai.request.model!r}",
            "input": json.dumps(given),
            "output": json.dumps([output]),
            "request_data": json.dumps({"messages": [*given, output]}),
            "gen_ai.usage.input_tokens": 3,
        }
        start = int(root()["startTimeUnixNano"]) + number
        return span(number, 2, attributes, startTimeUnixNano=str(start), endTimeUnixNano=str(start))

    (answer,), _ = join(
        export(
            span(1, None, {"logfire.msg_template": "OpenAI Agents trace: {name}", "group_id": "null"}),
            span(2, 1, {"logfire.msg_template": "Agent run: {name!r}", "name": "shop"}),
            chat(3, [question], asks),
            span(4, 2, {"logfire.msg_template": "Function: {name}", "name": "find", "input": "{}", "output": "x"}),
            chat(5, [question, asks, found], reply),
        )
    )
    assert told(answer) == ["Where?", "find", "x", "Here."]
    assert (answer.agent, answer.session, answer.usage and answer.usage.input) == ("shop", f"{1:016x}", 6)


def without_output(made: dict[str, Any]) -> dict[str, Any]:
    """Return the span of a call without its answer."""
    return {**made, "attributes": [each for each in made["attributes"] if each["key"] != "gen_ai.output.messages"]}


def test_a_question_whose_answer_is_in_the_history_of_a_later_call_is_not_counted() -> None:
    (answer,), report = join(
        export(without_output(call(1, [user("Where?")], ASKS))),
        export(call(2, [user("Where?"), ASKS, FOUND], assistant("Here."), at_s=1)),
    )
    assert (told(answer), list(report.notes())) == (["Where?", "find", "here", "Here."], [])


def test_a_text_whose_call_failed_is_an_error_though_the_agent_did_not_fail() -> None:
    """An interrupted stream: the outermost span has no error."""
    (answer,), _ = join(export(root(), {**inside(2, [user("Where?")], assistant("It is")), "status": FAILED}))
    assert answer.error == "its answer is not complete, because it failed: rate limited"


def test_an_agent_that_failed_before_any_message_says_why() -> None:
    """A guardrail stops it before its first call of a model."""
    guard = span(2, 1, {"gen_ai.operation.name": "guardrail"}, status={"code": 2, "message": "tripped"})
    (answer,), report = join(export(root(), {**guard, "traceId": root()["traceId"]}))
    assert answer.error == "has no answer, because it failed: tripped"
    assert list(report.notes()) == []


@pytest.mark.parametrize("name", ["error", "error.message", "error.type"])
def test_the_reason_of_a_failure_comes_from_attributes_if_nothing_else_has_it(name: str) -> None:
    failed = call(1, [user("Where?")], assistant(""), more={name: "It broke."})
    (answer,), _ = join(export({**failed, "status": {"code": 2}}))
    assert answer.error == "has no answer, because it failed: It broke."


def test_the_json_null_is_no_answer() -> None:
    attributes = {"mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanInputs": '"Where?"', "mlflow.spanOutputs": "null"}
    (answer,), _ = join(export(span(1, None, attributes, status=FAILED)))
    assert (told(answer), answer.error) == (["Where?"], "has no answer, because it failed: rate limited")


def test_a_failed_call_that_another_instrumentation_records_without_messages_is_one_answer() -> None:
    """The client of Anthropic has spans of its own, in other traces if the answer is streamed."""
    known = {"gen_ai.response.id": "msg_1"}
    told_one = {**call(1, [user("Where?")], assistant("It"), more=known), "status": FAILED}
    bare = {**span(2, None, {"gen_ai.operation.name": "chat", **known}), "traceId": f"{2:032x}", "status": FAILED}
    later = str(int(told_one["startTimeUnixNano"]) + 1)
    (answer,), _ = join(export(told_one, {**bare, "startTimeUnixNano": later, "endTimeUnixNano": later}))
    assert told(answer) == ["Where?", "It"]


def test_a_level_of_langfuse_and_its_message_are_a_failure() -> None:
    attributes = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.input": json.dumps([{"role": "user", "content": "Where?"}]),
        "langfuse.observation.level": "ERROR",
        "langfuse.observation.status_message": "rate limited",
    }
    (answer,), _ = join(export(span(1, None, attributes)))
    assert answer.error == "has no answer, because it failed: rate limited"


def test_calls_that_langfuse_leaves_in_the_arguments_of_langchain_are_read() -> None:
    called = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"order": "7"}'}}
    output = {"role": "assistant", "content": "", "additional_kwargs": {"tool_calls": [called]}}
    attributes = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.input": json.dumps([{"role": "user", "content": "Where?"}]),
        "langfuse.observation.output": json.dumps(output),
    }
    (answer,), _ = join(export(span(1, None, attributes)))
    assert told(answer) == ["Where?", "find"]


def test_messages_as_bytes_are_read() -> None:
    given = span(1, None, {"langsmith.span.kind": "llm", "gen_ai.operation.name": "chat"})
    for key, text in (("gen_ai.prompt", "Where?"), ("gen_ai.completion", "Here.")):
        given["attributes"].append({"key": key, "value": {"bytesValue": b64encode(text.encode()).decode()}})
    (answer,), _ = join(export(given))
    assert told(answer) == ["Where?", "Here."]


def test_a_prompt_that_gemini_refuses_has_no_answer() -> None:
    reply = {"prompt_feedback": {"block_reason": "SAFETY"}, "candidates": None, "usage_metadata": {}}
    attributes = {"openinference.span.kind": "LLM", "input.value": "Where?", "output.value": json.dumps(reply)}
    answers, report = join(export(span(1, None, attributes)))
    assert (answers, sum(report.without_answer.values())) == ([], 1)


@pytest.mark.parametrize("last", ["", "It is here."])
def test_chunks_of_a_streamed_answer_are_one_message(last: str) -> None:
    """Google's ADK records them so."""
    chunks = [{**assistant(text), "finish_reason": ""} for text in ("It is ", "here.")]
    given = call(
        1,
        [user("Where?")],
        {},
        more={"gen_ai.output.messages": json.dumps([*chunks, {**assistant(last), "finish_reason": "stop"}])},
    )
    (answer,), _ = join(export(given))
    assert told(answer) == ["Where?", "It is here."]


def test_an_empty_list_of_parts_is_an_empty_answer_of_strands() -> None:
    events = [
        {"name": "gen_ai.user.message", "attributes": [attribute("content", '[{"text": "Where?"}]')]},
        {"name": "gen_ai.choice", "attributes": [attribute("message", "[]")]},
    ]
    (answer,), report = join(export(span(1, None, {"gen_ai.operation.name": "chat"}, events=events)))
    assert (answer.text, sum(report.empty.values())) == ("", 1)


def test_images_of_the_converse_api_are_parts() -> None:
    parts = [{"text": "What?"}, {"image": {"format": "png", "source": {"bytes": "x"}}}]
    (answer,), _ = join(export(call(1, [{"role": "user", "content": parts}], assistant("A cat."))))
    assert told(answer) == ["What?", "A cat."]


def test_the_only_value_of_a_structured_answer_is_no_second_answer() -> None:
    output = {"openinference.span.kind": "AGENT", "output.value": json.dumps({"order": "7"})}
    outer = span(1, None, output, traceId=root()["traceId"])
    (answer,), _ = join(export(outer, inside(2, [user("Which?")], assistant('{"order":"7"}'))))
    assert told(answer) == ["Which?", '{"order":"7"}']


def moved(made: dict[str, Any], start_s: float, end_s: float) -> dict[str, Any]:
    """Return a span with other times, in the trace of the agent."""
    start = int(root()["startTimeUnixNano"])
    times = {
        "startTimeUnixNano": str(start + int(start_s * 10**9)),
        "endTimeUnixNano": str(start + int(end_s * 10**9)),
    }
    return {**made, **times, "traceId": root()["traceId"]}


def test_a_call_whose_parent_is_missing_belongs_to_the_only_agent_around_it() -> None:
    """Strands never ends the span between them if the call fails."""
    lost = moved(
        {**call(2, [user("Where?")], assistant(""), at_s=1), "parentSpanId": f"{7:016x}", "status": FAILED}, 1, 2
    )
    (answer,), _ = join(export(root(status=FAILED), lost))
    assert told(answer)[:1] == ["Where?"]


@pytest.mark.parametrize("parent", [7, 8])
def test_a_call_beside_an_agent_is_an_answer_of_its_own(parent: int) -> None:
    """Their common parent is in another process, or the call outlives the agent."""
    other = {**call(2, [user("Title?")], assistant("Orders")), "parentSpanId": f"{parent:016x}"}
    outer = {**root(), "parentSpanId": f"{7:016x}"}
    given = inside(3, [user("Where?")], assistant("Here."), at_s=1)
    answers, _ = join(export(outer, given, moved(other, 1, 2 if parent == 7 else 60)))
    assert sorted(map(told, answers)) == [["Title?", "Orders"], ["Where?", "Here."]]


def test_spans_of_strands_before_its_operations_had_names_are_read() -> None:
    """Agents, cycles and tools have prompts and completions, too; the agent counts the tokens of all its turns."""

    def part(**value: Any) -> str:
        return json.dumps([value])

    asked = [{"role": "user", "content": [{"text": "Where?"}]}]
    use, found = {"toolUseId": "c1", "name": "find", "input": {}}, {"toolUseId": "c1", "content": [{"text": "here"}]}
    history = [*asked, {"role": "assistant", "content": [{"toolUse": use}]}]
    history.append({"role": "user", "content": [{"toolResult": found}]})
    model = {"gen_ai.agent.name": "shop", "gen_ai.usage.prompt_tokens": 5, "gen_ai.usage.completion_tokens": 1}
    spans = [
        span(1, None, {"gen_ai.agent.name": "shop", "gen_ai.prompt": "Where?", "gen_ai.completion": "Here.\n",
                       "gen_ai.usage.prompt_tokens": 90, "gen_ai.usage.completion_tokens": 9}),
        span(2, 1, {"gen_ai.prompt": json.dumps(asked), "gen_ai.completion": part(toolUse=use)}),
        span(3, 2, {**model, "gen_ai.prompt": json.dumps(asked), "gen_ai.completion": part(toolUse=use)}),
        span(4, 2, {"gen_ai.prompt": "{}", "gen_ai.completion": part(text="here"), "tool.name": "find", "tool.id": "c1",
                    "tool.parameters": "{}", "tool.result": part(text="here")}),
        span(5, 1, {**model, "gen_ai.prompt": json.dumps(history), "gen_ai.completion": part(text="Here.")}),
    ]  # fmt: skip
    (answer,), _ = join(export(*(moved(each, place, 6 - place) for place, each in enumerate(spans))))
    assert told(answer) == ["Where?", "find", "here", "Here."]
    assert answer.usage is not None
    assert (answer.agent, answer.usage.input, answer.usage.requests) == ("shop", 10, 2)


def test_a_failed_tool_before_an_answer_that_was_not_recorded_is_no_reason() -> None:
    failed = moved({**tool(), "status": FAILED}, 1, 2)
    last = moved(span(4, 1, {"gen_ai.operation.name": "chat"}), 3, 4)
    answers, report = join(export(root(), without_output(inside(2, [user("Where?")], ASKS)), failed, last))
    assert (answers, sum(report.without_answer.values())) == ([], 1)


@pytest.mark.parametrize("operation", ["acompletion", "aresponses", "atext_completion", "anthropic_messages"])
def test_async_calls_of_litellm_are_calls_of_models(operation: str) -> None:
    named = {"gen_ai.operation.name": operation}
    (answer,), _ = join(
        export(call(1, [user("Where?")], ASKS, more=named)),
        export(call(2, [user("Where?"), ASKS, FOUND], assistant("Here."), at_s=1, more=named)),
    )
    assert told(answer) == ["Where?", "find", "here", "Here."]
    assert answer.usage is not None
    assert answer.usage.requests == 2


def test_requests_of_older_versions_of_adk_are_read() -> None:
    called, found = {"function_call": {"name": "find", "args": {}}}, {"name": "find", "response": {"result": "here"}}
    history = [
        {"role": "user", "parts": [{"text": "Where?"}]},
        {"role": "model", "parts": [called]},
        {"role": "user", "parts": [{"function_response": found}]},
    ]

    def made(number: int, contents: list[Any], part: dict[str, Any]) -> dict[str, Any]:
        usage = {"prompt_token_count": 5, "candidates_token_count": 1}
        request = {"model": "gemini", "config": {"system_instruction": "Be kind."}, "contents": contents}
        response = {"content": {"role": "model", "parts": [part]}, "usage_metadata": usage}
        attributes = {
            "gcp.vertex.agent.llm_request": json.dumps(request),
            "gcp.vertex.agent.llm_response": json.dumps(response),
            "gcp.vertex.agent.session_id": "s",
        }
        return moved(span(number, None, attributes), number, number + 0.5)

    (answer,), _ = join(export(made(1, history[:1], called), made(2, history, {"text": "Here."})))
    assert [told(answer)[place] for place in (0, 1, 2, 4)] == ["Be kind.", "Where?", "find", "Here."]
    assert answer.messages[3].content == {"result": "here"}
    assert answer.usage is not None
    assert (answer.model, answer.session, answer.usage.input, answer.usage.requests) == ("gemini", "s", 10, 2)


def test_unknown_roles_of_openllmetry_with_langchain_are_read() -> None:
    call_of = {f"gen_ai.completion.0.tool_calls.0.{key}": value for key, value in (("id", "c1"), ("name", "find"))}
    first = {
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "Where?",
        "gen_ai.completion.0.role": "unknown",
        "gen_ai.completion.0.content": '""',
        **call_of,
    }
    second = {
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "Where?",
        "gen_ai.prompt.1.role": "assistant",
        "gen_ai.prompt.1.content": "",
        "gen_ai.prompt.2.role": "unknown",
        "gen_ai.prompt.2.content": "here",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "Here.",
    }
    spans = (moved(span(number, None, given), number, number + 0.5) for number, given in enumerate((first, second), 1))
    (answer,), _ = join(export(*spans))
    assert told(answer) == ["Where?", "find", "here", "Here."]


def test_calls_of_tools_one_after_the_other_are_one_answer_though_no_input_has_them() -> None:
    """OpenLIT records the results of tools in the next input, but not what asked for them."""
    again = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c2", "name": "look", "arguments": {}}]}
    seen = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c2", "response": "there"}]}
    calls = [
        call(1, [user("Where?")], ASKS),
        call(2, [user("Where?"), FOUND], again, at_s=1),
        call(3, [user("Where?"), FOUND, seen], assistant("Here."), at_s=2),
    ]
    (answer,), report = join(*map(export, calls))
    assert (told(answer), report.open) == (["Where?", "find", "here", "look", "there", "Here."], 0)
    below = [{**each, "traceId": root()["traceId"], "parentSpanId": f"{9:016x}"} for each in calls]
    outer = {**span(9, None, {"gen_ai.operation.name": "invoke_agent"}), "traceId": root()["traceId"]}
    (answer,), report = join(export(outer, *below))
    assert (told(answer), report.guessed) == (["Where?", "find", "here", "look", "there", "Here."], 0)
