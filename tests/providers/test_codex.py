import json
from pathlib import Path

import pytest
from tests.support.agents import calls_of, codex_says, lines, recorded, stand_in
from tests.support.asking import ask, failure_of, make_request, make_target

from agentv.messages.transcripts.steps import Transcript
from agentv.providers.agents.codex import CodexSettings, codex_arguments, read_codex
from agentv.types.json_value import JsonObject
from agentv.types.provider import ProviderResponse
from agentv.types.usage import Usage

NOW = "2026-11-20T07:00:00.000Z"
FIXED = ["--ask-for-approval", "never", "exec", "--json", "--color", "never", "--skip-git-repo-check"]


def read(*events: JsonObject) -> ProviderResponse:
    return Transcript(step for event in events for step in read_codex(event, NOW)).response()


def test_a_recorded_run_is_read_whole(tmp_path: Path) -> None:
    agent = stand_in(tmp_path / "agent", recorded("codex"))

    response = ask(make_target("codex", CodexSettings(executable=agent.program)), home=tmp_path)

    assert response.text == "The amount is in notes.txt, and new.txt is written."
    assert calls_of(response.output_messages) == [
        (
            "command_execution",
            {"command": "/bin/bash -lc \"printf '20 euros\\\\n' > notes.txt && cat notes.txt\""},
            "20 euros\n",
        ),
        (
            "command_execution",
            {"command": "/bin/bash -lc 'cat missing.txt'"},
            {"error": "cat: missing.txt: No such file or directory\n", "exit_code": 1},
        ),
        ("file_change", {"changes": [{"path": "/example/workspace/new.txt", "kind": "add"}]}, "completed"),
    ]
    assert response.usage == Usage(input=400, output=40, cached_input=160, reasoning=16, total=440)
    assert response.session is not None
    assert f'"thread_id":"{response.session}"' in recorded("codex")
    assert response.exit_code == 0
    assert all(call.id and call.timestamp for message in response.output_messages or () for call in message.tool_calls)


def test_it_runs_as_ordered_in_a_fresh_workspace_with_the_prompt(tmp_path: Path) -> None:
    agent = stand_in(tmp_path / "agent", codex_says("Done."))
    settings = CodexSettings(executable=agent.program, args=("--model", "m"))

    ask(make_target("codex", settings), make_request("Review it.", input_files=("/repo/a.txt",)), home=tmp_path)

    assert agent.arguments == [*FIXED, "--model", "m", "-"]
    assert agent.files == ["prompt.md"]
    assert not agent.place.exists()
    assert agent.prompt.startswith("Read all input files:\n* [a.txt](file:///repo/a.txt)\n")
    assert agent.prompt.endswith("\n\n[[ ## user_query ## ]]\n\nReview it.")


def test_a_system_prompt_becomes_developer_instructions() -> None:
    request = make_request(system_prompt='Speak "Latin"\n\x7f é')

    arguments = codex_arguments(CodexSettings(args=("-m", "x")), request)

    assert list(arguments) == [*FIXED, "-c", r'developer_instructions="Speak \"Latin\"\n\u007f é"', "-m", "x", "-"]


@pytest.mark.parametrize(
    ("event", "answer"),
    [
        ({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}, "a"),
        ({"messages": [{"role": "assistant", "content": [{"type": "text", "text": "a"}]}]}, "a"),
        ({"response": {"content": "a"}}, "a"),
        ({"output": "a"}, "a"),
        ({"type": "item.completed", "item": {"type": "response", "text": "a"}}, "a"),
        ({"type": "item.completed", "item": {"type": "output", "content": [{"type": "text", "text": "a"}]}}, "a"),
        ({"type": "item.started", "item": {"type": "agent_message", "text": "a"}}, ""),
        ({"type": "item.completed", "item": {"type": "reasoning", "text": "a"}}, ""),
    ],
)
def test_answers_in_other_places_are_found(event: JsonObject, answer: str) -> None:
    assert read(event).text == answer


def test_the_last_message_is_the_answer_whatever_else_there_is() -> None:
    said: list[JsonObject] = [
        {"type": "item.completed", "item": {"type": "agent_message", "text": text}} for text in ("I look.", "a")
    ]

    assert read(*said, {"output": "b"}).text == "a"


@pytest.mark.parametrize("as_list", [True, False])
def test_one_document_instead_of_lines_is_read_too(tmp_path: Path, as_list: bool) -> None:
    document = [{"type": "other"}, {"output": "a"}] if as_list else {"output": "a"}
    agent = stand_in(tmp_path / "agent", json.dumps(document, indent=2))

    assert ask(make_target("codex", CodexSettings(executable=agent.program)), home=tmp_path).text == "a"


def test_tools_of_servers_and_searches_are_calls() -> None:
    mcp: JsonObject = {"id": "1", "type": "mcp_tool_call", "server": "shop", "tool": "find", "arguments": {"id": 7}}
    search: JsonObject = {"id": "2", "type": "web_search", "query": "refunds"}

    response = read(
        {"type": "item.started", "item": mcp},
        {"type": "item.completed", "item": {**mcp, "result": {"total": 20}}},
        {"type": "item.completed", "item": search},
        {"type": "item.completed", "item": {**mcp, "id": "3", "error": {"message": "no shop"}}},
    )

    assert calls_of(response.output_messages) == [
        ("mcp__shop__find", {"id": 7}, {"total": 20}),
        ("web_search", {"query": "refunds"}, None),
        ("mcp__shop__find", {"id": 7}, {"error": {"message": "no shop"}}),
    ]


