import json
from pathlib import Path

import pytest
from tests.support.asking import ask, failure_of, make_request, make_target
from tests.support.loopback import Answer, Server, reply, serving

from agentv.providers.apis.openai import OpenAISettings
from agentv.types.errors import PluginError
from agentv.types.json_value import JsonValue
from agentv.types.messages import Message, ToolCall
from agentv.types.provider import ProviderResponse
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage

LOOKUP: JsonValue = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": '{"order": 7}'}}


def says(content: str | None, *, finish_reason: str = "stop", tool_calls: JsonValue = None) -> Answer:
    message: JsonValue = {"role": "assistant", "content": content, "tool_calls": tool_calls}
    value: JsonValue = {
        "id": "chat-1",
        "model": "m-1",
        "choices": [{"message": message, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
    }
    return reply(json.dumps(value))


def target_of(server: Server, *, base_dir: Path | str = ".", **settings: object) -> ResolvedTarget:
    made = OpenAISettings(model="m-1", base_url=server.url + "/v1", api_key="sk-1", **settings)  # type: ignore[arg-type] # a test's own
    return make_target("openai", made, base_dir=base_dir)


def sent(server: Server, number: int = -1) -> dict[str, JsonValue]:
    body: dict[str, JsonValue] = json.loads(server.requests[number].body)
    return body


def test_a_question_is_answered() -> None:
    with serving(says("On its way.")) as server:
        response = ask(target_of(server), make_request("Where?", system_prompt="Be brief."))

    assert response == ProviderResponse(
        "On its way.",
        usage=Usage(input=10, output=2, total=12, requests=1),
        finish_reason="stop",
        request_id="chat-1",
        model="m-1",
    )
    assert server.requests[0].line == "POST /v1/chat/completions HTTP/1.1"
    assert server.requests[0].headers["authorization"] == "Bearer sk-1"
    assert sent(server)["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where?"},
    ]


@pytest.mark.parametrize(
    ("said", "text", "reasoning"),
    [
        ({"content": None, "reasoning_content": "hm"}, "", "hm"),
        ({"content": "4", "reasoning": "hm"}, "4", "hm"),
        ({"content": "<think>hm</think>\n4"}, "4", "hm"),
        ({"content": [{"type": "text", "text": "The cap"}, {"type": "text", "text": "ital"}]}, "The capital", None),
    ],
)
def test_reasoning_stands_apart_and_text_parts_join_as_they_are(
    said: dict[str, JsonValue], text: str, reasoning: str | None
) -> None:
    value = {"choices": [{"message": {"role": "assistant", **said}, "finish_reason": "length"}]}
    with serving(reply(json.dumps(value))) as server:
        response = ask(target_of(server))
    assert (response.text, response.reasoning, response.finish_reason) == (text, reasoning, "length")


@pytest.mark.parametrize(
    ("said", "call"),
    [
        ({"function_call": {"name": "lookup", "arguments": '{"order": 7}'}}, ToolCall("lookup", {"order": 7})),
        ({"tool_calls": [{"id": "c", "custom": {"name": "shell", "input": "ls"}}]}, ToolCall("shell", "ls", id="c")),
    ],
)
def test_older_and_custom_tool_calls_are_read(said: dict[str, JsonValue], call: ToolCall) -> None:
    value = {"choices": [{"message": {"role": "assistant", "content": None, **said}}]}
    with serving(reply(json.dumps(value))) as server:
        assert ask(target_of(server)).output_messages == (Message("assistant", tool_calls=(call,)),)


def test_a_tool_call_that_is_not_understood_is_no_answer_without_calls() -> None:
    value = {"choices": [{"message": {"role": "assistant", "content": "Done.", "tool_calls": [{"id": "c"}]}}]}
    with serving(reply(json.dumps(value))) as server:
        failure = failure_of(target_of(server))
    assert failure.kind == "unexpected_shape"
    assert 'choices[0].message.tool_calls[0] is not a tool call: {"id":"c"}' in failure.message


def test_a_server_without_keys_is_sent_none() -> None:
    with serving(says("hi")) as server:
        ask(make_target("openai", OpenAISettings(model="m-1", base_url=server.url)))

    assert "authorization" not in server.requests[0].headers


def test_with_answers_of_tools_the_model_goes_on() -> None:
    with serving(says("Let me look.", tool_calls=[LOOKUP]), says("It is on its way.")) as server:
        response = ask(target_of(server, tool_responses={"lookup": {"status": "sent"}}))

    assert response.text == "It is on its way."
    assert response.output_messages == (
        Message("assistant", "Let me look.", tool_calls=(ToolCall("lookup", {"order": 7}, {"status": "sent"}, "c1"),)),
        Message("assistant", "It is on its way."),
    )
    assert response.usage == Usage(input=20, output=4, total=24, requests=2)
    messages = sent(server)["messages"]
    assert isinstance(messages, list)
    assert messages[1:] == [
        {"role": "assistant", "content": "Let me look.", "tool_calls": [LOOKUP]},
        {"role": "tool", "tool_call_id": "c1", "content": '{"status":"sent"}'},
    ]


def test_a_tool_without_an_answer_ends_the_conversation() -> None:
    with serving(says(None, tool_calls=[LOOKUP])) as server:
        ask(target_of(server, tool_responses={"other": "x"}))

    assert len(server.requests) == 1


def test_a_function_may_answer_for_a_tool(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("def lookup(given): return f\"order {given['order']}\"\n")
    with serving(says(None, tool_calls=[LOOKUP]), says("done")) as server:
        ask(target_of(server, base_dir=tmp_path, tool_responses={"lookup": {"python": "shop.py:lookup"}}))

    messages = sent(server)["messages"]
    assert isinstance(messages, list)
    assert messages[-1] == {"role": "tool", "tool_call_id": "c1", "content": "order 7"}


def test_a_function_that_is_missing_or_fails_is_said(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("def lookup(given): raise KeyError('no such order')\n")
    with serving(says(None, tool_calls=[LOOKUP])) as server:
        with pytest.raises(PluginError, match="has no 'find'"):
            ask(target_of(server, base_dir=tmp_path, tool_responses={"lookup": {"python": "shop.py:find"}}))
        failing = target_of(server, base_dir=tmp_path, tool_responses={"lookup": {"python": "shop.py:lookup"}})
        failure = failure_of(failing)

    assert failure.kind == "plugin_error"
    assert failure.message.startswith("the function of tool 'lookup' raised KeyError: 'no such order'")


def test_a_function_that_hangs_meets_the_deadline(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import asyncio\nasync def lookup(given): await asyncio.Future()\n")
    with serving(says(None, tool_calls=[LOOKUP])) as server:
        hanging = target_of(server, base_dir=tmp_path, tool_responses={"lookup": {"python": "shop.py:lookup"}})
        failure = failure_of(hanging, make_request(timeout_s=0.5))

    assert failure.kind == "deadline"
    assert failure.message.startswith("the function of tool 'lookup' did not return within 0.")


def test_a_reply_that_was_cut_off_is_an_answer_with_a_note() -> None:
    with serving(says("On its w", finish_reason="length")) as server:
        response = ask(target_of(server))

    assert (response.text, response.finish_reason) == ("On its w", "length")
    assert response.notes == ("the response was truncated at the limit of output tokens",)
