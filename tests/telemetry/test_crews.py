"""Several agents in one answer: crews, graphs, programs of DSPy, and agents that another agent manages."""

import json
from typing import Any

import pytest
from tests.support.spans import attribute, export, span
from tests.telemetry.test_api_forms import heard
from tests.telemetry.test_gaps import inside, moved, root, told
from tests.telemetry.test_joining import ASKS, FOUND, assistant, join, user


def made(number: int, parent: int | None, kind: str, at_s: float, **attributes: Any) -> dict[str, Any]:
    """Return a span of OpenInference that takes a second; values that are no texts are JSON."""
    named = {
        key.replace("_", "."): value if isinstance(value, str) else json.dumps(value)
        for key, value in attributes.items()
    }
    return moved(span(number, parent, {"openinference.span.kind": kind, **named}), at_s, at_s + 1)


def final_call(answer: str) -> dict[str, Any]:
    part = {"type": "tool_call", "id": f"final {answer}", "name": "final_answer", "arguments": {"answer": answer}}
    return {"role": "assistant", "parts": [part]}


def renamed(message: dict[str, Any], call_id: str, name: str = "find") -> dict[str, Any]:
    """Return a call of a tool, or its result, with another id and name."""
    return {**message, "parts": [{**message["parts"][0], "id": call_id, "name": name}]}


def test_the_answer_of_a_crew_is_that_of_its_last_task() -> None:
    """The output of CrewAI has the texts of all tasks."""
    tasks = [{"raw": "Here."}, {"raw": "Dear customer."}]
    output = {"raw": "Dear customer.", "pydantic": None, "json_dict": None, "tasks_output": tasks}
    outer = moved(span(1, None, {"openinference.span.kind": "CHAIN", "output.value": json.dumps(output)}), 0, 9)
    (answer,), report = join(
        export(
            outer,
            inside(2, [user("Where?")], ASKS),
            inside(3, [user("Where?"), ASKS, FOUND], assistant("Here."), at_s=1),
            inside(4, [user("Write.")], assistant("Dear customer."), at_s=2),
        )
    )
    assert (told(answer), report.guessed) == (["Write.", "find", "here", "Dear customer."], 0)


def test_an_answer_in_the_arguments_of_a_call_names_the_main_conversation() -> None:
    """The agent of smolagents that manages another one answers by a call, as does the other."""
    outer = made(1, None, "AGENT", 0, input_value="Where?", output_value="It is here.")
    managed = made(2, 1, "AGENT", 2, input_value="Find it.", output_value="Here.")
    asks = renamed(ASKS, "c1", "finder")
    found = {**inside(3, [user("Find it.")], final_call("Here."), at_s=2), "parentSpanId": f"{2:016x}"}
    results = [
        made(5, 2, "TOOL", 2.5, tool_name="final_answer", output_value="Here."),
        made(6, 1, "TOOL", 4, tool_name="final_answer", output_value="It is here."),
    ]
    (answer,), report = join(
        export(
            moved(outer, 0, 9),
            inside(7, [user("Where?")], asks),
            managed,
            found,
            inside(4, [user("Where?"), asks, FOUND], final_call("It is here."), at_s=3),
            *results,
        )
    )
    assert report.guessed == 0
    assert told(answer) == ["Where?", "finder", "here", "final_answer", "It is here.", "It is here."]


@pytest.mark.parametrize(
    "given", [{"kwargs": {"order": "7"}}, {"input": {"order": "7"}, "options": None}], ids=["DSPy", "BeeAI"]
)
def test_a_tool_of_openinference_has_its_name_and_arguments(given: dict[str, Any]) -> None:
    """A module of DSPy answers with one of the fields in the text of the last call."""
    output = {"trajectory": {"tool_name_0": "find_order"}, "reasoning": "Found.", "answer": "Here."}
    outer = made(1, None, "CHAIN", 0, input_value={"input_args": {"question": "Where?"}}, output_value=output)
    tool = made(4, 1, "TOOL", 2, input_value=given, output_value='"sent"')
    first = assistant("[[ ## next_tool_name ## ]]\nfind_order\n\n[[ ## completed ## ]]")
    last = assistant("[[ ## answer ## ]]\nHere.\n\n[[ ## completed ## ]]")
    (answer,), report = join(
        export(
            moved(outer, 0, 9),
            inside(2, [user("[[ ## question ## ]]\nWhere?")], first),
            {**tool, "name": "find_order.__call__"},
            inside(3, [user("[[ ## trajectory ## ]]\nsent")], last, at_s=3),
        )
    )
    called = [(one.tool, one.input) for each in answer.messages for one in each.tool_calls]
    assert (called, told(answer)[-1], report.guessed) == ([("find_order", {"order": "7"})], "Here.", 0)