REFUSED = lines(
    {"type": "error", "message": "Reconnecting... 1/5 (unexpected status 401 Unauthorized: No entry)"},
    {"type": "turn.failed", "error": {"message": "unexpected status 401 Unauthorized: No entry."}},
)


@pytest.mark.parametrize(
    ("status", "kind"), [(401, "auth"), (403, "auth"), (429, "rate_limited"), (503, "server_error")]
)
def test_an_api_error_is_classified_by_its_status(tmp_path: Path, status: int, kind: str) -> None:
    agent = stand_in(tmp_path / "agent", REFUSED.replace("401", str(status)), then="exit 1")

    failure = failure_of(make_target("codex", CodexSettings(executable=agent.program)), home=tmp_path)

    assert (failure.kind, failure.http_status) == (kind, status)
    assert failure.message.startswith(f"codex failed: unexpected status {status} Unauthorized: No entry; ")


@pytest.mark.parametrize("is_turn", [True, False])
def test_a_failure_without_a_status_is_the_agents_own(tmp_path: Path, is_turn: bool) -> None:
    error = {"message": "Missing environment variable: `LOCAL_KEY`."}
    events = lines({"type": "turn.failed", "error": error} if is_turn else {"type": "error", **error})
    agent = stand_in(tmp_path / "agent", events, then="exit 1")

    failure = failure_of(make_target("codex", CodexSettings(executable=agent.program)), home=tmp_path)

    assert failure.kind == "target_exit"
    assert failure.message.startswith("codex failed: Missing environment variable: `LOCAL_KEY`; log: ")


@pytest.mark.parametrize(
    ("message", "kind", "status", "shown"),
    [
        ('{"error": {"type": "invalid", "message": "No such tool."}}', "bad_request", 400, "No such tool"),
        ("We are currently experiencing high demand.", "server_error", None, "We are"),
        ("stream disconnected before completion: network error", "transport", None, "stream disconnected"),
        ("stream disconnected: Incomplete, reason: content_filter", "content_filter", None, "stream disconnected"),
    ],
)
def test_a_server_error_that_names_no_status_is_classified(
    tmp_path: Path, message: str, kind: str, status: int | None, shown: str
) -> None:
    events = lines({"type": "error", "message": message}, {"type": "turn.failed", "error": {"message": message}})
    agent = stand_in(tmp_path / "agent", events, then="exit 1")

    failure = failure_of(make_target("codex", CodexSettings(executable=agent.program)), home=tmp_path)

    assert (failure.kind, failure.http_status) == (kind, status)
    assert failure.message.startswith(f"codex failed: {shown}")


THREAD = "01a20989-86da-7423-9e0a-58de90950a4d"
SESSION = lines(
    {"type": "event_msg", "payload": {"type": "token_count", "info": {"total_token_usage": {"input_tokens": 1}}}},
    {
        "type": "event_msg",
        "payload": {
            "type": "token_count",
            "info": {"total_token_usage": {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 10}},
        },
    },
    {"type": "event_msg", "payload": {"type": "token_count", "info": None}},
)


def test_usage_of_a_turn_without_an_end_is_read_from_the_session_file(tmp_path: Path) -> None:
    started = lines({"type": "thread.started", "thread_id": THREAD})
    agent = stand_in(tmp_path / "agent", started + codex_says("I begin."))
    folder = tmp_path / "codex" / "sessions" / "2026" / "11" / "23"
    folder.mkdir(parents=True)
    (folder / f"rollout-2026-11-23T17-52-17-{THREAD}.jsonl").write_text(SESSION, "utf-8")
    settings = CodexSettings(executable=agent.program, env={"CODEX_HOME": str(tmp_path / "codex")})

    response = ask(make_target("codex", settings), home=tmp_path)

    assert response.usage == Usage(input=100, output=10, cached_input=40, total=110)


@pytest.mark.parametrize("thread", [THREAD, "../../*"])
def test_usage_is_unknown_without_a_session_file(tmp_path: Path, thread: str) -> None:
    started = lines({"type": "thread.started", "thread_id": thread})
    agent = stand_in(tmp_path / "agent", started + codex_says("I begin."))
    settings = CodexSettings(executable=agent.program, env={"HOME": str(tmp_path / "home")})

    assert ask(make_target("codex", settings), home=tmp_path).usage is None


def test_errors_on_the_way_are_forgotten_when_it_goes_on() -> None:
    events: tuple[JsonObject, ...] = (
        {"type": "turn.failed", "error": {"message": "no"}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "yes"}},
    )

    transcript = Transcript(step for event in events for step in read_codex(event, NOW))

    assert transcript.failed is None


def test_without_stream_logs_there_is_no_log(tmp_path: Path) -> None:
    agent = stand_in(tmp_path / "agent", codex_says("Done."))
    settings = CodexSettings(executable=agent.program, stream_logs=False)

    assert ask(make_target("codex", settings), home=tmp_path).log_paths == ()
    assert not (tmp_path / "logs").exists()


def test_a_call_took_the_time_from_its_start_to_its_end() -> None:
    item: JsonObject = {"id": "1", "type": "command_execution", "command": "ls"}
    started: JsonObject = {"type": "item.started", "item": item}
    ended: JsonObject = {"type": "item.completed", "item": {**item, "aggregated_output": "a", "exit_code": 0}}
    alone: JsonObject = {"type": "item.completed", "item": {**item, "id": "2", "aggregated_output": "a"}}
    later = "2026-11-20T07:00:01.250Z"
    steps = [*read_codex(started, NOW), *read_codex(ended, later), *read_codex(alone, later)]
    (message, *more) = Transcript(steps).response().output_messages or ()
    calls = [call for each in (message, *more) for call in each.tool_calls]
    assert [call.duration_ms for call in calls] == [1250.0, None]
