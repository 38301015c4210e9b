"""Sources of workspaces: fetched once per process, so that every case starts from the same files."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, structs

from agentv.execution.processes.left_behind import temporary_folder
from agentv.execution.processes.tree import finish
from agentv.execution.threads import call_in_thread
from agentv.execution.workspaces.folder_trees import copy_tree, fix_links, remove_tree
from agentv.execution.workspaces.git_clones import clone, ignored, missing_repository
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.protocols import SharedParts
from agentv.types.workspaces import WorkspaceConfig

R = TypeVar("R")


class Source(Struct, frozen=True):
    """The initial files of all workspaces of one config. `folder` is never modified: it is the base of diffs."""

    folder: Path
    scratch: Path

    async def ignored(self, paths: Iterable[str]) -> frozenset[str]:
        """Return those of `paths` that the source's own `.gitignore` covers; one written by an agent has no effect."""
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
    return (base_dir / (config.template or "")).resolve()


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
        yield Source(folder, place / "rules.git")
    finally:
        remove_tree(place)


def _copy_template(template: Path, folder: Path, stop: threading.Event) -> None:
    try:
        copy_tree(template, folder, stop)
        fix_links(folder, template)
    except OSError as error:
        raise ProviderError(Failure("config_error", f"workspace: {template} cannot be copied: {error}")) from error
    if (folder / ".git").is_file():  # it names the real repository, which a commit in a copy would change
        (folder / ".git").unlink()


def new_folder() -> Path:
    """Make a folder for one workspace outside of any repository, whose instructions would influence an agent."""
    return temporary_folder().resolve()


async def in_thread(work: Callable[[threading.Event], R]) -> R:
    """Run file work in a thread. On cancellation the event passed to `work` is set, and its end is awaited."""
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
