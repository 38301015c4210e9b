"""Faults by model name, as a client receives them."""

import http.client
import json
import math
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import pytest
from tests.fake.client import (
    ASK,
    CONTENTS,
    MESSAGES,
    SAID,
    TEXT_OF,
    Answer,
    chat,
    chat_text,
    open_chat,
    post,
    responses,
    send,
)
from tests.support.fake_server import serving_fake

from agentv.fake import FAULTS, FakeServer
from agentv.fake.faults import OddBatch, OddSending, OddStream, Refusal, choose_fault

BRIEF_S = 0.3
apis = pytest.mark.parametrize("api", ASK)

STATUSES = {name: fault.problem.status for name, fault in FAULTS.items() if isinstance(fault, Refusal)}


@apis
@pytest.mark.parametrize("name", STATUSES)
def test_refusals_have_their_status_and_a_message_in_the_form_of_the_api(
    fake_server: FakeServer, api: str, name: str
) -> None:
    answered = ASK[api](fake_server, f"fake@{name}")
    assert answered.status == STATUSES[name]
    assert answered.json["error"]["message"]
    assert [(call.fault, call.billed) for call in fake_server.calls] == [(name, False)]


def test_each_api_names_a_refusal_in_its_own_words(fake_server: FakeServer) -> None:
    errors = {api: ASK[api](fake_server, "fake@429").json["error"] for api in ("chat", "messages", "gemini")}
    assert errors["chat"]["code"] == "rate_limit_exceeded"
    assert errors["messages"]["type"] == "rate_limit_error"
    assert errors["gemini"]["status"] == "RESOURCE_EXHAUSTED"


def test_how_long_to_wait_is_said_in_three_ways_or_not_at_all() -> None:
    with serving_fake(retry_after_s=7) as server:
        seconds, date, ms, bare = (chat(server, f"fake@{name}") for name in ("429", "429-date", "429-ms", "429-bare"))
    assert seconds.headers["retry-after"] == "7"
    wait = parsedate_to_datetime(date.headers["retry-after"]) - datetime.now(UTC)
    assert timedelta(seconds=4) < wait <= timedelta(seconds=7)
    assert ms.headers["retry-after-ms"] == "7000"
    assert not {"retry-after", "retry-after-ms"} & bare.headers.keys()


def test_a_fault_may_strike_only_the_first_times_a_request_comes(fake_server: FakeServer) -> None:
    assert [chat(fake_server, "fake@503-x2").status for _ in range(4)] == [503, 503, 200, 200]
    other = [{"role": "user", "content": "another"}]
    assert chat(fake_server, "fake@503-x2", messages=other).status == 503


@apis
@pytest.mark.parametrize("stream", [False, True])
def test_attempts_are_counted_for_each_model(fake_server: FakeServer, api: str, *, stream: bool) -> None:
    models = ["a@503-x1", "b@503-x1"] * 2
    assert [ASK[api](fake_server, model, stream=stream).status for model in models] == [503, 503, 200, 200]


def test_attempts_are_counted_for_each_kind_of_request(fake_server: FakeServer) -> None:
    path = "/v1beta/models/fake@503-x1:"
    methods = ["generateContent", "streamGenerateContent", "countTokens"] * 2
    statuses = [post(fake_server, path + method, {"contents": CONTENTS}).status for method in methods]
    assert statuses == [503, 503, 503, 200, 200, 200]


def test_a_fault_may_be_the_whole_name(fake_server: FakeServer) -> None:
    assert chat(fake_server, "500").status == 500
    assert chat(fake_server, "gpt-4o-mini").status == 200


def test_an_unknown_fault_is_refused_with_the_known_ones(fake_server: FakeServer) -> None:
    answered = chat(fake_server, "fake@504s")
    assert answered.status == 404
    assert "Unknown fault '504s'; known: 429, " in answered.json["error"]["message"]


