"""`agentv serve-fake`: the command, what it prints, and a suite that is tried on it with no key."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from agentv.cli.tools.serve_fake import targets_yaml, welcome
from agentv.engine.plugins.loading import load_specs
from agentv.loading.targets.targets import load_targets

AGENTV = [sys.executable, "-m", "agentv"]
SUITE = """
evalcases:
  - id: refund
    expected_outcome: Mentions the refund
    input_messages: [{role: user, content: "Is a refund possible? It mentions the order."}]
    rubrics: [{id: refund, description: says refund}, {id: bye, description: closes with polite farewell}]
  - id: greeting
    expected_outcome: hello Anna
    input_messages: [{role: user, content: "hello Anna"}]
"""
ECHO = """
evalcases:
  - id: greeting
    expected_outcome: says hello
    input_messages: [{role: user, content: "hello Anna"}]
    evaluators: [{name: anna, type: contains, value: Anna}]
"""


def environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home)}


@contextmanager
def serving(home: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    command = [*AGENTV, "serve-fake", "--port", "0", "--json", *options]
    with subprocess.Popen(
        command, env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        try:
            assert program.stdout is not None
            lines = iter(program.stdout.readline, "")
            welcome = ""
            for line in lines:
                welcome += line
                if line == "}\n":
                    break
            yield program, json.loads(welcome)
        finally:
            program.kill()


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = environment(home)
    return subprocess.run(
        [*AGENTV, *arguments], cwd=home, env=env, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_suite_is_tried_on_the_targets_that_it_prints_with_no_key(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE)
    with serving(tmp_path) as (_, welcome):
        (tmp_path / "targets.yaml").write_text(welcome["targets_yaml"])
        done = run(tmp_path, "run", "suite.yaml", "-o", "out.jsonl")
        with urlopen(welcome["urls"]["calls"], timeout=10) as reply:
            log = json.load(reply)
    assert done.returncode == 1, done.stdout + done.stderr
    rows = {row["eval_id"]: row for row in map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())}
    assert {name: (row["status"], row["score"]) for name, row in rows.items()} == {
        "refund": ("fail", 0.5),
        "greeting": ("pass", 1.0),
    }
    assert (log["schema"], log["billed"], {call["key"] for call in log["calls"]}) == ("agentv-fake-calls-1", 4, {""})


def test_every_target_that_it_prints_answers(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(ECHO)
    (tmp_path / ".env").write_text("FAKE_KEY=anything")
    names = ["default", "fake-azure", "fake-anthropic", "fake-gemini", "busy"]
    with serving(tmp_path) as (_, welcome):
        (tmp_path / "targets.yaml").write_text(welcome["targets_yaml"])
        chosen = [word for name in names for word in ("--target", name)]
        done = run(tmp_path, "run", "suite.yaml", "-o", "out.jsonl", *chosen)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {row["target"]: row["candidate_answer"] for row in rows} == dict.fromkeys(names, "You said: hello Anna")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_it(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with serving(tmp_path) as (program, _):
        program.send_signal(number)
        _, errors = program.communicate(timeout=20)
    assert (program.returncode, errors) == (code, "")


def test_a_port_in_use_is_said_in_one_line(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, welcome):
        port = welcome["urls"]["azure"].rpartition(":")[2]
        done = run(tmp_path, "serve-fake", "--port", port)
    assert done.returncode == 4
    assert done.stderr == (
        f"error: port {port} cannot be used (address already in use); choose another with --port, or 0 for any\n"
    )


def test_a_limit_of_requests_is_kept(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE)
    with serving(tmp_path, "--rpm", "1") as (_, welcome):
        body = '{"model": "fake", "messages": [{"role": "user", "content": "hi"}]}'
        ask = f"""
import urllib.request, urllib.error
for _ in range(2):
    try:
        print(urllib.request.urlopen({welcome["urls"]["openai"] + "/chat/completions"!r}, {body!r}.encode()).status)
    except urllib.error.HTTPError as error:
        print(error.code)
"""
        said = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout.split() == ["200", "429"]


def test_the_targets_that_it_prints_are_good_ones(tmp_path: Path) -> None:
    path = tmp_path / "targets.yaml"
    path.write_text(targets_yaml("http://127.0.0.1:8808"))
    names = [target.name for target in load_targets(path, specs=load_specs())]
    assert names == ["default", "fake-azure", "fake-anthropic", "fake-gemini", "busy"]


def test_the_start_message_lists_every_url() -> None:
    shown = welcome("http://127.0.0.1:8808").splitlines()
    assert shown[:8] == [
        "The fake model server is ready; Ctrl-C stops it.",
        "",
        "  OpenAI        http://127.0.0.1:8808/v1",
        "  Azure OpenAI  http://127.0.0.1:8808",
        "  Anthropic     http://127.0.0.1:8808",
        "  Gemini        http://127.0.0.1:8808",
        "  log of calls  http://127.0.0.1:8808/calls",
        "",
    ]
