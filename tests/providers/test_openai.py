import asyncio
import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.asking import ask, failure_of, make_request, make_target, with_provider
from tests.loopback import Answer, Server, reply, serving, silence

from agentv.providers.openai_settings import OpenAISettings
from agentv.types.errors import PluginError
from agentv.types.json_value import JsonValue
from agentv.types.messages import Message, ToolCall
from agentv.types.provider import Provider, ProviderResponse
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
    body: dict[str, JsonValue] = json.loads(server.asked[number].body)
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
    assert server.asked[0].line == "POST /v1/chat/completions HTTP/1.1"
    assert server.asked[0].headers["authorization"] == "Bearer sk-1"
    assert sent(server)["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where?"},
    ]


def test_a_server_without_keys_is_sent_none() -> None:
    with serving(says("hi")) as server:
        ask(make_target("openai", OpenAISettings(model="m-1", base_url=server.url)))

    assert "authorization" not in server.asked[0].headers


def test_the_targets_system_prompt_holds_when_the_request_has_none() -> None:
    with serving(says("hi")) as server:
        ask(replace(target_of(server), system_prompt="Be the desk."), make_request("?"))

    assert sent(server)["messages"] == [{"role": "system", "content": "Be the desk."}, {"role": "user", "content": "?"}]


def test_tool_calls_are_recorded_as_output_messages() -> None:
    with serving(says(None, finish_reason="tool_calls", tool_calls=[LOOKUP])) as server:
        response = ask(target_of(server, tools=({"name": "lookup"},)))

    assert response.text == ""
    assert response.output_messages == (Message("assistant", tool_calls=(ToolCall("lookup", {"order": 7}, id="c1"),)),)
    assert len(server.asked) == 1


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


def test_the_model_goes_on_only_as_often_as_allowed() -> None:
    with serving(says(None, tool_calls=[LOOKUP])) as server:
        response = ask(target_of(server, tool_responses={"lookup": "x"}, max_steps=3))

    assert len(server.asked) == 4
    assert response.output_messages is not None
    assert [message.tool_calls[0].output for message in response.output_messages] == ["x", "x", "x", None]


def test_a_tool_without_an_answer_ends_the_conversation() -> None:
    with serving(says(None, tool_calls=[LOOKUP])) as server:
        ask(target_of(server, tool_responses={"other": "x"}))

    assert len(server.asked) == 1


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
    assert failure.message.startswith("the answer of tool 'lookup' raised KeyError: 'no such order'")


def test_a_function_that_hangs_meets_the_deadline(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import asyncio\nasync def lookup(given): await asyncio.Future()\n")
    with serving(says(None, tool_calls=[LOOKUP])) as server:
        hanging = target_of(server, base_dir=tmp_path, tool_responses={"lookup": {"python": "shop.py:lookup"}})
        failure = failure_of(hanging, make_request(timeout_s=0.5))

    assert failure.kind == "deadline"
    assert failure.message.startswith("the answer of tool 'lookup' did not come within 0.")


def test_pictures_of_the_case_are_shown_and_other_files_are_not(tmp_path: Path) -> None:
    picture, text = tmp_path / "order.png", tmp_path / "order.txt"
    picture.write_bytes(b"\x89PNG")
    text.write_text("stands in the question")
    with serving(says("hi")) as server:
        ask(target_of(server), make_request("?", input_files=(str(picture), str(text))))

    url = "data:image/png;base64," + base64.b64encode(b"\x89PNG").decode()
    assert sent(server)["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "?"}, {"type": "image_url", "image_url": {"url": url}}]}
    ]


def test_a_reply_that_was_cut_off_is_an_answer_with_a_note() -> None:
    with serving(says("On its w", finish_reason="length")) as server:
        response = ask(target_of(server))

    assert (response.text, response.finish_reason) == ("On its w", "length")
    assert response.notes == ("the reply was cut off at the limit of output tokens",)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (reply("null"), "unexpected_shape"),
        (reply(""), "malformed_reply"),
        (reply(b'{"choices": "\xff"}'), "malformed_reply"),
        (reply("", status="403 No"), "auth"),
        (reply("", status="500 No"), "server_error"),
        (says("", finish_reason="content_filter"), "content_filter"),
    ],
)
def test_whatever_the_server_says_is_one_failure(answer: Answer, kind: str) -> None:
    with serving(answer) as server:
        assert failure_of(target_of(server)).kind == kind


def test_the_deadline_is_for_all_steps_together() -> None:
    with serving(says(None, tool_calls=[LOOKUP]), silence) as server:
        failure = failure_of(target_of(server, tool_responses={"lookup": "x"}), make_request(timeout_s=0.5))

    assert failure.kind == "deadline"


def test_many_requests_share_one_session() -> None:
    async def use(provider: Provider) -> list[ProviderResponse]:
        return await asyncio.gather(*(provider.invoke(make_request(str(number))) for number in range(20)))

    with serving(says("hi")) as server:
        assert [response.text for response in with_provider(target_of(server), use)] == ["hi"] * 20
    assert len(server.asked) == 20
