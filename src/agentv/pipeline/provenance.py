"""What the code looked like when a run began: the git commit, and whether anything was changed since."""

import subprocess

from agentv.types.json_value import JsonObject

GIT_TIMEOUT_S = 5.0


def load_git_state(folder: str) -> JsonObject | None:
    """Return `{commit, dirty}` of the repository around `folder`, or None where there is none."""
    command = ["git", "-C", folder, "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=GIT_TIMEOUT_S, check=True)  # noqa: S603 - fixed words
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid ")), None)
    if commit in (None, "(initial)"):
        return None
    return {"commit": commit, "dirty": any(not line.startswith("#") for line in lines)}
