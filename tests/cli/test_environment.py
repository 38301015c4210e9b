"""Options from environment variables: used, named in the run's head and stored with it."""

import json
from pathlib import Path

import pytest

from agentv.cli.main import COMMANDS, agentv, main


@pytest.fixture(autouse=True)
def suite(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A project with two cases, and an environment without defaults."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "s.yaml").write_text(
        "evaluators: [{name: any, type: length, min: 0}]\n"
        "evalcases: [{id: a, input: hi, tags: [x y]}, {id: b, input: ho}]\n"
    )
    (tmp_path / "m.yaml").write_text("targets: [{name: m, provider: mock, response: hi}]\n")
    monkeypatch.setenv("AGENTV_RUN_TARGETS_FILE", "m.yaml")
    return tmp_path


def run(*words: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(["run", "s.yaml", *words])
    return ended.value.code


def plan_of(folder: Path) -> dict[str, object]:
    (path,) = (folder / ".agentv" / "runs").glob("*/run.json")
    found: dict[str, object] = json.loads(path.read_text())["plan"]
    return found


def test_a_variable_sets_an_option(
    suite: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTV_RUN_TRIALS", "2")
    assert run() == 0
    shown = "AGENTV_RUN_TARGETS_FILE=m.yaml, AGENTV_RUN_TRIALS=2"
    assert f"note: set by the environment: {shown}\n" in capsys.readouterr().out
    plan = plan_of(suite)
    assert plan["options"] == {"targets_file": "m.yaml", "trials": 2}
    assert plan["environment"] == shown.split(", ")
    assert plan["rows"] == 4


def test_the_command_line_wins(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTV_RUN_TRIALS", "2")
    assert run("--trials", "3") == 0
    plan = plan_of(suite)
    assert (plan["rows"], plan["environment"]) == (6, ["AGENTV_RUN_TARGETS_FILE=m.yaml"])


def test_an_alias_of_a_command_has_its_variables(monkeypatch: pytest.MonkeyPatch, suite: Path) -> None:
    monkeypatch.setenv("AGENTV_RUN_TRIALS", "2")
    with pytest.raises(SystemExit):
        main(["eval", "s.yaml"])
    assert plan_of(suite)["rows"] == 4


def test_several_values_are_lines(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTV_RUN_GATE", "pass_rate >= 10%\nmean >= 0.5\n")
    monkeypatch.setenv("AGENTV_RUN_TAG", "x y")
    assert run() == 0
    assert plan_of(suite)["options"] == {
        "targets_file": "m.yaml",
        "gates": ["pass_rate >= 10%", "mean >= 0.5"],
        "tags": ["x y"],
    }


def test_secrets_are_redacted(suite: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (suite / "s.yaml").write_text(f"vars: {{api_key: x}}\n{(suite / 's.yaml').read_text()}")
    monkeypatch.setenv("AGENTV_RUN_VAR", "api_key=canary-of-a-key")
    assert run() == 0
    assert "AGENTV_RUN_VAR=api_key=***" in capsys.readouterr().out
    assert "AGENTV_RUN_VAR=api_key=***" in str(plan_of(suite)["environment"])


def test_a_wrong_value_is_reported_with_its_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTV_RUN_WORKERS", "many")
    assert run() == 4
    assert "'--workers' (env var: 'AGENTV_RUN_WORKERS')" in capsys.readouterr().err


def test_a_misspelt_variable_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("AGENTV_RUN_TRAILS", "2")
    monkeypatch.setenv("AGENTV_RUN_UNRELATED_NAME", "2")
    assert run() == 0
    out = capsys.readouterr().out
    assert "note: AGENTV_RUN_TRAILS has no effect; did you mean AGENTV_RUN_TRIALS?\n" in out
    assert "UNRELATED" not in out


def test_every_option_of_every_command_has_a_variable() -> None:
    context = agentv.make_context("agentv", ["check"], resilient_parsing=True)
    names: list[str] = []
    for name in COMMANDS:
        command = agentv.get_command(context, name)
        assert command is not None
        stack = [command]
        while stack:
            each = stack.pop()
            stack += getattr(each, "commands", {}).values()
            options = [option for option in each.params if option.param_type_name == "option" and not option.is_eager]
            assert all(option.envvar for option in options), each.name
            names += [str(option.envvar) for option in options]
    assert {"AGENTV_RUN_TIMEOUT", "AGENTV_BASELINE_SAVE_OUTPUT", "AGENTV_SERVE_FAKE_PORT"} <= set(names)