@apis
def test_the_content_filter_stops_a_reply(fake_server: FakeServer, api: str) -> None:
    words = {"messages": "refusal", "gemini": "SAFETY"}
    answered = ASK[api](fake_server, "fake@content-filter")
    assert answered.status == 200
    assert words.get(api, "content_filter") in answered.body.decode()


@apis
def test_the_content_filter_refuses_a_prompt(fake_server: FakeServer, api: str) -> None:
    answered = ASK[api](fake_server, "fake@blocked-prompt")
    if api == "gemini":
        assert (answered.status, answered.json["promptFeedback"]) == (200, {"blockReason": "SAFETY"})
        assert "candidates" not in answered.json
    else:
        assert answered.status == 400


def test_azure_says_so_with_a_code(fake_server: FakeServer) -> None:
    assert ASK["azure"](fake_server, "fake@blocked-prompt").json["error"]["code"] == "content_filter"


@apis
def test_replies_that_hold_odd_texts(fake_server: FakeServer, api: str) -> None:
    texts = [
        TEXT_OF[api](ASK[api](fake_server, f"fake@{name}").json) for name in ("empty-text", "half-character", "length")
    ]
    assert texts == ["", "half \ud83d one", SAID]


def is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


BODIES: dict[str, Callable[[bytes], bool]] = {
    "empty": lambda body: body == b"",
    "null": lambda body: body == b"null",
    "truncated": lambda body: body.startswith(b"{") and not is_json(body),
    "wrong-types": lambda body: not any(isinstance(item, list) for item in json.loads(body).values()),
    "wrong-leaves": lambda body: SAID.encode() not in body and is_json(body),
    "nan": lambda body: b": NaN" in body and SAID.encode() in body,
    "not-utf8": lambda body: not is_text(body) and is_json(body.replace(b"\xff\xfe\xfa", b"")),
    "nested": lambda body: len(body) == 200_000 and not is_json(body),
    "html": lambda body: body.startswith(b"<!DOCTYPE html>"),
    "error-in-200": lambda body: "message" in json.loads(body)["error"],
}


@apis
@pytest.mark.parametrize("name", BODIES)
def test_bodies_that_no_client_expects(fake_server: FakeServer, api: str, name: str) -> None:
    answered = ASK[api](fake_server, f"fake@{name}")
    assert answered.status == 200
    assert BODIES[name](answered.body), answered.body[:200]
    assert [(call.fault, call.billed) for call in fake_server.calls] == [(name, True)]


def test_nan_leaves_booleans_as_they_are(fake_server: FakeServer) -> None:
    good, spoilt = (responses(fake_server, model).json for model in ("fake", "fake@nan"))
    assert good["parallel_tool_calls"] is spoilt["parallel_tool_calls"] is True
    assert math.isnan(spoilt["usage"]["input_tokens"])


@pytest.mark.parametrize("name", ["truncated", "wrong-types", "not-utf8"])
def test_streams_are_spoilt_too(fake_server: FakeServer, name: str) -> None:
    good = chat(fake_server, stream=True).body
    spoilt = chat(fake_server, f"fake@{name}", stream=True).body
    assert spoilt.startswith(b"data: ")
    assert (b"[DONE]" in good, b"[DONE]" in spoilt) == (True, name != "truncated")


# --- faults of the connection


@pytest.fixture
def ask_briefly(fake_server: FakeServer) -> Iterator[Callable[[str], http.client.HTTPConnection]]:
    made: list[http.client.HTTPConnection] = []

    def ask(model: str) -> http.client.HTTPConnection:
        made.append(open_chat(fake_server, model, timeout_s=BRIEF_S))
        return made[-1]

    yield ask
    for connection in made:
        connection.close()


Brief = Callable[[str], http.client.HTTPConnection]


def test_a_connection_is_reset(fake_server: FakeServer) -> None:
    with pytest.raises(ConnectionResetError) as raised:
        chat(fake_server, "fake@reset")
    assert not isinstance(raised.value, http.client.RemoteDisconnected)


def test_a_connection_is_closed_without_a_word(fake_server: FakeServer) -> None:
    with pytest.raises(http.client.RemoteDisconnected):
        chat(fake_server, "fake@hang-up")


