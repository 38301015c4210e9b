"""`provider: mcp` with servers of the SDK and one without it. Needs the dependency group `protocols`."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.asking import ask, failure_of, make_request, make_target, with_provider
from tests.support.loopback import reply, serving
from tests.support.ports import free_port, running

from agentv.loading.models.settings import read_settings
from agentv.providers import PROVIDERS
from agentv.providers.protocols.mcp_settings import McpSettings
from agentv.types.errors import EvalFileError
from agentv.types.messages import DataPart, TextPart
from agentv.types.provider import CheckedProvider, Provider, ProviderError, ProviderResponse
from agentv.types.targets import ResolvedTarget

pytest.importorskip("mcp", reason="the MCP SDK is not installed: uv sync --group protocols")

SERVER = Path(__file__).with_name("mcp_server.py")
ODD = Path(__file__).parent.parent / "fixtures" / "odd_mcp_server.py"


def target(*mode: str, server: Path = ODD, **settings: Any) -> ResolvedTarget:
    return make_target("mcp", McpSettings(command=sys.executable, args=(str(server), *mode), **settings))


def question(tool: str, **arguments: Any) -> Any:
    return make_request(json.dumps({"tool": tool, "arguments": arguments}))


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, f"{pid} still runs"
        time.sleep(0.02)


# --- answers ----------------------------------------------------------------------------------------------------


def test_the_question_names_a_tool_and_its_arguments() -> None:
    answer = ask(target(server=SERVER), question("find_order", order="7"))

    assert json.loads(answer.text) == {"id": "7", "euros": 12.5}
    (calling, said) = answer.output_messages or ()
    (call,) = calling.tool_calls
    assert (call.tool, call.input) == ("find_order", {"order": "7"})
    assert call.output == {
        "content": [{"type": "text", "text": answer.text}],
        "structuredContent": {"id": "7", "euros": 12.5},
        "isError": False,
    }
    assert said.content == answer.text


def test_the_settings_name_the_tool_and_its_arguments_have_variables() -> None:
    settings: dict[str, Any] = {"tool": "{{ metadata.tool }}", "arguments": {"text": "{{ question }}!"}}

    answer = ask(target(**settings), make_request("hello", metadata={"tool": "say"}))

    assert answer.text == "hello!"


def test_without_arguments_in_the_settings_the_question_has_them() -> None:
    assert ask(target(tool="say"), make_request('{"text": "hello"}')).text == "hello"


def test_structured_content_is_the_answer_where_it_is_asked_for_or_alone() -> None:
    structured = ask(target(server=SERVER, answer="structured"), question("find_order", order="7"))

    assert structured.text == '{"id":"7","euros":12.5}'
    assert ask(target(), question("structured")).text == '{"total":12.5}'
    assert "no structured content" in failure_of(target(answer="structured"), question("say")).message


def test_contents_that_are_no_text_are_recorded_by_type_and_size() -> None:
    answer = ask(target(), question("media"))

    assert answer.text.splitlines() == [
        "[image: image/png, 4 bytes]",
        "[resource_link: a, file:///a.txt]",
        "inside",
    ]
    parts = (answer.output_messages or ())[-1].content
    assert isinstance(parts, tuple)
    assert [part.type for part in parts if isinstance(part, DataPart)] == ["image", "resource_link", "resource"]
    assert isinstance(parts[0], DataPart)
    assert parts[0].value["bytes"] == 4
    assert "data" not in parts[0].value
    assert not any(isinstance(part, TextPart) for part in parts)


def test_an_image_of_the_sdk_is_named_in_the_answer() -> None:
    assert ask(target(server=SERVER), question("picture")).text == "[image: image/png, 4 bytes]"


# --- failures ---------------------------------------------------------------------------------------------------


def test_an_error_of_a_tool_is_a_failure_with_its_text() -> None:
    with pytest.raises(ProviderError) as raised:
        ask(target(), question("fail", text="no such order"))

    assert raised.value.failure.kind == "target_exit"
    assert raised.value.failure.message == "tool 'fail' reported an error: no such order"
    assert raised.value.partial is not None
    assert raised.value.partial.text == "no such order"


def test_an_error_of_a_tool_is_an_answer_where_errors_are_judged() -> None:
    assert ask(target(judge_errors=True), question("fail", text="no such order")).text == "no such order"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", "the question is not JSON at line 1, column 1"),
        ("[1]", "the question is a JSON list"),
        ('{"arguments": {}}', "the question has no `tool`"),
        ('{"tool": "say", "arguments": 1}', "`arguments` of the question is a JSON number"),
        ('{"tool": "say", "argumnts": {}}', "unknown key 'argumnts'"),
        ('{"tool": "say", "name": "fail"}', "the question has both 'tool' and 'name'"),
        ('{"tool": "say", "arguments": null, "args": {}}', "the question has both 'arguments' and 'args'"),
        (f'{{"tool": "say", "arguments": {{"a": {"9" * 5000}}}}}', "the question has a number that is too long"),
    ],
)
def test_a_question_that_names_no_call_is_refused(text: str, expected: str) -> None:
    failure = failure_of(target(), make_request(text))

    assert failure.kind == "bad_request"
    assert expected in failure.message


def test_a_refused_request_is_a_failure_with_the_servers_words() -> None:
    failure = failure_of(target(), question("refuse"))

    assert failure.kind == "bad_request"
    assert "the server refused the request: I will not (code -32602)" in failure.message


def test_an_unknown_type_of_content_is_an_unexpected_shape() -> None:
    failure = failure_of(target(), question("odd"))

    assert failure.kind == "unexpected_shape"
    assert "hologram" in failure.message


def test_a_program_that_does_not_exist_is_named() -> None:
    missing = make_target("mcp", McpSettings(command="no-such-server"))
    with_arguments = make_target("mcp", McpSettings(command="no-such-server --stdio"))

    assert failure_of(missing, question("say")).kind == "target_missing"
    assert "cannot start 'no-such-server'" in failure_of(missing, question("say")).message
    assert "write the command's arguments in `args`" in failure_of(with_arguments, question("say")).message


def test_a_server_that_ends_is_a_failure_with_its_exit_code_and_standard_error() -> None:
    failure = failure_of(target("exit", list="tools"))

    assert failure.kind == "target_exit"
    assert "the server ended with exit code 7 before it answered" in failure.message
    assert "its standard error ends with:\ngot " in failure.message
    assert "got tools/list" in failure.message


def test_standard_error_of_earlier_calls_is_not_part_of_a_failure() -> None:
    async def use(provider: Provider) -> str:
        await provider.invoke(question("say"))
        with pytest.raises(ProviderError) as raised:
            await provider.invoke(question("refuse"))
        return raised.value.failure.message

    assert with_provider(target(), use).count("got tools/call") == 1


def test_a_server_that_never_answers_is_ended_at_the_deadline() -> None:
    before = set(psutil.Process().children(recursive=True))
    failure = failure_of(target("silent"), make_request('{"tool": "say"}', timeout_s=0.5))

    assert failure.kind == "target_timeout"
    assert "no answer from the server within 0.5 s" in failure.message
    servers = [each for each in set(psutil.Process().children(recursive=True)) - before if "odd_mcp" in _line_of(each)]
    assert servers == []


def _line_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def test_lines_that_are_no_messages_are_skipped_and_named_in_failures() -> None:
    assert ask(target("print"), question("say")).text == "On its way."
    failure = failure_of(target("print"), question("refuse"))
    assert "lines to standard output that are not MCP messages, the first: 'looking things up ...'" in failure.message


# --- sessions ---------------------------------------------------------------------------------------------------


def pids(*questions: Any, **settings: Any) -> list[str]:
    async def use(provider: Provider) -> list[str]:
        answers: list[ProviderResponse] = [await provider.invoke(each) for each in questions]
        return [answer.text for answer in answers]

    return with_provider(target(**settings), use)


def test_one_server_serves_all_cases_of_a_run_and_has_ended_after_it() -> None:
    first, second = pids(question("pid"), question("pid"))

    assert first == second
    wait_until_gone(int(first))


def test_each_case_gets_a_server_of_its_own_where_that_is_set() -> None:
    first, second = pids(question("pid"), question("pid"), session="case")

    assert first != second


def test_after_a_time_out_the_next_call_gets_a_new_server() -> None:
    async def use(provider: Provider) -> list[str]:
        first = await provider.invoke(question("pid"))
        with pytest.raises(ProviderError):
            await provider.invoke(make_request('{"tool": "hang"}', timeout_s=0.3))
        wait_until_gone(int(first.text))
        return [first.text, (await provider.invoke(question("pid"))).text]

    first, second = with_provider(target(), use)
    assert first != second


def test_a_time_out_reports_when_the_server_is_ended() -> None:
    async def use(provider: Provider) -> list[str]:
        hanging = [provider.invoke(make_request('{"tool": "hang"}', timeout_s=s)) for s in (0.5, 1.0)]
        errors = await asyncio.gather(*hanging, return_exceptions=True)
        return [error.failure.message for error in errors if isinstance(error, ProviderError)]

    first, second = with_provider(target(), use)
    after_the_others = "the server will be stopped after its other calls have ended; "
    assert first.startswith(f"no answer from the server within 0.5 s; {after_the_others}")
    assert second.startswith("no answer from the server within 1 s; the server will be stopped; ")


def test_a_cancelled_call_leaves_no_server() -> None:
    async def use(provider: Provider) -> str:
        first = await provider.invoke(question("pid"))
        hanging = asyncio.create_task(provider.invoke(question("hang")))
        await asyncio.sleep(0)
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        return first.text

    wait_until_gone(int(with_provider(target(), use)))


def test_an_interrupted_run_leaves_no_server(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    targets = {
        "name": "quiet",
        "provider": "mcp",
        "command": sys.executable,
        "args": [str(ODD), "silent", str(note)],
    }
    messages = [{"role": "user", "content": "{}"}]
    case = {"id": "a", "input_messages": messages, "evaluators": [{"name": "a", "type": "contains", "value": "a"}]}
    (tmp_path / ".agentv").mkdir()
    (tmp_path / ".agentv" / "targets.yaml").write_text(json.dumps({"targets": [targets]}), "utf-8")
    (tmp_path / "suite.yaml").write_text(json.dumps({"evalcases": [case]}), "utf-8")
    program = [sys.executable, "-m", "agentv", "run", "suite.yaml", "--target", "quiet"]
    with subprocess.Popen(program, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
        deadline = time.monotonic() + 60
        while not (note.exists() and note.read_text("utf-8")):
            assert run.poll() is None, run.stdout.read() if run.stdout else ""
            assert time.monotonic() < deadline
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=60)

    wait_until_gone(int(note.read_text("utf-8")))


# --- lists ------------------------------------------------------------------------------------------------------


def test_the_list_of_tools_is_the_answer_on_all_pages() -> None:
    answer = ask(target("pages", list="tools"))

    assert [tool["name"] for tool in json.loads(answer.text)["tools"]] == ["first", "second"]
    assert answer.output_messages is None


def test_wrong_schemas_are_a_failure_that_names_each_of_them() -> None:
    failure = failure_of(target("schemas", list="tools"))

    assert failure.kind == "malformed_reply"
    assert "tool 'bad': inputSchema is not a valid JSON Schema at properties/a/type: 'integr'" in failure.message
    assert "tool 'good' is listed twice" in failure.message


def test_wrong_schemas_stand_in_the_answer_where_errors_are_judged() -> None:
    answer = json.loads(ask(target("schemas", list="tools", judge_errors=True)).text)

    assert len(answer["problems"]) == 2
    assert len(answer["tools"]) == 3


def test_a_schema_that_mcp_does_not_allow_is_an_unexpected_shape_with_its_place() -> None:
    failure = failure_of(target("shapes", list="tools"))

    assert failure.kind == "unexpected_shape"
    assert "tools.0.inputSchema.type: Input should be 'object', got 'array'" in failure.message


# --- health -----------------------------------------------------------------------------------------------------


def health_of(checked: ResolvedTarget) -> None:
    async def use(provider: Provider) -> None:
        assert isinstance(provider, CheckedProvider)
        await provider.healthcheck()

    with_provider(checked, use)


def test_the_healthcheck_looks_for_the_tool() -> None:
    health_of(target(tool="say"))
    with pytest.raises(ProviderError) as raised:
        health_of(target(tool="sayy"))
    assert raised.value.failure.kind == "healthcheck"
    assert "the server has no tool 'sayy'" in raised.value.failure.message
    assert "Did you mean 'say'?" in raised.value.failure.message


# --- streamable HTTP --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    port = free_port()
    with running([sys.executable, str(SERVER), "http", str(port)], port):
        yield f"http://127.0.0.1:{port}/mcp"


def at(url: str, **settings: Any) -> ResolvedTarget:
    return make_target("mcp", McpSettings(url=url, **settings))


def test_a_server_at_a_url_answers(url: str) -> None:
    assert ask(at(url, tool="shout", arguments={"text": "{{ question }}"}), make_request("hello")).text == "HELLO"


def test_many_calls_share_the_connection_to_a_url(url: str) -> None:
    async def use(provider: Provider) -> list[str]:
        calls = [provider.invoke(question("shout", text=str(number))) for number in range(20)]
        return [answer.text for answer in await asyncio.gather(*calls)]

    assert with_provider(at(url), use) == [str(number) for number in range(20)]


def test_a_wrong_path_is_a_failure_with_the_status(url: str) -> None:
    failure = failure_of(at(f"{url}/elsewhere"), question("shout", text="a"))

    assert (failure.kind, failure.http_status) == ("bad_request", 404)


@pytest.mark.parametrize(
    ("status", "kind"),
    [("401 Unauthorized", "auth"), ("429 Too Many Requests", "rate_limited"), ("502 Bad Gateway", "server_error")],
)
def test_an_http_error_is_a_failure_with_status_and_text(status: str, kind: str) -> None:
    with serving(reply("not now", status=status)) as server:
        failure = failure_of(at(server.url), question("shout", text="a"))

    assert (failure.kind, str(failure.http_status)) == (kind, status[:3])
    assert failure.message == f"the server answered with HTTP status {status[:3]}: not now"


@pytest.mark.parametrize(("media_type", "body"), [("text/html", "<html>"), ("application/json", "{nope")])
def test_a_response_that_is_not_one_of_mcp_cannot_be_read(media_type: str, body: str) -> None:
    with serving(reply(body, headers={"Content-Type": media_type})) as server:
        failure = failure_of(at(server.url), question("shout", text="a"))

    assert failure.kind == "malformed_reply"
    assert failure.message.startswith("the server's response cannot be read: ")


def test_no_server_at_a_url_is_a_failure_of_transport() -> None:
    failure = failure_of(at(f"http://127.0.0.1:{free_port()}/mcp"), question("shout", text="a"))

    assert failure.kind == "transport"
    assert "no connection to 127.0.0.1:" in failure.message


# --- settings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "set either `command`"),
        ({"command": "a", "url": "http://h"}, "set either `command`"),
        ({"url": "h"}, "url must start with http"),
        ({"url": "http://[::1"}, "url is not a valid URL: Invalid IPv6 URL"),
        ({"url": "http://h", "args": ["a"]}, "args is for a server that `command` starts"),
        ({"command": "a", "headers": {"X": "1"}}, "headers are sent to a `url`"),
        ({"command": "a", "arguments": {}}, "arguments: set `tool`"),
        ({"command": "a", "list": "tools", "tool": "b"}, "list: with it no tool is called"),
        ({"command": "a", "tool": "b", "arguments": {"c": "{{ order }}"}}, "arguments has the unknown variable"),
        ({"command": "a", "tol": "b"}, "did you mean 'tool'"),
    ],
)
def test_wrong_settings_are_refused_with_a_sentence(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(EvalFileError, match=expected):
        read_settings(PROVIDERS.get("mcp"), settings, where="here")


def test_the_settings_import_nothing_of_the_sdk() -> None:
    program = "import sys, agentv.providers.protocols.mcp_provider; print({'mcp', 'httpx2'} & set(sys.modules))"

    done = subprocess.check_output([sys.executable, "-c", program], text=True, env=dict(os.environ))
    assert done == "set()\n"
