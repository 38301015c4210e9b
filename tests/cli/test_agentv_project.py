"""A project of AgentV 4: its targets and configuration are checked, and each target that works offline answers."""

import shutil
from pathlib import Path

import pytest
from tests.support.fake_server import serving_fake

from agentv.cli.main import agentv
from agentv.types.errors import ConfigError

PROJECT = Path(__file__).parents[1] / "fixtures" / "agentv" / "targets"


@pytest.fixture(autouse=True)
def _in_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(PROJECT, tmp_path / "project")
    (tmp_path / "project" / ".git").mkdir()
    monkeypatch.chdir(tmp_path / "project")


def test_the_project_is_accepted_with_what_is_lost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_TARGET", "shell")

    code = agentv.main(["check"], standalone_mode=False)

    out = capsys.readouterr().out
    assert code == 0
    found = sorted(line.split("warning: ", 1)[1] for line in out.splitlines() if "warning: " in line)
    assert [line.split(";")[0] for line in found] == [
        "AgentV 4 calls claude-sdk as a library",
        "AgentV 4 calls copilot-sdk as a library",
        "AgentV's `max_budget_usd` for one agent has no counterpart here",
        "AgentV's `subagent_mode_allowed` has no counterpart here",
        "the provider 'bedrock' of AgentV 4 is not supported",
        "the variable CODEX_DIR is not set",
        "the variable OPENAI_API_KEY is not set, and target 'grader' needs it for 'api_key'",
    ]
    assert "1 file checked: 7 warnings" in out


def test_an_unset_variable_of_use_target_is_a_warning_of_check_and_an_error_of_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = "the variable AGENT_TARGET is not set, and target 'default' needs it for 'use_target'"

    code = agentv.main(["check"], standalone_mode=False)

    assert (code, message in capsys.readouterr().out) == (0, True)
    with pytest.raises(ConfigError, match=message):
        agentv.main(["run"], standalone_mode=False)


def test_a_target_without_a_counterpart_is_an_error_of_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    code = agentv.main(["check", ".agentv/targets.yaml"], standalone_mode=False)

    assert code == 4
    assert "the provider 'bedrock' of AgentV 4 is not supported" in capsys.readouterr().out


@pytest.mark.parametrize(
    "target",
    ["shell", "shell-2-5", "own", "canned", "recorded", "session", "model", "deployment", "unsteady", "service"],
)
def test_each_target_that_works_offline_answers(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_KEY", "key-1234567890")
    monkeypatch.setenv("AGENT_TARGET", target)
    with serving_fake() as server:
        monkeypatch.setenv("FAKE_URL", server.url.removesuffix("/v1"))

        code = agentv.main(["run", "-o", "rows.jsonl"], standalone_mode=False)

    assert code == 0
    row = Path("rows.jsonl").read_text()
    assert '"target":"default"' in row
    assert ('"answered_by":"canned"' in row) == (target == "unsteady")
    if target == "shell":
        assert '"cost_usd":0.01' in row
