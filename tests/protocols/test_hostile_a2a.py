"""`provider: a2a` with agents that attack their client. Needs the dependency group `protocols`."""

import asyncio
import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.support.asking import ask, failure_of, make_request, make_target
from tests.support.loopback import Answer, Server, Writer, endless, reply, serving
from tests.support.peak import peak_below

from agentv.api import evaluate
from agentv.providers.protocols.a2a_responses import A2aResponse
from agentv.providers.protocols.a2a_settings import A2aSettings
from agentv.types.messages import ChatMessage
from agentv.types.targets import ResolvedTarget

pytest.importorskip("a2a", reason="the A2A SDK is not installed: uv sync --group protocols")

Json: TypeAlias = dict[str, Any]
Agent: TypeAlias = Callable[[Json], list[Json]]
"""Returns the events of a stream, or as the only item the response, for a JSON-RPC request."""

JSON, STREAM = "Content-Type: application/json\r\n", "Content-Type: text/event-stream\r\n"


def target(url: str, **settings: Any) -> ResolvedTarget:
    return make_target("a2a", A2aSettings(url=url, **settings))


def card(url: str, *, streaming: bool = True, version: str = "1.0") -> str:
    interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": version}
    return json.dumps({"capabilities": {"streaming": streaming}, "supportedInterfaces": [interface]})


@contextmanager
def serving_agent(agent: Agent, *, stays_open: bool = False, **about: Any) -> Iterator[str]:
    """Serve an agent and its card; `stays_open` leaves its streams open after the last event."""
    servers: list[Server] = []
    never = asyncio.Event()  # kept, so that no task that waits for it is collected

    async def answer(writer: Writer) -> None:
        request = servers[0].requests[-1]
        if request.line.startswith("GET"):
            await reply(card(servers[0].url, **about))(writer)
            return
        asked = json.loads(request.body)
        responses = [{"jsonrpc": "2.0", "id": asked["id"], **each} for each in agent(asked)]
        if "tream" not in asked["method"]:
            await reply(json.dumps(responses[0]), headers={"Content-Type": "application/json"})(writer)
            return
        events = "".join(f"data: {json.dumps(each)}\n\n" for each in responses)
        writer.write(f"HTTP/1.1 200 OK\r\n{STREAM}\r\n{events}".encode())
        await writer.drain()
        if stays_open:
            await never.wait()

    with serving(answer) as server:
        servers.append(server)
        yield server.url


def task(state: str, *, artifact: str = "", **fields: Any) -> Json:
    artifacts = [{"artifactId": "1", "parts": [{"text": artifact}]}] if artifact else []
    return {"id": "t", "contextId": "c", "status": {"state": f"TASK_STATE_{state}"}, "artifacts": artifacts, **fields}


def status(state: str, *, text: str = "", **fields: Any) -> Json:
    message = {"message": {"messageId": "1", "role": "ROLE_AGENT", "parts": [{"text": text}]}} if text else {}
    update = {"taskId": "t", "contextId": "c", "status": {"state": f"TASK_STATE_{state}", **message}, **fields}
    return {"result": {"statusUpdate": update}}


def said(text: str, **fields: Any) -> Json:
    message = {"messageId": "1", "contextId": "c", "role": "ROLE_AGENT", "parts": [{"text": text}], **fields}
    return {"result": {"message": message}}


WORKING, DONE = {"result": {"task": task("WORKING")}}, {"result": {"task": task("COMPLETED", artifact="42")}}


# --- foreign answers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([WORKING, status("COMPLETED", taskId="other")], "task 'other' instead of 't'"),
        ([WORKING, {"result": {"task": task("COMPLETED", artifact="42", id="other")}}], "task 'other' instead of 't'"),
        ([WORKING, status("COMPLETED", contextId="other")], "context 'other' instead of 'c'"),
        ([WORKING, {**DONE, "id": "other"}], "JSON-RPC request 'other' instead of "),
        ([{**DONE, "id": None}], "JSON-RPC request None instead of "),
        ([said("42", role="ROLE_USER")], "a message with the role of the user"),
        ([WORKING, status("FAILED"), status("COMPLETED")], "the state 'completed' after 'failed'"),
    ],
    ids=["stream-task", "task", "context", "id", "no-id", "role", "states"],
)
@pytest.mark.parametrize("streaming", ["on", "off"])
def test_a_foreign_or_contradictory_answer_is_a_malformed_reply(
    events: list[Json], message: str, streaming: str
) -> None:
    if streaming == "off" and " after " in message:
        pytest.skip("without a stream the first final state counts")

    def agent(asked: Json) -> list[Json]:
        if "tream" in asked["method"]:
            return events
        if asked["method"] == "SendMessage":
            return events[:1]
        update = events[1]["result"].get("statusUpdate")
        done = task("COMPLETED", id=update["taskId"], contextId=update["contextId"]) if update else events[1]["result"]
        return [{**events[1], "result": done.get("task", done)}]

    with serving_agent(agent) as url:
        failure = failure_of(target(url, streaming=streaming))

    assert failure.kind == "malformed_reply"
    assert message in failure.message


