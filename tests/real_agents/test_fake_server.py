"""The programs of coding agents with the fake model server, as its page shows them."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.real_agents.agents import AGENTS, KEY
from tests.real_agents.conftest import installed
from tests.real_agents.install import program_of
from tests.support.fake_server import serving_fake

from agentv.fake.log import Call

pytestmark = [pytest.mark.real_agents, pytest.mark.slow, pytest.mark.timeout(300)]

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "providers" / "fake-server.md").read_text("utf-8")
TOOLS = {"claude": ("Bash", "command"), "codex": ("exec_command", "cmd"), "pi": ("bash", "command")}
COMMANDS = ("echo 20 euros > note.txt", "cat note.txt")


def block(language: str) -> str:
    """Return the block of the page's section on coding agents that is in this language."""
    section = PAGE.partition("## Coding agents\n")[2].partition("\n## ")[0]
    found = re.search(rf"```{language}[^\n]*\n(.*?)```", section, re.DOTALL)
    assert found
    return found[1]


@dataclass(frozen=True)
class Ran:
    """The one answer and row of a run, and what the server answered."""

    answer: Mapping[str, Any]
    row: Mapping[str, Any]
    calls: list[Call]


def run(name: str, question: str, folder: Path, *, api: str = "openai-completions") -> Ran:
    """Ask one agent on the command line, with a server of its own and an empty home."""
    home = folder / "home"
    (home / ".pi" / "agent").mkdir(parents=True)
    with serving_fake() as server:
        targets = yaml.safe_load(block("yaml").replace("http://127.0.0.1:8808", server.url))["targets"]
        (target,) = (dict(target) for target in targets if target["name"] == name)
        target |= {"executable": str(program_of(name)), "max_retries": 0, "timeout_seconds": 60}
        if name == "codex":  # a container's kernel may refuse what its sandbox needs
            target["args"][0] = "--sandbox=danger-full-access"
        models = block("json").replace("http://127.0.0.1:8808", server.url).replace("openai-completions", api)
        if api == "anthropic-messages":
            models = models.replace("/v1", "")
        (home / ".pi" / "agent" / "models.json").write_text(models)
        message = {"role": "user", "content": question}
        case = {"id": "a", "expected_outcome": "20 euros", "input_messages": [message]}
        evaluators = [{"name": "said", "type": "contains", "value": "20 euros"}]
        (folder / "suite.yaml").write_text(json.dumps({"evalcases": [{**case, "evaluators": evaluators}]}))
        (folder / "targets.yaml").write_text(json.dumps({"targets": [target]}))
        command = [sys.executable, "-m", "agentv", "run", "suite.yaml", "-o", "rows.jsonl", "--include-trace"]
        env = {"PATH": os.environ["PATH"], "FAKE_KEY": KEY, "HOME": str(home), "PI_OFFLINE": "1"}
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
        calls = server.calls
    assert done.returncode == 0, done.stdout + done.stderr
    (answers,) = (folder / ".agentv" / "runs").glob("*/answers.jsonl")
    return Ran(json.loads(answers.read_text()), json.loads((folder / "rows.jsonl").read_text()), calls)


@pytest.fixture(params=TOOLS)
def agent(request: pytest.FixtureRequest) -> str:
    return installed(request.param)


def test_its_program_answers_with_the_question(agent: str, tmp_path: Path) -> None:
    ran = run(agent, "What are 20 euros in dollars?", tmp_path)

    assert re.fullmatch(r"You said: .*What are 20 euros in dollars\?", ran.answer["text"], re.DOTALL)
    assert {call.status for call in ran.calls} == {200}


def test_its_program_calls_tools_and_reports_usage(agent: str, tmp_path: Path) -> None:
    tool, key = TOOLS[agent]
    steps = [f"@call {tool} {json.dumps({key: command, 'description': 'Note it'})}" for command in COMMANDS]

    ran = run(agent, "\n".join([*steps, "@say It is 20 euros."]), tmp_path)

    calls = [call for message in ran.row["output_messages"] for call in message.get("tool_calls", [])]
    assert [call["tool"] for call in calls] == [AGENTS[agent].shell] * 2
    assert "20 euros" in calls[1]["output"]
    assert ran.answer["text"] == "It is 20 euros."
    assert len(ran.calls) == 3
    assert ran.answer["usage"]["input"] == sum(call.input_tokens for call in ran.calls)
    assert ran.answer["usage"]["output"] == sum(call.output_tokens for call in ran.calls)


def test_the_tokens_of_a_subagent_of_claude_are_counted(tmp_path: Path) -> None:
    inner = '@call Bash {"command": "echo 20 euros", "description": "Say it"}\n@say Inner done.'
    task = {"description": "Say it", "prompt": inner, "subagent_type": "general-purpose"}

    ran = run(installed("claude"), f"@call Agent {json.dumps(task)}\n@say It is 20 euros.", tmp_path)

    calls = [call for message in ran.row["output_messages"] for call in message.get("tool_calls", [])]
    assert [call["tool"] for call in calls] == ["Agent", "Bash"]
    assert ran.answer["usage"]["input"] == sum(call.input_tokens for call in ran.calls)
    assert ran.answer["usage"]["output"] == sum(call.output_tokens for call in ran.calls)
    assert ran.answer["usage"]["requests"] == len(ran.calls) > 3


@pytest.mark.parametrize("api", ["openai-responses", "anthropic-messages"])
def test_pi_speaks_its_other_apis_with_it(api: str, tmp_path: Path) -> None:
    ran = run(installed("pi"), '@call bash {"command": "echo 20 euros"}\n@say It is 20 euros.', tmp_path, api=api)

    assert ran.answer["text"] == "It is 20 euros."
    assert {call.api for call in ran.calls} == {api}
