"""Records tests/fixtures/agent-events/*.jsonl anew: `python -m tests.real_agents.record FOLDER [AGENT...]`.

What the real programs print while a model on loopback makes them run a command, fail at another one, write a file and
answer. Paths of this machine are replaced, and what no reader looks at is cut out.
"""

import asyncio
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.real_agents.agents import KEY, target_of
from tests.real_agents.model_server import Call, Step, playing
from tests.support.asking import Tools

from agentv.engine.plugins.loading import load_specs
from agentv.execution.sharing import SharedResources
from agentv.loading.targets.targets import resolve_target
from agentv.types.provider import ProviderRequest
from agentv.types.targets import TargetConfig

QUESTION = "Note the amount, and write new.txt."
ANSWER = "The amount is in notes.txt, and new.txt is written."
NOTE, MISS = "printf '20 euros\\n' > notes.txt && cat notes.txt", "cat missing.txt"
PATCH = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: new.txt\n+new\n*** End Patch\nEOF\n"
MOST_OF_A_KIND = 3
"""The number of similar events of one type that are recorded."""


def steps_of(agent: str) -> Sequence[Step]:
    if agent == "codex":
        return *(Call("exec_command", {"cmd": command}) for command in (NOTE, MISS, PATCH)), ANSWER
    shell = "Bash" if agent == "claude" else "bash"
    written = {
        "claude": Call("Write", {"file_path": "WORKSPACE/new.txt", "content": "new\n"}),
        "pi": Call("write", {"path": "new.txt", "content": "new\n"}),
        "copilot": Call("create", {"path": "WORKSPACE/new.txt", "file_text": "new\n"}),
    }
    shells = [Call(shell, {"command": command, "description": "Look"}) for command in (NOTE, MISS)]
    return *shells, written[agent], ANSWER


def record(agent: str, folder: Path) -> str:
    """Return the output of an agent, cleaned for recording."""
    workspace, shim, heard = folder / "workspace", folder / "shim", folder / "heard"
    workspace.mkdir()
    steps = [_filled(step, workspace) if isinstance(step, Call) else step for step in steps_of(agent)]
    with playing(*steps) as model:
        written = dict(target_of(agent, model, folder / "home"))
        shim.write_text(f'#!/bin/sh\n"{written["executable"]}" "$@" | tee {heard}\n')
        shim.chmod(0o700)
        written["executable"] = str(shim)
        settings = {key: value for key, value in written.items() if key not in ("name", "provider")}
        config = TargetConfig(agent, agent, settings)  # type: ignore[arg-type] # JSON all the same
        target = resolve_target(config, env={"CANARY_KEY": KEY}, specs=load_specs())

        async def ask() -> None:
            async with SharedResources() as shared:
                provider = load_specs().providers.get(agent).load_factory()(target, Tools(shared, str(folder)))
                await provider.invoke(ProviderRequest(QUESTION, workspace=str(workspace), eval_case_id="a"))

        asyncio.run(ask())
    return _fit(heard.read_text(), folder)


def _filled(step: Call, workspace: Path) -> Call:
    return Call(step.tool, {key: str(value).replace("WORKSPACE", str(workspace)) for key, value in step.input.items()})


def _fit(text: str, folder: Path) -> str:
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8080", text.replace(str(folder), "/example"))
    kept: list[str] = []
    seen: dict[str, int] = {}
    for line in text.splitlines():
        event = json.loads(line)
        kind = str(event.get("type"))
        seen[kind] = seen.get(kind, 0) + 1
        if kind in ("session.background_tasks_changed", "message_update") and seen[kind] > MOST_OF_A_KIND:
            continue
        if kind == "session.skills_loaded":
            continue
        if kind == "system":
            event = {key: event[key] for key in ("type", "subtype", "cwd", "session_id", "model") if key in event}
        kept.append(json.dumps(event, ensure_ascii=False, separators=(",", ":")))
    assert KEY not in text
    return "\n".join(kept) + "\n"


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or ("claude", "codex", "copilot", "pi"):
        with tempfile.TemporaryDirectory() as folder:
            (place / f"{name}.jsonl").write_text(record(name, Path(folder)))
        print(name, subprocess.check_output(["wc", "-c", str(place / f"{name}.jsonl")], text=True).strip())
