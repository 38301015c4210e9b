"""The client of OpenAI, which speaks to Azure as well, and our adapters send the same."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import openai
import pytest
from tests.providers.oracle.side_by_side import (
    LOOKUP,
    OPTIONS,
    PICTURE,
    QUESTION,
    SCHEMA,
    SYSTEM,
    TURNS,
    Option,
    ours,
    settings_without_a_case,
    theirs,
)
from tests.support.asking import make_target
from tests.support.fake_server import serving_fake

from agentv.fake import FakeServer
from agentv.providers.apis.azure import AzureSettings
from agentv.providers.apis.dialogue import Image
from agentv.providers.apis.openai import OpenAISettings

KEY = "sk-0123456789"
DATA_URL = Image("image/png", PICTURE.read_bytes()).data_url
USER_MESSAGE = {"role": "user", "content": QUESTION}
FORMAT = {"name": "reply", "schema": SCHEMA, "strict": True}
SCRIPT = 'Look it up.\n@call lookup {"order": 7}\n@say It is on its way.'

CHAT: Mapping[str, Mapping[str, Any]] = {
    "a question": {},
    "a system prompt and guidelines": {"messages": [{"role": "system", "content": SYSTEM}, USER_MESSAGE]},
    "a conversation": {"messages": [{"role": turn.role, "content": turn.content} for turn in TURNS]},
    "temperature": {"temperature": 0.2},
    "the request's temperature": {"temperature": 0.0},
    "max_output_tokens": {"max_tokens": 50},
    "the request's max_output_tokens": {"max_tokens": 9},
    "the request's model": {"model": "m-2"},
    "a schema": {"response_format": {"type": "json_schema", "json_schema": FORMAT}},
    "a schema that is not sent": {},
    "tools": {"tools": [{"type": "function", "function": LOOKUP}]},
    "extra_headers": {"extra_headers": {"X-Team": "orders"}},
    "a stream": {"stream": True, "stream_options": {"include_usage": True}},
    "a picture": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": QUESTION},
                    {"type": "image_url", "image_url": {"url": DATA_URL}},
                ],
            }
        ]
    },
    "extra_body": {"extra_body": {"seed": 7, "response_format": {"type": "text"}}},
    "another Authorization": {"extra_headers": {"authorization": "Bearer other"}},
}
RESPONSES: Mapping[str, Mapping[str, Any]] = {
    "a question": {},
    "a system prompt and guidelines": {"instructions": SYSTEM},
    "a conversation": {
        "instructions": TURNS[0].content,
        "input": [{"role": turn.role, "content": turn.content} for turn in TURNS[1:]],
    },
    "temperature": {"temperature": 0.2},
    "the request's temperature": {"temperature": 0.0},
    "max_output_tokens": {"max_output_tokens": 50},
    "the request's max_output_tokens": {"max_output_tokens": 9},
    "the request's model": {"model": "m-2"},
    "a schema": {"text": {"format": {"type": "json_schema", **FORMAT}}},
    "a schema that is not sent": {},
    "tools": {"tools": [{"type": "function", **LOOKUP}]},
    "extra_headers": {"extra_headers": {"X-Team": "orders"}},
    "a stream": {"stream": True},
    "a picture": {
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": QUESTION},
                    {"type": "input_image", "image_url": DATA_URL},
                ],
            }
        ]
    },
    "extra_body": {"extra_body": {"seed": 7, "response_format": {"type": "text"}}},
    "another Authorization": {"extra_headers": {"authorization": "Bearer other"}},
}
OF_OPENAI: Mapping[str, Option] = {
    **OPTIONS,
    "extra_body": Option({"extra_body": {"seed": 7, "response_format": {"type": "text"}}}),
    "another Authorization": Option({"extra_headers": {"authorization": "Bearer other"}}),
}


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with serving_fake(keep_requests=True) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: FakeServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1", max_retries=0) as client:
        yield client


def chat(client: openai.OpenAI, **given: Any) -> Callable[[], Any]:
    return lambda: client.chat.completions.create(**{"model": "m", "messages": [USER_MESSAGE], **given})


def responses(client: openai.OpenAI, **given: Any) -> Callable[[], Any]:
    return lambda: client.responses.create(**{"model": "m", "input": [USER_MESSAGE], **given})


def test_every_setting_has_its_case() -> None:
    assert CHAT.keys() == RESPONSES.keys() == OF_OPENAI.keys()
    assert settings_without_a_case(OpenAISettings, OF_OPENAI) == {"model", "base_url", "api_key", "api"}  # in all


@pytest.mark.parametrize("name", OF_OPENAI)
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_openai_is_sent_the_same(server: FakeServer, client: openai.OpenAI, api: str, name: str) -> None:
    option = OF_OPENAI[name]
    settings = OpenAISettings(model="m", base_url=f"{server.url}/v1/", api_key=KEY, api=api, **option.settings)  # type: ignore[arg-type] # of the parametrisation
    call = chat(client, **CHAT[name]) if api == "chat" else responses(client, **RESPONSES[name])

    assert ours(server, make_target("openai", settings), **option.request) == theirs(server, call)


# --- tools -------------------------------------------------------------------------------------------------------

TOOLS: Mapping[str, Any] = {"tools": (LOOKUP,), "tool_responses": {"lookup": {"status": "sent"}}}
ANSWER = '{"status":"sent"}'


def test_a_chat_goes_on_after_a_tool_in_the_same_way(server: FakeServer, client: openai.OpenAI) -> None:
    settings = OpenAISettings(model="m", base_url=f"{server.url}/v1", api_key=KEY, **TOOLS)
    tools = [{"type": "function", "function": LOOKUP}]
    first = {"role": "user", "content": SCRIPT}

    def converse() -> None:
        reply = chat(client, messages=[first], tools=tools)()
        said = reply.choices[0].message
        answer = {"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": ANSWER}
        turn = {"role": "assistant", "content": said.content, "tool_calls": said.tool_calls}
        chat(client, messages=[first, turn, answer], tools=tools)()

    sent = ours(server, make_target("openai", settings), question=SCRIPT)

    assert len(sent) == 2
    assert sent == theirs(server, converse)


def test_responses_go_on_after_a_tool_in_the_same_way(server: FakeServer, client: openai.OpenAI) -> None:
    settings = OpenAISettings(model="m", base_url=f"{server.url}/v1", api_key=KEY, api="responses", **TOOLS)
    tools = [{"type": "function", **LOOKUP}]
    first = {"role": "user", "content": SCRIPT}

    def converse() -> None:
        reply = responses(client, input=[first], tools=tools)()
        call = next(item for item in reply.output if item.type == "function_call")
        answer = {"type": "function_call_output", "call_id": call.call_id, "output": ANSWER}
        responses(client, input=[first, *reply.output, answer], tools=tools)()

    sent = ours(server, make_target("openai", settings), question=SCRIPT)

    assert len(sent) == 2
    assert sent == theirs(server, converse)


# --- Azure -------------------------------------------------------------------------------------------------------

NEWER_LIMITS: Mapping[str, Mapping[str, Any]] = {
    "max_output_tokens": {"max_completion_tokens": 50},
    "the request's max_output_tokens": {"max_completion_tokens": 9},
}


def azure_client(**given: Any) -> openai.AzureOpenAI:
    return openai.AzureOpenAI(**{"api_version": "2024-10-01-preview", "api_key": KEY, "max_retries": 0, **given})


@pytest.mark.parametrize("name", OF_OPENAI)
def test_azure_is_sent_the_same(server: FakeServer, name: str) -> None:
    option = OF_OPENAI[name]
    settings = AzureSettings(deployment="m", endpoint=f"{server.url}/", api_key=KEY, **option.settings)
    with azure_client(azure_endpoint=server.url) as client:
        expected = theirs(server, chat(client, **NEWER_LIMITS.get(name, CHAT[name])))

    assert ours(server, make_target("azure", settings), **option.request) == expected


OWN: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "a deployment with odd characters": ({"deployment": "gpt 4o/ü"}, {}),
    "an older version": ({"api_version": "2024-06-01"}, {"api_version": "2024-06-01"}),
    "a gateway": ({"endpoint": None, "base_url": "URL/gate/"}, {"base_url": "URL/gate"}),
    "a gateway to one deployment": (
        {"endpoint": None, "base_url": "URL/gate/deployments/m"},
        {"base_url": "URL/gate/deployments/m"},
    ),
    "a token": (
        {"api_key": None, "extra_headers": {"Authorization": "Bearer entra"}},
        {"api_key": None, "azure_ad_token": "entra"},
    ),
}


@pytest.mark.parametrize("name", OWN)
def test_azures_own_settings_lead_to_the_same_place(server: FakeServer, name: str) -> None:
    def of_server(given: Mapping[str, Any]) -> Mapping[str, Any]:
        return {key: value.replace("URL", server.url) if key == "base_url" else value for key, value in given.items()}

    own, given = OWN[name]
    settings = AzureSettings(**{"deployment": "m", "endpoint": server.url, "api_key": KEY, **of_server(own)})
    place = {} if "base_url" in given else {"azure_endpoint": server.url}
    with azure_client(**place, **of_server(given)) as client:
        expected = theirs(server, chat(client, model=settings.deployment))

    assert ours(server, make_target("azure", settings)) == expected


def test_every_setting_of_azure_has_its_case() -> None:
    own = {name: Option(settings) for name, (settings, _) in OWN.items()}
    assert settings_without_a_case(AzureSettings, {**OF_OPENAI, **own}) == set()
