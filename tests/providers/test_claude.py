from pathlib import Path

import pytest
from tests.support.agents import calls_of, lines, recorded, stand_in
from tests.support.asking import ask, failure_of, make_request, make_target

from agentv.messages.transcripts.steps import Transcript
from agentv.providers.agents.claude import ClaudeSettings, claude_arguments, read_claude
from agentv.types.json_value import JsonObject
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage

NOW = "2026-11-20T07:00:00.000Z"
FIXED = ["-p", "--output-format", "stream-json", "--verbose"]


def target_of(folder: Path, prints: str, then: str = "exit 0") -> ResolvedTarget:
    return make_target("claude", ClaudeSettings(executable=stand_in(folder / "agent", prints, then).program))


def transcript_of(*events: JsonObject) -> Transcript:
    return Transcript(step for event in events for step in read_claude(event, NOW))


def test_a_recorded_run_is_read_whole(tmp_path: Path) -> None:
    response = ask(target_of(tmp_path, recorded("claude")), home=tmp_path)

    assert response.text == "The amount is in notes.txt, and new.txt is written."
    note = {"command": "printf '20 euros\\n' > notes.txt && cat notes.txt", "description": "Look"}
    written = "File created successfully at: /example/workspace/new.txt"
    calls = calls_of(response.output_messages)
    assert calls[:2] == [
        ("Bash", note, "20 euros"),
        (
            "Bash",
            {"command": "cat missing.txt", "description": "Look"},
            {"error": "Exit code 1\ncat: missing.txt: No such file or directory"},
        ),
    ]
    assert calls[2][:2] == ("Write", {"file_path": "/example/workspace/new.txt", "content": "new\n"})
    assert str(calls[2][2]).startswith(written)
    assert response.usage == Usage(input=500, output=50, cached_input=200, total=550, requests=4)
    assert response.cost_usd is not None
    assert 0 < response.cost_usd < 0.1
    assert (response.finish_reason, response.exit_code) == ("end_turn", 0)
    assert response.model
    assert response.model.startswith("claude-")
    assert f'"session_id":"{response.session}"' in recorded("claude")
    messages = response.output_messages or ()
    assert all(call.timestamp and call.timestamp < "2027" for message in messages for call in message.tool_calls)


def test_its_arguments_are_the_ordered_ones_and_what_the_settings_say() -> None:
    settings = ClaudeSettings(model="opus", max_turns=3, args=("--permission-mode", "acceptEdits"))

    assert list(claude_arguments(ClaudeSettings(), make_request())) == FIXED
    assert list(claude_arguments(settings, make_request(system_prompt="Be kind."))) == [
        *FIXED,
        *("--model", "opus", "--max-turns", "3", "--append-system-prompt", "Be kind."),
        *("--permission-mode", "acceptEdits"),
    ]


def test_it_may_read_the_named_files_and_no_others() -> None:
    request = make_request(guideline_files=("/repo/g.md",), input_files=("/repo/a b.txt", "/repo/g.md"))

    added = list(claude_arguments(ClaudeSettings(), request))[len(FIXED) :]

    assert added == ["--allowedTools=Read(//repo/g.md)", "--allowedTools=Read(//repo/a b.txt)"]


def test_the_prompt_comes_on_standard_input(tmp_path: Path) -> None:
    agent = stand_in(tmp_path / "agent", recorded("claude"))

    ask(make_target("claude", ClaudeSettings(executable=agent.program)), make_request("Why?"), home=tmp_path)

    assert agent.prompt == "[[ ## user_query ## ]]\n\nWhy?"
    assert agent.files == []


def said(text: str, parent: str | None = None) -> JsonObject:
    block = {"type": "text", "text": text}
    return {"type": "assistant", "message": {"content": [block]}, "parent_tool_use_id": parent}


RESULT: JsonObject = {"type": "result", "subtype": "success", "is_error": False, "result": "The answer."}


def test_the_result_is_the_answer_and_the_last_word_when_it_has_none() -> None:
    assert transcript_of(said("I look."), RESULT).answer == "The answer."
    assert transcript_of(said("I look."), {**RESULT, "result": ""}).answer == "I look."