def test_a_tool_of_another_conversation_has_the_arguments_that_its_model_gave() -> None:
    """OpenInference records a single argument of a tool of LangChain without its name."""
    output = {"type": "tool", "data": {"content": "here", "name": "find", "tool_call_id": "c1"}}
    outer = made(1, None, "CHAIN", 0, input_value="What of it?", output_value={"answer": "It is here."})
    (answer,), _ = join(
        export(
            moved(outer, 0, 9),
            inside(2, [user("Where?")], ASKS),
            made(5, 1, "TOOL", 1, tool_name="find", input_value="7", output_value=output),
            inside(3, [user("Where?"), ASKS, FOUND], assistant("Here."), at_s=2),
            inside(4, [user("Join: Here.")], assistant("It is here."), at_s=4),
        )
    )
    called = ("find", {"order": "7"}, "c1")
    assert heard(answer)[1:3] == [("assistant", "", [called]), ("tool", "here", [])]


def test_calls_of_an_agent_before_the_last_one_precede_its_own() -> None:
    """Both agents of a crew call the same tool; a call without a result is a form of an answer."""
    later, found = renamed(ASKS, "c2"), renamed(FOUND, "c2")
    route = renamed(ASKS, "c3", "Route")
    output = {"raw": "Dear customer.", "pydantic": None, "json_dict": None}
    outer = moved(span(1, None, {"openinference.span.kind": "CHAIN", "output.value": json.dumps(output)}), 0, 9)
    (answer,), report = join(
        export(
            outer,
            inside(6, [user("Which?")], route),
            inside(2, [user("Where?")], ASKS, at_s=1),
            inside(3, [user("Where?"), ASKS, FOUND], assistant("Here."), at_s=2),
            inside(4, [user("Write.")], later, at_s=3),
            inside(5, [user("Write."), later, found], assistant("Dear customer."), at_s=4),
        )
    )
    assert (told(answer), report.guessed) == (["Write.", "find", "here", "find", "here", "Dear customer."], 0)
    assert answer.output_start == 1


def test_calls_of_an_agent_that_runs_inside_the_main_conversation_are_its_own() -> None:
    asks = renamed(ASKS, "c9", "finder")
    (answer,), _ = join(
        export(
            made(1, None, "AGENT", 0, output_value="It is here.") | {"endTimeUnixNano": "1767225609000000000"},
            inside(7, [user("Where?")], asks),
            inside(2, [user("Find it.")], ASKS, at_s=1),
            inside(3, [user("Find it."), ASKS, FOUND], assistant("Here."), at_s=2),
            inside(4, [user("Where?"), asks, renamed(FOUND, "c9")], assistant("It is here."), at_s=3),
        )
    )
    assert told(answer) == ["Where?", "finder", "here", "It is here."]


def test_results_without_recorded_calls_are_there_once() -> None:
    """Weave records neither calls of the chat API by the OpenAI Agents SDK nor the ids of their results."""
    silent = {"role": "assistant", "parts": []}
    found = {"role": "tool", "parts": [{"type": "tool_call_response", "id": None, "response": "here"}]}
    names = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
    results = {"gen_ai.tool.call.arguments": '{"order": "7"}', "gen_ai.tool.call.result": "here"}
    (answer,), report = join(
        export(
            root(),
            inside(2, [user("Where?")], silent),
            moved(span(3, 1, {**names, **results}), 1, 2),
            inside(4, [user("Where?"), silent, found], assistant("Here."), at_s=3),
        )
    )
    assert heard(answer)[1:] == [
        ("assistant", "", [("find", {"order": "7"}, None)]),
        ("tool", "here", []),
        ("assistant", "Here.", []),
    ]
    assert report.guessed == 0


