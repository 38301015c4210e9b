"""What frameworks return, read as it is: real results (fixtures/results), whole replies of SDKs, agent objects."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from pydantic import BaseModel
from tests.support.asking import ask, failure_of, make_request, make_target
from tests.support.judging import make_context

from agentv import EvalCase, EvaluatorConfig, evaluate
from agentv.messages.shapes.usages import read_usage
from agentv.providers.apis.responses import parse_output
from agentv.providers.local.python import PythonSettings
from agentv.scoring.tools.recorded_calls import recorded_calls
from agentv.types.errors import PluginError
from agentv.types.messages import Message
from agentv.types.provider import ProviderResponse
from agentv.types.usage import Usage

FOLDER = Path(__file__).parents[1] / "fixtures" / "results"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
TEXTS = ["Order 7 is on its way.", "5 euros are on their way.", "You are welcome."]
CALLS = [
    [("find_order", {"order": "7"}, "Order 7 is on its way.")],
    [
        ("find_order", {"order": "8"}, "Order 8 is on its way."),
        ("refund", {"order": "8", "euros": 5}, "5 euros of order 8 are refunded."),
    ],
    [],
]


def answer_of(returned: object) -> ProviderResponse:
    return ask(make_target("python", PythonSettings(lambda _: returned)))


def why_not(returned: object) -> str:
    return failure_of(make_target("python", PythonSettings(lambda _: returned))).message


def calls_of(response: ProviderResponse) -> list[tuple[str, Any, Any]]:
    calls = recorded_calls(make_context(output_messages=response.output_messages)) or ()
    return [(call.tool, call.input, _plain(call.output)) for call in calls]


def _plain(output: Any) -> Any:
    """Return the result of a tool without the object into which the ADK and the AI SDK wrap it."""
    return output.get("result", output.get("value")) if isinstance(output, dict) else output


def returned_by(name: str) -> list[Any]:
    """Return the recorded results of a framework: values, or objects with the same attributes and methods."""
    recorded = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return [each["value"] if "value" in each else _object(each) for each in recorded]


def _object(recorded: dict[str, Any]) -> object:
    methods = {name: _returning(value) for name, value in recorded["methods"].items()}
    return SimpleNamespace(**recorded["attributes"], **methods)


def _returning(value: object) -> Callable[[], object]:
    return lambda: value


def test_a_result_of_every_framework_is_recorded() -> None:
    assert NAMES == [
        "ai-sdk",
        "anthropic",
        "crewai",
        "google-adk",
        "langgraph",
        "openai",
        "openai-agents",
        "pydantic-ai",
    ]


def test_the_cost_of_a_real_result_of_pydantic_ai_is_read() -> None:
    costs = [answer_of(returned).cost_usd for returned in returned_by("pydantic-ai")]
    assert costs == pytest.approx([0.000072, 0.000128, 0.00002825])


@pytest.mark.parametrize("name", NAMES)
def test_a_real_result_is_read_with_its_text_its_calls_with_results_and_its_usage(name: str) -> None:
    responses = [answer_of(returned) for returned in returned_by(name)]

    assert [response.text for response in responses] == TEXTS
    assert [calls_of(response) for response in responses] == CALLS
    usages = [response.usage or Usage() for response in responses]
    assert [usage.requests for usage in usages] == [2, 3, 1]
    assert all(usage.input and usage.output and usage.total == usage.input + usage.output for usage in usages)
    assert [note for response in responses for note in response.notes] == []


def test_a_list_of_messages_is_an_answer_with_the_usage_that_its_messages_have() -> None:
    messages = returned_by("pydantic-ai")[1].all_messages()

    response = answer_of(messages)

    assert (response.text, calls_of(response)) == (TEXTS[1], CALLS[1])
    assert response.usage == answer_of(returned_by("pydantic-ai")[1]).usage


def test_a_state_of_a_graph_may_be_an_object_and_its_structured_response_is_the_text() -> None:
    messages = returned_by("langgraph")[0]["messages"]

    class Order(BaseModel):
        status: str

    class State(BaseModel):
        messages: list[Any]
        structured_response: Order | None = None

    assert calls_of(answer_of(State(messages=messages))) == CALLS[0]
    structured = answer_of({"messages": messages, "structured_response": Order(status="sent")})
    assert json.loads(structured.text) == {"status": "sent"}
    assert structured.notes == ()


def test_the_usage_of_a_result_may_be_a_method_as_before_pydantic_ai_2() -> None:
    (result, *_) = returned_by("pydantic-ai")
    older = SimpleNamespace(**{**vars(result), "usage": _returning(result.usage)})
    assert answer_of(older) == answer_of(result)


def test_a_dict_with_our_keys_is_ours_whatever_else_it_has() -> None:
    response = answer_of({"text": "ours", "raw": "theirs", "token_usage": {"prompt_tokens": 1}, "choices": []})
    assert response.text == "ours"
    assert len(response.notes) == 2
    assert response.usage == Usage(input=1, total=1)


# --- whole replies of SDKs ---------------------------------------------------------------------------------------

CALL = {"id": "c1", "type": "function", "function": {"name": "find_order", "arguments": '{"order": "7"}'}}
OPENAI_USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
COMPLETION = {
    "id": "x",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-5-mini",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {"role": "assistant", "content": None, "tool_calls": [CALL]},
        }
    ],
    "usage": OPENAI_USAGE,
}
RESPONSE = {
    "id": "r",
    "object": "response",
    "created_at": 1,
    "model": "gpt-5-mini",
    "output": [
        {"type": "function_call", "call_id": "c1", "name": "find_order", "arguments": '{"order": "7"}', "id": "f"}
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 15,
    },
}
ANTHROPIC = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "claude-haiku-4-5",
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "content": [{"type": "tool_use", "id": "c1", "name": "find_order", "input": {"order": "7"}}],
    "usage": {
        "input_tokens": 3,
        "output_tokens": 5,
        "cache_read_input_tokens": 4,
        "cache_creation_input_tokens": 3,
    },
}
GOOGLE = {
    "candidates": [
        {
            "content": {
                "role": "model",
                "parts": [{"functionCall": {"id": "c1", "name": "find_order", "args": {"order": "7"}}}],
            }
        }
    ],
    "modelVersion": "gemini-3-flash",
    "usageMetadata": {
        "promptTokenCount": 10,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 2,
        "cachedContentTokenCount": 4,
        "totalTokenCount": 15,
    },
}
REPLIES = {
    "openai chat": (ChatCompletion.model_validate, COMPLETION, 2),
    "openai responses": (Response.model_validate, RESPONSE, 2),
    "anthropic": (AnthropicMessage.model_validate, ANTHROPIC, 0),
    "google": (dict, GOOGLE, 2),
}


@pytest.mark.parametrize(("make", "reply", "reasoning"), REPLIES.values(), ids=REPLIES)
def test_a_whole_reply_is_an_answer_alone_in_a_list_and_as_json(
    make: Callable[[Any], object], reply: dict[str, Any], reasoning: int
) -> None:
    made = make(reply)
    usage = Usage(input=10, output=5, cached_input=4, reasoning=reasoning, total=15, requests=1)
    result = {"role": "tool", "tool_call_id": "c1", "content": "On its way."}

    for returned in (made, reply, [made, result], [reply, result]):
        response = answer_of(returned)
        assert response.usage == usage
        assert [call[:2] for call in calls_of(response)] == [("find_order", {"order": "7"})]
    assert calls_of(answer_of([made, result])) == [("find_order", {"order": "7"}, "On its way.")]
    assert answer_of(made).model == reply.get("model", reply.get("modelVersion"))


def test_the_usages_of_several_requests_are_summed() -> None:
    usages = [ChatCompletion.model_validate(COMPLETION).usage, OPENAI_USAGE]
    response = answer_of({"messages": [{"role": "assistant", "content": "hi"}], "usage": usages})
    assert response.usage == Usage(input=20, output=10, cached_input=8, reasoning=4, total=30, requests=2)


def test_usage_without_counts_is_unknown_and_said() -> None:
    assert read_usage({"input_tokens": "many"}) is None
    assert read_usage([]) is None
    response = answer_of({"text": "hi", "usage": {"words": 3}})
    assert response.usage is None
    assert ["no known token counts" in note for note in response.notes] == [True]


def test_a_command_may_print_a_result_of_the_ai_sdk() -> None:
    response = parse_output(json.dumps(returned_by("ai-sdk")[1]))
    assert (response.text, calls_of(response)) == (TEXTS[1], CALLS[1])
    assert response.usage is not None
    assert response.usage.requests == 3


EVENT = {"author": "clerk", "invocation_id": "i", "id": "e"}


def test_streamed_pieces_and_thoughts_of_google_are_not_said() -> None:
    parts = [{"text": "Look it up.", "thought": True}, {"text": "On its way."}]
    whole = {**EVENT, "content": {"role": "model", "parts": parts}}
    piece = {**EVENT, "partial": True, "content": {"role": "model", "parts": [{"text": "On its"}]}}
    state = {**EVENT, "content": None, "actions": {"state_delta": {"a": 1}}}

    response = answer_of([piece, whole, state])

    assert response.text == "On its way."
    assert len(response.output_messages or ()) == 1


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ([], "returned a list that cannot be read: the list is empty"),
        ({**COMPLETION, "choices": []}, "the result.choices must hold one message, but holds 0"),
        ({**COMPLETION, "choices": COMPLETION["choices"] * 2}, "the result.choices must hold one message, but holds 2"),  # type: ignore[operator]  # a list
        ({**RESPONSE, "output": [], "error": {"message": "quota"}}, "the result is a failed response: quota"),
        ([{**EVENT, "error_code": "429", "error_message": "quota"}], "output_messages[0] is the error 429: quota"),
        ([{"role": "user", "parts": [{"hum": 1}]}], "output_messages[0].parts[0] is not understood; its keys: 'hum'"),
        (
            (number for number in range(3)),
            "returned a value of type generator; it must return a list of the values that the iterator yields",
        ),
        (
            SimpleNamespace(final_output=None, to_input_list=list, is_complete=False),
            "the result is still being streamed; read all of its events first",
        ),
        ({"role": "assistant", "contents": "x"}, "has no content, and its 'contents' is not understood"),
        (
            {"raw": "Hi", "tasks_output": [{"messages": []}, {"messages": "Hi"}]},
            "the result.tasks_output[1].messages must be a list of messages",
        ),
        ({"steps": [{"response": {"messages": {"a": 1}}}], "totalUsage": {}}, "response.messages must be a list of"),
    ],
)
def test_a_result_without_an_answer_is_refused_with_its_place(returned: object, said: str) -> None:
    assert said in why_not(returned)


# --- agent objects -----------------------------------------------------------------------------------------------


def asked_of(agent: object, **fields: Any) -> ProviderResponse:
    return ask(make_target("python", PythonSettings(agent)), make_request(**fields))  # type: ignore[arg-type]  # any object


class Runs:
    def __init__(self) -> None:
        self.label = "ran"

    async def run(self, question: str, *, deps: object = None) -> str:
        return f"{self.label}: {question}{deps or ''}"

    def __call__(self, request: object) -> str:
        raise AssertionError(f"`run` goes before a call with {request}")


class Graph:
    """As a compiled graph: its input has `messages`, and it has a checkpointer."""

    checkpointer = object()

    def get_input_jsonschema(self) -> dict[str, Any]:
        return {"properties": {"messages": {"type": "array"}}, "required": ["messages"]}

    def invoke(self, state: dict[str, Any], config: Any = None) -> dict[str, Any]:
        said = f"{[m['role'] for m in state['messages']]} {len(config['configurable']['thread_id'])}"
        return {"messages": [*state["messages"], {"type": "ai", "content": said}]}


class Chain:
    def get_input_jsonschema(self) -> dict[str, Any]:
        return {"properties": {"topic": {"type": "string"}}}

    async def ainvoke(self, given: dict[str, str]) -> str:
        return f"about {given['topic']}"

    def invoke(self, given: dict[str, str]) -> str:
        raise AssertionError(f"`ainvoke` goes before `invoke` with {given}")


class Crew:
    def kickoff(self, inputs: dict[str, str] | None = None) -> Any:
        return SimpleNamespace(raw=f"crew: {inputs}", tasks_output=[], token_usage={"prompt_tokens": 9})


class CrewAgent:
    def kickoff(self, messages: str) -> str:
        return f"agent: {messages}"


def test_an_agent_object_is_asked_the_question() -> None:
    assert asked_of(Runs(), question="Where?").text == "ran: Where?"
    assert asked_of(Chain(), question="Where?").text == "about Where?"
    assert asked_of(CrewAgent(), question="Where?").text == "agent: Where?"
    assert asked_of(Runs(), question="Where?", system_prompt="Be brief.").text == "ran: Be brief.\n\nWhere?"


def test_an_agent_object_is_the_task_of_an_evaluation() -> None:
    report = evaluate(
        [EvalCase("one", (Message("user", "Where?"),))],
        task=Runs(),
        evaluators=[EvaluatorConfig("said", "contains", {"value": "ran: "})],
    )
    assert [row.candidate_answer for row in report.results] == ["ran: Where?"]


def test_a_graph_gets_messages_and_a_conversation_of_its_own() -> None:
    response = asked_of(Graph(), question="Where?", system_prompt="Be brief.")
    assert response.text == "['system', 'user'] 32"


def test_the_usage_of_a_crew_that_is_shared_by_cases_is_not_taken_for_that_of_a_case() -> None:
    response = asked_of(Crew(), question="Where?")
    assert (response.text, response.usage) == ("crew: {'question': 'Where?'}", None)


def test_an_agent_of_a_file_is_found_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "clerk.py").write_text(
        "class Agent:\n    async def run(self, q):\n        return q.upper()\nagent = Agent()\nnothing = 4\n"
    )
    target = make_target("python", PythonSettings("clerk.py:agent"), base_dir=tmp_path)
    assert ask(target, make_request(question="hi")).text == "HI"
    with pytest.raises(PluginError, match=r"cannot load 'clerk.py:nothing': it is of type int, which has no `run`"):
        ask(make_target("python", PythonSettings("clerk.py:nothing"), base_dir=tmp_path))


def test_an_object_whose_methods_take_something_else_is_refused() -> None:
    class Node:
        def run(self, *, ctx: object, node_input: object) -> object:
            raise AssertionError(f"not called with {ctx} and {node_input}")

    with pytest.raises(PluginError, match="write a function that takes a request"):
        asked_of(Node())
