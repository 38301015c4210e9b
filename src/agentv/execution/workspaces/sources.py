"""Sources of workspaces: folders or clones, fetched once per process, so that all cases start with equal files."""

import asyncio
import fcntl
import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, structs

from agentv.execution.folder_trees import copy_tree, find_keys, fix_links, open_beneath, remove_tree, scan
from agentv.execution.processes.left_behind import temporary_folder
from agentv.execution.processes.process import MAX_OUTPUT_BYTES, Command, Outcome, run_process
from agentv.execution.processes.tree import finish
from agentv.execution.threads import AbandonedError, call_in_thread
from agentv.types.failures import Failure, FailureKind
from agentv.types.protocols import SharedParts
from agentv.types.provider import ProviderError
from agentv.types.workspaces import WorkspaceConfig, is_url, unfetched_submodules, written_path

TIMEOUT_S = 600.0

# Inside a git hook these variables name the user's repository, which git would use instead of ours.
_GIT_VARIABLES = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_PREFIX",
)
WITHOUT_GIT_VARIABLES = ("env", *(word for name in _GIT_VARIABLES for word in ("-u", name)))
"""The prefix of a command that must ignore a repository named by our own environment."""

_NO_PROMPTS = {"GIT_TERMINAL_PROMPT": "0"}
_NO_CONFIG = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
MAIN_BRANCH = "main"
"""The branch of a clone whose source has a commit instead of a branch as its HEAD."""

_COMMIT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


async def clone(
    repository: str, ref: str | None, *, base_dir: Path, home: Path, target: Path, sparse: Sequence[str] = ()
) -> None:
    """Clone a repository into `target` and check out `ref`, without a remote.

    The checked-out branch has the name of the source's current branch, or MAIN_BRANCH if it has none.

    With `sparse`, only these folders and the files at the top are checked out.

    A URL is fetched into `home`/git and cached there for the next run. The clone shares the objects of its source
    repository, but no command in the clone can change the source.
    """
    if shutil.which("git") is None:
        raise ProviderError(
            Failure("target_missing", "a workspace with `git` needs the program git, which is not installed")
        )
    origin = (
        await _mirror(repository, ref, home) if is_url(repository) else written_path(repository, base_dir).resolve()
    )
    commit = await _commit(origin, ref or "HEAD", repository)
    await _git(["clone", "--quiet", "--shared", "--no-checkout", "--", str(origin), str(target)], kind="config_error")
    head = await _run(["-C", str(target), "symbolic-ref", "--quiet", "--short", "HEAD"])
    branch = head.stdout.decode(errors="replace").strip() or MAIN_BRANCH
    if sparse:
        await _git(["-C", str(target), "sparse-checkout", "set", "--", *sparse])
    await _git(["-C", str(target), "checkout", "--quiet", "--no-track", "-B", branch, commit])
    await _git(["-C", str(target), "remote", "remove", "origin"])


def missing_repository(repository: str, base_dir: Path) -> str | None:
    """Return a message if a path does not lead to a repository, else None. URLs are not checked."""
    if is_url(repository):
        return None
    path = written_path(repository, base_dir).resolve()
    if not path.is_dir():
        return f"workspace: there is no repository {path}"
    is_repository = (path / ".git").exists() or (path / "HEAD").is_file()
    return None if is_repository else f"workspace: the folder {path} is not a git repository"