def test_agents_of_a_workflow_that_weave_names_are_one_answer() -> None:
    """Its spans have no operation, because Weave does not show a workflow as an agent."""
    named = {"weave.openai_agents.task.workflow_name": "support", "gen_ai.conversation.id": "one"}
    agents = [
        moved(span(number, 9, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}), at, at + 1)
        for number, name, at in ((1, "front", 0), (2, "finder", 2))
    ]
    last = inside(4, [user("Where?"), ASKS, FOUND], assistant("Here."), at_s=2)
    outer = moved(span(9, None, named), 0, 9)
    (answer,), _ = join(
        export(outer, *agents, inside(3, [user("Where?")], ASKS), {**last, "parentSpanId": f"{2:016x}"})
    )
    assert (told(answer), answer.session) == (["Where?", "find", "here", "Here."], "one")


def test_calls_that_the_input_of_the_last_agent_repeats_are_there_once() -> None:
    """A framework may tell the next agent of them in other words, so that it does not continue the conversation."""
    told_of = [user("Where is order 7?"), renamed(ASKS, "c5"), renamed(FOUND, "c5"), user("Write.")]
    (answer,), _ = join(
        export(
            root(),
            inside(2, [user("Where?")], ASKS),
            inside(3, [user("Where?"), ASKS, FOUND], assistant("Here."), at_s=1),
            inside(4, told_of, assistant("Dear customer."), at_s=2),
        )
    )
    assert told(answer) == ["Where is order 7?", "find", "here", "Write.", "Dear customer."]


@pytest.mark.parametrize(
    "outer",
    [
        {"attributes": [attribute("gen_ai.operation.name", "invoke_graph")]},
        {"attributes": [attribute("gen_ai.operation.name", "invoke_swarm")]},
        {"name": "workflow.run", "events": [{"name": "workflow.started"}, {"name": "workflow.completed"}]},
    ],
    ids=["graph of Strands", "swarm of Strands", "workflow of Agent Framework"],
)
def test_agents_of_one_workflow_are_one_answer(outer: dict[str, Any]) -> None:
    agents = [
        moved(span(number, 9, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}), at, at + 1)
        for number, name, at in ((1, "finder", 0), (2, "writer", 2))
    ]
    first = inside(3, [user("Where?")], assistant("Here."))
    last = inside(4, [user("Write.")], assistant("Dear customer."), at_s=2)
    workflow = moved({**span(9, None, {}), **outer}, 0, 9)
    (answer,), _ = join(export(workflow, *agents, first, {**last, "parentSpanId": f"{2:016x}"}))
    assert told(answer) == ["Write.", "Dear customer."]


def test_a_workflow_without_an_output_has_that_of_its_last_agent() -> None:
    """OpenLLMetry records the outputs of the tasks of CrewAI."""
    named = {"gen_ai.operation.name": "invoke_agent", "traceloop.span.kind": "task"}
    tasks = [
        moved(span(number, 9, {**named, "traceloop.entity.output": output}), at, at + 1.5)
        for number, output, at in ((1, "Here.", 0), (2, "Dear customer.", 2))
    ]
    calls = [
        inside(3, [user("Where?")], ASKS),
        inside(4, [user("Where?"), ASKS, FOUND], assistant("Here."), at_s=1),
        {**inside(5, [user("Write.")], assistant("Dear customer."), at_s=2), "parentSpanId": f"{2:016x}"},
    ]
    workflow = moved(span(9, None, {"gen_ai.operation.name": "invoke_agent"}), 0, 9)
    (answer,), report = join(export(workflow, *tasks, *calls))
    assert (told(answer), report.guessed) == (["Write.", "find", "here", "Dear customer."], 0)


def test_a_workflow_that_failed_before_it_had_an_operation_is_an_error() -> None:
    """OpenLIT names the operation of a graph of LangChain when it has ended."""
    workflow = moved(span(9, None, {"gen_ai.workflow.name": "shop"}, status={"code": 2, "message": "no order"}), 0, 9)
    node = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "model"}
    (answer,), _ = join(export(workflow, moved(span(1, 9, node), 0, 2), inside(2, [user("Where?")], ASKS)))
    assert answer.error == "has no answer, because it failed: no order"