def test_a_turn_that_is_answered_in_another_context_is_a_malformed_reply() -> None:
    turns = (ChatMessage("user", "one"), ChatMessage("user", "two"))
    contexts = iter(["c", "other"])
    with serving_agent(lambda _: [said("42", contextId=next(contexts))]) as url:
        failure = failure_of(target(url), make_request("…", chat_prompt=turns))

    assert failure.kind == "malformed_reply"
    assert "context 'other' instead of 'c'" in failure.message


def test_a_turn_that_is_answered_with_another_task_is_a_malformed_reply() -> None:
    turns = (ChatMessage("user", "one"), ChatMessage("user", "two"))
    tasks = iter([task("INPUT_REQUIRED"), task("COMPLETED", id="other")])
    with serving_agent(lambda _: [{"result": {"task": next(tasks)}}]) as url:
        failure = failure_of(target(url), make_request("…", chat_prompt=turns))

    assert failure.kind == "malformed_reply"
    assert "task 'other' instead of 't'" in failure.message


def test_an_error_without_an_id_is_reported_as_the_error_of_the_agent() -> None:
    error = {"id": None, "error": {"code": -32700, "message": "no JSON"}}
    with serving_agent(lambda _: [error]) as url:
        failure = failure_of(target(url))

    assert "no JSON" in failure.message


# --- streams ----------------------------------------------------------------------------------------------------


def test_a_final_state_ends_the_answer_of_a_stream_that_stays_open() -> None:
    with serving_agent(lambda _: [WORKING, DONE], stays_open=True) as url:
        assert ask(target(url), make_request(timeout_s=15.0)).text == "42"


def test_a_state_after_a_final_one_is_found_in_a_stream_that_stays_open() -> None:
    events = [WORKING, status("FAILED"), status("COMPLETED")]
    with serving_agent(lambda _: events, stays_open=True) as url:
        assert failure_of(target(url), make_request(timeout_s=15.0)).kind == "malformed_reply"


@pytest.mark.parametrize("state", ["completed", "working"])
def test_a_final_event_of_version_0_3_ends_a_stream_that_stays_open(state: str) -> None:
    def agent(asked: Json) -> list[Json]:
        done = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "completed"},
                "artifacts": [{"artifactId": "1", "parts": [{"kind": "text", "text": "42"}]}]}  # fmt: skip
        if asked["method"] == "tasks/get":
            return [{"result": done}]
        update = {"kind": "status-update", "taskId": "t", "contextId": "c", "status": {"state": state}, "final": True}
        return [{"result": {**done, "status": {"state": "working"}}}, {"result": update}]

    with serving_agent(agent, stays_open=True, version="0.3") as url:
        assert ask(target(url), make_request(timeout_s=15.0)).text == "42"


def test_a_completed_task_without_artifact_is_an_empty_answer(tmp_path: Path) -> None:
    case = {"id": "a", "input": "hello", "evaluators": [{"name": "a", "type": "contains", "value": "x"}]}
    (tmp_path / "suite.yaml").write_text(json.dumps({"evalcases": [case]}), "utf-8")
    with serving_agent(lambda _: [{"result": {"task": task("COMPLETED")}}]) as url:
        (tmp_path / "targets.yaml").write_text(
            json.dumps({"targets": [{"name": "a", "provider": "a2a", "url": url}]}), "utf-8"
        )
        (row,) = evaluate(tmp_path / "suite.yaml", target="a", targets_file=str(tmp_path / "targets.yaml")).results

    assert row.empty_answer


# --- sizes ------------------------------------------------------------------------------------------------------


