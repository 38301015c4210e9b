"""Commands that look at a project import and start nothing that it names."""

import json
from pathlib import Path

import pytest

from agentv.cli.main import agentv

CANARY = "import pathlib\npathlib.Path(__file__).with_name('started').touch()\n"

CODE = (
    CANARY
    + """
from agentv import evaluator, provider

@evaluator("mine")
def mine(context):
    return 1.0

@provider("ours")
def ours(request):
    return "hi"

def judge(given):
    return 1.0

def answer(request):
    return "hi"
"""
)

SUITE = """\
execution:
  workspace: {template: files, setup: touch %(here)s/started}
evalcases:
  - id: a
    expected_outcome: ok
    input_messages: [{role: user, content: hi}]
    evaluators:
      - {name: own, type: mine, level: 3}
      - {name: code, type: code_judge, script: 'python code.py'}
      - {name: function, type: code_judge, python: 'code.py:judge'}
      - {name: calls, type: tool_usage, rules: [{tool: t, args: 'python:code.py:judge'}]}
      - name: both
        type: composite
        aggregator: {type: code_judge, path: code.py}
        evaluators: [{name: inner, type: contains, value: hi}]
"""

TARGETS = """\
targets:
  - {name: function, provider: python, callable: 'code.py:answer', judge_target: theirs}
  - name: command
    provider: cli
    command_template: python code.py {PROMPT}
    healthcheck: {type: command, command_template: python code.py}
  - {name: theirs, provider: ours, level: 4, api_key: '${{ OUR_KEY }}'}
"""


@pytest.fixture(autouse=True)
def _in_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (tmp_path / ".git", tmp_path / "evals" / "files"):
        folder.mkdir(parents=True)
    (tmp_path / ".agentv.yaml").write_text("plugins: [evals/code.py]\n")
    (tmp_path / "evals" / "code.py").write_text(CODE)
    (tmp_path / "evals" / "a.yaml").write_text(SUITE % {"here": tmp_path / "evals"})
    (tmp_path / "evals" / "targets.yaml").write_text(TARGETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUR_KEY", "k" * 20)


def called(*arguments: str) -> int | None:
    code: int | None = agentv.main(list(arguments), standalone_mode=False)
    return code


@pytest.mark.parametrize(
    "arguments",
    [
        ("check",),
        ("run", "--dry-run", "--target", "function"),
        ("run", "--dry-run", "--target", "command"),
        ("run", "--dry-run", "--target", "theirs"),
        ("run", "--dry-run", "--json", "--target", "theirs"),
        ("run", "--dump-prompts", "prompts", "--target", "function"),
        ("plugins",),
        ("plugins", "--json"),
        ("doctor",),
    ],
)
def test_nothing_of_a_project_is_started(arguments: tuple[str, ...]) -> None:
    assert called(*arguments) in (0, None)
    assert not Path("evals/started").exists()


def test_unknown_parts_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    called("run", "--dry-run", "--target", "theirs")
    said = capsys.readouterr().err
    code = Path("evals/code.py").resolve()
    for what in ("evaluator type 'mine'", "provider 'ours'"):
        unchecked = f"{what}: its settings are not checked and its cost is unknown"
        assert f"{unchecked}, because the plug-ins are not imported ({code})" in said
    called("run", "--dry-run", "--json", "--target", "theirs")
    assert len(json.loads(capsys.readouterr().out)["warnings"]) == 2
    called("plugins")
    assert f"not imported: {code} (--import lists its plug-ins)" in capsys.readouterr().out
    called("doctor")
    assert f"provider 'ours' is unknown: {code} is not imported" in capsys.readouterr().out


def test_plugins_imports_them_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert called("plugins", "--import", "mine") in (0, None)
    assert "mine: " in capsys.readouterr().out
    assert Path("evals/started").exists()