async def ignored(paths: Iterable[str], folder: Path, scratch: Path) -> frozenset[str]:
    """Return those of `paths`, which need not exist, that the `.gitignore` files in `folder` cover.

    An empty repository is made at `scratch`. Without git or a `.gitignore` at the top of `folder`, nothing is ignored.
    """
    listed = os.fsencode("".join(f"{path}\0" for path in paths))
    if not listed or not (folder / ".gitignore").is_file() or shutil.which("git") is None:
        return frozenset()
    await _git(["init", "--quiet", "--bare", str(scratch)])
    options = (f"--git-dir={scratch}", f"--work-tree={folder}")
    outcome = await _run(
        [*options, "check-ignore", "--no-index", "-z", "--stdin"], stdin=listed, cwd=folder, env=_NO_CONFIG
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
    """Hold a lock between processes; the system releases it however this process ends."""
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


R = TypeVar("R")


class Source(Struct, frozen=True):
    """The initial files of all workspaces of one config."""

    folder: Path
    """Never modified: it is the base of diffs."""
    scratch: Path
    """The place of an empty repository, with which git matches paths."""
    notes: tuple[str, ...] = ()
    """What is not in `folder`."""
    keys: frozenset[str] = frozenset()
    """The keys of well-known services in the files."""

    async def ignored(self, paths: Iterable[str]) -> frozenset[str]:
        """Return those of `paths` that the source's own `.gitignore` covers; an agent's `.gitignore` has no effect."""
        return await ignored(paths, self.folder, self.scratch)


def missing_source(config: WorkspaceConfig, base_dir: Path) -> str | None:
    """Return a message if the source of a config's workspaces does not exist locally; None if it does or is a URL.

    A relative `template` or `git` starts from `base_dir`. Nothing is fetched or created.
    """
    for repository in (config.git, *(repo.git for repo in config.repos)):
        missing = None if repository is None else missing_repository(repository, base_dir)
        if missing is not None:
            return missing
    if config.template is None:
        return None
    template = _template(config, base_dir)
    return None if template.is_dir() else f"workspace: there is no folder {template} to copy"


def _template(config: WorkspaceConfig, base_dir: Path) -> Path:
    return written_path(config.template or "", base_dir).resolve()


async def get_source(config: WorkspaceConfig, *, base_dir: Path, home: Path, shared: SharedParts) -> Source:
    """Return the source of a config's workspaces, fetched on first use in this process.

    A relative `template` or `git` starts from `base_dir`. Raises ProviderError if the source does not exist.
    """
    repos = [structs.asdict(repo) for repo in config.repos]
    key = json.dumps(["workspace", config.template, config.git, config.ref, repos, str(base_dir)])
    return await shared.get(key, lambda: _open_source(config, base_dir=base_dir, home=home))


@asynccontextmanager
async def _open_source(config: WorkspaceConfig, *, base_dir: Path, home: Path) -> AsyncIterator[Source]:
    missing = missing_source(config, base_dir)
    if missing is not None:
        raise ProviderError(Failure("config_error", missing))
    place = new_folder()
    try:
        folder = place / "source"
        if config.git is not None:
            await clone(config.git, config.ref, base_dir=base_dir, home=home, target=folder)
        elif config.template is None:
            folder.mkdir()
        else:
            template = _template(config, base_dir)
            await in_thread(lambda stop: _copy_template(template, folder, stop))
        for repo in config.repos:
            target = folder / repo.path
            target.parent.mkdir(parents=True, exist_ok=True)
            await clone(repo.git, repo.ref, base_dir=base_dir, home=home, target=target, sparse=repo.sparse)
        keys = await in_thread(lambda _: find_keys(folder, scan(folder)))
        yield Source(folder, place / "rules.git", tuple(_submodule_notes(config, folder)), keys)
    finally:
        remove_tree(place)


def _submodule_notes(config: WorkspaceConfig, folder: Path) -> Iterator[str]:
    """Yield a note on each cloned repository whose submodules were not fetched."""
    added = [repo.path for repo in config.repos]
    for repository, path in ((config.git, ""), *((repo.git, repo.path) for repo in config.repos)):
        if repository is None:
            continue
        descriptor = open_beneath(folder / path, ".gitmodules")
        if descriptor is not None:
            with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
                message = unfetched_submodules(repository, file.read(), added, folder=path)
            if message is not None:
                yield f"workspace: {message}"


def _copy_template(template: Path, folder: Path, stop: threading.Event) -> None:
    try:
        copy_tree(template, folder, stop)
        fix_links(folder, template)
    except OSError as error:
        raise ProviderError(Failure("config_error", f"workspace: {template} cannot be copied: {error}")) from error
    # A file `.git` refers to the original repository, which a commit in the copy would change.
    if (folder / ".git").is_file():
        (folder / ".git").unlink()


def new_folder() -> Path:
    """Make a folder for one workspace outside of all repositories, whose instruction files would influence an agent."""
    return temporary_folder().resolve()


async def in_thread(work: Callable[[threading.Event], R]) -> R:
    """Run file operations in a thread. On cancellation, set the event passed to `work` and wait until it returns."""
    stop = threading.Event()
    task = asyncio.ensure_future(call_in_thread(work, stop, timeout_s=None))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop.set()
        await finish(_ended(task))
        raise


async def _ended(task: "asyncio.Future[R]") -> None:
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # retrieve the exception, so that asyncio does not log it