def test_a_card_that_is_too_large_is_not_read() -> None:
    with serving(endless(b"x" * 2**16, head=JSON, times=3_000)) as server, peak_below(60):
        failure = failure_of(target(server.url))

    assert failure.kind == "too_large"
    assert "the response is larger than 10 MiB" in failure.message


@pytest.mark.parametrize("streaming", ["on", "off"])
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (endless(b"x" * 2**16, head=STREAM, times=3_000), "an event of the stream is larger than 10 MiB"),
        (endless(b"x" * 2**16, head=JSON, times=3_000), "larger than 10 MiB"),
        (
            endless(b"data: " + b"[" * 2**16 + b"\n", head=STREAM, times=3_000),
            "an event of the stream is larger than 10 MiB",
        ),
    ],
    ids=["line", "body", "lines"],
)
def test_an_answer_that_is_too_large_is_not_read(answer: Answer, message: str, streaming: str) -> None:
    with serving(answer) as server, serving(reply(card(server.url))) as cards, peak_below(60):
        failure = failure_of(target(cards.url, streaming=streaming))

    assert failure.kind == "too_large"
    assert message in failure.message


def chunk(text: str, *, append: bool = True) -> Json:
    artifact = {"artifactId": "1", "parts": [{"text": text}]}
    return {"result": {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": artifact, "append": append}}}


def test_an_answer_in_many_chunks_is_put_together_in_linear_time() -> None:
    """A copy of the text for each chunk would copy 800 GB."""
    collected = A2aResponse()
    for index in range(200_000):
        collected.add(chunk("x" * 40, append=index > 0)["result"])
    collected.add(status("COMPLETED")["result"])

    assert collected.to_response().text == "x" * 8_000_000


@pytest.mark.parametrize(
    "events",
    [
        [chunk("x" * 2**20, append=index > 0) for index in range(11)],
        [status("WORKING", text=str(index) + "x" * 2**20) for index in range(11)],
    ],
    ids=["chunks", "states"],
)
def test_the_texts_of_an_answer_and_of_its_states_have_a_limit(events: list[Json]) -> None:
    with serving_agent(lambda _: [WORKING, *events, status("COMPLETED")]) as url:
        failure = failure_of(target(url))

    assert failure.kind == "too_large"
    assert failure.message == "the texts of the answer and of its states are larger than 10 MiB together"


def test_a_compressed_answer_is_read() -> None:
    compressed = reply(gzip.compress(card("http://unused").encode()), headers={"Content-Encoding": "gzip"})
    with serving_agent(lambda _: [said("42")]) as url, serving(compressed) as cards:
        assert ask(target(cards.url, endpoint=url)).text == "42"


# --- addresses --------------------------------------------------------------------------------------------------


def test_a_card_cannot_send_the_prompt_to_another_host() -> None:
    with serving(reply(card("http://elsewhere.example/rpc"))) as cards:
        failure = failure_of(target(cards.url))

    assert failure.kind == "config_error"
    assert "http://elsewhere.example/rpc" in failure.message
    assert "allow_hosts: [elsewhere.example]" in failure.message


def test_a_host_that_is_allowed_gets_the_prompt() -> None:
    with (
        serving_agent(lambda _: [said("42")]) as url,
        serving(reply(card(url.replace("127.0.0.1", "0.0.0.0")))) as cards,
    ):
        elsewhere = cards.url.replace("127.0.0.1", "localhost")
        assert ask(target(elsewhere)).text == "42"


@pytest.mark.parametrize(
    "host",
    ["169.254.169.254", "2852039166", "0xa9fea9fe", "[fe80::1]", "[fd00:ec2::254]", "[::ffff:169.254.169.254]",
     "100.100.100.200", "169.254.10.10:8080"],
)  # fmt: skip
def test_link_local_and_metadata_addresses_are_refused_before_a_connection(host: str) -> None:
    url = f"http://{host}/rpc"
    with serving(reply(card(url))) as cards:
        named_by_card = failure_of(target(cards.url))
        endpoint = failure_of(target(cards.url, endpoint=url))
    itself = failure_of(target(url))

    assert named_by_card.kind == endpoint.kind == itself.kind == "config_error"
    for failure in (endpoint, itself):
        assert "is a link-local or metadata address" in failure.message
        assert "allow_hosts" in failure.message


@pytest.mark.parametrize("host", ["http://h", "h/rpc", "", "h:80"])
def test_a_wrong_name_of_a_host_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="allow_hosts"):
        A2aSettings(url="http://h", allow_hosts=(host,))
