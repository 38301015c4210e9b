"""Anthropic's client and our adapter send the same."""

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import anthropic
import pytest
from tests.providers.oracle.side_by_side import (
    LOOKUP,
    OPTIONS,
    PARAMETERS,
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
from agentv.providers.apis.anthropic import AnthropicSettings

KEY = "sk-0123456789"
USER_MESSAGE = {"role": "user", "content": QUESTION}
TOOL = {"name": "lookup", "description": "Find an order", "input_schema": PARAMETERS}
SCRIPT = 'Look it up.\n@call lookup {"order": 7}\n@say It is on its way.'
IMAGE = {
    "type": "image",
    "source": {
        "type": "base64",
        "media_type": "image/png",
        "data": base64.b64encode(PICTURE.read_bytes()).decode(),
    },
}


def sampled(temperature: float) -> Mapping[str, Any]:
    """Return the extra arguments for a temperature, which the client no longer has as a parameter."""
    return {"extra_body": {"temperature": temperature}, "extra_headers": {"anthropic-version": "2023-06-01"}}


MESSAGES: Mapping[str, Mapping[str, Any]] = {
    "a question": {},
    "a system prompt and guidelines": {"system": SYSTEM},
    "a conversation": {
        "system": TURNS[0].content,
        "messages": [{"role": turn.role, "content": turn.content} for turn in TURNS[1:]],
    },
    "temperature": sampled(0.2),
    "the request's temperature": sampled(0.0),
    "max_output_tokens": {"max_tokens": 50},
    "the request's max_output_tokens": {"max_tokens": 9},
    "the request's model": {"model": "m-2"},
    "a schema": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    "a schema that is not sent": {},
    "tools": {"tools": [TOOL]},
    "extra_headers": {"extra_headers": {"X-Team": "orders"}},
    "a stream": {"stream": True},
    "a picture": {"messages": [{"role": "user", "content": [{"type": "text", "text": QUESTION}, IMAGE]}]},
    "extra_body": {"extra_body": {"service_tier": "auto", "thinking": {"type": "adaptive"}}},
    "another version": {"extra_headers": {"Anthropic-Version": "2023-06-01"}},
    "thinking_budget": {"max_tokens": 4096 + 1024, "thinking": {"type": "enabled", "budget_tokens": 1024}},
    "thinking_budget and max_output_tokens": {
        "max_tokens": 2000,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    },
}
OF_ANTHROPIC: Mapping[str, Option] = {
    **OPTIONS,
    "extra_body": Option({"extra_body": {"service_tier": "auto", "thinking": {"type": "adaptive"}}}),
    "another version": Option({"extra_headers": {"Anthropic-Version": "2023-06-01"}}),
    # A judge's temperature is left out, too: a model that thinks first takes none.
    "thinking_budget": Option({"thinking_budget": 1024}, {"temperature": 0.0}),
    "thinking_budget and max_output_tokens": Option({"thinking_budget": 1024, "max_output_tokens": 2000}),
}


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with serving_fake(keep_requests=True) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: FakeServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(api_key=KEY, base_url=server.url, max_retries=0) as client:
        yield client


def messages(client: anthropic.Anthropic, **given: Any) -> Callable[[], Any]:
    return lambda: client.messages.create(**{"model": "m", "max_tokens": 4096, "messages": [USER_MESSAGE], **given})


def test_every_setting_has_its_case() -> None:
    assert MESSAGES.keys() == OF_ANTHROPIC.keys()
    assert settings_without_a_case(AnthropicSettings, OF_ANTHROPIC) == {"model", "base_url", "api_key"}  # in all


@pytest.mark.parametrize("name", OF_ANTHROPIC)
def test_anthropic_is_sent_the_same(server: FakeServer, client: anthropic.Anthropic, name: str) -> None:
    option = OF_ANTHROPIC[name]
    settings = AnthropicSettings(model="m", base_url=f"{server.url}/", api_key=KEY, **option.settings)

    sent = ours(server, make_target("anthropic", settings), **option.request)

    assert sent == theirs(server, messages(client, **MESSAGES[name]))


def test_it_goes_on_after_a_tool_in_the_same_way(server: FakeServer, client: anthropic.Anthropic) -> None:
    settings = AnthropicSettings(
        model="m", base_url=server.url, api_key=KEY, tools=(LOOKUP,), tool_responses={"lookup": {"status": "sent"}}
    )
    first = {"role": "user", "content": SCRIPT}

    def converse() -> None:
        reply = messages(client, messages=[first], tools=[TOOL])()
        (call,) = (block for block in reply.content if block.type == "tool_use")
        answer = {"type": "tool_result", "tool_use_id": call.id, "content": '{"status":"sent"}'}
        turns = [first, {"role": "assistant", "content": reply.content}, {"role": "user", "content": [answer]}]
        messages(client, messages=turns, tools=[TOOL])()

    sent = ours(server, make_target("anthropic", settings), question=SCRIPT)

    assert len(sent) == 2
    assert sent == theirs(server, converse)
