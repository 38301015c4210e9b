"""The programs of coding agents, cut short after some work: what they said, called and used is not lost."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.real_agents.agents import AGENTS, ANSWER, COMMAND, KEY, target_of
from tests.real_agents.model_server import (
    CACHED_TOKENS,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    Call,
    Model,
    NoResponse,
    Refusal,
    playing,
)
from tests.support.waiting import until

pytestmark = [pytest.mark.real_agents, pytest.mark.nightly, pytest.mark.timeout(300)]

SUITE = {
    "evalcases": [
        {
            "id": "a",
            "expected_outcome": "The amount is noted",
            "input_messages": [{"role": "user", "content": "Note what the order costs."}],
            "evaluators": [{"name": "said", "type": "contains", "value": "notes.txt"}],
        }
    ]
}
PRICE = {"input_per_million": 1000, "output_per_million": 10_000}


@dataclass(frozen=True)
class Project:
    """A folder with a suite and one target, which is the program of an agent with the model on loopback."""

    agent: str
    folder: Path
    model: Model

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def write(self, **settings: object) -> None:
        target = {**target_of(self.agent, self.model, self.home, **settings), "price": PRICE}
        (self.folder / "targets.yaml").write_text(json.dumps({"targets": [target]}))
        (self.folder / "suite.yaml").write_text(json.dumps(SUITE))

    def start(self, *command: str) -> "subprocess.Popen[str]":
        env = {"PATH": os.environ["PATH"], "CANARY_KEY": KEY, "HOME": str(self.home)}
        pipes: Mapping[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen([sys.executable, "-m", "agentv", *command], cwd=self.folder, env=env, **pipes)

    def call(self, *command: str) -> str:
        with self.start(*command) as process:
            return process.communicate()[0]

    def stored(self, name: str) -> list[Any]:
        (path,) = (self.folder / ".agentv" / "runs").glob(f"*/{name}")
        return [json.loads(line) for line in path.read_text().splitlines()]

    def alive(self) -> list[psutil.Process]:
        """Return the processes of the agent that live five seconds from now."""
        return psutil.wait_procs([one for one in psutil.process_iter() if self._is_of_agent(one)], timeout=5)[1]

    def _is_of_agent(self, process: psutil.Process) -> bool:
        try:
            return str(self.home) in process.environ().values()
        except psutil.Error:
            return False


def work_of(agent: str) -> Call:
    """Return a call of the agent's shell."""
    tools = {"claude": ("Bash", "command"), "codex": ("exec_command", "cmd")}
    tool, key = tools.get(agent, ("bash", "command"))
    return Call(tool, {key: COMMAND, "description": "Note it"})


def assert_failed(project: Project, kind: str) -> None:
    """Assert that the one row is an error with the tokens and the cost of the work done before."""
    (row,), (answer,) = project.stored("results.jsonl"), project.stored("answers.jsonl")
    assert (row["status"], row["error"]["kind"]) == ("error", kind)
    assert_kept(answer, project.agent)
    spent = row["usage_by"]["target"]
    assert (spent["input"], spent["output"]) == tuple(answer["partial"]["usage"][key] for key in ("input", "output"))
    assert row["cost_usd"] == spent["cost_usd"] == answer["billed_usd"]


def assert_kept(answer: Mapping[str, Any], agent: str) -> None:
    """Assert that a failed answer has the work done before, with its tokens and their price."""
    partial = answer["partial"]
    calls = [call for message in partial["output_messages"] for call in message.get("tool_calls", [])]
    assert [call["tool"] for call in calls] == [AGENTS[agent].shell] * len(calls)
    assert "It is 20 euros." in calls[0]["output"]
    usage = partial["usage"]
    if partial.get("estimated"):
        assert agent in ("claude", "copilot")  # they report output, copilot also input, only at their end
        assert usage["output"] > 0
    else:
        assert usage["output"] == len(calls) * OUTPUT_TOKENS
    if agent != "copilot":
        assert (usage["input"], usage["cached_input"]) == (len(calls) * INPUT_TOKENS, len(calls) * CACHED_TOKENS)
    assert answer["billed_usd"] > 0
    assert answer["text"] == ""
    assert answer["log_paths"]


def test_a_hang_keeps_the_work_before_it(agent: str, tmp_path: Path) -> None:
    with playing(work_of(agent), NoResponse()) as model:
        project = Project(agent, tmp_path, model)
        project.write(timeout_seconds=15)
        project.call("run", "suite.yaml")

    assert_failed(project, "target_timeout")
    assert project.alive() == []


def test_a_kill_of_the_agent_keeps_the_work_before_it(agent: str, tmp_path: Path) -> None:
    with playing(work_of(agent), NoResponse()) as model:
        project = Project(agent, tmp_path, model)
        project.write()
        with project.start("run", "suite.yaml") as process:
            assert model.stalled.wait(60)
            agentv = psutil.Process(process.pid)
            for started in agentv.children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    if started.exe() != agentv.exe():
                        started.kill()
            process.communicate()

    assert_failed(project, "target_exit")
    assert project.alive() == []


def test_a_refusal_in_the_middle_keeps_the_work_before_it(agent: str, tmp_path: Path) -> None:
    with playing(work_of(agent), Refusal(400)) as model:
        project = Project(agent, tmp_path, model)
        project.write()
        project.call("run", "suite.yaml")

    assert_failed(project, "bad_request")


def test_ctrl_c_keeps_the_work_before_it_and_resume_finishes(agent: str, tmp_path: Path) -> None:
    with playing(work_of(agent), NoResponse()) as model:
        project = Project(agent, tmp_path, model)
        project.write()
        with project.start("run", "suite.yaml") as process:
            assert model.stalled.wait(60)
            process.send_signal(signal.SIGINT)
            said = process.communicate()[0]
        (answer,) = project.stored("answers.jsonl")
        assert "INTERRUPTED" in said
        assert answer["error"]["kind"] == "cancelled"
        assert_kept(answer, agent)
        assert project.alive() == []

        model.steps = (ANSWER,)
        said = project.call("resume", "latest")

    (row,) = project.stored("results.jsonl")
    assert (row["status"], row["candidate_answer"]) == ("pass", ANSWER), said


def log_text(folder: Path) -> str:
    """Return the logs of the agents below a folder."""
    return "".join(path.read_text() for path in (folder / ".agentv" / "logs").rglob("*.log"))


def test_a_kill_of_agentv_ends_the_agent_and_resume_finishes(agent: str, tmp_path: Path) -> None:
    with playing(work_of(agent), NoResponse()) as model:
        project = Project(agent, tmp_path, model)
        project.write()
        with project.start("run", "suite.yaml") as process:
            assert model.stalled.wait(60)
            assert until(lambda: re.search(r"calls +" + AGENTS[agent].shell, log_text(tmp_path)))
            process.kill()
        assert project.alive() == []

        model.steps = (ANSWER,)
        said = project.call("resume", "latest")

    (row,) = project.stored("results.jsonl")
    assert (row["status"], row["candidate_answer"]) == ("pass", ANSWER), said
