"""Sessions that the real agents write, and their shortened form for tests/fixtures/transcripts.

`python -m tests.real_agents.transcripts FOLDER [AGENT...]` records them anew. Paths of this machine are replaced; texts
of instructions are cut, and records beside the conversation are left out, which no reader looks at.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.real_agents.agents import KEY, target_of
from tests.real_agents.install import program_of
from tests.real_agents.model_server import Call, Model, playing
from tests.real_agents.record import ANSWER, MISS, NOTE, QUESTION, steps_of
from tests.support.asking import Tools

from agentv.engine.plugins.loading import load_specs
from agentv.execution.sharing import SharedResources
from agentv.loading.datasets.transcripts import find_transcripts
from agentv.loading.targets.targets import resolve_target
from agentv.types.provider import ProviderRequest, ProviderResponse
from agentv.types.targets import TargetConfig

LEFT_OUT = frozenset(("api-request", "api-request-blob", "api-request-shape", "attachment", "atis-latch", "tools-used"))
"""Records of Claude Code beside the conversation, which fill most of a file."""
MOST_CHARACTERS = 300


def run_agent(agent: str, folder: Path, otlp: str | None = None) -> tuple[ProviderResponse, Sequence[Path]]:
    """Call a real agent once; return the target provider's response and the transcripts of the session.

    Claude Code and Codex send their telemetry, with content, to a URL if there is one.
    """
    workspace = folder / "workspace"
    workspace.mkdir()
    steps = [
        Call(step.tool, {key: str(value).replace("WORKSPACE", str(workspace)) for key, value in step.input.items()})
        if isinstance(step, Call)
        else step
        for step in steps_of(agent)
    ]
    with playing(*steps) as model:
        settings = dict(target_of(agent, model, folder / "home"))
        if agent == "pi":
            settings["executable"] = str(_pi_with_sessions(folder))
        if otlp is not None and agent == "claude":
            settings["env"] = {**_mapping(settings["env"]), **CLAUDE_TELEMETRY, "OTEL_EXPORTER_OTLP_ENDPOINT": otlp}
        if otlp is not None and agent == "codex":
            with (folder / "home" / "config.toml").open("a") as file:
                file.write(CODEX_TELEMETRY.format(url=otlp))
        given = {key: value for key, value in settings.items() if key not in ("name", "provider")}
        config = TargetConfig(agent, agent, given)  # type: ignore[arg-type] # JSON all the same
        target = resolve_target(config, env={"CANARY_KEY": KEY}, specs=load_specs())

        async def ask() -> ProviderResponse:
            async with SharedResources() as shared:
                provider = load_specs().providers.get(agent).load_factory()(target, Tools(shared, str(folder)))
                response: ProviderResponse = await provider.invoke(
                    ProviderRequest(QUESTION, workspace=str(workspace), eval_case_id="a")
                )
                return response

        response = asyncio.run(ask())
    return response, find_transcripts(folder / "home").transcripts


CLAUDE_TELEMETRY = {
    "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
    "CLAUDE_CODE_ENHANCED_TELEMETRY_BETA": "1",
    "OTEL_LOGS_EXPORTER": "otlp",
    "OTEL_TRACES_EXPORTER": "otlp",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
    "OTEL_LOG_USER_PROMPTS": "1",
    "OTEL_LOG_TOOL_DETAILS": "1",
    "OTEL_LOG_TOOL_CONTENT": "1",
}
CODEX_TELEMETRY = """[otel]
log_user_prompt = true
exporter = {{ otlp-http = {{ endpoint = "{url}/v1/logs", protocol = "json" }} }}
"""


def _mapping(value: object) -> Mapping[str, object]:
    assert isinstance(value, Mapping)
    return value


def run_program(program: str, folder: Path) -> Path:
    """Call Gemini CLI or OpenCode once, which are no targets of agentv; return the transcript of the session."""
    workspace, home = folder / "workspace", folder / "home"
    workspace.mkdir()
    home.mkdir()
    shell, write = ("run_shell_command", "write_file") if program == "gemini" else ("bash", "write")
    shells = [Call(shell, {"command": command, "description": "Look"}) for command in (NOTE, MISS)]
    path_key = "file_path" if program == "gemini" else "filePath"
    written = Call(write, {path_key: str(workspace / "new.txt"), "content": "new\n"})
    with playing(*shells, written, ANSWER) as model:
        arguments, env = (_gemini if program == "gemini" else _opencode)(model, home, workspace)
        command = [str(program_of(program)), *arguments, QUESTION]
        inherited = {name: value for name, value in os.environ.items() if name.lower().startswith("npm_config")}
        env = {**inherited, "PATH": os.environ["PATH"], "HOME": str(home), **env}
        subprocess.run(command, cwd=workspace, env=env, stdin=subprocess.DEVNULL, check=True, timeout=120)
    (path,) = find_transcripts(home).transcripts
    return path


Started = tuple[Sequence[str], Mapping[str, str]]
"""The arguments before the prompt, and the environment."""


def _gemini(model: Model, home: Path, _: Path) -> Started:
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"disableAutoUpdate": True}}
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    env = {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": model.url, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    return ("-m", "gemini-2.5-pro", "--yolo", "-p"), env


def _opencode(model: Model, _: Path, workspace: Path) -> Started:
    price = {"input": 1, "output": 2, "cache_read": 0.5}
    models = {"fake-model": {"name": "fake-model", "cost": price, "limit": {"context": 100_000, "output": 1_000}}}
    options = {"baseURL": f"{model.url}/v1", "apiKey": KEY}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "loopback", "options": options, "models": models}
    config = {
        "provider": {"loopback": provider},
        "model": "loopback/fake-model",
        "small_model": "loopback/fake-model",
        "permission": {"edit": "allow", "bash": "allow"},
        "autoupdate": False,
    }
    (workspace / "opencode.json").write_text(json.dumps(config))
    return ("run",), {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}


def _pi_with_sessions(folder: Path) -> Path:
    """Return a program that runs pi without the option by which the provider asks for no session file."""
    shim = folder / "pi"
    shim.write_text(
        '#!/bin/bash\nargs=(); for each in "$@"; do [ "$each" = --no-session ] || args+=("$each"); done\n'
        f'exec "{program_of("pi")}" "${{args[@]}}"\n'
    )
    shim.chmod(0o700)
    return shim


def shortened(text: str, folder: Path) -> str:
    """Return a transcript without the parts that no reader looks at."""
    assert KEY not in text
    records = [json.loads(line) for line in text.replace(str(folder), "/example").splitlines()]
    kept = [_cut(record) for record in records if record.get("type") not in LEFT_OUT]
    kept = _with_parents(kept, {each["uuid"]: each.get("parentUuid") for each in records if "uuid" in each})
    lines = (json.dumps(record, ensure_ascii=False, separators=(",", ":")) for record in kept)
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8080", "".join(f"{line}\n" for line in lines))


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= MOST_CHARACTERS else f"{value[:40]}…"
    if isinstance(value, dict):
        return {
            key: _cut(item) for key, item in value.items() if key not in ("toolTelemetry", "metrics", "rate_limits")
        }
    return [_cut(item) for item in value] if isinstance(value, list) else value


def _with_parents(records: list[Any], parents: dict[str, str | None]) -> list[Any]:
    """Return the records with the nearest parent that is still among them."""
    there = {record.get("uuid") for record in records}
    for record in records:
        parent = record.get("parentUuid")
        while parent is not None and parent not in there:
            parent = parents.get(parent)
        if "parentUuid" in record:
            record["parentUuid"] = parent
    return records


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or ("claude", "codex", "copilot", "gemini", "pi"):
        with tempfile.TemporaryDirectory() as made:
            path = run_program(name, Path(made)) if name == "gemini" else run_agent(name, Path(made))[1][0]
            (place / f"{name}.jsonl").write_text(shortened(path.read_text(), Path(made)))
        print(name, (place / f"{name}.jsonl").stat().st_size)
