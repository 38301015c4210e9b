"""The behaviour shared by all model APIs, each against the fake model server."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, replace
from tests.support.asking import ask, failure_of, make_request, with_provider
from tests.support.fake_server import serving_fake
from tests.support.model_apis import KEY, MODEL_APIS

from agentv.fake import FakeServer, Question, Quota, Reply, ToolUse
from agentv.loading.models.settings import read_settings
from agentv.providers import PROVIDERS
from agentv.types.messages import Message, ToolCall
from agentv.types.provider import Provider, ProviderResponse

SCRIPT = 'Look it up.\n@call lookup {"order": 7}\n@say It is on its way.'
LOOKUP = {"name": "lookup", "parameters": {"type": "object", "properties": {"order": {"type": "integer"}}}}
PICTURE = Path(__file__).parents[1] / "fixtures" / "picture.png"

apis = pytest.mark.parametrize("api", MODEL_APIS.values(), ids=list(MODEL_APIS))


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with serving_fake(keep_requests=True) as server:
        yield server


def sent(server: FakeServer, number: int = -1) -> Any:
    return json.loads(server.requests[number].body)


@apis
def test_a_question_is_answered_with_everything_that_is_known(server: FakeServer, api: Any) -> None:
    response = ask(api.target(server.url, "m-1"))

    assert response.text == "You said: Where is my order?"
    assert response.usage is not None
    assert response.usage.input > 0
    assert response.usage.output > 0
    assert response.usage.total == response.usage.input + response.usage.output
    assert response.usage.requests == 1
    assert response.request_id is not None
    assert response.request_id.startswith("req_fake_")
    assert response.model == "m-1"
    assert (response.finish_reason or "").lower() in ("stop", "end_turn", "completed")
    assert (response.output_messages, response.notes, response.quota) == (None, (), None)
    assert server.calls[-1].billed


@apis
def test_the_key_goes_into_a_header_and_nowhere_else(server: FakeServer, api: Any) -> None:
    ask(api.target(server.url))

    request = server.requests[-1]
    assert [name for name, value in request.headers.items() if KEY in value] in (
        ["authorization"],
        ["api-key"],
        ["x-goog-api-key"],
    )
    assert KEY not in request.path
    assert KEY.encode() not in request.body


@apis
def test_the_targets_system_prompt_holds_when_the_request_has_none(server: FakeServer, api: Any) -> None:
    target = replace(api.target(server.url), system_prompt="Be the shop.")

    ask(target)
    assert "Be the shop." in json.dumps(sent(server))
    ask(target, make_request(system_prompt="Be the judge."))
    assert "Be the shop." not in json.dumps(sent(server))


@apis
def test_with_answers_of_tools_the_model_goes_on(server: FakeServer, api: Any) -> None:
    target = api.target(server.url, tools=(LOOKUP,), tool_responses={"lookup": {"status": "sent"}})

    response = ask(target, make_request(SCRIPT))

    assert response.text == "It is on its way."
    assert response.output_messages is not None
    first, last = response.output_messages
    (call,) = first.tool_calls
    assert (call.tool, call.input, call.output) == ("lookup", {"order": 7}, {"status": "sent"})
    assert last == Message("assistant", "It is on its way.")
    assert response.usage is not None
    assert response.usage.requests == 2


@apis
def test_without_an_answer_the_call_is_the_end(server: FakeServer, api: Any) -> None:
    response = ask(api.target(server.url, tools=(LOOKUP,)), make_request(SCRIPT))

    assert response.text == ""
    assert response.output_messages is not None
    assert [call.tool for call in response.output_messages[0].tool_calls] == ["lookup"]


@apis
def test_the_model_goes_on_only_as_often_as_allowed(api: Any) -> None:
    def insist(_: Question) -> Reply:
        return Reply(tool_uses=(ToolUse("lookup", {"order": 7}, "call_1"),), finish="tool")

    with serving_fake(answer=insist) as server:
        response = ask(api.target(server.url, tools=(LOOKUP,), tool_responses={"lookup": "x"}, max_steps=3))

    assert response.output_messages is not None
    outputs = [call.output for message in response.output_messages for call in message.tool_calls]
    assert outputs == ["x", "x", "x", None]
    assert len(server.calls) == 4


@apis
def test_several_tools_at_once_are_all_answered(api: Any) -> None:
    def two(question: Question) -> Reply:
        if question.turns[-1].role == "tool":
            return Reply("Done.")
        return Reply(tool_uses=(ToolUse("a", {"n": 1}, "call_1"), ToolUse("b", {"n": 2}, "call_2")), finish="tool")

    with serving_fake(answer=two) as server:
        response = ask(api.target(server.url, tool_responses={"a": 1, "b": [2]}))

    assert response.output_messages is not None
    calls = response.output_messages[0].tool_calls
    assert [(call.tool, call.input, call.output) for call in calls] == [("a", {"n": 1}, 1), ("b", {"n": 2}, [2])]
    assert response.text == "Done."


@apis
def test_a_schema_holds_the_model_to_json(server: FakeServer, api: Any) -> None:
    schema = {"type": "object", "properties": {"score": {"type": "number"}}, "required": ["score"]}
    request = make_request(response_schema=schema)

    assert "score" in json.loads(ask(api.target(server.url, structured_output=True), request).text)
    assert ask(api.target(server.url, structured_output=False), request).text.startswith("You said")


@apis
def test_without_a_system_role_the_system_prompt_opens_the_user_prompt(server: FakeServer, api: Any) -> None:
    target = api.target(server.url, system_role=False)

    ask(target, make_request("Where?", system_prompt="Be brief."))
    body = sent(server)
    assert not {"instructions", "system", "systemInstruction"} & body.keys()
    assert '"system"' not in json.dumps(body)
    assert "Be brief.\\n\\nWhere?" in json.dumps(body)


@apis
def test_bounds_of_lists_are_sent_to_the_apis_that_accept_them(server: FakeServer, api: Any) -> None:
    lines = {"type": "array", "items": {"type": "string"}, "maxItems": 4}
    schema = {"type": "object", "properties": {"hits": lines}, "required": ["hits"], "additionalProperties": False}
    target = api.target(server.url, structured_output=True)
    ask(target, make_request(response_schema=schema))
    assert (b"maxItems" in server.requests[-1].body) is (target.provider in ("openai", "gemini"))
    assert b'"hits"' in server.requests[-1].body


@apis
def test_pictures_of_the_case_are_shown_and_other_files_are_not(server: FakeServer, api: Any, tmp_path: Path) -> None:
    text = tmp_path / "order.txt"
    text.write_text("stands in the question")

    ask(api.target(server.url), make_request(input_files=(str(PICTURE), str(text))))

    assert server.requests[-1].body.count(b"iVBORw0KGgo") == 1  # how every PNG begins in base64
    assert b"stands in the question" not in server.requests[-1].body


@apis
def test_half_a_character_in_a_prompt_can_be_sent(server: FakeServer, api: Any) -> None:
    assert ask(api.target(server.url), make_request("half \ud83d one")).text == "You said: half ? one"


@apis
def test_extra_keys_win(server: FakeServer, api: Any) -> None:
    ask(api.target(server.url, max_output_tokens=50, extra_body={"seed": 7}))

    assert sent(server)["seed"] == 7


@pytest.mark.parametrize("word", ["max_tokens", "maxTokens"])
@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
def test_the_limit_of_a_response_has_the_words_of_the_apis(provider: str, word: str) -> None:
    settings: Any = read_settings(PROVIDERS.get(provider), {"model": "m", "api_key": KEY, word: 50}, where="here")
    assert settings.max_output_tokens == 50


@apis
def test_the_remaining_quota_is_reported(api: Any) -> None:
    with serving_fake(quota=Quota(requests_per_minute=100)) as server:
        response = ask(api.target(server.url))

    assert response.quota is not None
    assert response.quota.limit_requests == 100
    assert response.quota.remaining_requests is not None
    assert response.quota.remaining_requests < 100


@apis
def test_the_deadline_is_for_all_steps_together(api: Any) -> None:
    def dawdle(_: Question) -> Reply:
        return Reply(tool_uses=(ToolUse("lookup", {}, "call_1"),), finish="tool")

    with serving_fake(answer=dawdle, latency_s=0.2) as server:
        target = api.target(server.url, tool_responses={"lookup": "x"}, max_steps=100)
        failure = failure_of(target, make_request(timeout_s=0.5))

    assert failure.kind == "deadline"


def unhelpful_tool(tmp_path: Path) -> Path:
    path = tmp_path / "tools.py"
    path.write_text("def lookup(_):\n    raise LookupError('out of stock')\n")
    return path


@apis
@pytest.mark.parametrize("what", ["turn", "tool"])
def test_a_dialogue_that_fails_later_reports_its_usage(api: Any, what: str, tmp_path: Path) -> None:
    def never_ends(question: Question) -> Reply:
        if what == "turn" and question.turns[-1].role == "tool":
            return Reply(finish="filter")
        return Reply(tool_uses=(ToolUse("lookup", {"order": 7}, "call_1"),), finish="tool")

    answers = {"lookup": "x" if what == "turn" else {"python": f"{unhelpful_tool(tmp_path)}:lookup"}}
    with serving_fake(answer=never_ends) as server:
        first = ask(api.target(server.url, tools=(LOOKUP,)))
        failure = failure_of(api.target(server.url, tools=(LOOKUP,), tool_responses=answers))

    assert failure.kind == ("content_filter" if what == "turn" else "plugin_error")
    assert first.usage is not None
    assert first.usage.total > 0
    assert (failure.details or {})["usage"] == asdict(first.usage)


@apis
def test_many_requests_share_one_session(server: FakeServer, api: Any) -> None:
    async def use(provider: Provider) -> list[ProviderResponse]:
        return await asyncio.gather(*(provider.invoke(make_request(str(number))) for number in range(20)))

    responses = with_provider(api.target(server.url), use)

    assert [response.text for response in responses] == [f"You said: {number}" for number in range(20)]


def test_a_call_has_the_id_that_its_answer_goes_back_with(server: FakeServer) -> None:
    target = MODEL_APIS["anthropic"].target(server.url, tools=(LOOKUP,), tool_responses={"lookup": "sent"})

    response = ask(target, make_request(SCRIPT))

    assert response.output_messages is not None
    (call,) = response.output_messages[0].tool_calls
    assert isinstance(call, ToolCall)
    assert sent(server)["messages"][-1]["content"][0]["tool_use_id"] == call.id
