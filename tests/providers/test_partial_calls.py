"""What a program said, called and used before it failed, as real processes: a hang, a crash, a kill, a cancellation."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.support.agents import calls_of, codex_says, lines, recorded, stand_in
from tests.support.asking import make_request, make_target, with_provider

from agentv.execution.cancelled_calls import attached_partial
from agentv.providers.agents.claude import ClaudeSettings
from agentv.providers.agents.codex import CodexSettings
from agentv.providers.agents.copilot import CopilotSettings
from agentv.providers.agents.pi import PiSettings
from agentv.providers.local.cli_settings import CliSettings
from agentv.types.provider import Provider, ProviderError, ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage

FOREVER = "exec tail -f /dev/null"
ENDS = {
    "a hang": (FOREVER, "target_timeout"),
    "a crash": ("exit 7", "target_exit"),
    "a kill": ("kill -9 $$", "target_exit"),
}

SETTINGS: dict[str, Callable[[str], object]] = {
    "codex": lambda program: CodexSettings(executable=program),
    "claude": lambda program: ClaudeSettings(executable=program),
    "pi": lambda program: PiSettings(executable=program),
    "copilot": lambda program: CopilotSettings(executable=program),
}
"""The settings of an agent that is this program."""

USED = {
    "codex": (None, None, False),
    "claude": (Usage(input=200, output=33, cached_input=80, total=233, requests=2), None, True),
    "pi": (Usage(input=200, output=20, cached_input=80, total=220, requests=2), 0.0002, False),
    "copilot": (None, None, False),
}
"""What half of an agent's recorded stream says of its usage: tokens, dollars, and whether they are estimated."""


def half_of(agent: str) -> str:
    """Return the first half of what the real agent printed, cut within a line."""
    whole = recorded(agent).splitlines(keepends=True)
    middle = len(whole) // 2
    return "".join(whole[:middle]) + whole[middle][:20]


def partial_of(
    target: ResolvedTarget, request: ProviderRequest | None = None, *, home: Path
) -> tuple[str, ProviderResponse | None]:
    """Return the kind of a target's failure, and what it said before."""

    async def use(provider: Provider) -> tuple[str, ProviderResponse | None]:
        with pytest.raises(ProviderError) as raised:
            await provider.invoke(request or make_request(timeout_s=3))
        return raised.value.failure.kind, raised.value.partial

    return with_provider(target, use, home=home)


def cancelled_when(
    target: ResolvedTarget, ready: Callable[[], Awaitable[object]], *, home: Path
) -> ProviderResponse | None:
    """Cancel a call once `ready` has returned, and return what the cancellation carries."""

    async def use(provider: Provider) -> ProviderResponse | None:
        call = asyncio.create_task(provider.invoke(make_request(timeout_s=60)))
        await ready()
        call.cancel()
        try:
            await call
        except asyncio.CancelledError as error:
            return attached_partial(error)
        raise AssertionError("the call was not cancelled")

    return with_provider(target, use, home=home)


async def opened(fifo: Path) -> None:
    """Return when a program has opened a named pipe to write."""
    await asyncio.to_thread(fifo.read_bytes)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("agent", SETTINGS)
def test_an_agent_that_fails_keeps_what_it_said_called_and_used(tmp_path: Path, agent: str, end: str) -> None:
    then, kind = ENDS[end]
    program = stand_in(tmp_path / "agent", half_of(agent), then).program

    failed, partial = partial_of(make_target(agent, SETTINGS[agent](program), base_dir=tmp_path), home=tmp_path)

    assert failed == kind
    assert partial is not None
    first, *_ = calls_of(partial.output_messages)
    assert first[0].lower() in ("command_execution", "bash")
    assert "20 euros" in str(first[2])
    assert (partial.usage, partial.cost_usd, partial.estimated) == (
        USED[agent][0],
        None if USED[agent][1] is None else pytest.approx(USED[agent][1]),
        USED[agent][2],
    )
    (log,) = partial.log_paths
    assert Path(log).exists()
    assert partial.request is not None
    assert partial.exit_code == {"a hang": None, "a crash": 7, "a kill": -9}[end]