def test_what_a_subagent_says_is_kept_apart() -> None:
    transcript = transcript_of(said("I look."), said("Found it.", parent="toolu_1"))

    assert transcript.answer == "I look."
    assert [message.metadata for message in transcript.response().output_messages or ()] == [
        None,
        {"parent_tool_call": "toolu_1"},
    ]


def test_calls_made_at_once_stand_in_one_message() -> None:
    calls: list[JsonObject] = [{"type": "tool_use", "id": name, "name": name, "input": {}} for name in ("a", "b")]
    results = [{"type": "tool_result", "tool_use_id": name, "content": name.upper()} for name in ("a", "b")]

    response = transcript_of(
        {"type": "assistant", "message": {"content": [{"type": "text", "text": "Both."}, *calls]}},
        {"type": "user", "message": {"content": results}},
        {"type": "assistant", "message": {"content": [{**calls[0], "id": "c"}]}},
    ).response()

    assert [[call.output for call in message.tool_calls] for message in response.output_messages or ()] == [
        ["A", "B"],
        [None],
    ]


@pytest.mark.parametrize(
    ("prints", "kind", "status", "message"),
    [
        (
            lines(
                {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 10, "error_status": 500},
                {**RESULT, "is_error": True, "api_error_status": 500, "result": "API Error: 500 down"},
            ),
            "server_error",
            500,
            "claude failed: API Error: 500 down",
        ),
        (
            lines(
                {**said("Not logged in"), "error": "authentication_failed", "is_api_error_message": True},
                {**RESULT, "is_error": True, "result": "Not logged in"},
            ),
            "auth",
            None,
            "claude failed: Not logged in; check its API key or login",
        ),
        (
            lines({**RESULT, "is_error": True, "stop_reason": "refusal", "result": "API Error: flagged"}),
            "content_filter",
            None,
            "claude failed: API Error: flagged",
        ),
        (
            lines({"type": "result", "subtype": "error_max_turns", "is_error": True, "errors": ["Reached 1 turn"]}),
            "target_exit",
            None,
            "claude failed: Reached 1 turn",
        ),
    ],
)
def test_failures_hold_the_messages_of_the_agent(
    tmp_path: Path, prints: str, kind: str, status: int | None, message: str
) -> None:
    failure = failure_of(target_of(tmp_path, prints, "exit 1"), home=tmp_path)

    assert (failure.kind, failure.http_status) == (kind, status)
    assert failure.message.partition("; log: ")[0] == message


@pytest.mark.parametrize("mark", [{"is_api_error_message": True}, {"error": "unknown"}])
def test_an_error_written_as_a_message_is_not_the_agents_word(mark: JsonObject) -> None:
    transcript = transcript_of(said("Hi."), {**said("API Error"), **mark})

    assert transcript.answer == "Hi."
    assert transcript.failed is not None


def test_the_tokens_of_subagents_and_of_all_results_are_counted() -> None:
    models = {"big": {"inputTokens": 60, "outputTokens": 7, "cacheReadInputTokens": 40}, "small": {"inputTokens": 5}}
    calls: list[JsonObject] = [
        {"type": "assistant", "message": {"id": str(number), "usage": {"input_tokens": 30}}} for number in range(3)
    ]
    last_turn: JsonObject = {**RESULT, "num_turns": 1, "usage": {"input_tokens": 30}, "modelUsage": models}

    response = transcript_of(*calls, {**last_turn, "num_turns": 2}, last_turn).response()

    assert response.usage == Usage(input=105, output=7, cached_input=40, total=112, requests=3)
    assert not response.estimated


def test_denied_tools_are_noted() -> None:
    denials = [{"tool_name": name} for name in ("Bash", "Write", "Bash")]

    (note,) = transcript_of({**RESULT, "permission_denials": denials}).response().notes

    assert note == (
        "claude was not permitted to use Bash, Write; "
        "permit tools in the setting `args`, such as [--permission-mode, acceptEdits]"
    )


def test_a_limit_that_leaves_no_turn_is_refused() -> None:
    with pytest.raises(ValueError, match="max_turns must be at least 1"):
        ClaudeSettings(max_turns=0)
