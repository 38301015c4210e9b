import json
from pathlib import Path

from tests.support.agents import calls_of, lines, recorded, stand_in
from tests.support.asking import ask, failure_of, make_request, make_target

from agentv.messages.transcripts.copilot import read_copilot
from agentv.messages.transcripts.steps import Transcript
from agentv.providers.agents.copilot import CopilotSettings, copilot_arguments, copilot_prompt, read_usage
from agentv.types.json_value import JsonObject
from agentv.types.usage import Usage

NOW = "2026-11-20T07:00:00.000Z"
FIXED = ["--output-format", "json", "--allow-all-tools", "--no-ask-user", "--no-color", "--no-auto-update"]
USAGE: JsonObject = {
    "totalUserRequests": 1,
    "modelMetrics": {
        "m": {
            "requests": {"count": 3, "cost": 0},
            "usage": {"inputTokens": 300, "outputTokens": 30, "cacheReadTokens": 120, "reasoningTokens": 12},
        },
        "small": {"requests": {"count": 1}, "usage": {"inputTokens": 5, "outputTokens": 1}},
    },
}


def test_a_recorded_run_is_read_whole(tmp_path: Path) -> None:
    write_usage = f"""while [ "$1" != --usage-output-file ]; do shift; done; echo '{json.dumps(USAGE)}' > "$2" """
    agent = stand_in(tmp_path / "agent", recorded("copilot"), then=write_usage)

    response = ask(make_target("copilot", CopilotSettings(executable=agent.program)), home=tmp_path)

    assert response.text == "The amount is in notes.txt, and new.txt is written."
    assert calls_of(response.output_messages) == [
        (
            "bash",
            {"command": "printf '20 euros\\n' > notes.txt && cat notes.txt", "description": "Look"},
            "20 euros\n<shellId: 0 completed with exit code 0>",
        ),
        (
            "bash",
            {"command": "cat missing.txt", "description": "Look"},
            {
                "error": "cat: missing.txt: No such file or directory\n<shellId: 1 completed with exit code 1>",
                "exit_code": 1,
            },
        ),
        (
            "create",
            {"path": "/example/workspace/new.txt", "file_text": "new\n"},
            "Created file /example/workspace/new.txt with 4 characters",
        ),
    ]
    assert response.usage == Usage(305, 31, cached_input=120, reasoning=12, total=336, requests=4)
    assert response.model == "fake-model"
    assert f'"sessionId":"{response.session}"' in recorded("copilot")
    log = Path(response.log_paths[0]).read_text()
    assert "background_tasks_changed" not in log
    assert 'calls    bash {"command":"cat missing.txt","description":"Look"}' in log


def test_without_its_account_of_usage_none_is_known(tmp_path: Path) -> None:
    agent = stand_in(tmp_path / "agent", recorded("copilot"))

    assert ask(make_target("copilot", CopilotSettings(executable=agent.program)), home=tmp_path).usage is None
    assert list(read_usage({"modelMetrics": {}})) == []


def test_its_arguments_are_those_of_its_non_interactive_mode(tmp_path: Path) -> None:
    settings = CopilotSettings(model="m", args=("--deny-tool", "write"))
    request = make_request(guideline_files=("/repo/g.md",), input_files=("/repo/a.txt", "/other/b.txt"))

    usage = ["--usage-output-file", str(tmp_path / "usage.json")]
    assert list(copilot_arguments(CopilotSettings(), make_request(), tmp_path)) == [*FIXED, *usage]
    assert list(copilot_arguments(settings, request, tmp_path)) == [
        *FIXED,
        *usage,
        *("--model", "m", "--add-dir", "/repo", "--add-dir", "/other", "--deny-tool", "write"),
    ]


def test_a_system_prompt_stands_in_front_of_the_question() -> None:
    prompt = copilot_prompt(make_request("Why?", system_prompt="Be kind.", input_files=("/repo/a.txt",)))

    assert prompt.startswith("Read all input files:\n* [a.txt](file:///repo/a.txt)\n")
    assert prompt.endswith("[[ ## instructions ## ]]\n\nBe kind.\n\n[[ ## user_query ## ]]\n\nWhy?")


def test_a_refused_key_is_an_auth_failure(tmp_path: Path) -> None:
    error = {"errorType": "authentication", "message": "Authentication failed (HTTP 401).", "statusCode": 401}
    events = lines({"type": "session.error", "data": error}, {"type": "result", "exitCode": 1})
    agent = stand_in(tmp_path / "agent", events, then="exit 1")

    failure = failure_of(make_target("copilot", CopilotSettings(executable=agent.program)), home=tmp_path)

    assert (failure.kind, failure.http_status) == ("auth", 401)
    assert failure.message.startswith("copilot failed: Authentication failed (HTTP 401); check its API key")


def test_a_tool_that_failed_returns_its_error() -> None:
    data = {"toolCallId": "1", "toolName": "bash"}
    events: list[JsonObject] = [
        {"type": "tool.execution_start", "data": data},
        {"type": "tool.execution_complete", "data": {**data, "success": False, "error": {"message": "denied"}}},
    ]

    response = Transcript(step for event in events for step in read_copilot(event, NOW)).response()

    assert calls_of(response.output_messages) == [("bash", None, {"error": "denied"})]
