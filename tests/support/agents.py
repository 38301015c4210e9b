"""Programs that stand in for a coding agent: they record their input, print a stream, and exit as configured."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EVENTS = Path(__file__).parents[1] / "fixtures" / "agent-events"


def recorded(agent: str) -> str:
    """Return what the real program printed (tests/real_agents/record.py)."""
    return (EVENTS / f"{agent}.jsonl").read_text("utf-8")


@dataclass(frozen=True)
class StandIn:
    """A program, and the input of its last run."""

    folder: Path

    @property
    def program(self) -> str:
        return str(self.folder / "agent")

    @property
    def arguments(self) -> list[str]:
        return (self.folder / "arguments").read_text("utf-8").splitlines()

    @property
    def prompt(self) -> str:
        return (self.folder / "prompt").read_text("utf-8")

    @property
    def place(self) -> Path:
        return Path((self.folder / "place").read_text("utf-8").strip())

    @property
    def files(self) -> list[str]:
        return (self.folder / "files").read_text("utf-8").split()


def stand_in(folder: Path, prints: str = "", then: str = "exit 0") -> StandIn:
    """Write a program that records its arguments, prompt and folder, prints `prints` and runs `then` (text for sh)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stream").write_text(prints, "utf-8")
    script = f"""#!/bin/sh
printf '%s\\n' "$@" > '{folder}/arguments'
cat > '{folder}/prompt'
pwd > '{folder}/place'
ls > '{folder}/files'
cat '{folder}/stream'
{then}
"""
    agent = folder / "agent"
    agent.write_text(script, "utf-8")
    agent.chmod(0o700)
    return StandIn(folder)


def lines(*events: Mapping[str, Any]) -> str:
    """Return events as an agent prints them."""
    return "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events)


def codex_says(*texts: str) -> str:
    """Return what Codex prints for these texts."""
    return lines(*({"type": "item.completed", "item": {"type": "agent_message", "text": text}} for text in texts))


def calls_of(messages: Sequence[Any] | None) -> list[tuple[str, object, object]]:
    """Return the tool calls of messages: tool, input, output."""
    return [(call.tool, call.input, call.output) for message in messages or () for call in message.tool_calls]
