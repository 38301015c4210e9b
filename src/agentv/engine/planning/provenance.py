"""The state of the code at the start of a run: the git commit, the scripts of targets, and later changes to them."""

import hashlib
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import TypeAlias

from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.records.run import RunRecord
from agentv.types.targets import ResolvedTarget


def load_scripts(target: ResolvedTarget, folders: Sequence[str]) -> dict[str, JsonValue]:
    """Return the SHA-256 of each existing file named in a target's settings, by path as written there.

    Paths are relative to the targets file, or to one of `folders` (those of the eval files), or to the target's `cwd`.
    """
    digests = {word: digest_of(path) for word, path in find_scripts(target, folders).items()}
    return {word: digest for word, digest in digests.items() if digest is not None}


def find_scripts(target: ResolvedTarget, folders: Sequence[str]) -> dict[str, Path]:
    """Return the existing files with the code of a target, by path as written in its settings."""
    cwd = target.public_settings.get("cwd")
    searched = [target.base_dir, *folders]
    if isinstance(cwd, str):
        searched += [str(Path(folder, cwd)) for folder in searched]
    found = {word: _find(word, searched) for word in _words(target)}
    return {word: path for word, path in found.items() if path is not None}


def changed_code(
    target: ResolvedTarget, run: RunRecord, folders: Sequence[str], git_now: JsonObject | None
) -> str | None:
    """Return the part of a target's code that has changed since a run began, or None if none has."""
    if target.provider not in _RUNS_CODE:
        return None
    scripts = run.plan.get("scripts")
    stored = scripts.get(target.name) if isinstance(scripts, Mapping) else None
    before: Mapping[str, JsonValue] = stored if isinstance(stored, Mapping) else {}
    after = load_scripts(target, folders)
    if changed := [path for path in before if before[path] != after.get(path)]:
        return ", ".join(changed)
    commit = None if run.git is None else run.git.get("commit")
    commit_now = None if git_now is None else git_now.get("commit")
    if commit is not None and commit_now is not None and commit != commit_now:
        return f"the git commit, {str(commit)[:8]} then and {str(commit_now)[:8]} now"
    return None


_RUNS_CODE = ("cli", "python")
"""The providers that run code of the project."""


def _find(word: str, folders: Sequence[str]) -> Path | None:
    try:
        return next((path for folder in folders if (path := Path(folder, word)).is_file()), None)
    except (OSError, ValueError):
        return None


def digest_of(path: Path) -> str | None:
    """Return the SHA-256 of a file, None if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _words(target: ResolvedTarget) -> Iterator[str]:
    """Yield the words of a target's settings that may be file names."""
    executable = target.public_settings.get("executable")
    if isinstance(executable, str) and "/" in executable and not executable.startswith(("/", "~")):
        yield executable
    if target.provider == "python":
        function = target.public_settings.get("callable")
        if isinstance(function, str):
            yield function.rpartition(":")[0]
    elif target.provider == "cli":
        command = target.public_settings.get("command_template")
        if isinstance(command, str):
            try:
                yield from shlex.split(command)
            except ValueError:
                yield from command.split()


TIMEOUT_S = 5.0

GitState: TypeAlias = JsonObject | None
"""`{commit, dirty}`; None without a repository or without git."""


def load_git_state(folder: str) -> GitState:
    """Return `{commit, dirty}` of the repository around `folder`, or None if there is none."""
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
    """Read the state of the repository in the background; the returned function waits for it."""
    found: list[GitState] = []
    reading = Thread(target=lambda: found.append(load_git_state(folder)), name="agentv-git", daemon=True)
    reading.start()

    def wait() -> GitState:
        reading.join()
        return found[0] if found else None

    return wait
