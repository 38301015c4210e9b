"""The state of the repository that a run is made in."""

import subprocess
from collections.abc import Callable
from threading import Thread
from typing import TypeAlias

from agentv.types.json_value import JsonObject

TIMEOUT_S = 5.0

GitState: TypeAlias = JsonObject | None
"""`{commit, dirty}`; None where there is no repository, or no git."""


def load_git_state(folder: str) -> GitState:
    """Return `{commit, dirty}` of the repository around `folder`, or None where there is none."""
    command = ["git", "-C", folder, "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=True)  # noqa: S603 - fixed words
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid ")), None)
    if commit in (None, "(initial)"):
        return None
    return {"commit": commit, "dirty": any(not line.startswith("#") for line in lines)}


def begin_git_state(folder: str) -> Callable[[], GitState]:
    """Look at the repository while other work goes on; what is returned waits for it. A large one takes seconds."""
    found: list[GitState] = []
    looking = Thread(target=lambda: found.append(load_git_state(folder)), name="agentv-git", daemon=True)
    looking.start()

    def wait() -> GitState:
        looking.join()
        return found[0] if found else None

    return wait
