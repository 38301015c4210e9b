"""The server itself: its log, starting and stopping, and API keys."""

import asyncio
import json
import socket
import time
from urllib.parse import urlsplit

import pytest
from tests.fake.client import CONTENTS, MESSAGES, SAID, chat, chat_text, get, open_chat, post, send, until
from tests.support.fake_server import serving_fake

from agentv.fake import Call, FakeServer, Question, Reply, fingerprint

KEY = "sk-canary-4711"
BODY = {"model": "fake", "messages": MESSAGES, "max_tokens": 9}
KEY_PLACES = [
    ("/v1/chat/completions", {"Authorization": f"Bearer {KEY}"}, BODY),
    ("/openai/deployments/fake/chat/completions?api-version=1", {"api-key": KEY}, BODY),
    ("/v1/messages", {"X-Api-Key": KEY, "anthropic-version": "2023-06-01"}, BODY),
    ("/v1beta/models/fake:generateContent", {"x-goog-api-key": KEY}, {"contents": CONTENTS}),
    (f"/v1beta/models/fake:generateContent?key={KEY}", {}, {"contents": CONTENTS}),
]


@pytest.mark.parametrize(("path", "headers", "body"), KEY_PLACES)
def test_the_log_distinguishes_keys_and_never_contains_one(
    fake_server: FakeServer, path: str, headers: dict[str, str], body: object
) -> None:
    assert send(fake_server, "POST", path, json.dumps(body).encode(), headers).status == 200
    logged = get(fake_server, "/calls").body.decode()
    assert KEY not in logged
    assert [call.key for call in fake_server.calls] == [fingerprint(KEY)]
    assert KEY not in repr(fake_server.calls)


def test_a_call_without_a_key_has_no_fingerprint(fake_server: FakeServer) -> None:
    chat(fake_server)
    assert fake_server.calls[0].key == ""


def test_the_log_is_read_over_http_and_forgotten(fake_server: FakeServer) -> None:
    chat(fake_server)
    chat(fake_server, "fake@500")
    log = get(fake_server, "/calls").json
    totals = {name: log[name] for name in ("schema", "count", "billed", "input_tokens", "output_tokens")}
    assert totals == {
        "schema": "agentv-fake-calls-1",
        "count": 2,
        "billed": 1,
        "input_tokens": 5,
        "output_tokens": 7,
    }
    assert [Call(**call) for call in log["calls"]] == fake_server.calls
    assert send(fake_server, "DELETE", "/calls").json["count"] == 0
    assert fake_server.calls == []


def test_paths_that_are_none_say_where_to_look_and_are_logged(fake_server: FakeServer) -> None:
    answered = post(fake_server, "/v1/chat/completion", {})
    assert (answered.status, "GET / lists the paths of models" in answered.body.decode()) == (404, True)
    assert [(call.path, call.status) for call in fake_server.calls] == [("/v1/chat/completion", 404)]


def test_the_first_page_lists_paths_and_faults(fake_server: FakeServer) -> None:
    page = get(fake_server, "/").json
    assert "/v1/chat/completions" in page["paths"]
    assert page["faults"]["hang"] == "no reply, ever"


def test_replies_are_numbered(fake_server: FakeServer) -> None:
    names = [chat(fake_server).headers for _ in range(2)]
    assert [headers["x-request-id"] for headers in names] == ["req_fake_1", "req_fake_2"]
    assert names[0]["request-id"] == names[0]["apim-request-id"] == "req_fake_1"


def test_a_test_may_say_what_the_model_says() -> None:
    def shout(question: Question) -> Reply:
        return Reply(question.user_text.upper())

    with serving_fake(answer=shout) as server:
        assert chat_text(chat(server).json) == "WHERE IS MY ORDER?"


def test_requests_are_kept_only_on_demand(fake_server: FakeServer) -> None:
    chat(fake_server)
    assert fake_server.requests == []
    with serving_fake(keep_requests=True) as server:
        post(server, "/v1/chat/completions?x=1", {"model": "fake", "messages": MESSAGES}, authorization="Bearer k")
        (kept,) = server.requests
    assert (kept.method, kept.path, kept.headers["authorization"]) == ("POST", "/v1/chat/completions?x=1", "Bearer k")
    assert json.loads(kept.body) == {"model": "fake", "messages": MESSAGES}


def test_it_is_reached_from_this_machine_only(fake_server: FakeServer) -> None:
    assert urlsplit(fake_server.url).hostname == "127.0.0.1"


def test_a_reply_may_take_its_time() -> None:
    with serving_fake(latency_s=0.2) as server:
        started = time.monotonic()
        assert chat_text(chat(server).json) == SAID
    assert time.monotonic() - started >= 0.2


def test_two_servers_share_nothing() -> None:
    with serving_fake() as one, serving_fake() as other:
        chat(one)
        assert one.url != other.url
        assert other.calls == []


def test_a_port_in_use_is_an_error_and_leaves_nothing_behind(fake_server: FakeServer) -> None:
    async def start() -> None:
        with pytest.raises(OSError, match="in use"):
            async with FakeServer(port=fake_server.port):
                pass
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(start())


@pytest.mark.parametrize("name", ["hang", "stall", "drip", "huge"])
def test_it_stops_at_once_while_a_client_waits(name: str) -> None:
    with serving_fake() as server:
        connection = open_chat(server, f"fake@{name}")
        until(lambda: bool(server.calls))
        started = time.monotonic()
    assert time.monotonic() - started < 10  # a hang lasts much longer
    connection.close()


def test_who_hangs_up_is_not_waited_for(fake_server: FakeServer) -> None:
    with socket.create_connection(("127.0.0.1", fake_server.port)) as client:
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    assert chat(fake_server).status == 200


def test_it_serves_inside_a_running_loop() -> None:
    async def run() -> int:
        async with FakeServer() as server:
            answered = await asyncio.to_thread(chat, server)
            assert server.calls[0].billed
            return answered.status

    assert asyncio.run(run()) == 200
