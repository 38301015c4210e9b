"""The programs of the real coding agents, each with a model on loopback that makes it work in a folder."""

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest
from tests.real_agents.agents import AGENTS, ANSWER, COMMAND, KEY, target_of
from tests.real_agents.model_server import (
    CACHED_TOKENS,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    REASONING_TOKENS,
    Call,
    Model,
    NoResponse,
    Refusal,
    Step,
    playing,
)

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(300)]

SUITE = """
execution:
  workspace: {template: shop, keep: always}
evalcases:
  - id: refund-1
    expected_outcome: The amount is noted
    input_messages:
      - role: user
        content:
          - {type: file, value: ../files/tone.instructions.md}
          - {type: file, value: ../files/order.txt}
          - {type: text, value: Note what the order costs.}
    evaluators:
      - {name: calls, type: tool_trajectory, mode: exact, expected: [{tool: SHELL}]}
      - {name: said, type: contains, value: notes.txt}
      - {name: noted, type: contains, value: It is 20 euros., source: files.notes.txt}
      - {name: changed, type: contains, value: "+It is 20 euros.", source: diff}
"""


@dataclass(frozen=True)
class Ran:
    """The exit code of a run, its one result and answer, and the folder of its files."""

    code: int
    said: str
    row: Mapping[str, Any]
    answer: Mapping[str, Any]
    folder: Path
    model: Model


