"""Spans joined into answers: in any order, in any number of exports, however often each arrives."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.spans import START, attribute, export, span
from tests.telemetry.test_recorded_traces import COMPLETE, said, spans

from agentv.telemetry.joining.answers import TracedAnswer
from agentv.telemetry.joining.joining import Joiner, JoinOptions, join_spans
from agentv.telemetry.joining.report import JoinReport
from agentv.telemetry.otlp.spans import spans_of
from agentv.types.messages_json import content_text

SECOND = 10**9


def join(*exports: dict[str, Any], options: JoinOptions | None = None) -> tuple[list[TracedAnswer], JoinReport]:
    return join_spans([each for one in exports for each in spans_of(one)], options)


def call(
    number: int,
    said: list[dict[str, Any]],
    answer: dict[str, Any],
    *,
    at_s: float = 0.0,
    trace: int = 0,
    parent: int | None = None,
    more: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A call of a model, in a trace of its own unless it has one."""
    start = int(START) + int(at_s * SECOND)
    return {
        **span(
            number,
            parent,
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.input.messages": json.dumps(said),
                "gen_ai.output.messages": json.dumps([answer]),
                "gen_ai.usage.input_tokens": 10,
                "gen_ai.usage.output_tokens": 1,
                **(more or {}),
            },
        ),
        "traceId": f"{trace or number:032x}",
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + SECOND // 4),
    }


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "parts": [{"type": "text", "content": text}]}


ASKS = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "find", "arguments": {"order": "7"}}]}
FOUND = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "here"}]}


def texts(answers: list[TracedAnswer]) -> list[tuple[str, ...]]:
    return [tuple(content_text(each.content or "") for each in answer.messages) for answer in answers]


def test_a_call_that_continues_another_is_the_same_answer() -> None:
    first = call(1, [user("Where?")], ASKS)
    second = call(2, [user("Where?"), ASKS, FOUND], assistant("Here."), at_s=1)
    (answer,), report = join(export(first), export(second))
    assert [each[0] for each in said(answer)] == ["user", "assistant", "tool", "assistant"]
    assert answer.usage is not None
    assert (answer.usage.input, answer.usage.output, answer.usage.requests) == (20, 2, 2)
    assert (answer.span_id, answer.is_open, report.open) == (f"{2:016x}", False, 0)


def test_a_call_whose_start_is_rounded_down_to_a_millisecond_continues_another() -> None:
    first = {**call(1, [user("Where?")], ASKS), "endTimeUnixNano": str(int(START) + 250_900_000)}
    second = call(2, [user("Where?"), ASKS, FOUND], assistant("Here."), at_s=0.25)
    (answer,), report = join(export(first), export(second))
    assert (answer.text, report.open) == ("Here.", 0)


def test_two_users_with_the_same_first_words_are_not_merged() -> None:
    hello, said_hello = [user("Hi")], assistant("Hello")
    exports = [
        export(call(1, hello, said_hello)),
        export(call(2, hello, said_hello, at_s=1)),
        export(call(3, [*hello, said_hello, user("Refund?")], assistant("Yes"), at_s=2)),
        export(call(4, [*hello, said_hello, user("Where?")], assistant("There"), at_s=3)),
    ]
    answers, report = join(*exports)
    assert texts(answers) == [
        ("Hi", "Hello"),
        ("Hi", "Hello"),
        ("Hi", "Hello", "Refund?", "Yes"),
        ("Hi", "Hello", "Where?", "There"),
    ]
    assert answers[2].session == answers[1].session  # the newest end first
    assert answers[3].session == answers[0].session
    assert report.ambiguous == 1
    assert any("may continue several conversations" in note.text for note in report.notes())


