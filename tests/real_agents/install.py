"""Installs the programs of the coding agents, at the versions that the tests were written for.

`python tests/real_agents/install.py` needs Node 20 and npm. They go to $AGENTV_REAL_AGENTS_DIR, else to
~/.cache/agentv/real-agents, each version beside the others; what is there is left alone.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = {
    "claude": ("@anthropic-ai/claude-code", "2.1.330"),
    "codex": ("@openai/codex", "0.169.0"),
    "copilot": ("@github/copilot", "1.0.102"),
    "pi": ("@earendil-works/pi-coding-agent", "0.74.2"),
    # These two are not targets of agentv: it reads their transcripts only.
    "gemini": ("@google/gemini-cli", "0.61.0"),
    "opencode": ("opencode-ai", "1.18.33"),
}


def root() -> Path:
    """Return the folder that holds the programs of all agents."""
    named = os.environ.get("AGENTV_REAL_AGENTS_DIR")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else cache / "agentv" / "real-agents"


def folder_of(agent: str) -> Path:
    """Return where one version of an agent is installed."""
    return root() / f"{agent}-{PACKAGES[agent][1]}"


def program_of(agent: str) -> Path:
    """Return the program of an agent, whether it is there or not."""
    return folder_of(agent) / "node_modules" / ".bin" / agent


def install(agent: str) -> None:
    """Install one agent; its folder is there only when it is complete."""
    package, version = PACKAGES[agent]
    folder = folder_of(agent)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as new:
        made = Path(new, folder.name)
        options = ["--prefix", str(made), "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(["npm", "install", *options, f"{package}@{version}"], check=True)
        if not program_of(agent).exists():  # another process may have been faster
            shutil.rmtree(folder, ignore_errors=True)
            made.rename(folder)


if __name__ == "__main__":
    for name in sys.argv[1:] or PACKAGES:
        if not program_of(name).exists():
            install(name)
        print(f"{name}: {program_of(name)}")