def test_an_agent_that_is_cancelled_keeps_what_it_said(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ready")
    program = stand_in(tmp_path / "agent", codex_says("I begin."), f"echo > {tmp_path}/ready\n{FOREVER}").program
    target = make_target("codex", CodexSettings(executable=program), base_dir=tmp_path)

    partial = cancelled_when(target, lambda: opened(tmp_path / "ready"), home=tmp_path)

    assert partial is not None
    assert partial.text == "I begin."


def test_a_command_that_fails_for_a_case_called_batch_has_a_partial(tmp_path: Path) -> None:
    target = make_target("cli", CliSettings(command_template="echo I begin.; exit 1"))
    _, partial = partial_of(target, make_request(eval_case_id="batch"), home=tmp_path)
    assert partial is not None
    assert partial.text == "I begin."


def test_an_agent_that_said_nothing_has_no_partial(tmp_path: Path) -> None:
    program = stand_in(tmp_path / "agent", "", "exit 7").program

    failed = partial_of(make_target("codex", CodexSettings(executable=program), base_dir=tmp_path), home=tmp_path)

    assert failed == ("target_exit", None)


def test_a_failure_that_an_agent_reports_keeps_its_transcript(tmp_path: Path) -> None:
    prints = codex_says("I begin.") + lines({"type": "turn.failed", "error": {"message": "status 500"}})
    program = stand_in(tmp_path / "agent", prints, "exit 1").program

    kind, partial = partial_of(make_target("codex", CodexSettings(executable=program)), home=tmp_path)

    assert (kind, partial and partial.text) == ("server_error", "I begin.")


def test_secrets_are_redacted_from_what_an_agent_said_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "tok-0123456789")
    program = stand_in(tmp_path / "agent", codex_says("It is tok-0123456789."), "exit 1").program

    _, partial = partial_of(make_target("codex", CodexSettings(executable=program)), home=tmp_path)

    assert partial is not None
    assert partial.text == "It is ***."


# --- commands ----------------------------------------------------------------------------------------------------


def command_target(folder: Path, script: str, arguments: str = "", **settings: object) -> ResolvedTarget:
    (folder / "agent.sh").write_text(script)
    made = CliSettings(command_template=f"sh {folder}/agent.sh {arguments}", **settings)  # type: ignore[arg-type]
    return make_target("cli", made, base_dir=folder)


@pytest.mark.parametrize("end", ENDS)
def test_a_command_that_fails_keeps_what_it_printed(tmp_path: Path, end: str) -> None:
    then, kind = ENDS[end]
    failed, partial = partial_of(command_target(tmp_path, f"echo I begin.\n{then}\n"), home=tmp_path)

    assert failed == kind
    assert partial is not None
    assert partial.text == "I begin."


@pytest.mark.parametrize("end", ENDS)
def test_a_command_that_fails_keeps_its_output_file_with_calls_and_usage(tmp_path: Path, end: str) -> None:
    then, kind = ENDS[end]
    message = {"role": "assistant", "content": "Half.", "tool_calls": [{"tool": "search", "input": {"q": "x"}}]}
    written = json.dumps({"output_messages": [message], "usage": {"input": 12, "output": 3}, "cost_usd": 0.25})
    script = f"echo noise\ncat > $1 <<'END'\n{written}\nEND\n{then}\n"

    failed, partial = partial_of(command_target(tmp_path, script, "{OUTPUT_FILE}"), home=tmp_path)

    assert failed == kind
    assert partial is not None
    assert (partial.text, calls_of(partial.output_messages)) == ("Half.", [("search", {"q": "x"}, None)])
    assert (partial.usage, partial.cost_usd) == (Usage(input=12, output=3, total=15), 0.25)


def test_an_output_file_that_was_cut_is_kept_as_text(tmp_path: Path) -> None:
    script = """printf '{"output_messages": [{"role": "assis' > $1; exit 3"""

    _, partial = partial_of(command_target(tmp_path, script, "{OUTPUT_FILE}"), home=tmp_path)

    assert partial is not None
    assert partial.text == '{"output_messages": [{"role": "assis'


def test_without_an_output_file_a_failed_command_keeps_what_it_printed(tmp_path: Path) -> None:
    _, partial = partial_of(command_target(tmp_path, "echo early; exit 3", "{OUTPUT_FILE}"), home=tmp_path)

    assert partial is not None
    assert partial.text == "early"


def test_a_command_that_printed_nothing_has_no_partial(tmp_path: Path) -> None:
    assert partial_of(command_target(tmp_path, "exit 3"), home=tmp_path) == ("target_exit", None)


def test_a_command_that_is_cancelled_keeps_what_it_printed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ready")
    target = command_target(tmp_path, f"echo I begin.\necho > {tmp_path}/ready\n{FOREVER}\n")

    partial = cancelled_when(target, lambda: opened(tmp_path / "ready"), home=tmp_path)

    assert partial is not None
    assert partial.text == "I begin."