def test_results_of_tools_go_to_the_user_whose_call_they_answer() -> None:
    """Two users say the same, and the same tool is called with the same arguments; only the ids of the calls differ."""
    asks, found = (
        [json.loads(json.dumps(message).replace("c1", f"c{number}")) for number in (1, 2)] for message in (ASKS, FOUND)
    )
    tokens = {"gen_ai.usage.input_tokens": 100}
    answers, report = join(
        export(call(1, [user("Where?")], asks[0], more=tokens), call(2, [user("Where?")], asks[1])),
        export(call(3, [user("Where?"), asks[0], found[0]], assistant("Here."), at_s=1)),
        export(call(4, [user("Where?"), asks[1], found[1]], assistant("There."), at_s=1)),
    )
    used = {answer.text: answer.usage.input for answer in answers if answer.usage is not None}
    assert used == {"Here.": 110, "There.": 20}
    assert report.ambiguous == 0


def test_calls_with_the_same_id_in_other_traces_are_answers_of_their_own() -> None:
    """As of a program that counts its spans from 1 in each trace."""
    calls = [call(1, [user(f"Question {trace}?")], ASKS, trace=trace) for trace in (1, 2)]
    answers, report = join(export(*calls))
    assert len(answers) == report.open == 2


SESSION_1 = {"gen_ai.conversation.id": "1"}


def test_an_id_of_a_conversation_keeps_users_apart() -> None:
    exports = [
        export(call(1, [user("Hi")], assistant("Hello"), more={"gen_ai.conversation.id": "a"})),
        export(call(2, [user("Hi")], assistant("Hello"), at_s=1, more={"gen_ai.conversation.id": "b"})),
        export(
            call(3, [user("Hi"), assistant("Hello"), user("Go")], assistant("Ok"), at_s=2, more={"session.id": "a"}),
        ),
    ]
    answers, report = join(*exports)
    assert [answer.session for answer in answers] == ["a", "b", "a"]
    assert report.ambiguous == 0


def test_a_conversation_is_of_one_service() -> None:
    """Programs count their sessions from 1, too."""
    exports = [export(call(number, [user(f"{number}?")], assistant("Yes"), more=SESSION_1)) for number in (1, 2, 3)]
    for made, service in zip(exports, "aba", strict=True):
        made["resourceSpans"][0]["resource"]["attributes"] = [attribute("service.name", service)]
    answers, _ = join(*exports, options=JoinOptions(unit="conversation"))
    assert sorted(texts(answers)) == [("1?", "Yes", "3?", "Yes"), ("2?", "Yes")]


def test_a_call_that_nothing_continues_is_an_answer_that_says_so() -> None:
    late = call(2, [user("Where?"), ASKS, FOUND], assistant("Here."), at_s=700)
    answers, report = join(export(call(1, [user("Where?")], ASKS)), export(late))
    assert [answer.is_open for answer in answers] == [True, False]
    assert answers[0].to_line()["metadata"]["incomplete"] is True  # type: ignore[index,call-overload] # an object
    assert report.open == 1
    assert len(join(export(call(1, [user("Where?")], ASKS)), export(late), options=JoinOptions(idle_s=900))[0]) == 1


def test_a_new_question_ends_an_answer_that_waits_for_a_tool() -> None:
    asked = [user("Where?"), ASKS, FOUND, user("Never mind.")]
    answers, _ = join(export(call(1, [user("Where?")], ASKS)), export(call(2, asked, assistant("Ok."), at_s=1)))
    assert [(answer.is_open, answer.text) for answer in answers] == [(True, ""), (False, "Ok.")]


def test_previous_responses_are_continued_by_their_id() -> None:
    first = call(1, [user("Where?")], ASKS, more={"gen_ai.response.id": "r1"})
    key = "gen_ai.request.previous_response_id"
    second = call(2, [FOUND], assistant("Here."), at_s=1, more={key: "r1", "gen_ai.response.id": "r2"})
    third = call(3, [user("Thanks")], assistant("Welcome."), at_s=2, more={key: "r2"})
    answers, _ = join(export(first, second, third))
    assert texts(answers) == [("Where?", "", "here", "Here."), ("Where?", "", "here", "Here.", "Thanks", "Welcome.")]
    assert answers[0].session == answers[1].session


AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"}


def agent(number: int, parent: int | None, **more: Any) -> dict[str, Any]:
    return {**span(number, parent, {**AGENT, **more}), "traceId": f"{9:032x}"}


