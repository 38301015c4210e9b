"""`provider: mcp` with servers that attack their client. Needs the dependency group `protocols`."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.asking import ask, failure_of, make_request, make_target
from tests.support.loopback import Answer, Server, Writer, endless, never_answer, reply, serving
from tests.support.nightly import IS_NIGHTLY
from tests.support.peak import peak_below

from agentv.providers.protocols.mcp_settings import McpSettings
from agentv.types.failures import Failure
from agentv.types.targets import ResolvedTarget

pytest.importorskip("mcp", reason="the MCP SDK is not installed: uv sync --group protocols")

SERVER = Path(__file__).parent.parent / "fixtures" / "hostile_mcp_server.py"
CALL = '{"tool": "say"}'


def hostile(*attack: str, **settings: Any) -> ResolvedTarget:
    return make_target("mcp", McpSettings(command=sys.executable, args=(str(SERVER), *attack), **settings))


def attack(*words: str, timeout_s: float = 20.0, **settings: Any) -> Failure:
    return failure_of(hostile(*words, **settings), make_request(CALL, timeout_s=timeout_s))


# --- schemas ----------------------------------------------------------------------------------------------------


def test_a_pattern_that_backtracks_is_named() -> None:
    failure = attack("pattern")

    assert failure.kind == "malformed_reply"
    assert "the pattern '^(a|a)*$' of the schema did not finish within 1 s" in failure.message


def test_a_reference_to_a_url_is_not_fetched() -> None:
    with serving(reply('{"type": "object"}')) as other:
        failure = attack("remote", f"{other.url}/schema.json")
        assert other.requests == []

    assert failure.kind == "malformed_reply"
    assert f"the schema has a $ref that cannot be resolved: {other.url}/schema.json" in failure.message


def test_a_result_that_does_not_match_its_schema_is_a_malformed_reply() -> None:
    failure = attack("wrong")

    assert failure.kind == "malformed_reply"
    assert "the structured content of tool 'say' does not match its outputSchema: $.a: 'aaa" in failure.message
    assert "tool 'say' has an outputSchema, but its result has no structured content" in attack("silent").message


@pytest.mark.slow
def test_schemas_that_take_too_long_end_at_the_time_limit_of_their_call(tmp_path: Path) -> None:
    """The checks would take hours: in the event loop, they would stop the run."""
    attacks = ("doubling", "branching", "unique", "calm") if IS_NIGHTLY else ("doubling", "unique", "calm")
    targets = [
        {"name": name, "provider": "mcp", "command": sys.executable, "args": [str(SERVER), name],
         "timeout_seconds": 30 if name == "calm" else 5,
         **({"list": "tools"} if name == "unique" else {})}
        for name in attacks
    ]  # fmt: skip
    case = {"id": "a", "input": CALL, "evaluators": [{"name": "said", "type": "contains", "value": "said"}]}
    (tmp_path / ".agentv").mkdir()
    (tmp_path / ".agentv" / "targets.yaml").write_text(json.dumps({"targets": targets}), "utf-8")
    (tmp_path / "suite.yaml").write_text(json.dumps({"targets": attacks, "evalcases": [case]}), "utf-8")

    program = [sys.executable, "-m", "agentv", "run", "suite.yaml"]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)

    rows = [json.loads(line) for path in tmp_path.rglob("results.jsonl") for line in path.read_text().splitlines()]
    found = {row["target"]: row for row in rows if "target" in row}
    assert found.keys() == set(attacks), done.stdout + done.stderr
    assert found["calm"]["status"] == "pass"
    result, tools = "the structured content of tool 'say' and its outputSchema", "the server's list of tools"
    subjects = {"doubling": result, "branching": result, "unique": tools}
    for name, subject in ((name, subject) for name, subject in subjects.items() if name in attacks):
        assert found[name]["error"]["kind"] == "target_timeout"
        assert f"{subject} could not be checked in the " in found[name]["error"]["message"]
        assert found[name].get("partial") == ({"text": "said"} if subject == result else None)


# --- sizes ------------------------------------------------------------------------------------------------------


def test_a_list_of_tools_without_end_is_too_large() -> None:
    failure = attack("cursor", "1000000", list="tools")

    assert failure.kind == "too_large"
    assert failure.message == "the list of tools is larger than 10 MiB; it was discarded"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("line",), "a message of the server is larger than 10 MiB"),
        (("text", "12000000"), "a message of the server is larger than 10 MiB"),
        (("items", "3000000"), "a message of the server has more than 100,000 values"),
        (("values", "3000000"), "a message of the server has more than 100,000 values"),
    ],
    ids=["line", "text", "items", "values"],
)
def test_a_message_that_is_too_large_is_not_read(words: tuple[str, ...], message: str) -> None:
    with peak_below(80):
        failure = attack(*words)

    assert failure.kind == "too_large"
    assert f"{message}; the server was stopped" in failure.message


def test_many_commas_in_a_text_are_one_value() -> None:
    assert ask(hostile("commas", "500000"), make_request(CALL)).text == "," * 500_000


@pytest.mark.parametrize("words", [("errors", "5000000"), ("refusal", "5000000")])
def test_a_long_error_of_a_server_is_quoted_in_part(words: tuple[str, ...]) -> None:
    assert len(attack(*words).message) < 5_000


def test_notifications_without_end_end_at_the_time_limit() -> None:
    assert attack("notify", timeout_s=1.0).kind == "target_timeout"


def test_many_notifications_take_little_memory() -> None:
    with peak_below(60):
        assert ask(hostile("notify", "5000"), make_request(CALL)).text == "said"


# --- messages ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["ids", "shapes", "deep"])
def test_messages_before_the_response_that_do_not_belong_to_it_are_skipped(word: str) -> None:
    assert ask(hostile(word), make_request(CALL)).text == "said"


# --- streamable HTTP --------------------------------------------------------------------------------------------


def at(url: str, **settings: Any) -> ResolvedTarget:
    return make_target("mcp", McpSettings(url=url, **settings))


JSON, STREAM = "Content-Type: application/json\r\n", "Content-Type: text/event-stream\r\n"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (endless(b"x" * 2**16, head=JSON), "the response is larger than 10 MiB"),
        (endless(b"x" * 2**16, head=STREAM), "an event of the stream is larger than 10 MiB"),
        (
            reply(
                gzip.compress(bytes(50 * 2**20)),
                headers={"Content-Type": "application/json", "Content-Encoding": "gzip"},
            ),
            "the response is larger than 10 MiB",
        ),
        (
            reply(json.dumps([1] * 200_000), headers={"Content-Type": "application/json"}),
            "a message of the server has more than 100,000 values",
        ),
        (endless(b"x" * 2**16, head=JSON.replace("json", "json\r\nContent-Encoding: br")), "the encoding 'br'"),
    ],
    ids=["body", "event", "gzip", "values", "encoding"],
)
def test_a_response_that_is_too_large_is_not_read(answer: Answer, message: str) -> None:
    with serving(answer) as server, peak_below(80):
        failure = failure_of(at(server.url), make_request(CALL, timeout_s=20.0))

    assert failure.kind == ("malformed_reply" if "encoding" in message else "too_large")
    assert message in failure.message


def test_a_run_does_not_wait_for_the_confirmed_end_of_a_session() -> None:
    servers: list[Server] = []

    async def answer(writer: Writer) -> None:
        request = servers[0].requests[-1]
        if not request.line.startswith("POST"):
            await never_answer(writer)
        message = json.loads(request.body)
        result: dict[str, Any] = {"content": [{"type": "text", "text": "said"}]}
        if message["method"] == "initialize":
            info = {"name": "hostile", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        if message["method"] == "tools/list":
            result = {"tools": [{"name": "say", "inputSchema": {"type": "object"}}]}
        known = ("initialize", "tools/list", "tools/call")
        end = {"result": result} if message["method"] in known else {"error": {"code": -32601, "message": "unknown"}}
        body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), **end})
        await reply(body, headers={"Content-Type": "application/json", "Mcp-Session-Id": "1"})(writer)

    with serving(answer) as server:
        servers.append(server)
        assert ask(at(server.url), make_request(CALL)).text == "said"

    assert any(request.line.startswith("DELETE") for request in server.requests)


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_the_response_to_another_request_is_no_answer(kind: str) -> None:
    result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "hostile", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 999, "result": result})
    answer = reply(f"data: {body}\n\n" if kind == "text/event-stream" else body, headers={"Content-Type": kind})
    with serving(answer) as server:
        failure = failure_of(at(server.url), make_request(CALL, timeout_s=20.0))

    assert (failure.kind, "replied to the JSON-RPC request 999 instead of" in failure.message) == (
        "malformed_reply",
        True,
    )