def test_a_reply_never_begins(ask_briefly: Brief) -> None:
    with pytest.raises(TimeoutError):
        ask_briefly("fake@hang").getresponse()


def test_a_reply_stops_in_the_middle(ask_briefly: Brief) -> None:
    response = ask_briefly("fake@stall").getresponse()
    assert response.read(20).startswith(b'{"id"')
    with pytest.raises(TimeoutError):
        response.read()


def test_a_reply_is_cut_off(fake_server: FakeServer) -> None:
    with pytest.raises(http.client.IncompleteRead):
        chat(fake_server, "fake@cut")


def test_a_reply_drips_so_that_no_pause_is_long(ask_briefly: Brief) -> None:
    response = ask_briefly("fake@drip").getresponse()
    assert [response.read(1) for _ in range(8)] == [b" "] * 8


def test_a_reply_is_huge_and_begins_well(fake_server: FakeServer) -> None:
    connection = open_chat(fake_server, "fake@huge")
    response = connection.getresponse()
    taken = response.read(50 * 2**20)
    connection.close()
    assert taken.startswith(b'{"id"')
    assert len(taken) == 50 * 2**20


def test_a_bomb_is_a_good_reply_of_600_mb_in_600_kb(fake_server: FakeServer) -> None:
    answered = chat(fake_server, "fake@gzip-bomb")
    assert answered.headers["content-encoding"] == "gzip"
    assert len(answered.body) < 700_000
    packed = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    size, rest, first, last = 0, answered.body, b"", b""
    while rest:
        chunk = packed.decompress(rest, 2**22)
        first = first or chunk[:100]
        size, rest, last = size + len(chunk), packed.unconsumed_tail, chunk[-100:]
    assert packed.eof, "the checksum or the length is wrong"
    assert size > 600 * 2**20
    assert (first[:6], last[-2:]) == (b'{"id":', b"}}")


def test_a_body_only_says_that_it_is_packed(fake_server: FakeServer) -> None:
    answered = chat(fake_server, "fake@bad-gzip")
    assert answered.headers["content-encoding"] == "gzip"
    assert chat_text(answered.json) == SAID


def test_who_follows_a_redirect_is_found_out_by_the_log(fake_server: FakeServer) -> None:
    body = {"model": "fake@redirect", "messages": MESSAGES}
    answered = post(fake_server, "/v1/chat/completions", body, authorization="Bearer secret")
    assert (answered.status, answered.headers["location"]) == (307, "/redirected")
    send(fake_server, "POST", answered.headers["location"], b"{}", {"Authorization": "Bearer secret"})
    first, followed = fake_server.calls
    assert (first.billed, followed.path, followed.key) == (False, "/redirected", first.key)


def test_no_fault_spoils_the_next_answer(fake_server: FakeServer) -> None:
    for name in ("reset", "hang-up", "cut"):
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            chat(fake_server, f"fake@{name}")
        assert chat_text(chat(fake_server).json) == SAID


def test_every_fault_has_a_name_that_chooses_it_and_a_summary() -> None:
    for name, fault in FAULTS.items():
        chosen = choose_fault(f"a/b:c@{name}-x3")
        assert chosen is not None
        assert (chosen.name, chosen.times) == (name, 3)
        assert fault.summary


def test_every_fault_is_tried_here() -> None:
    odd = {"content-filter", "blocked-prompt", "empty-text", "half-character", "length", "prose"}
    connections = {name for name, fault in FAULTS.items() if isinstance(fault, OddSending | OddBatch | OddStream)}
    assert set(FAULTS) == set(STATUSES) | set(BODIES) | odd | connections


def test_prose_is_said_where_a_judge_has_to_answer_in_json(fake_server: FakeServer) -> None:
    answered: Answer = chat(fake_server, "judge@prose-x1")
    assert chat_text(answered.json) == "Well, it depends on how you look at it."
    assert chat_text(chat(fake_server, "judge@prose-x1").json) == SAID
