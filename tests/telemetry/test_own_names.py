"""What instrumentations record under names of their own, or only in part: Sentry, Netra, streams of Bedrock, Gemini."""

import json
from typing import Any

import pytest
from tests.support.spans import export, span
from tests.telemetry.test_api_forms import heard
from tests.telemetry.test_gaps import inside, moved, root, told
from tests.telemetry.test_joining import ASKS, FOUND, assistant, call, join, user

QUESTION = {"role": "user", "content": "Where?"}
CALL_OF_API = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"order": "7"}'}}
CALL_OF_LANGCHAIN = {"id": "c1", "type": "tool_call", "name": "find", "args": {"order": "7"}}
EXPECTED = [
    ("user", "Where?", []),
    ("assistant", "", [("find", {"order": "7"}, "c1")]),
    ("tool", "here", []),
    ("assistant", "Here.", []),
]


def chat(number: int, at_s: float, **attributes: Any) -> dict[str, Any]:
    """Return a call of a model in a trace of its own, whose values are JSON."""
    times = call(number, [], {}, at_s=at_s)
    named = {f"gen_ai.{key.replace('__', '.')}": json.dumps(value) for key, value in attributes.items()}
    made = span(number, None, {"gen_ai.operation.name": "chat", **named})
    return {**made, **{key: times[key] for key in ("traceId", "startTimeUnixNano", "endTimeUnixNano")}}


@pytest.mark.parametrize("given", ["input__messages", "request__messages"])
@pytest.mark.parametrize("called", [CALL_OF_API, CALL_OF_LANGCHAIN])
def test_texts_and_calls_that_sentry_records_are_the_output(given: str, called: dict[str, Any]) -> None:
    asked = {"role": "assistant", "content": None, "tool_calls": [CALL_OF_API]}
    history = [QUESTION, asked, {"role": "tool", "tool_call_id": "c1", "content": "here"}]
    first = chat(1, 0, **{given: [QUESTION], "response__text": [""], "response__tool_calls": [called]})
    second = chat(2, 1, **{given: history, "response__text": ["Here."]})
    (answer,), report = join(export(first), export(second))
    assert (heard(answer), dict(report.problems)) == (EXPECTED, {})


def test_history_of_sentry_without_the_calls_of_tools_is_continued() -> None:
    """Its spans of LangChain have neither calls nor ids in the input."""
    history = [QUESTION, {"role": "assistant", "content": ""}, {"role": "tool", "content": "here"}]
    first = chat(1, 0, input__messages=[QUESTION], response__text=[""], response__tool_calls=[CALL_OF_LANGCHAIN])
    second = chat(2, 1, input__messages=history, response__text=["Here."])
    (answer,), _ = join(export(first), export(second))
    assert heard(answer) == EXPECTED


def numbered(side: str, *messages: dict[str, str]) -> dict[str, str]:
    return {
        f"gen_ai.{side}.{number}.{key}": value
        for number, message in enumerate(messages)
        for key, value in message.items()
    }


def test_a_reason_for_the_end_of_an_answer_is_no_second_answer() -> None:
    """Netra numbers the reason by itself, and has the call of a tool as JSON in the text."""
    asks = {
        "role": "assistant",
        "tool_call_id": "c1",
        "content": '{"name": "find", "arguments": "{\\"order\\": \\"7\\"}"}',
    }
    found, here = {"role": "tool", "tool_call_id": "c1", "content": "here"}, {"role": "assistant", "content": "Here."}
    spans = [
        {**chat(number, number), "attributes": span(number, None, given | answer)["attributes"]}
        for number, given, answer in (
            (1, numbered("prompt", QUESTION), numbered("completion", asks, {"finish_reason": "tool_calls"})),
            (2, numbered("prompt", QUESTION, asks, found), numbered("completion", here, {"finish_reason": "stop"})),
        )
    ]
    (answer,), report = join(*map(export, spans))
    assert (heard(answer), sum(report.empty.values())) == (EXPECTED, 0)


