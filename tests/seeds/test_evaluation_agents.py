"""Seed evaluation.md: coding agents as targets."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.agents import recorded, stand_in

SUITE = """
evalcases:
  - id: note
    expected_outcome: Notes the amount
    input_messages:
      - role: user
        content:
          - {type: file, value: tone.instructions.md}
          - {type: file, value: order.txt}
          - {type: text, value: Note the amount.}
    evaluators: [{name: answer, type: contains, value: notes.txt}]
"""
FILES = {"evals/tone.instructions.md": "Be brief.", "evals/order.txt": "20 euros"}


def targets_of(executable: str, **settings: object) -> str:
    return json.dumps({"targets": [{"name": "agent", "provider": "codex", "executable": executable, **settings}]})


def test_codex_cli_provider(run: Callable[..., Any], tmp_path: Path) -> None:
    # WHEN its executable cannot be found: nothing is run
    nested = json.dumps({"targets": [{"name": "agent", "provider": "codex", "settings": {"executable": "codex-n"}}]})
    for targets, executable in ((targets_of("codex-nightly"), "codex-nightly"), (nested, "codex-n")):
        missing = run(SUITE, targets=targets, files=FILES)
        assert missing.code == 3
        assert f"'{executable}' is not in PATH" in missing.output + missing.errors
        assert missing.rows == []

    # WHEN it is there: a temporary workspace with prompt.md, the command line as ordered, the final message parsed
    agent = stand_in(tmp_path / "bin", recorded("codex"))
    done = run(SUITE, targets=targets_of(agent.program, args=["--model", "m"]), files=FILES)
    assert done.code == 0
    assert done.rows[0]["candidate_answer"] == "The amount is in notes.txt, and new.txt is written."
    fixed = ["--ask-for-approval", "never", "exec", "--json", "--color", "never", "--skip-git-repo-check"]
    assert agent.arguments == [*fixed, "--model", "m", "-"]
    assert agent.files == ["prompt.md"]
    assert not agent.place.exists()
    evals = tmp_path / "evals"
    assert agent.prompt.startswith(
        "Read all guideline files:\n"
        f"* [tone.instructions.md]({(evals / 'tone.instructions.md').as_uri()})\n\n"
        "Read all input files:\n"
        f"* [order.txt]({(evals / 'order.txt').as_uri()})\n"
    )
    assert agent.prompt.endswith("Note the amount.")
    (log,) = (tmp_path / ".agentv" / "logs" / "codex").iterdir()
    assert "calls    command_execution" in log.read_text()

    # WHEN it fails: stdout, stderr and log paths are attached
    broken = stand_in(tmp_path / "broken", '{"type":"turn.started"}\n', then="echo no disk >&2; exit 7")
    (row,) = run(SUITE, targets=targets_of(broken.program, max_retries=0), files=FILES).rows
    assert row["error"]["kind"] == "target_exit"
    details = row["error"]["details"]
    assert (details["exit_code"], details["stderr"]) == (7, "no disk")
    assert "turn.started" in details["stdout"]
    assert Path(details["log_paths"][0]).is_file()


# The agent does not end before its log and the screen hold what it has printed so far; it gives up after ten seconds.
WAIT_FOR_THE_LOG = """
tries=0
until grep -qs 'calls    command_execution' LOGS/* && grep -qs '^log: note agent: calls command_execution' SCREEN; do
  tries=$((tries + 1))
  test $tries -lt 200 || { echo nothing was logged so far >&2; exit 9; }
  sleep 0.05
done
"""


@pytest.mark.timeout(60)
def test_codex_cli_provider_streams_its_log_when_enabled(run: Callable[..., Any], tmp_path: Path) -> None:
    logs, screen = tmp_path / ".agentv" / "logs" / "codex", tmp_path / "screen"
    waits = WAIT_FOR_THE_LOG.replace("LOGS", str(logs)).replace("SCREEN", str(screen))
    agent = stand_in(tmp_path / "bin", recorded("codex"), then=waits)
    targets = targets_of(agent.program, max_retries=0)
    assert run(SUITE, "--dry-run", targets=targets, files=FILES).code == 0
    with screen.open("wb") as stderr:
        command = [sys.executable, "-m", "agentv", "run", "evals", "-v", "-o", "rows.jsonl"]
        done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=stderr, check=False)
    assert done.returncode == 0, done.stdout.decode() + screen.read_text()

    for log in logs.iterdir():
        log.unlink()
    quiet = stand_in(tmp_path / "quiet", recorded("codex"), then="exit 7")
    silent = run(SUITE, "-v", targets=targets_of(quiet.program, max_retries=0, stream_logs=False), files=FILES)
    (row,) = silent.rows
    assert row["error"]["details"]["log_paths"] == []
    assert list(logs.iterdir()) == []
    assert "log:" not in silent.errors