def test_outermost_agents_under_a_server_are_one_answer_each() -> None:
    server = {**span(1, None, {"http.route": "/chat"}), "kind": 2, "traceId": f"{9:032x}"}
    spans = [
        server,
        agent(2, 1),
        call(3, [user("A?")], assistant("a"), trace=9, parent=2),
        agent(4, 2),  # an inner agent is a part of its caller
        call(5, [user("Inner?")], assistant("inner"), trace=9, parent=4),
        agent(6, 1),
        call(7, [user("B?")], assistant("b"), trace=9, parent=6, at_s=1),
    ]
    spans[2] = {**spans[2], "endTimeUnixNano": str(int(START) + SECOND)}
    answers, _ = join(export(*spans))
    assert [answer.text for answer in answers] == ["a", "b"]
    assert answers[0].usage is not None
    assert answers[0].usage.input == 20  # also the inner agent's


def traced_function(**more: str) -> dict[str, Any]:
    """A function that the Langfuse SDK traces, as the root."""
    return {**span(1, None, {"langfuse.observation.type": "span", **more}), "traceId": f"{9:032x}"}


def test_a_traced_function_around_an_agent_is_one_answer() -> None:
    spans = [
        traced_function(**{"langfuse.observation.input": "A?", "langfuse.observation.output": "a"}),
        agent(2, 1),
        call(3, [user("A?")], assistant("a"), trace=9, parent=2),
    ]
    (answer,), _ = join(export(*spans))
    assert texts([answer]) == [("A?", "a")]
    assert (answer.span_id, answer.agent) == (f"{1:016x}", "shop")
    assert answer.usage is not None
    assert answer.usage.input == 10


def test_a_traced_function_without_an_output_is_no_answer_beside_its_agent() -> None:
    spans = [
        traced_function(**{"langfuse.observation.input": "A?"}),
        agent(2, 1),
        call(3, [user("A?")], assistant("a"), trace=9, parent=2),
    ]
    (answer,), _ = join(export(*spans))
    assert (answer.span_id, answer.text) == (f"{2:016x}", "a")


def test_agents_in_one_traced_function_are_an_answer_each() -> None:
    spans = [
        traced_function(**{"langfuse.observation.input": "A? B?", "langfuse.observation.output": "a b"}),
        *(agent(2, 1), call(3, [user("A?")], assistant("a"), trace=9, parent=2)),
        *(agent(4, 1), call(5, [user("B?")], assistant("b"), trace=9, parent=4, at_s=1)),
    ]
    answers, _ = join(export(*spans))
    assert texts(answers) == [("A?", "a"), ("B?", "b")]


def test_an_object_whose_json_has_other_spaces_is_the_same_answer() -> None:
    spans = [
        agent(2, None, **{"gen_ai.output.messages": json.dumps([assistant('{"order":"7"}')])}),
        call(3, [user("Which?")], assistant('{"order": "7"}'), trace=9, parent=2),
    ]
    (answer,), _ = join(export(*spans))
    assert texts([answer]) == [("Which?", '{"order": "7"}')]


