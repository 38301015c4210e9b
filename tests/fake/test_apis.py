"""Each API: its replies, its required parameters, and its refusals."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fake.client import ASK, CONTENTS, MESSAGES, SAID, TEXT_OF, gemini_text, get, messages, messages_text, post

from agentv.fake import FakeServer

apis = pytest.mark.parametrize("api", ASK)


@apis
def test_it_answers(fake_server: FakeServer, api: str) -> None:
    answered = ASK[api](fake_server)
    assert answered.status == 200
    assert answered.headers["content-type"] == "application/json"
    assert answered.headers["x-request-id"] == "req_fake_1"
    assert TEXT_OF[api](answered.json) == SAID


@apis
def test_the_same_question_gets_the_same_bytes(fake_server: FakeServer, api: str) -> None:
    assert ASK[api](fake_server).body == ASK[api](fake_server).body


@apis
def test_every_answer_is_billed_once_with_what_it_used(fake_server: FakeServer, api: str) -> None:
    ASK[api](fake_server)
    (call,) = fake_server.calls
    assert (call.model, call.status, call.billed) == ("fake", 200, True)
    assert (call.input_tokens, call.output_tokens) == (5, 7)


@apis
def test_a_streamed_answer_costs_the_same(fake_server: FakeServer, api: str) -> None:
    assert ASK[api](fake_server, stream=True).headers["content-type"] == "text/event-stream"
    (call,) = fake_server.calls
    assert (call.input_tokens, call.output_tokens) == (5, 7)


@apis
def test_without_a_question_it_is_refused(fake_server: FakeServer, api: str) -> None:
    answered = ASK[api](fake_server, messages=[], input=[], contents=[])
    assert answered.status == 400
    assert answered.json["error"]["message"]
    assert [call.billed for call in fake_server.calls] == [False]


PATHS = [
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/embeddings",
    "/v1/messages",
    "/v1beta/models/fake:generateContent",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_refused(fake_server: FakeServer, path: str, body: bytes) -> None:
    assert post(fake_server, path, body).status == 400


@pytest.mark.parametrize("path", PATHS[:4])
def test_a_model_has_to_be_named(fake_server: FakeServer, path: str) -> None:
    body = {"messages": MESSAGES, "input": "hi", "max_tokens": 9}
    answered = post(fake_server, path, body, anthropic_version="2023-06-01")
    assert (answered.status, answered.json["error"]["message"]) == (400, "you must provide a model parameter")


KEYS = ("role", "content", "parts", "text", "tools", "function", "name", "type", "thinking", "tool_choice", "stream")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(list(ASK)), st.dictionaries(st.sampled_from(["messages", "input", "contents", "tools"]), JSON))
def test_no_body_of_any_shape_breaks_it(shared_server: FakeServer, api: str, body: dict[str, Any]) -> None:
    assert ASK[api](shared_server, **body).status in (200, 400)


def test_messages_demand_a_version_a_limit_and_room_for_thinking(fake_server: FakeServer) -> None:
    body = {"model": "fake", "max_tokens": 100, "messages": MESSAGES}
    without_version = post(fake_server, "/v1/messages", body)
    without_limit = messages(fake_server, max_tokens=None)
    without_room = messages(fake_server, thinking={"type": "enabled", "budget_tokens": 1000})
    errors = [answered.json["error"]["message"] for answered in (without_version, without_limit, without_room)]
    assert errors == [
        "anthropic-version: header is required",
        "max_tokens: Field required",
        "`max_tokens` must be greater than `thinking.budget_tokens`.",
    ]


def test_messages_take_system_messages_under_their_beta_only(fake_server: FakeServer) -> None:
    turns = [*MESSAGES, {"role": "system", "content": [{"type": "text", "text": "Today is Monday."}]}]
    body = {"model": "fake", "max_tokens": 100, "messages": turns}
    refused, counted = (
        post(fake_server, path, body, anthropic_version="2023-06-01")
        for path in ("/v1/messages", "/v1/messages/count_tokens")
    )
    expected = "messages: Unexpected role 'system'. Allowed roles are 'user' or 'assistant'"
    assert [(said.status, said.json["error"]["message"]) for said in (refused, counted)] == [(400, expected)] * 2
    for beta in ("effort-2025-11-24,mid-conversation-system-2026-04-07", "mid-conversation-tool-changes-2026-07-01"):
        answered = post(
            fake_server, "/v1/messages?beta=true", body, anthropic_version="2023-06-01", anthropic_beta=beta
        )
        assert (answered.status, messages_text(answered.json)) == (200, SAID)


def test_messages_repeat_the_user_and_not_the_reminders_of_a_client(fake_server: FakeServer) -> None:
    texts = ("<system-reminder>\nToday is Monday.\n</system-reminder>\n", MESSAGES[0]["content"])
    content = [{"type": "text", "text": text} for text in texts]
    answered = messages(fake_server, messages=[{"role": "user", "content": content}])
    assert messages_text(answered.json) == SAID


def test_azure_demands_a_version_of_its_api(fake_server: FakeServer) -> None:
    answered = post(fake_server, "/openai/deployments/fake/chat/completions", {"messages": MESSAGES})
    assert answered.status == 404


def test_vertex_paths_lead_to_gemini(fake_server: FakeServer) -> None:
    path = "/v1/projects/p/locations/eu/publishers/google/models/fake:generateContent"
    assert gemini_text(post(fake_server, path, {"contents": CONTENTS}).json) == SAID


def test_counting_tokens_costs_nothing(fake_server: FakeServer) -> None:
    body = {"model": "fake", "messages": MESSAGES}
    counted = post(fake_server, "/v1/messages/count_tokens", body, anthropic_version="2023-06-01")
    assert counted.json == {"input_tokens": 5}
    assert post(fake_server, "/v1beta/models/fake:countTokens", {"contents": CONTENTS}).json == {"totalTokens": 5}
    assert [call.billed for call in fake_server.calls] == [False, False]


def test_counting_tokens_costs_nothing_with_a_fault_either(fake_server: FakeServer) -> None:
    body = {"model": "fake@bad-gzip", "messages": MESSAGES}
    post(fake_server, "/v1/messages/count_tokens", body, anthropic_version="2023-06-01")
    post(fake_server, "/v1beta/models/fake@bad-gzip:countTokens", {"contents": CONTENTS})
    assert [(call.status, call.fault, call.billed) for call in fake_server.calls] == [(200, "bad-gzip", False)] * 2


def test_models_are_listed(fake_server: FakeServer) -> None:
    assert [model["id"] for model in get(fake_server, "/v1/models").json["data"]] == ["fake", "calls-tool"]
