"""Clones of repositories that share nothing an agent could damage. Requires the program `git`."""

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from agentv.execution.processes.process import MAX_OUTPUT_BYTES, Command, Outcome, run_process
from agentv.execution.threads import AbandonedError, call_in_thread
from agentv.execution.workspaces.folder_trees import remove_tree
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure, FailureKind

TIMEOUT_S = 600.0

# Inside a git hook these variables name the user's repository, and git would work on that one.
_VARIABLES = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_PREFIX",
)
WITHOUT_GIT_VARIABLES = ("env", *(word for name in _VARIABLES for word in ("-u", name)))
"""The prefix of a command that must ignore a repository named by our own environment."""

_NO_PROMPTS = {"GIT_TERMINAL_PROMPT": "0"}
_NO_CONFIG = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[^/]+@[^/]+:")
_COMMIT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


async def clone(
    repository: str, ref: str | None, *, base_dir: Path, home: Path, target: Path, sparse: Sequence[str] = ()
) -> None:
    """Check out a repository at `ref` into `target`, on its main branch, without a remote.

    With `sparse`, only these folders and the files at the top are checked out.

    A URL is fetched into `home`/git and cached there for the next run. The clone borrows the objects of its source
    repository, which nothing done in the clone can change.
    """
    if shutil.which("git") is None:
        raise ProviderError(
            Failure("target_missing", "a workspace with `git` needs the program git, which is not installed")
        )
    is_remote = _REMOTE.match(repository)
    origin = await _mirror(repository, ref, home) if is_remote else (base_dir / repository).resolve()
    commit = await _commit(origin, ref or "HEAD", repository)
    await _git(["clone", "--quiet", "--shared", "--no-checkout", "--", str(origin), str(target)], kind="config_error")
    named = await _run(["-C", str(target), "symbolic-ref", "--quiet", "--short", "HEAD"])
    branch = named.stdout.decode(errors="replace").strip() or "main"
    if sparse:
        await _git(["-C", str(target), "sparse-checkout", "set", "--", *sparse])
    await _git(["-C", str(target), "checkout", "--quiet", "--no-track", "-B", branch, commit])
    await _git(["-C", str(target), "remote", "remove", "origin"])


def missing_repository(repository: str, base_dir: Path) -> str | None:
    """Return a message if a local repository does not exist, else None. URLs are not checked."""
    path = (base_dir / repository).resolve()
    return None if _REMOTE.match(repository) or path.is_dir() else f"workspace: there is no repository {path}"


async def ignored(paths: Iterable[str], folder: Path, scratch: Path) -> frozenset[str]:
    """Return those of `paths`, which need not exist, that the `.gitignore` files in `folder` cover.

    An empty repository is made at `scratch`. Without git or a `.gitignore` at the top of `folder`, nothing is ignored.
    """
    listed = os.fsencode("".join(f"{path}\0" for path in paths))
    if not listed or not (folder / ".gitignore").is_file() or shutil.which("git") is None:
        return frozenset()
    await _git(["init", "--quiet", "--bare", str(scratch)])
    where = (f"--git-dir={scratch}", f"--work-tree={folder}")
    outcome = await _run(
        [*where, "check-ignore", "--no-index", "-z", "--stdin"], stdin=listed, cwd=folder, env=_NO_CONFIG
    )
    return frozenset(os.fsdecode(path) for path in outcome.stdout.split(b"\0") if path)


async def _commit(origin: Path, ref: str, repository: str) -> str:
    outcome = await _run(
        ["-C", str(origin), "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"]
    )
    if outcome.exit_code != 0:
        reason = f" ({outcome.stderr.strip()})" if outcome.stderr.strip() else ""
        raise ProviderError(Failure("config_error", f"workspace: {repository} has no commit called {ref!r}{reason}"))
    return outcome.stdout.decode().strip()


async def _mirror(url: str, ref: str | None, home: Path) -> Path:
    """Return a bare mirror of the repository at a URL, updated unless it already has the exact commit."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", url.rsplit("@", 1)[-1])[-60:].strip("-.")
    mirror = home / "git" / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:12]}.git"
    mirror.parent.mkdir(parents=True, exist_ok=True)
    async with _locked(mirror.with_suffix(".lock")):
        if not mirror.is_dir():
            partial = mirror.with_suffix(".new")
            remove_tree(partial)
            await _git(["clone", "--quiet", "--mirror", "--", url, str(partial)])
            partial.rename(mirror)
        elif not (_COMMIT_ID.fullmatch(ref or "") and await _has_commit(mirror, ref or "")):
            await _git(["-C", str(mirror), "fetch", "--quiet", "--prune", "origin"])
    return mirror


async def _has_commit(repository: Path, commit: str) -> bool:
    return (await _run(["-C", str(repository), "cat-file", "-e", f"{commit}^{{commit}}"])).exit_code == 0


@asynccontextmanager
async def _locked(path: Path) -> AsyncIterator[None]:
    """Hold a lock between processes; the system releases it when this process ends in any way."""
    with path.open("wb") as file:
        try:
            await call_in_thread(fcntl.flock, file.fileno(), fcntl.LOCK_EX, timeout_s=TIMEOUT_S)
        except AbandonedError:
            message = f"workspace: another process has held {path} for more than {TIMEOUT_S:g} s"
            raise ProviderError(Failure("target_timeout", message)) from None
        yield


async def _git(arguments: Sequence[str], *, kind: FailureKind = "target_exit") -> None:
    """Run git. Raises ProviderError with its standard error unless it exits with 0."""
    outcome = await _run(arguments)
    if outcome.timed_out:
        message = f"workspace: git {_verb(arguments)} took longer than {TIMEOUT_S:g} s"
        raise ProviderError(Failure("target_timeout", message))
    if outcome.exit_code != 0:
        reason = outcome.stderr.strip() or f"exit code {outcome.exit_code}"
        raise ProviderError(Failure(kind, f"workspace: git {_verb(arguments)} failed: {reason}"))


def _verb(arguments: Sequence[str]) -> str:
    return arguments[2] if arguments[0] == "-C" else arguments[0]


async def _run(
    arguments: Sequence[str], *, stdin: bytes = b"", cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Outcome:
    command = Command(
        argv=(*WITHOUT_GIT_VARIABLES, "git", *arguments),
        cwd=str(cwd or Path.cwd()),
        env={**_NO_PROMPTS, **(env or {})},
        stdin=stdin,
    )
    return await run_process(command, timeout_s=TIMEOUT_S, max_output_bytes=MAX_OUTPUT_BYTES + len(stdin))
