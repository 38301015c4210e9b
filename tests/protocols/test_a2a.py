"""`provider: a2a` with agents of the SDK on loopback. Needs the dependency group `protocols`."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.asking import ask, failure_of, make_request, make_target, with_provider
from tests.support.loopback import Server, never_answer, reply, reply_with_id, serving
from tests.support.ports import free_port, running

from agentv.loading.models.settings import read_settings
from agentv.providers import PROVIDERS
from agentv.providers.protocols.a2a_addresses import is_same_origin
from agentv.providers.protocols.a2a_responses import A2aResponse
from agentv.providers.protocols.a2a_settings import A2aSettings
from agentv.types.errors import EvalFileError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import ChatMessage, DataPart
from agentv.types.provider import CheckedProvider, Provider, ProviderError, ProviderResponse
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage

pytest.importorskip("a2a", reason="the A2A SDK is not installed: uv sync --group protocols")

SERVER = Path(__file__).with_name("a2a_server.py")
Start = Callable[..., str]


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    """Start an agent of a mode, once, and return its URL."""
    urls: dict[str, str] = {}
    with ExitStack() as stack:

        def url_of(mode: str = "") -> str:
            if mode not in urls:
                port = free_port()
                stack.enter_context(running([sys.executable, str(SERVER), str(port), mode], port))
                urls[mode] = f"http://127.0.0.1:{port}"
            return urls[mode]

        yield url_of


def target(url: str, **settings: Any) -> ResolvedTarget:
    return make_target("a2a", A2aSettings(url=url, **settings))


# --- answers ----------------------------------------------------------------------------------------------------


def test_a_message_is_the_answer_with_its_usage_and_context(start: Start) -> None:
    answer = ask(target(start()), make_request("hello"))

    assert answer.text == "Good day."
    assert answer.usage == Usage(input=7, output=3, total=10)
    assert answer.session


@pytest.mark.parametrize("streaming", ["auto", "on", "off"])
def test_the_artifacts_of_a_task_are_the_answer_and_its_states_the_trace(start: Start, streaming: str) -> None:
    answer = ask(target(start(), streaming=streaming), make_request("slow"))

    assert answer.text == "slowly done"
    assert answer.finish_reason == "completed"
    assert [(event.name, event.text) for event in answer.trace or ()] == [
        ("submitted", None),
        ("working", "Looking it up."),
        ("completed", None),
    ]


def test_an_agent_without_streaming_is_polled(start: Start) -> None:
    assert ask(target(start("plain")), make_request("slow")).text == "slowly done"


@pytest.mark.parametrize("mode", ["old", "rest"])
def test_older_versions_and_the_other_binding_are_understood(start: Start, mode: str) -> None:
    assert ask(target(start(mode)), make_request("where")).text == "You said: where"
    assert ask(target(start(mode), streaming="off"), make_request("where")).text == "You said: where"


def test_an_artifact_that_comes_in_chunks_is_put_together(start: Start) -> None:
    assert ask(target(start()), make_request("chunks")).text == "one, two"


def test_parts_that_are_no_text_are_recorded_by_type(start: Start) -> None:
    answer = ask(target(start()), make_request("parts"))

    assert answer.text.splitlines() == [
        "See:",
        '{"euros":12.5,"order":7}',
        "[file: a.png, image/png, 4 bytes]",
        "[file: https://example.com/b.pdf, application/pdf]",
    ]
    content = (answer.output_messages or ())[-1].content
    assert isinstance(content, tuple)
    assert [part.type for part in content if isinstance(part, DataPart)] == ["data", "file", "file"]


def test_files_of_a_case_are_sent_as_parts(start: Start, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("order 7", "utf-8")

    answer = ask(target(start()), make_request("read", input_files=(str(tmp_path / "note.txt"),)))

    assert answer.text == "You said: read\nnote.txt text/plain order 7"


def test_the_turns_of_a_conversation_share_a_context(start: Start) -> None:
    turns = (ChatMessage("user", "context?"), ChatMessage("assistant", "Yes?"), ChatMessage("user", "context?"))

    answer = ask(target(start()), make_request("…", chat_prompt=turns))

    first, second = answer.output_messages or ()
    assert first.content == second.content == answer.session
    assert answer.notes == ("the assistant turns of the case were not sent: the agent replied to each user turn",)


def test_a_turn_after_a_question_of_the_agent_goes_to_the_same_task(start: Start) -> None:
    turns = (ChatMessage("user", "ask"), ChatMessage("user", "order 7"))

    answer = ask(target(start()), make_request("…", chat_prompt=turns))

    asked, said = answer.output_messages or ()
    assert asked.content == "Which order?"
    assert said.content == answer.text == "You said: order 7"
    assert (asked.metadata or {})["task"] == (said.metadata or {})["task"]


# --- states -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "state", "said"),
    [
        ("fail", "failed", "about fail"),
        ("reject", "rejected", "about reject"),
        ("login", "auth-required", "about login"),
        ("ask", "input-required", "Which order?"),
    ],
)
def test_another_state_is_a_failure_with_what_the_agent_said(start: Start, text: str, state: str, said: str) -> None:
    with pytest.raises(ProviderError) as raised:
        ask(target(start()), make_request(text))

    failure = raised.value.failure
    assert failure.kind == "target_exit"
    assert failure.message == f"the agent's task ended in the state {state!r}: {said}"
    assert (failure.details or {})["state"] == state
    assert raised.value.partial is not None
    assert raised.value.partial.text == said


def test_a_state_that_counts_as_an_answer_is_one(start: Start) -> None:
    answer = ask(target(start(), answer_states=("completed", "input-required")), make_request("ask"))

    assert (answer.text, answer.finish_reason) == ("Which order?", "input-required")


def test_an_agent_that_raises_is_a_failure(start: Start) -> None:
    failure = failure_of(target(start()), make_request("crash"))

    assert (failure.kind, failure.message) == ("server_error", "the agent failed: no order service")


@pytest.mark.parametrize("streaming", ["auto", "off"])
def test_a_task_that_takes_too_long_is_cancelled(start: Start, streaming: str) -> None:
    settings = target(start("plain"), streaming=streaming)
    with pytest.raises(ProviderError) as raised:
        ask(settings, make_request("hang", timeout_s=3.0))

    failure, partial = raised.value.failure, raised.value.partial
    assert failure.kind == "target_timeout"
    assert failure.message == "no answer from the agent within 3 s; its task was cancelled"
    assert partial is not None
    task = ((partial.output_messages or ())[-1].metadata or {})["task"]
    assert str(task) in ask(settings, make_request("cancelled?")).text


async def hanging_call(provider: Provider) -> "tuple[asyncio.Task[ProviderResponse], str]":
    """Start a call that never ends; return it with the id of its task at the agent, which works on it."""

    async def known() -> set[str]:
        return set((await provider.invoke(make_request("hanging?"))).text.split(","))

    before = await known()
    call = asyncio.create_task(provider.invoke(make_request("hang")))
    while not (new := await known() - before):
        assert not call.done()
        await asyncio.sleep(0.02)
    return call, new.pop()


def test_a_cancelled_call_cancels_its_task(start: Start) -> None:
    async def use(provider: Provider) -> None:
        call, task = await hanging_call(provider)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert task in (await provider.invoke(make_request("cancelled?"))).text

    with_provider(target(start()), use)


# --- failures ---------------------------------------------------------------------------------------------------


def test_headers_are_sent_with_every_request_and_a_refusal_is_named(start: Start) -> None:
    assert ask(target(start("key"), headers={"X-Key": "open sesame"}), make_request("where")).text == "You said: where"
    failure = failure_of(target(start("key")), make_request("where"))
    assert (failure.kind, failure.http_status) == ("auth", 401)
    assert "no key" in failure.message


def test_headers_are_not_sent_to_another_host_that_the_card_names(start: Start) -> None:
    url = start("elsewhere")

    failure = failure_of(target(url, headers={"X-Key": "secret"}), make_request("where"))

    assert failure.kind == "config_error"
    assert "http://elsewhere.example/, a server other than" in failure.message
    assert ask(target(url, headers={"X-Key": "a"}, endpoint=url), make_request("where")).text == "You said: where"


def test_an_agent_that_is_killed_during_an_answer_is_a_failure_of_transport() -> None:
    port = free_port()
    with running([sys.executable, str(SERVER), str(port)], port) as server:

        async def use(provider: Provider) -> None:
            call, _ = await hanging_call(provider)
            server.kill()
            with pytest.raises(ProviderError) as raised:
                await call
            assert raised.value.failure.kind == "transport"
            assert raised.value.partial is not None

        with_provider(target(f"http://127.0.0.1:{port}"), use)


def test_no_agent_is_a_failure_of_transport() -> None:
    failure = failure_of(target(f"http://127.0.0.1:{free_port()}"), make_request("where"))

    assert failure.kind == "transport"
    assert "no connection to 127.0.0.1:" in failure.message


def test_a_url_without_a_card_names_all_places_of_cards() -> None:
    with serving(reply("nothing here", status="404 Not Found")) as server:
        failure = failure_of(target(f"{server.url}/agents/clerk"), make_request("where"))

    assert failure.kind == "target_missing"
    for place in ("/agents/clerk/.well-known/agent-card.json", "/.well-known/agent.json"):
        assert f"{server.url}{place}" in failure.message


@pytest.mark.parametrize(
    ("card", "kind", "expected"),
    [
        ("<html>", "malformed_reply", "cannot be read"),
        (
            json.dumps({"supportedInterfaces": [{"url": "grpc://a", "protocolBinding": "GRPC"}]}),
            "config_error",
            "the agent's card offers GRPC",
        ),
        ("{}", "config_error", "the agent's card offers no interface"),
    ],
)
def test_a_card_that_cannot_be_used_is_a_failure(card: str, kind: str, expected: str) -> None:
    with serving(reply(card)) as server:
        failure = failure_of(target(server.url), make_request("where"))

    assert failure.kind == kind
    assert expected in failure.message


@pytest.mark.parametrize("streaming", ["auto", "off"])
@pytest.mark.parametrize(
    ("body", "status", "kind", "expected"),
    [
        ("<html>", "200 OK", "malformed_reply", "the agent's response cannot be read: "),
        ("not now", "503 Unavailable", "server_error", "the message was answered with HTTP status 503: not now"),
        ('{"jsonrpc": "2.0", "id": "ID", "result": {"hologram": 3}}', "200 OK", "unexpected_shape", "the agent"),
    ],
)
def test_a_reply_that_is_not_one_of_a2a_is_a_failure(
    body: str, status: str, kind: str, expected: str, streaming: str
) -> None:
    servers: list[Server] = []
    answer = reply_with_id(servers, body, status=status)
    with serving(answer) as server, serving(reply(card_of(server.url))) as cards:
        servers.append(server)
        failure = failure_of(target(cards.url, streaming=streaming), make_request("where"))

    assert failure.kind == kind
    assert failure.message.startswith(expected)


def card_of(url: str) -> str:
    interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return json.dumps({"capabilities": {"streaming": True}, "supportedInterfaces": [interface]})


def test_a_complete_answer_stays_one_if_its_stream_ends_badly() -> None:
    task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"},
            "artifacts": [{"artifactId": "1", "parts": [{"text": "42 euros."}]}]}  # fmt: skip
    event = f"data: {json.dumps({'jsonrpc': '2.0', 'id': 'ID', 'result': {'task': task}})}\n\n"
    servers: list[Server] = []
    broken = reply_with_id(servers, event, headers={"Content-Type": "text/event-stream"}, length=len(event) + 100)
    with serving(broken) as server, serving(reply(card_of(server.url))) as cards:
        servers.append(server)
        answer = ask(target(cards.url), make_request("how much"))

    assert (answer.text, answer.finish_reason) == ("42 euros.", "completed")


@pytest.mark.parametrize(("scheme", "port"), [("http", 80), ("https", 443)])
def test_the_usual_port_may_be_written(scheme: str, port: int) -> None:
    assert is_same_origin(f"{scheme}://h/rpc", f"{scheme}://h:{port}/card")
    assert not is_same_origin(f"{scheme}://h/rpc", f"{scheme}://h:81/card")


# --- health -----------------------------------------------------------------------------------------------------


def test_the_healthcheck_reads_the_card(start: Start) -> None:
    async def use(provider: Provider) -> None:
        assert isinstance(provider, CheckedProvider)
        await provider.healthcheck()

    with_provider(target(start()), use)
    with pytest.raises(ProviderError) as raised:
        with_provider(target(f"http://127.0.0.1:{free_port()}"), use)
    assert raised.value.failure.kind == "healthcheck"


def test_an_agent_that_never_sends_its_card_is_a_time_out() -> None:
    with serving(never_answer) as server:
        failure = failure_of(target(server.url), make_request("where", timeout_s=0.3))

    assert failure.kind == "target_timeout"


# --- replies ----------------------------------------------------------------------------------------------------


def test_a_part_of_an_unknown_kind_is_named() -> None:
    collected = A2aResponse()
    collected.add({"message": {"messageId": "1", "parts": [{"hologram": 3}, {"text": "seen"}]}})

    assert collected.to_response().text == "[unknown]\nseen"


@pytest.mark.parametrize(("cost", "known", "noted"), [(0.25, 0.25, False), (-5, None, True), (2e9, None, True)])
def test_a_cost_is_read_from_metadata(cost: float, known: float | None, noted: bool) -> None:
    collected = A2aResponse()
    metadata: JsonObject = {"usage": {"input": 7, "output": 3, "cost": cost}}
    collected.add({"message": {"messageId": "1", "parts": [{"text": "hi"}], "metadata": metadata}})
    response = collected.to_response()
    assert (response.cost_usd, response.usage, bool(response.notes)) == (
        known,
        Usage(input=7, output=3, total=10),
        noted,
    )


def test_what_the_agent_said_last_is_the_answer_of_a_task_without_artifacts() -> None:
    collected = A2aResponse()
    said: JsonObject = {"role": "ROLE_AGENT", "parts": [{"text": "Done."}]}
    collected.add({"task": {"id": "1", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED", "message": said}}})

    assert collected.to_response().text == "Done."


def status(state: str, said: str = "", role: str = "ROLE_AGENT") -> JsonObject:
    message: JsonObject = {"message": turn(said, role)} if said else {}
    return {"state": f"TASK_STATE_{state}", **message}


def turn(text: str, role: str = "ROLE_AGENT") -> JsonObject:
    return {"role": role, "parts": [{"text": text}]}


QUESTION = turn("How much?", "ROLE_USER")


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([], ""),
        ([QUESTION, turn("Looking it up."), turn("42 euros.")], "42 euros."),
        ([QUESTION, turn("42 euros."), turn("Looking it up.")], "42 euros."),
        ([turn("Which order?"), QUESTION, turn("Looking it up.")], ""),
    ],
)
@pytest.mark.parametrize("state", ["COMPLETED", "FAILED"])
def test_what_the_agent_said_on_the_way_is_no_answer(history: list[JsonValue], expected: str, state: str) -> None:
    collected = A2aResponse()
    collected.add({"statusUpdate": {"taskId": "1", "status": status("WORKING", "Looking it up.")}})
    collected.add({"statusUpdate": {"taskId": "1", "status": status("WORKING")}})
    collected.add({"task": {"id": "1", "status": status(state), "history": history}})

    assert collected.to_response().text == expected
    assert collected.status_text() == ""
    assert [event.text for event in collected.updates if event.text] == ["Looking it up."]


def test_the_status_message_is_the_answer_of_a_task_whose_artifacts_are_empty() -> None:
    collected = A2aResponse()
    artifact: JsonObject = {"artifactId": "log", "parts": []}
    collected.add({"task": {"id": "1", "status": status("COMPLETED", "42 euros."), "artifacts": [artifact]}})

    assert collected.to_response().text == "42 euros."


# --- settings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"url": "agent.example.com"}, "url must start with http"),
        ({"url": "http://h", "endpoint": "h"}, "endpoint must start with http"),
        ({"url": "http://[::1"}, "url is not a valid URL: Invalid IPv6 URL"),
        ({"url": "https://127.0.0.1:99999/"}, "url is not a valid URL: Port out of range 0-65535"),
        ({"url": "http://"}, "url is not a valid URL: it has no host"),
        ({"url": "http://h", "answer_states": []}, "answer_states must name a state"),
        ({"url": "http://h", "answer_states": ["done"]}, "answer_states"),
        ({"url": "http://h", "streaming": "yes"}, "streaming"),
    ],
)
def test_wrong_settings_are_refused_with_a_sentence(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(EvalFileError, match=expected):
        read_settings(PROVIDERS.get("a2a"), settings, where="here")


def test_the_provider_imports_nothing_of_the_sdk() -> None:
    program = "import sys, agentv.providers.protocols.a2a_provider; print({'a2a', 'httpx'} & set(sys.modules))"

    done = subprocess.check_output([sys.executable, "-c", program], text=True, env=dict(os.environ))
    assert done == "set()\n"
