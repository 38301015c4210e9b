"""The real agents: their configuration for a model on loopback, and the scripts of the model."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.real_agents.install import program_of
from tests.real_agents.model_server import Call, Model, Step

COMMAND = "printf 'It is 20 euros.\\n' >> notes.txt && cat notes.txt"
ANSWER = "I wrote the amount into notes.txt."
KEY = "canary-0123456789abcdef"
"""The key that every agent uses: it must stand in the request to the model, and nowhere else."""


@dataclass(frozen=True)
class RealAgent:
    """`settings` are the target's, without name and provider; `shell` is the tool's name in agentv's traces."""

    settings: Callable[[Model, Path], Mapping[str, object]]
    steps: Sequence[Step]
    shell: str
    requests: int
    cost: float | None = None


def codex(model: Model, home: Path) -> Mapping[str, object]:
    config = (
        'model = "fake-model"\n'
        'model_provider = "loopback"\n'
        "[model_providers.loopback]\n"
        'name = "loopback"\n'
        f'base_url = "{model.url}/v1"\n'
        'env_key = "LOOPBACK_KEY"\n'
        'wire_api = "responses"\n'
    )
    (home / "config.toml").write_text(config)
    env = {"HOME": str(home), "CODEX_HOME": str(home), "LOOPBACK_KEY": "${{ CANARY_KEY }}"}
    return {"args": ["--sandbox", "danger-full-access"], "env": env}


def claude(model: Model, home: Path) -> Mapping[str, object]:
    env = {
        "HOME": str(home),
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "${{ CANARY_KEY }}",
        "CLAUDE_CODE_MAX_RETRIES": "1",
    }
    args = ["--permission-mode", "acceptEdits", "--allowedTools", "Bash"]
    return {"args": args, "env": env, "max_turns": 10}


def pi(model: Model, home: Path) -> Mapping[str, object]:
    models = {
        "id": "fake-model",
        "name": "fake-model",
        "reasoning": False,
        "input": ["text"],
        "cost": {"input": 1, "output": 2, "cacheRead": 0.5, "cacheWrite": 0},
        "contextWindow": 100_000,
        "maxTokens": 1_000,
    }
    provider = {"baseUrl": f"{model.url}/v1", "api": "openai-completions", "apiKey": "LOOPBACK_API_KEY"}
    (home / ".pi" / "agent").mkdir(parents=True)
    known = {"providers": {"loopback": {**provider, "models": [models]}}}
    (home / ".pi" / "agent" / "models.json").write_text(json.dumps(known))
    env = {"HOME": str(home), "PI_OFFLINE": "1"}
    return {"pi_provider": "loopback", "model": "fake-model", "api_key": "${{ CANARY_KEY }}", "env": env}


def copilot(model: Model, home: Path) -> Mapping[str, object]:
    env = {
        "HOME": str(home),
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": f"{model.url}/v1",
        "COPILOT_PROVIDER_API_KEY": "${{ CANARY_KEY }}",
    }
    return {"model": "fake-model", "env": env}


def script(tool: str, key: str, **more: object) -> Sequence[Step]:
    return (Call(tool, {key: COMMAND, **more}), ANSWER)


AGENTS: Mapping[str, RealAgent] = {
    "codex": RealAgent(codex, script("exec_command", "cmd"), "command_execution", requests=0),
    "claude": RealAgent(claude, script("Bash", "command", description="Note it"), "Bash", requests=2),
    "pi": RealAgent(pi, script("bash", "command"), "bash", requests=2),
    "copilot": RealAgent(copilot, script("bash", "command", description="Note it"), "bash", requests=2),
}


def target_of(name: str, model: Model, home: Path, **changed: object) -> Mapping[str, object]:
    """Return the target of a real agent, as it stands in a targets file."""
    home.mkdir()
    agent = AGENTS[name]
    settings = {"executable": str(program_of(name)), **agent.settings(model, home), **changed}
    return {"name": name, "provider": name, "timeout_seconds": 60, "max_retries": 0, **settings}
