import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TARGETS = """
targets:
  - {name: here, provider: cli, command_template: "cat {PROMPT_FILE}"}
  - {name: gone, provider: cli, command_template: "no-such-agent {PROMPT_FILE}"}
  - {name: piped, provider: cli, command_template: "cat {PROMPT_FILE} | tr a-z A-Z"}
  - {name: model, provider: openai, model: m, api_key: "${{ DOCTOR_KEY }}"}
"""


def doctor(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd), **environment}
    command = [sys.executable, "-m", "agentv", "doctor", *arguments]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=60, check=False)


def findings(cwd: Path, **environment: str) -> dict[str, dict[str, str]]:
    findings = json.loads(doctor("--json", cwd=cwd, **environment).stdout)["findings"]
    return {finding["about"]: finding for finding in findings}


def test_an_empty_folder_gets_a_hint_how_to_begin(tmp_path: Path) -> None:
    done = doctor(cwd=tmp_path)
    assert done.returncode == 0
    assert "`agentv init` writes one." in done.stdout
    assert sys.executable in done.stdout


def test_each_target_says_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "targets.yaml").write_text(TARGETS)
    found = findings(tmp_path)
    assert {name: found[f"target {name}"]["health"] for name in ("here", "gone", "piped", "model")} == {
        "here": "ok",
        "gone": "warning",
        "piped": "ok",
        "model": "warning",
    }
    assert "no-such-agent is not installed" in found["target gone"]["found"]
    assert "DOCTOR_KEY is not set" in found["target model"]["found"]


def test_a_variable_may_come_from_the_environment_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "targets.yaml").write_text(TARGETS)
    assert findings(tmp_path, DOCTOR_KEY="secret-value")["target model"]["health"] == "ok"
    (tmp_path / ".env").write_text("DOCTOR_KEY=secret-value\n")
    done = doctor(cwd=tmp_path)
    assert "DOCTOR_KEY" not in done.stdout
    assert "secret-value" not in done.stdout


def test_a_broken_targets_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "targets.yaml").write_text("targets: [{name: t, provider: unknown}]\n")
    done = doctor(cwd=tmp_path)
    assert done.returncode == 3
    assert "unknown" in done.stdout


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    done = doctor(cwd=tmp_path)
    tmp_path.chmod(0o700)
    assert done.returncode == 3
    assert f"cannot write to {tmp_path}" in done.stdout


def test_a_file_where_runs_should_go_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".agentv").write_text("in the way")
    assert findings(tmp_path)["runs"]["health"] == "error"


def test_a_faulty_target_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "targets.yaml").write_text(
        "targets:\n  - {name: a, provider: bedrock}\n  - {name: b, provider: mock}\n"
    )
    found = findings(tmp_path)
    assert found["target a"]["health"] == "warning"
    assert "the provider 'bedrock' of AgentV 4 is not supported" in found["target a"]["found"]
    assert found["target b"]["health"] == "ok"
