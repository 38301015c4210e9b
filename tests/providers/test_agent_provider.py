"""The behaviour shared by all coding agents: lookup, working folder, stored output, failures."""

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.agents import codex_says, lines, stand_in
from tests.support.asking import ask, failure_of, make_request, make_target, with_provider
from tests.support.hostile import Family, hostile

from agentv.messages.transcripts.copilot import read_copilot
from agentv.messages.transcripts.steps import Transcript
from agentv.providers.agents.base import ReadEvent
from agentv.providers.agents.claude import read_claude
from agentv.providers.agents.codex import CodexSettings, read_codex, read_token_counts
from agentv.providers.agents.copilot import read_usage
from agentv.providers.agents.pi import read_pi
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject
from agentv.types.provider import CheckedProvider, Provider, ProviderError
from agentv.types.targets import ResolvedTarget


def target_of(folder: Path, prints: str = "", then: str = "exit 0", **settings: object) -> ResolvedTarget:
    program = stand_in(folder / "agent", prints, then).program
    made = CodexSettings(**{"executable": program, **settings})  # type: ignore[arg-type] # a test's own
    return make_target("codex", made, base_dir=folder)


def check(target: ResolvedTarget) -> Failure | None:
    async def use(provider: Provider) -> Failure | None:
        assert isinstance(provider, CheckedProvider)
        try:
            await provider.healthcheck()
        except ProviderError as error:
            return error.failure
        return None

    return with_provider(target, use)