def test_calls_inside_of_tools_are_not_the_answer() -> None:
    tool = {**span(3, 2, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ask"}), "traceId": f"{9:032x}"}
    spans = [
        agent(2, None),
        call(5, [user("A?")], assistant("answer"), trace=9, parent=2),
        tool,
        call(4, [user("Sub?")], assistant("sub"), trace=9, parent=3, at_s=5),
    ]
    (answer,), _ = join(export(*spans))
    assert answer.text == "answer"


def test_an_answer_whose_root_comes_in_a_later_export_counts_once() -> None:
    parts = [call(3, [user("A?")], assistant("a"), trace=9, parent=2), agent(2, None)]
    answers, report = join(export(parts[0]), export(parts[1]), export(parts[0]))
    assert [answer.text for answer in answers] == ["a"]
    assert (report.doubled, report.answers) == (1, 1)


def test_tokens_are_those_of_calls_and_never_of_agents_too() -> None:
    spans = [
        agent(2, None, **{"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 1}),
        call(3, [user("A?")], assistant("a"), trace=9, parent=2),
    ]
    (answer,), _ = join(export(*spans))
    assert answer.usage is not None
    assert (answer.usage.input, answer.usage.output) == (10, 1)


def test_a_call_that_two_instrumentations_record_counts_once() -> None:
    outer = call(1, [user("A?")], assistant("a"))
    (answer,), _ = join(export(outer, call(2, [user("A?")], assistant("a"), trace=1, parent=1)))
    assert answer.usage is not None
    assert answer.usage.input == 10


def scoped(scope: str, *spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": scope}, "spans": list(spans)}]}]}


def test_a_call_that_two_instrumentations_record_beside_each_other_counts_once() -> None:
    """As OpenLLMetry for JavaScript records LangChain, without the calls of tools, and its client of OpenAI."""
    again = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c2", "name": "find", "arguments": {}}]}
    more = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c2", "response": "there"}]}
    told = [[user("Where?"), ASKS], [FOUND, again], [more, assistant("Here.")]]
    client, framework = [], []
    for number, place in enumerate((1, 3, 5)):
        whole = [each for part in told for each in part]
        bare = [assistant("") if each in (ASKS, again) else each for each in whole]
        framework.append(call(3 + number, bare[:place], bare[place], trace=9, parent=2, at_s=number))
        inner = call(6 + number, whole[:place], whole[place], trace=9, parent=2, at_s=number)
        client.append({**inner, "startTimeUnixNano": str(int(inner["startTimeUnixNano"]) + 1_000_000)})
    (answer,), _ = join(scoped("framework", agent(2, None), *framework), scoped("client", *client))
    assert texts([answer]) == [("Where?", "", "here", "", "there", "Here.")]
    assert [each.tool for message in answer.messages for each in message.tool_calls] == ["find", "find"]
    assert answer.usage is not None
    assert (answer.usage.input, answer.usage.requests) == (30, 3)


@pytest.mark.parametrize(
    ("names", "expected"), [(("openai.response", "Response"), (1, 1)), (("chat", "chat"), (2, 0))], ids=["two", "one"]
)
def test_a_call_that_two_instrumentations_record_in_traces_of_their_own_counts_once(
    names: tuple[str, str], expected: tuple[int, int]
) -> None:
    """A response of the same instrumentation is one of a cache, which is another answer."""
    made = [
        {**call(number, [user("Where?")], assistant("Here."), more={"gen_ai.response.id": "r"}), "name": name}
        for number, name in enumerate(names, start=1)
    ]
    answers, report = join(export(*made))
    assert (len(answers), report.doubled) == expected


def test_a_span_may_have_any_name() -> None:
    named = {**call(1, [user("Where?")], assistant("Here.")), "name": "log event"}
    (answer,), _ = join(export(named))
    assert answer.text == "Here."


def test_calls_to_which_a_server_gives_one_id_are_told_apart_by_their_texts() -> None:
    made = [
        {**call(number, [user("Where?")], assistant(text), more={"gen_ai.response.id": "r"}), "name": f"chat {text}"}
        for number, text in enumerate(("Here.", "There."), start=1)
    ]
    answers, report = join(export(*made))
    assert (len(answers), report.doubled) == (2, 0)


def test_a_stream_has_answers_as_soon_as_enough_time_has_passed() -> None:
    joiner = Joiner(JoinOptions(is_endless=True))
    found = []
    for number in range(5):
        for each in spans_of(export(call(number + 1, [user(f"{number}?")], assistant(f"{number}"), at_s=400 * number))):
            joiner.add(each)
        found += [answer.text for answer in joiner.ready()]
    assert found == ["0", "1", "2"]
    assert [answer.text for answer in joiner.rest()] == ["3", "4"]
    joiner.close()


TOOLS = {
    "LangSmith": {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.prompt": json.dumps({"order": "7"}),
        "gen_ai.completion": json.dumps({"outputs": "here"}),
    },
    "Mastra before version 1": {
        "gen_ai.operation.name": "tool.execute",
        "gen_ai.tool.input": json.dumps({"order": "7"}),
        "gen_ai.tool.output": "here",
    },
    "OpenInference, by the name of the span": {
        "openinference.span.kind": "TOOL",
        "input.value": json.dumps({"order": "7"}),
        "output.value": "here",
    },
    "Google ADK": {
        "gen_ai.operation.name": "execute_tool",
        "gcp.vertex.agent.tool_call_args": json.dumps({"order": "7"}),
        "gcp.vertex.agent.tool_response": json.dumps("here"),
    },
}


@pytest.mark.parametrize("form", TOOLS)
def test_arguments_and_results_of_tools_are_read_by_each_of_their_names(form: str) -> None:
    spans = [
        agent(2, None),
        {**span(3, 2, {"gen_ai.tool.name": "find", **TOOLS[form]}, name="find"), "traceId": f"{9:032x}"},
        call(4, [user("Where?")], assistant("Here."), trace=9, parent=2),
    ]
    (answer,), _ = join(export(*spans))
    calls = [(each.tool, each.input) for message in answer.messages for each in message.tool_calls]
    assert calls == [("find", {"order": "7"})]
    assert texts([answer]) == [("Where?", "", "here", "Here.")]


def test_the_result_of_an_mcp_tool_is_its_text() -> None:
    result = [{"type": "text", "text": "here"}, {"type": "text", "text": "and there"}]
    tool = {
        "openinference.span.kind": "TOOL",
        "tool.name": "find",
        "input.value": json.dumps({"order": "7"}),
        "output.value": json.dumps(result),
    }
    spans = [
        agent(2, None),
        {**span(3, 2, tool), "traceId": f"{9:032x}"},
        call(4, [user("Where?")], assistant("Here."), trace=9, parent=2),
    ]
    (answer,), _ = join(export(*spans))
    assert texts([answer]) == [("Where?", "", "here\nand there", "Here.")]


def test_log_records_of_one_millisecond_stay_in_their_order() -> None:
    said = ["Where?", "Here.", "And the other?"]
    records = [
        {
            "timeUnixNano": START,
            "traceId": f"{1:032x}",
            "spanId": f"{1:016x}",
            "attributes": [attribute("event.name", f"gen_ai.{role}.message")],
            "body": attribute("", {"content": text})["value"],
        }
        for role, text in zip(("user", "assistant", "user"), said, strict=True)
    ]
    answered = {**records[0], "attributes": [attribute("event.name", "gen_ai.choice")]}
    answered["body"] = attribute("", {"message": {"content": "Lost."}})["value"]
    bare = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    asking = {**span(1, None, bare), "traceId": f"{1:032x}"}
    logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": [*records, answered]}]}]}
    (answer,), _ = join(logs, export(asking))
    assert texts([answer]) == [(*said, "Lost.")]


def test_a_failed_call_says_why() -> None:
    failed = {**call(1, [user("A?")], assistant("")), "status": {"code": 2, "message": "rate limited"}}
    failed["attributes"] = [each for each in failed["attributes"] if each["key"] != "gen_ai.output.messages"]
    (answer,), _ = join(export(failed))
    assert answer.error == "has no answer, because it failed: rate limited"


def comparable(answers: list[TracedAnswer]) -> list[tuple[Any, ...]]:
    rows = [(a.start_ns, a.end_ns, a.trace_id, a.span_id, said(a), a.usage, a.session, a.is_open) for a in answers]
    return sorted(rows, key=lambda row: row[:4])


@pytest.mark.parametrize("name", COMPLETE)
def test_order_and_copies_of_spans_change_nothing(name: str) -> None:
    given, rng = spans(name), random.Random(7)
    expected = comparable(join_spans(given)[0])
    for _ in range(5):
        copies = [*given, *rng.choices(given, k=len(given))]
        rng.shuffle(copies)
        assert comparable(join_spans(copies)[0]) == expected


_TURN = st.tuples(st.sampled_from(["Hi", "Where?", "Refund?"]), st.booleans())


@given(st.lists(st.lists(_TURN, min_size=1, max_size=3), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_conversations_of_clients_are_joined_in_any_order(
    turns: list[list[tuple[str, bool]]], rng: random.Random
) -> None:
    calls: list[dict[str, Any]] = []
    for user_number, conversation in enumerate(turns):
        history: list[dict[str, Any]] = []
        for number, (question, has_tool) in enumerate(conversation):
            more = {"gen_ai.conversation.id": f"user {user_number}"}
            history.append(user(f"{question} {number}"))
            for answer in ([ASKS, FOUND] if has_tool else []), [assistant(f"answer {number}")]:
                if answer:
                    calls.append(call(len(calls) + 1, history, answer[0], at_s=len(calls), more=more))
                    history = [*history, *answer]
    expected = sum(map(len, turns))
    rng.shuffle(calls)
    answers, report = join(*(export(each) for each in calls))
    assert (len(answers), report.open) == (expected, 0)
    assert sum(answer.usage.requests for answer in answers if answer.usage) == len(calls)


_WRONG = [[], {}, 5, None, "x", [None], "[1]", '{"role": 5}', '[{"role": "x", "parts": [3]}]']


@pytest.mark.parametrize("wrong", _WRONG)
@pytest.mark.parametrize(
    "key",
    [
        *("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.usage.input_tokens", "gen_ai.prompt.0.content"),
        *("gen_ai.system_instructions", "gen_ai.tool.call.arguments", "input.value", "llm.input_messages"),
        *("traceloop.entity.input", "ai.prompt", "ai.response.toolCalls", "mlflow.spanInputs", "events"),
        *("langfuse.observation.output", "request_data", "response_data", "pydantic_ai.all_messages"),
    ],
)
def test_wrong_values_of_attributes_are_no_traceback(key: str, wrong: Any) -> None:
    one = call(1, [user("A?")], assistant("a"))
    one["attributes"] = [each for each in one["attributes"] if each["key"] != key] + [attribute(key, wrong)]
    for kind in ("chat", "invoke_agent", "execute_tool"):
        again = {**one, "attributes": [*one["attributes"], attribute("gen_ai.operation.name", kind)]}
        answers, report = join(export(again))
        [answer.to_line() for answer in answers]
        list(report.notes())


def test_a_call_that_another_instrumentation_records_with_messages_is_not_missing() -> None:
    known = call(1, [user("A?")], assistant("a"), more={"gen_ai.response.id": "r1"})
    silent = call(2, [], {}, at_s=1, more={"gen_ai.response.id": "r1"})
    silent["attributes"] = [each for each in silent["attributes"] if not each["key"].endswith(".messages")]
    for order in ((known, silent), (silent, {**known, "startTimeUnixNano": str(int(START) + 5 * SECOND)})):
        answers, report = join(*(export(each) for each in order))
        assert [answer.text for answer in answers] == ["a"]
        assert list(report.notes()) == []


def test_messages_that_cannot_be_read_are_an_error_and_the_call_still_counts() -> None:
    wrong = call(1, [{"role": "user", "parts": [{"type": "text", "content": "A?"}]}], {"no": "message"})
    (answer,), _ = join(export(wrong))
    assert answer.error is not None
    assert answer.error.startswith(
        "cannot be read: gen_ai messages: $.attributes.gen_ai.output.messages[0] has no role"
    )


ASKED = {"role": "assistant", "parts": [{"type": "text", "content": "Calling find"}]}


@pytest.mark.parametrize("between", [[], [ASKED]], ids=["left out", "as a text"])
def test_results_continue_the_call_that_requests_them_without_history(
    between: list[dict[str, Any]],
) -> None:
    first = call(1, [user("Where?")], ASKS)
    second = call(2, [user("Where?"), *between, FOUND], assistant("Here."), at_s=1)
    (answer,), report = join(export(first), export(second))
    assert texts([answer]) == [("Where?", "", "here", "Here.")]
    assert answer.usage is not None
    assert answer.usage.requests == 2
    assert (report.open, report.ambiguous) == (0, 0)


@pytest.mark.parametrize("between", [[], [ASKED]], ids=["left out", "as a text"])
def test_calls_of_tools_one_after_another_are_one_answer_without_history(between: list[dict[str, Any]]) -> None:
    asks_more = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c2", "name": "look", "arguments": {}}]}
    seen = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c2", "response": "there"}]}
    second = [user("Where?"), *between, FOUND]
    third = [*second, *between, seen]
    (first, later), report = join(
        export(call(1, [user("Where?")], ASKS)),
        export(call(2, second, asks_more, at_s=1)),
        export(call(3, third, assistant("Here."), at_s=2)),
        export(call(4, [*third, assistant("Here."), user("Thanks")], assistant("Welcome."), at_s=3)),
    )
    assert texts([first]) == [("Where?", "", "here", "", "there", "Here.")]
    assert (report.open, report.ambiguous, later.session) == (0, 0, first.session)


def test_results_of_another_call_continue_nothing() -> None:
    other = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c2", "response": "there"}]}
    first = call(1, [user("Where?")], ASKS)
    second = call(2, [user("Where?"), other], assistant("There."), at_s=1)
    answers, report = join(export(first), export(second))
    assert (len(answers), report.open) == (2, 1)


def test_a_request_and_its_streamed_answer_in_two_spans_are_one_answer() -> None:
    request = call(1, [user("Where?")], assistant(""))
    request["attributes"] = [each for each in request["attributes"] if "output" not in each["key"]]
    answers, report = join(export(request), export(call(2, [user("Where?")], assistant("Here."), at_s=1)))
    assert texts(answers) == [("Where?", "Here.")]
    assert list(report.notes()) == []


def test_a_question_without_an_answer_is_counted() -> None:
    request = call(1, [user("Where?")], assistant(""))
    request["attributes"] = [each for each in request["attributes"] if "output" not in each["key"]]
    answers, report = join(export(request))
    (note,) = report.notes()
    assert (answers, note.text.startswith("1 question has no answer in the traces of")) == ([], True)


def test_an_answer_without_a_question_is_noted() -> None:
    answers, report = join(export(call(1, [], assistant("Here."))))
    (note,) = report.notes()
    assert (texts(answers), note.text.startswith("1 answer has no question in the traces of")) == ([("Here.",)], True)


def test_calls_that_no_message_has_come_from_the_spans_of_the_tools() -> None:
    asked = {"gen_ai.input.messages": json.dumps([user("Where?")])}
    agent = span(
        1,
        None,
        {"gen_ai.operation.name": "invoke_agent", **asked, "gen_ai.output.messages": json.dumps([assistant("Here.")])},
    )
    tool = span(
        2,
        1,
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "find",
            "gen_ai.tool.call.id": "c1",
            "gen_ai.tool.call.arguments": '{"order": "7"}',
            "gen_ai.tool.call.result": "here",
        },
    )
    (answer,), _ = join(export(agent, tool))
    assert said(answer) == [
        ("user", "Where?", []),
        ("assistant", "", [("find", {"order": "7"})]),
        ("tool", "here", []),
        ("assistant", "Here.", []),
    ]


def test_log_records_without_a_trace_copy_the_response_with_their_id() -> None:
    more = {"gen_ai.response.id": "r1"}
    first = call(1, [user("Where?")], assistant("Here."), more=more)
    record = {"eventName": "gen_ai.client.inference.operation.details", "timeUnixNano": START}
    logs = [
        {**record, "attributes": [*first["attributes"][:3], attribute("gen_ai.response.id", each)]}
        for each in ("r1", "r2")
    ]
    exported = {"resourceLogs": [{"scopeLogs": [{"logRecords": logs}]}]}
    answers, _ = join(exported, export(first))
    assert texts(answers) == [("Where?", "Here.")] * 2


def test_conversations_with_equal_words_at_one_time_are_joined_each() -> None:
    asked = [call(number, [user("Where?")], ASKS) for number in range(1, 301)]
    told = [
        call(number, [user("Where?"), ASKS, FOUND], assistant("Here."), at_s=1 + number / 1000)
        for number in range(301, 601)
    ]
    answers, _ = join(export(*asked), export(*told))
    assert {tuple(each[0] for each in said(answer)) for answer in answers} == {
        ("user", "assistant", "tool", "assistant")
    }
    assert len(answers) == 300
