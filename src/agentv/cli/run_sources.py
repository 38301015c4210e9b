"""Where a command reads runs: in the project, or in the team database, from which the needed runs are pulled."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from agentv.cli.indexed import run_index
from agentv.loading.files.places import find_home
from agentv.storage.run.find import ListedRun, find_run
from agentv.types.errors import AgentvError, ConfigError, StorageError

if TYPE_CHECKING:
    from agentv.engine.stored.trend_runs import LoadSums
    from agentv.storage.pulled_runs import PulledRuns
    from agentv.storage.shared_runs import ManagedRunStore, SharedRuns
    from agentv.templating.store_url import StoreUrl

CONFIGURED = ""
"""The value of `--store` without a URL: the store of AGENTV_STORE or `.agentv.yaml`."""

READ_STORE_OPTION: Callable[..., Any] = click.option(
    "--store",
    is_flag=False,
    flag_value=CONFIGURED,
    metavar="[URL]",
    help="Read runs of the team database (default: AGENTV_STORE, else .agentv.yaml).",
)


class ProjectRuns:
    """The runs of a project. `home` is its `.agentv`; `name` describes it; `option` is its option in commands."""

    option = ""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.name = str(home)

    def find(self, reference: str) -> Path:
        """Return the folder of the run that a reference names. Raises ConfigError."""
        return find_run(self.home, reference)

    def pull_baseline(self, folder: Path) -> None:
        """Do nothing: the baseline of a run is in the project, if it still exists."""

    def compared(self, reference: str) -> str:
        """Return a reference of a comparison as `find_scores` reads it in `home`."""
        return reference

    @contextmanager
    def trend(self, *, verbose: bool) -> "Iterator[tuple[Sequence[ListedRun], LoadSums]]":
        """Yield all runs, oldest first, and the function that sums up one of them."""
        with run_index(self.home, verbose=verbose) as index:
            yield index.runs(), index.sums


class StoreRuns:
    """The runs of a store, with the same methods as ProjectRuns; `home` gets the runs that are needed."""

    def __init__(self, runs: "PulledRuns", url: "StoreUrl", option: str) -> None:
        self._runs = runs
        self.home = runs.home
        self.name = url.shown
        self.option = option

    def find(self, reference: str) -> Path:
        """Pull the run that a reference names; return its folder."""
        return self._runs.find(reference)

    def pull_baseline(self, folder: Path) -> None:
        """Pull the run that the run in `folder` was compared with, if the store has it."""
        from agentv.engine.stored.stored_plan import stored_options
        from agentv.storage.run.stored import open_run

        baseline = stored_options(open_run(folder).run.plan).baseline
        if baseline is not None:
            with suppress(ConfigError):
                self._runs.find(baseline)

    def compared(self, reference: str) -> str:
        """Return a file of scores as it is, else the path of the run, which is pulled."""
        return reference if Path(reference).is_file() else str(self._runs.find_compared(reference))

    @contextmanager
    def trend(self, *, verbose: bool) -> "Iterator[tuple[Sequence[ListedRun], LoadSums]]":
        """Yield all runs, oldest first, and the function that sums up one of them; it raises AgentvError."""
        with run_index(self.home, verbose=verbose) as index:

            def load_sums(folder: Path) -> Any:
                try:
                    self._runs.pull(folder.name, files=("results.jsonl", "events.jsonl"))
                except StorageError as error:
                    # As an OSError, it would be shown as a run without results.
                    raise AgentvError(str(error)) from error
                return index.sums(folder)

            yield self._runs.listed(), load_sums


@contextmanager
def open_runs(store: str | None) -> Iterator[ProjectRuns | StoreRuns]:
    """Yield the runs of the project, or with `--store` those of a store, until the end of the block.

    Raises ConfigError if `store` is no URL of a store that can be read, or none is configured.
    """
    from agentv.loading.project import NO_STORE

    home = find_home(Path.cwd())
    if store is None or store == NO_STORE:
        yield ProjectRuns(home)
        return
    if store != CONFIGURED and "://" not in store:
        raise ConfigError(
            f"--store is followed by {store!r}, which is not the URL of a store; write --store=URL, or write --store "
            "last to read the store of AGENTV_STORE or .agentv.yaml"
        )
    from agentv.storage.pulled_runs import PulledRuns

    with open_store(store or None) as (shared, url), TemporaryDirectory(prefix="agentv-store-") as folder:
        yield StoreRuns(
            PulledRuns(shared, Path(folder) / home.name), url, " --store" if not store else f" --store {url}"
        )


def find_store(url: str | None) -> "tuple[StoreUrl, ManagedRunStore]":
    """Return the store of the option, environment or config. Raises ConfigError if none is set or it is write-only."""
    import os

    from agentv.engine.planning.inputs import load_project_parts
    from agentv.engine.planning.team_store import named_store
    from agentv.engine.running.run_stores import open_run_store
    from agentv.storage import STORES
    from agentv.storage.shared_runs import ManagedRunStore

    store_url = named_store(url, cwd=Path.cwd(), env=os.environ)
    if store_url is None:
        raise ConfigError(
            "no store is configured: give its URL (postgresql://user@host/database), set AGENTV_STORE, "
            "or set `store:` in .agentv.yaml"
        )
    # A built-in store needs no plug-in, so none is imported.
    stores = STORES if store_url.scheme in STORES else load_project_parts([Path.cwd()])[0].stores
    store = open_run_store(store_url, stores)
    if not isinstance(store, ManagedRunStore):
        raise ConfigError(f"the runs of {store_url} cannot be read: this store only receives runs as they are executed")
    return store_url, store


@contextmanager
def open_store(url: str | None) -> "Iterator[tuple[SharedRuns, StoreUrl]]":
    """Open the store until the end of the block."""
    store_url, store = find_store(url)
    with store.opened() as shared:
        yield shared, store_url
