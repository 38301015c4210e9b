"""A workspace for one result: a copy of the source to work in, and the changes made there (docs/how-to/workspaces.md).

async with open_workspace(config, name="refunds-7", base_dir=…, home=…, shared=…) as workspace:
    …                                    # an agent works in workspace.path
    captured = await workspace.capture() # then the answer is evaluated
    notes = await workspace.finish(failed=False)
"""

import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agentv.execution.processes.process import Command, run_process
from agentv.execution.processes.tree import finish as to_the_end
from agentv.execution.workspaces.folder_changes import FolderSnapshot, capture, find_changes
from agentv.execution.workspaces.folder_trees import Entries, copy_file, copy_tree, remove_tree, scan
from agentv.execution.workspaces.git_clones import WITHOUT_GIT_VARIABLES
from agentv.execution.workspaces.sources import Source, get_source, in_thread, new_folder
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.protocols import SharedParts
from agentv.types.workspaces import Captured, WorkspaceConfig

COMMAND_TIMEOUT_S = 600.0
"""The timeout of `setup` and of `teardown`."""

_NAME_LENGTH = 100
_OUTPUT_TAIL = 2_000


@asynccontextmanager
async def open_workspace(
    config: WorkspaceConfig, *, name: str, base_dir: Path, home: Path, shared: SharedParts, machine: str = ""
) -> AsyncIterator["Workspace"]:
    """Make a workspace, set it up, and remove it at the end of the block or save it in `home`/workspaces.

    A saved workspace is named after `name`; `machine` is the node of a cluster that it is left on. A block that is left
    before `finish` counts as failed. Raises ProviderError: `config_error`, `target_missing` (git), `target_exit` or
    `target_timeout` (setup).
    """
    source = await get_source(config, base_dir=base_dir, home=home, shared=shared)
    place = new_folder()
    workspace = Workspace(config, source, place, home / "workspaces" / _saved_name(name, place), machine)
    try:
        await workspace.set_up()
        yield workspace
    finally:
        await to_the_end(workspace.close())


def _saved_name(name: str, place: Path) -> str:
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:_NAME_LENGTH]
    return f"{plain or 'row'}-{place.name.rpartition('-')[2]}"