def run(name: str, folder: Path, *steps: Step, suite: str = SUITE, **settings: object) -> Ran:
    """Run one case with a real agent, on the command line, with only PATH in its environment."""
    files = {
        ".git/HEAD": "",
        "evals/suite.yaml": suite.replace("SHELL", AGENTS[name].shell),
        "evals/shop/notes.txt": "Order 7\n",
        "files/tone.instructions.md": "Be brief.",
        "files/order.txt": "Order 7: 20 euros",
    }
    for path, text in files.items():
        (folder / "repo" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "repo" / path).write_text(text)
    with playing(*steps) as model:
        targets = {"targets": [target_of(name, model, folder / "home", **settings)]}
        (folder / "repo" / "targets.yaml").write_text(json.dumps(targets))
        command = [sys.executable, "-m", "agentv", "run", "evals", "-o", "rows.jsonl", "--include-trace"]
        env = {"PATH": os.environ["PATH"], "CANARY_KEY": KEY, "HOME": str(folder / "home")}
        done = subprocess.run(command, cwd=folder / "repo", env=env, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    rows = folder / "repo" / "rows.jsonl"
    answers = list((folder / "repo" / ".agentv" / "runs").glob("*/answers.jsonl"))
    assert rows.exists(), said
    row, answer = json.loads(rows.read_text()), json.loads(answers[0].read_text())
    return Ran(done.returncode, said, row, answer, folder, model)


def test_its_answer_calls_usage_and_changes_are_in_the_result(agent: str, tmp_path: Path) -> None:
    ran = run(agent, tmp_path, *AGENTS[agent].steps)

    assert ran.row.get("error") is None, ran.row
    assert ran.row["candidate_answer"] == ANSWER
    results = {result["name"]: (result["score"], result["misses"]) for result in ran.row["evaluator_results"]}
    assert results == dict.fromkeys(("calls", "said", "noted", "changed"), (1.0, []))
    assert (ran.row["status"], ran.code) == ("pass", 0), ran.said
    (call,) = [call for message in ran.row["output_messages"] for call in message.get("tool_calls", [])]
    assert call["tool"] == AGENTS[agent].shell
    assert COMMAND.replace("'", "") in call["input"]["command"].replace("'", "").replace('"', "").replace("\\\\", "\\")
    assert "Order 7\nIt is 20 euros." in call["output"]
    assert call["timestamp"]
    assert ran.row["trace_summary"]["toolCallsByName"] == {AGENTS[agent].shell: 1}
    assert ran.answer["usage"]["input"] == 2 * INPUT_TOKENS
    assert ran.answer["usage"]["cached_input"] == 2 * CACHED_TOKENS
    assert ran.answer["usage"]["output"] == 2 * OUTPUT_TOKENS
    assert ran.answer["usage"]["requests"] == AGENTS[agent].requests
    assert ran.answer["session"]
    assert ran.answer["exit_code"] == 0
    (log,) = ran.answer["log_paths"]
    assert "calls" in Path(log).read_text()
    assert [change["path"] for change in ran.answer["workspace"]["changed"]] == ["notes.txt"]
    assert (tmp_path / "repo" / "evals" / "shop" / "notes.txt").read_text() == "Order 7\n"


def test_it_reads_the_named_files_first(agent: str, tmp_path: Path) -> None:
    order = tmp_path / "repo" / "files" / "order.txt"
    read = {
        "codex": Call("exec_command", {"cmd": f"cat {order}"}),
        "claude": Call("Read", {"file_path": str(order)}),
        "pi": Call("read", {"path": str(order)}),
        "copilot": Call("view", {"path": str(order)}),
    }

    ran = run(agent, tmp_path, read[agent], "It says 20 euros.", suite=SUITE.replace("value: notes.txt", "value: 20"))

    requests = json.dumps([body for _, body, _ in ran.model.requests])
    assert f"* [order.txt]({order.as_uri()})" in requests
    assert "[[ ## user_query ## ]]" in requests
    assert "Note what the order costs." in requests
    (call,) = [call for message in ran.row["output_messages"] for call in message.get("tool_calls", [])]
    assert "20 euros" in json.dumps(call["output"])


def test_its_system_prompt_reaches_the_model(agent: str, tmp_path: Path) -> None:
    ran = run(agent, tmp_path, ANSWER, system_prompt='Speak "Latin"\nalways.')

    requests = json.dumps([body for _, body, _ in ran.model.requests])
    assert ran.row.get("error") is None, ran.row
    assert r"Speak \"Latin\"\nalways." in requests


def test_its_key_goes_to_the_model_and_nowhere_else(agent: str, tmp_path: Path) -> None:
    tools = {"codex": ("exec_command", "cmd"), "claude": ("Bash", "command")}
    tool, argument = tools.get(agent, ("bash", "command"))
    names = {"codex": "LOOPBACK_KEY", "claude": "ANTHROPIC_API_KEY", "pi": "LOOPBACK_API_KEY"}
    key = names.get(agent, "COPILOT_PROVIDER_API_KEY")
    show = f'echo "the key is ${key}"; cat /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" "\\n" | grep -c "canar[y]"; true'

    steps = Call(tool, {argument: show, "description": "look"}), f"The key is {KEY}."
    more: dict[str, Any] = {"args": ["--allow-all-paths"]} if agent == "copilot" else {}

    ran = run(agent, tmp_path, *steps, **more)

    assert {key.removeprefix("Bearer ") for _, _, key in ran.model.requests} == {KEY}
    (call,) = [call for message in ran.row["output_messages"] for call in message.get("tool_calls", [])]
    assert re.match(r"the key is \**\n0\b", call["output"])  # no command line of the machine holds it
    assert re.fullmatch(r"The key is \*+\.", ran.row["candidate_answer"])  # copilot strikes it itself
    forms = {KEY, quote(KEY), KEY.encode().hex(), base64.b64encode(KEY.encode()).decode(), json.dumps(KEY)[1:-1]}
    written = [path for path in (tmp_path / "repo").rglob("*") if path.is_file()]
    assert len(written) > 10
    leaks = [str(path) for path in written if any(form.encode() in path.read_bytes() for form in forms)]
    assert leaks == []
    assert KEY not in ran.said


def test_a_refused_key_is_an_auth_failure_that_stops_the_target(agent: str, tmp_path: Path) -> None:
    ran = run(agent, tmp_path, Refusal(401))

    assert (ran.row["status"], ran.row["error"]["kind"], ran.row["error"]["http_status"]) == ("error", "auth", 401)
    assert "check its API key or login" in ran.row["error"]["message"]
    assert ran.row["error"]["details"]["log_paths"]
    assert ran.code == 3, ran.said


def test_one_that_hangs_is_ended_with_all_it_started(agent: str, tmp_path: Path) -> None:
    ran = run(agent, tmp_path, NoResponse(), timeout_seconds=15)

    assert (ran.row["status"], ran.row["error"]["kind"]) == ("error", "target_timeout")
    assert ran.model.requests
    assert started_and_alive(tmp_path / "home") == []


def started_and_alive(home: Path) -> list[psutil.Process]:
    """Return the processes that a run with this HOME started and that live five seconds after it."""
    started = [process for process in psutil.process_iter() if str(home) in environment_of(process)]
    return psutil.wait_procs(started, timeout=5)[1]


def environment_of(process: psutil.Process) -> set[str]:
    try:
        return set(process.environ().values())
    except psutil.Error:
        return set()


def test_reasoning_tokens_are_reported_if_the_agent_reports_them(agent: str, tmp_path: Path) -> None:
    ran = run(agent, tmp_path, *AGENTS[agent].steps)

    expected = {"codex": 2 * REASONING_TOKENS, "copilot": 2 * REASONING_TOKENS}
    assert ran.answer["usage"].get("reasoning", 0) == expected.get(agent, 0)
