"""`run -v`: what a coding agent does is on the screen while it works; without `-v` nothing of it is."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support.agents import codex_says, lines

SECRET = "canary-4f9a7c21d8"
OTHER = "canary-77ab01c2ef"


def suite_of(*ids: str) -> str:
    """Return a suite whose questions are the ids of its cases."""
    case = """
  - id: {id}
    expected_outcome: The agent says that it is done
    input_messages: [{{role: user, content: {id}}}]
    evaluators: [{{name: done, type: contains, value: Done}}]
"""
    return "evalcases:" + "".join(case.format(id=id_) for id_ in ids)


def agent_that(folder: Path, *, does: str) -> str:
    """Write a program, text for sh, that stands in for Codex; return its path."""
    program = folder / "agent"
    program.write_text(f"#!/bin/sh\nprompt=$(cat)\n{does}\n", "utf-8")
    program.chmod(0o700)
    return str(program)


def printing(*texts: str) -> str:
    return f"cat <<'EVENTS'\n{codex_says(*texts)}EVENTS\n"


def project(folder: Path, does: str, *cases: str, others: Mapping[str, object] | None = None) -> None:
    """Write a suite and a target `coder`, whose agent does `does`."""
    coder = {"name": "coder", "provider": "codex", "executable": agent_that(folder, does=does), "timeout_seconds": 20}
    targets = [{**coder, **(others or {})}]
    (folder / "suite.yaml").write_text(suite_of(*(cases or ("refund",))), "utf-8")
    (folder / "targets.yaml").write_text(json.dumps({"targets": targets}), "utf-8")
    (folder / ".agentv").mkdir(exist_ok=True)


def start(folder: Path, *options: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "agentv", "run", "suite.yaml", *options]
    pipe = subprocess.PIPE
    environment = {**os.environ, **(env or {})}
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, encoding="utf-8")


def printed(folder: Path, *options: str, env: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Return what a run that passes prints on its two streams."""
    with start(folder, *options, env=env) as run:
        out, errors = run.communicate()
    assert run.returncode == 0, out + errors
    return out, errors


@pytest.mark.timeout(90)
def test_a_line_is_on_the_screen_before_the_agent_may_go_on(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    project(tmp_path, f"{printing('I look at the order.')}read go < '{gate}'\n{printing('Done.')}")
    seen = []
    with start(tmp_path, "-v") as run:
        assert run.stderr is not None
        assert run.stdout is not None
        drain = threading.Thread(target=run.stdout.read)
        drain.start()
        for line in run.stderr:
            seen.append(line.rstrip())
            if "I look at the order." in line:
                gate.write_text("go\n")
        drain.join()

    assert run.returncode == 0
    assert seen[:2] == ["log: refund coder: says I look at the order.", "log: refund coder: says Done."]


def test_without_v_nothing_of_it_is_printed(tmp_path: Path) -> None:
    project(tmp_path, printing("I look at the order.", "Done."))

    out, errors = printed(tmp_path)

    assert "I look at the order." not in out + errors
    assert errors == ""


def test_an_agent_without_a_log_shows_nothing(tmp_path: Path) -> None:
    project(tmp_path, printing("I look at the order.", "Done."), others={"stream_logs": False})

    out, errors = printed(tmp_path, "-v")

    assert "I look at the order." not in out + errors
    assert "answer: refund coder in " in errors
    assert "  question │ refund\n  answer   │ Done.\n" in errors


def test_questions_and_answers_are_printed_in_full(tmp_path: Path) -> None:
    text = "\n\n".join(["word " * 60, "::error::not a command", "Done."])
    project(tmp_path, printing(text), others={"stream_logs": False})

    _, errors = printed(tmp_path, "-v")

    assert errors.count("word") == 60
    assert "  question │ refund\n  answer   │ word word" in errors
    assert "           │ ::error::not a command\n           │\n           │ Done.\n" in errors


def test_lines_of_several_workers_name_their_case(tmp_path: Path) -> None:
    event = codex_says("Done with CASE.").replace("CASE", "%s").strip()
    cases = [f"case-{number}" for number in range(6)]
    project(tmp_path, f"printf '{event}\\n' \"${{prompt##*[[:space:]]}}\"", *cases, others={"workers": 3})

    _, errors = printed(tmp_path, "-v")

    shown = [line for line in errors.splitlines() if "says" in line]
    assert sorted(shown) == [f"log: {case} coder: says Done with {case}." for case in cases]


def test_secrets_of_the_whole_run_are_redacted(tmp_path: Path) -> None:
    told = f"The keys are {SECRET} and {OTHER}; customer C-99817. {'x' * 200} {SECRET} Done."
    spare = {"name": "spare", "provider": "openai", "model": "m", "api_key": SECRET}
    project(tmp_path, printing(told) + f"echo '{SECRET} C-99817' >&2")
    targets = json.loads((tmp_path / "targets.yaml").read_text())["targets"]
    targets[0]["fallback_targets"] = ["spare"]
    (tmp_path / "targets.yaml").write_text(json.dumps({"targets": [*targets, spare]}))
    (tmp_path / ".agentv.yaml").write_text("redact: ['C-[0-9]+']\n")

    out, errors = printed(tmp_path, "-v", "--target", "coder", env={"OTHER_KEY": OTHER})

    assert "says The keys are *** and ***; customer ***." in errors
    assert "canary" not in out + errors
    assert "C-99" not in out + errors


def test_no_line_is_a_command_of_the_terminal_or_of_a_runner(tmp_path: Path) -> None:
    hostile = "\x1b]0;owned\x07\n::error::forged\n##[group]forged\r\x9b2J\u202etxt Done."
    project(tmp_path, printing(hostile) + "printf '::error::forged\\n##vso[task.complete]\\n' >&2")

    out, errors = printed(tmp_path, "-v")

    shown = [line for line in errors.splitlines() if line.startswith("log: ")]
    assert "\\x1b]0;owned\\x07 ::error::forged ## [group]forged" in shown[0]
    assert not any(char in out + errors for char in "\x1b\x07\x9b\u202e\r")
    assert not any(line.lstrip().startswith(("::", "##")) for line in errors.splitlines())
    assert "##vso[" not in errors


def test_a_long_line_is_cut(tmp_path: Path) -> None:
    output = {"id": "1", "type": "command_execution", "command": "cat log", "aggregated_output": "y" * 5_000}
    events = lines({"type": "item.completed", "item": {**output, "exit_code": 0, "status": "completed"}})
    project(tmp_path, f"cat <<'EVENTS'\n{events}EVENTS\n{printing('Done.')}")

    _, errors = printed(tmp_path, "-v")

    (returned,) = [line for line in errors.splitlines() if "returns yyy" in line]
    assert len(returned) == 300
    assert returned.endswith("…")