def test_an_answer_with_only_a_reason_for_its_end_is_empty() -> None:
    given = {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Where?"}
    (answer,), report = join(export(span(1, None, {**given, "gen_ai.completion.0.finish_reason": "stop"})))
    assert (answer.text, sum(report.empty.values())) == ("", 1)


def changed(message: dict[str, Any], **part: Any) -> dict[str, Any]:
    return {**message, "parts": [{**message["parts"][0], **part}]}


def test_arguments_that_a_stream_lost_come_from_the_next_input() -> None:
    """OpenLLMetry records no arguments of calls that Bedrock streams."""
    lost, next_lost = changed(ASKS, arguments={}), changed(ASKS, id="c2", arguments={})
    next_call, next_found = changed(ASKS, id="c2"), changed(FOUND, id="c2")
    history = [user("Where?"), ASKS, FOUND]
    answers, report = join(
        export(call(1, [user("Where?")], lost)),
        export(call(2, history, next_lost, at_s=1)),
        export(call(3, [*history, next_call, next_found], assistant("Here."), at_s=2)),
    )
    (answer,) = answers
    assert [one.input for each in answer.messages for one in each.tool_calls] == [{"order": "7"}] * 2
    assert (told(answer)[-1], report.open) == ("Here.", 0)


def test_a_part_in_pythons_form_was_not_recorded() -> None:
    """OpenLLMetry records the last chunk of a stream of Gemini, which may have no text."""
    part = "media_resolution=None function_call=None function_response=None inline_data=None text='' thought=None"
    answers, report = join(export(call(1, [user("Where?")], assistant(part))))
    assert (answers, sum(report.without_answer.values())) == ([], 1)


def test_the_name_of_a_tool_in_mlflow_is_that_of_its_attribute() -> None:
    """Spans of DSPy are named by the class, too."""
    named = {"name": '"find"', "mlflow.spanType": '"TOOL"', "mlflow.spanInputs": "{}", "mlflow.spanOutputs": '"here"'}
    tool = {**span(2, 1, named), "name": "Tool.find"}
    outer = {"mlflow.spanType": '"AGENT"', "mlflow.spanInputs": '"Where?"', "mlflow.spanOutputs": '"Here."'}
    (answer,), _ = join(export(span(1, None, outer), tool))
    assert told(answer) == ["Where?", "find", "here", "Here."]


def test_a_tool_has_what_a_second_convention_says_of_it() -> None:
    """The processor of OpenInference for Strands adds the result, which is in events of Strands otherwise."""
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.id": "c1"}
    more = {"openinference.span.kind": "TOOL", "tool.name": "find", "input.value": "{}", "output.value": "here"}
    outer = {"openinference.span.kind": "AGENT", "input.value": "Where?", "output.value": "Here."}
    (answer,), _ = join(export(span(1, None, outer), span(2, 1, {**named, **more})))
    assert heard(answer)[1:3] == [("assistant", "", [("find", {}, "c1")]), ("tool", "here", [])]


def test_calls_that_openinference_left_in_an_answer_of_adk_are_not_made_again() -> None:
    """Two calls of the model are in one span, and the first one's call of a tool stays beside the answer."""
    called = {
        "tool_calls.0.tool_call.function.name": "find",
        "tool_calls.0.tool_call.function.arguments": '{"order": "7"}',
    }
    messages = {
        "input_messages": [
            {"role": "user", "content": "Where?"},
            {"role": "model", **called},
            {"role": "tool", "content": "here"},
        ],
        "output_messages": [{"role": "model", "content": "Here.", **called}],
    }
    attributes = {
        f"llm.{side}.{number}.message.{key}": value
        for side, rows in messages.items()
        for number, row in enumerate(rows)
        for key, value in row.items()
    }
    (answer,), report = join(export(span(1, None, {"openinference.span.kind": "LLM", **attributes})))
    assert [[one.tool for one in each.tool_calls] for each in answer.messages] == [[], ["find"], [], []]
    assert (answer.text, report.open) == ("Here.", 0)


def test_calls_in_the_first_input_are_of_the_answer_if_their_tools_ran_in_it() -> None:
    """OpenInference for ADK records no first call of the model, but the spans of its tools."""
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.result": "here"}
    last = inside(2, [user("Thanks"), assistant("Fine."), user("Where?"), ASKS, FOUND], assistant("Here."), at_s=2)
    (answer,), _ = join(export(root(), moved(span(3, 1, named), 1, 2), last))
    assert told(answer) == ["Thanks", "Fine.", "Where?", "find", "here", "Here."]
    assert answer.output_start == 3
    (earlier,), _ = join(export(root(), last))
    assert (told(earlier), earlier.output_start) == (told(answer), 5)


def test_results_of_concurrent_calls_in_messages_of_their_own_are_those_of_the_calls() -> None:
    """OpenLLMetry has other ids in calls of the Responses API than in their results."""
    asks = [changed(ASKS, id="fc_c1"), changed(ASKS, id="fc_c2", arguments={"order": "8"})]
    found = [changed(FOUND, id="c1"), changed(FOUND, id="c2", response="there")]
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
    tools = [
        moved(span(number, 1, {**named, "gen_ai.tool.call.result": result}), 1, 2)
        for number, result in ((3, "here"), (4, "there"))
    ]
    last = inside(2, [user("Where?"), *asks, *found], assistant("Here."), at_s=3)
    (answer,), _ = join(export(root(), *tools, last))
    results = [(each.tool_call_id, each.content) for each in answer.messages if each.role == "tool"]
    assert results == [("fc_c1", "here"), ("fc_c2", "there")]


def test_a_concurrent_call_that_was_not_recorded_comes_from_the_next_input() -> None:
    """Monocle records the first one of several."""
    both = {"role": "assistant", "parts": [*ASKS["parts"], *changed(ASKS, id="c2")["parts"]]}
    history = [user("Where?"), both, FOUND, changed(FOUND, id="c2", response="there")]
    (answer,), _ = join(export(call(1, [user("Where?")], ASKS)), export(call(2, history, assistant("Here."), at_s=1)))
    assert [[one.id for one in each.tool_calls] for each in answer.messages if each.tool_calls] == [["c1", "c2"]]
    assert told(answer)[-3:] == ["here", "there", "Here."]


def test_a_result_of_this_answer_is_not_that_of_an_earlier_call() -> None:
    """Some instrumentations record neither results nor ids of calls."""
    asks = changed(ASKS, id=None)
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.result": "there"}
    history = [user("Where?"), asks, assistant("Here."), user("And now?")]
    first, last = inside(2, history, asks), inside(4, [*history, asks], assistant("There."), at_s=3)
    (answer,), _ = join(export(root(), first, moved(span(3, 1, named), 1, 2), last))
    assert told(answer) == ["Where?", "find", "Here.", "And now?", "find", "there", "There."]
    assert answer.output_start == 4