def test_an_installed_agent_is_found_by_name_in_the_path_of_its_target(tmp_path: Path) -> None:
    program = Path(stand_in(tmp_path / "bin", codex_says("Here.")).program)
    program.rename(program.parent / "codex")
    target = make_target("codex", CodexSettings(env={"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}))

    assert check(target) is None
    assert ask(target, home=tmp_path).text == "Here."


def test_a_program_is_found_by_a_path_that_starts_at_the_targets_file(tmp_path: Path) -> None:
    target = target_of(tmp_path, codex_says("Here."), executable="agent/agent")

    assert check(target) is None
    assert ask(target, home=tmp_path).text == "Here."


def test_a_program_not_in_path_is_reported_with_all_places(tmp_path: Path) -> None:
    settings = CodexSettings(executable="codex-nightly", env={"PATH": f"{tmp_path}/a:{tmp_path}/b"})

    failure = check(make_target("codex", settings))

    assert failure is not None
    assert (failure.kind, failure.stage) == ("target_missing", "healthcheck")
    assert failure.message == (
        f"'codex-nightly' is not in PATH ({tmp_path}/a, {tmp_path}/b); "
        "install it with `npm install -g @openai/codex`, or set `executable` to its path"
    )


@pytest.mark.parametrize(("name", "problem"), [("gone", "does not exist"), ("text", "is not executable")])
def test_a_path_that_is_not_executable_is_reported(tmp_path: Path, name: str, problem: str) -> None:
    (tmp_path / "text").write_text("hello")

    failure = check(target_of(tmp_path, executable=f"./{name}"))

    assert failure is not None
    assert failure.message.startswith(f"{tmp_path / name} {problem}; ")


@pytest.mark.parametrize(
    ("cwd", "workspace", "expected"), [("sub", None, "evals/sub"), ("sub", "work", "work"), (None, "work", "work")]
)
def test_it_works_in_the_workspace_else_in_its_cwd(
    tmp_path: Path, cwd: str | None, workspace: str | None, expected: str
) -> None:
    (tmp_path / "evals" / "sub").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    given_place = None if workspace is None else str(tmp_path / workspace)
    target = target_of(tmp_path, codex_says("Done."), cwd=cwd)

    ask(target, make_request(eval_dir=str(tmp_path / "evals"), workspace=given_place), home=tmp_path)

    assert (tmp_path / "agent" / "place").read_text().strip() == str(tmp_path / expected)
    assert (tmp_path / "agent" / "files").read_text() == ""


def test_a_fresh_workspace_is_removed_whatever_the_agent_left_there(tmp_path: Path) -> None:
    then = "mkdir -p deep/er; touch deep/er/file; chmod 500 deep/er; exit 3"
    agent = stand_in(tmp_path / "agent", then=then)

    failure_of(make_target("codex", CodexSettings(executable=agent.program)), home=tmp_path)

    assert not agent.place.exists()
    assert not agent.place.parent.exists()


def test_a_failure_brings_exit_code_output_errors_and_log(tmp_path: Path) -> None:
    target = target_of(tmp_path, codex_says("I begin."), then="echo no disk >&2; exit 7")

    failure = failure_of(target, home=tmp_path)

    assert failure.kind == "target_exit"
    assert failure.details is not None
    logs = failure.details["log_paths"]
    assert isinstance(logs, list)
    (log,) = logs
    assert failure.message == (f"the command failed with exit code 7; standard error ends with:\nno disk; log: {log}")
    assert failure.details["exit_code"] == 7
    assert failure.details["stderr"] == "no disk"
    assert "I begin." in str(failure.details["stdout"])
    lines = Path(str(log)).read_text().splitlines()
    assert [line[9:] for line in lines][::2] == ["says     I begin.", "errors   no disk"]
    assert lines[1][9:].startswith("ends     exit code 7 after ")


def test_an_agent_that_hangs_is_ended_with_all_it_started(tmp_path: Path, family: Family) -> None:
    program = tmp_path / "hang"
    program.write_text(f"#!/bin/sh\nexec {' '.join(hostile('hang-with-family'))}\n")
    program.chmod(0o700)
    target = make_target("codex", CodexSettings(executable=str(program), env=family.env))

    failure = failure_of(target, make_request(timeout_s=1), home=tmp_path)

    assert (failure.kind, failure.retryable) == ("target_timeout", True)
    assert failure.message.startswith("no answer within 1 s; codex and all its child processes were ended; log: ")
    assert family.alive() == []


def test_an_agent_that_prints_without_end_is_ended(tmp_path: Path, family: Family) -> None:
    program = tmp_path / "flood"
    program.write_text(f"#!/bin/sh\nexec {' '.join(hostile('flood'))}\n")
    program.chmod(0o700)
    target = make_target("codex", CodexSettings(executable=str(program), env=family.env))

    failure = failure_of(target, home=tmp_path)

    assert failure.kind == "too_large"
    assert failure.message.startswith("codex printed more than 32 MiB of events; the answer was discarded")
    assert family.alive() == []
    assert sum(path.stat().st_size for path in (tmp_path / "logs").rglob("*.log")) < 10_000


@pytest.mark.parametrize("prints", ["", "hello\n", "{}\n", "[1, 2]\n", "null\n", '{"type": "turn.completed"}\n'])
def test_output_without_an_answer_is_malformed(tmp_path: Path, prints: str) -> None:
    failure = failure_of(target_of(tmp_path, prints), home=tmp_path)

    assert failure.kind == "malformed_reply"
    assert failure.message.startswith("codex succeeded, but its output contains no answer; log: ")


def test_an_agent_that_acted_and_said_nothing_has_answered(tmp_path: Path) -> None:
    item = {"id": "1", "type": "command_execution", "command": "make", "aggregated_output": "", "exit_code": 0}

    response = ask(target_of(tmp_path, lines({"type": "item.completed", "item": item})), home=tmp_path)

    assert response.text == ""
    assert response.output_messages is not None


def test_arguments_over_the_systems_limit_are_reported(tmp_path: Path) -> None:
    failure = failure_of(target_of(tmp_path, codex_says("x")), make_request(system_prompt="x" * 300_000), home=tmp_path)

    assert failure.kind == "bad_request"
    assert "too long for this system; shorten `args` or `system_prompt`" in failure.message


def test_a_prompt_of_any_length_and_any_letters_arrives(tmp_path: Path) -> None:
    request = make_request("é\n" + "x" * 300_000 + "\ud800")

    ask(target_of(tmp_path, codex_says("x")), request, home=tmp_path)

    assert (tmp_path / "agent" / "prompt").read_text() == f"[[ ## user_query ## ]]\n\né\n{'x' * 300_000}?"


def test_the_request_is_kept(tmp_path: Path) -> None:
    response = ask(target_of(tmp_path, codex_says("x"), args=("-m", "y")), make_request("Why?"), home=tmp_path)

    assert response.request is not None
    assert response.request["argv"][0] == str(tmp_path / "agent" / "agent")  # type: ignore[index] # JSON: a list
    assert response.request["argv"][-3:] == ["-m", "y", "-"]  # type: ignore[index] # JSON: a list
    assert response.request["prompt"] == "[[ ## user_query ## ]]\n\nWhy?"


# --- logs --------------------------------------------------------------------------------------------------------


def test_only_its_owner_can_read_a_log(tmp_path: Path) -> None:
    (path,) = ask(target_of(tmp_path, codex_says("x")), make_request(eval_case_id="a/../b c"), home=tmp_path).log_paths

    log = Path(path)
    assert log.parent == tmp_path / "logs" / "codex"
    assert "-a-..-b-c-" in log.name
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700


def test_logs_go_where_the_target_says_in_the_form_it_says(tmp_path: Path) -> None:
    said = codex_says("One.", "Two.")

    (path,) = ask(target_of(tmp_path, said, log_dir="mine", log_format="json"), home=tmp_path).log_paths

    assert Path(path).parent == tmp_path / "mine"
    assert Path(path).suffix == ".jsonl"
    assert Path(path).read_text() == said


def test_a_log_that_cannot_be_written_costs_no_answer(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    response = ask(target_of(tmp_path, codex_says("Done."), log_dir="file/logs"), home=tmp_path)

    assert (response.text, response.log_paths) == ("Done.", ())
    assert response.notes == (f"no log can be written to {tmp_path}/file/logs: Not a directory",)


def test_secrets_are_redacted_from_answers_logs_and_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", 'tok-é"0123456789')
    monkeypatch.setenv("SHOP_NAME", "corner shop")
    said = codex_says('tok-é"0123456789 of corner shop')

    answered = ask(target_of(tmp_path, said), home=tmp_path)
    failure = failure_of(target_of(tmp_path, said, then='echo "$SHOP_TOKEN" >&2; exit 1'), home=tmp_path)

    assert answered.text == "*** of corner shop"
    assert "0123456789" not in str(failure)
    assert [path for path in (tmp_path / "logs").rglob("*.log") if "0123456789" in path.read_text()] == []


# --- events ------------------------------------------------------------------------------------------------------

READERS: dict[str, ReadEvent] = {"codex": read_codex, "claude": read_claude, "pi": read_pi, "copilot": read_copilot}
WORDS_OF_EVENTS = """
type subtype item id text content message role assistant usage error data result output messages response status errors
item.completed item.started turn.completed turn.failed agent_message command_execution file_change mcp_tool_call
web_search user tool_use tool_result message_end tool_execution_start tool_execution_end session session.error is_error
assistant.message tool.execution_start tool.execution_complete toolRequests modelMetrics timestamp permission_denials
total_cost_usd cost total name input toolCallId stopReason errorMessage api_error_status
"""
WORDS = st.sampled_from(WORDS_OF_EVENTS.split())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=6),
    max_leaves=20,
)
EVENTS = st.dictionaries(WORDS, JSON, max_size=8)


@pytest.mark.parametrize("agent", READERS)
@given(events=st.lists(EVENTS, max_size=6))
def test_no_event_whatever_it_holds_breaks_a_reader(agent: str, events: list[JsonObject]) -> None:
    transcript = Transcript(step for event in events for step in READERS[agent](event, "now"))

    assert isinstance(transcript.response().text, str)
    for message in transcript.response().output_messages or ():
        assert all(isinstance(call.tool, str) for call in message.tool_calls)


@given(written=st.lists(EVENTS, max_size=3))
def test_no_session_file_of_codex_breaks_its_reader(written: list[JsonObject]) -> None:
    assert len(list(read_token_counts([json.dumps(line) for line in written]))) <= 1


@given(written=EVENTS)
def test_no_account_of_usage_breaks_its_reader(written: JsonObject) -> None:
    assert len(list(read_usage(written))) <= 1