class Workspace:
    """The workspace of one result. The agent works in `path`; `saved_path` is its location if it is saved."""

    def __init__(self, config: WorkspaceConfig, source: Source, place: Path, saved_path: Path, machine: str) -> None:
        self.path = place / "work"
        self.saved_path = None if config.keep == "never" else saved_path
        self._machine = machine
        self._config = config
        self._source = source
        self._place = place
        self._before = FolderSnapshot({}, lambda _: source.folder)
        self._is_torn_down = False
        self._is_finished = False

    @property
    def saved_at(self) -> str:
        """The place of the workspace if it is saved, for people: its path, on a node of a cluster `node:path`."""
        return f"{self._machine}:{self.saved_path}" if self._machine else str(self.saved_path)

    async def set_up(self) -> None:
        """Copy the source and run `setup`, whose changes are not captured."""
        try:
            copied = await in_thread(self._copy)
        except OSError as error:
            raise ProviderError(Failure("config_error", f"workspace: no copy could be made: {error}")) from error
        self._before = FolderSnapshot(copied, lambda _: self._source.folder)
        if self._config.setup is None:
            return
        failure = await self._run(self._config.setup, "setup")
        if failure is not None:
            raise ProviderError(failure)
        self._before = await self._snapshot_after_setup()

    async def reset(self) -> None:
        """Remove everything and set up again, including `setup`, for instance before a second attempt.

        Raises what `set_up` raises. `teardown` does not run here.
        """
        leftovers = (self.path, self._place / "set-up")
        if not await in_thread(lambda _: all(remove_tree(folder) for folder in leftovers)):
            raise ProviderError(Failure("config_error", f"workspace: {self.path} could not be emptied"))
        await self.set_up()

    def _copy(self, stop: threading.Event) -> Entries:
        copy_tree(self._source.folder, self.path, stop)
        return scan(self.path)

    async def _snapshot_after_setup(self) -> FolderSnapshot:
        """Return a snapshot after `setup`, with copies of the files it created or changed."""
        now = await self._snapshot()
        changes = await in_thread(lambda _: find_changes(self._before, now))
        made = frozenset(change.path for change in changes if change.new is not None)
        folder = self._place / "set-up"

        def save(_: threading.Event) -> None:
            for path in made:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                copy_file(self.path / path, folder / path)

        await in_thread(save)
        return FolderSnapshot(now.entries, lambda path: folder if path in made else self._source.folder)

    async def _snapshot(self) -> FolderSnapshot:
        """Return a snapshot without new files that the source's own `.gitignore` covers."""
        entries = await in_thread(lambda _: scan(self.path))
        ignored = await self._source.ignored(entries.keys() - self._before.entries.keys())
        return FolderSnapshot(
            {path: entry for path, entry in entries.items() if path not in ignored}, lambda _: self.path
        )

    async def capture(self) -> Captured:
        """Return the changes since the setup, regardless of commits made meanwhile."""
        now = await self._snapshot()
        return await in_thread(lambda _: capture(find_changes(self._before, now), self._before, now))

    async def finish(self, *, failed: bool) -> tuple[str, ...]:
        """Run `teardown`, then save or remove the workspace; return notes for the user.

        If this is cancelled, `close` does the rest, except a `teardown` that has begun.
        """
        notes = []
        if self._config.teardown is not None and self._exists() and not self._is_torn_down:
            self._is_torn_down = True
            failure = await self._run(self._config.teardown, "teardown")
            notes += [failure.message] if failure is not None else []
        if self._config.keep == "always" or (self._config.keep == "failed" and failed):
            notes += await in_thread(self._save)
        if not await in_thread(lambda _: remove_tree(self._place)):
            notes.append(f"workspace: {self._place} could not be removed")
        self._is_finished = True
        return tuple(notes)

    async def close(self) -> None:
        """Finish as failed, unless `finish` completed."""
        if not self._is_finished:
            await self.finish(failed=True)

    def _exists(self) -> bool:
        """Return True if the folder still exists and was not replaced by a link."""
        return self.path.is_dir() and not self.path.is_symlink()

    def _save(self, stop: threading.Event) -> list[str]:
        if self.saved_path is None or not self._exists():
            return ["workspace: cannot be saved, its folder no longer exists"]
        try:
            self.saved_path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self.path.rename(self.saved_path)
            except OSError:  # another file system; a partial copy may exist
                remove_tree(self.saved_path)
                copy_tree(self.path, self.saved_path, stop)
        except OSError as error:
            return [f"workspace: could not be saved to {self.saved_path}: {error}"]
        # With keep: always the answer already holds the path; here it is known only after the evaluation.
        return [f"workspace: saved to {self.saved_at}"] if self._config.keep == "failed" else []

    async def _run(self, script: str, called: str) -> Failure | None:
        """Run a shell command in the workspace; return its failure, or None on success."""
        command = Command(argv=(*WITHOUT_GIT_VARIABLES, "/bin/sh", "-c", script), cwd=str(self.path))
        try:
            outcome = await run_process(command, timeout_s=COMMAND_TIMEOUT_S)
        except (OSError, ValueError) as error:
            return Failure("config_error", f"workspace {called} could not be started: {error}")
        output = outcome.stderr.strip() or outcome.stdout[-_OUTPUT_TAIL:].decode(errors="replace").strip()
        output = f"; output:\n{output}" if output else ""
        if outcome.timed_out:
            message = f"workspace {called} took longer than {COMMAND_TIMEOUT_S:g} s and was ended{output}"
            return Failure("target_timeout", message)
        if outcome.too_large or outcome.exit_code != 0:
            what = "printed too much" if outcome.too_large else f"failed with exit code {outcome.exit_code}"
            return Failure(
                "target_exit", f"workspace {called} {what}{output}", details={"exit_code": outcome.exit_code}
            )
        return None
