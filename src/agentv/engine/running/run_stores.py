"""The store of a run: a new or existing folder, optionally shared in the team database, or memory."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agentv.engine.planning.plan import RunPlan
from agentv.engine.planning.team_store import NamedQuota
from agentv.execution.user_code import raised_at
from agentv.registry import Registry, Specs, StoreSpec, load_reference
from agentv.storage.files.object_store import check_url
from agentv.storage.run.find import runs_folder
from agentv.storage.run.folder import RunFolder, new_run_id
from agentv.storage.run.lock import RunLock
from agentv.storage.shared_runs import RunStore
from agentv.templating.store_url import StoreUrl
from agentv.types.errors import AgentvError, ConfigError, PluginError
from agentv.types.json_value import JsonObject
from agentv.types.protocols import Clock, QuotaService, ResultStore


def make_store(plan: RunPlan, *, clock: Clock, on_disk: bool = True, store_url: StoreUrl | None = None) -> ResultStore:
    """Return the store of a new run, which is shared in the team database if its URL is given.

    A run without selected cases is not stored, so that `latest` names a run with results. Raises ConfigError if
    the store of the URL does not take runs, StorageError if it cannot store this one.
    """
    run_id = new_run_id(clock, random.SystemRandom())
    if not on_disk or plan.planned == 0:
        from agentv.storage.run.memory import MemoryStore  # noqa: PLC0415 - few runs are in memory only

        return MemoryStore(run_id, clock=clock)
    segments, runs = plan.options.segments, runs_folder(Path(plan.home))
    if segments is not None:
        check_url(segments, runs=runs)
    return with_team_store(store_url, plan.specs, lambda: RunFolder(runs, run_id, clock=clock, segments=segments))


def reopen_store(folder: Path, *, clock: Clock) -> RunFolder:
    """Open the folder of an existing run for writing. Raises StorageError while another process writes to it."""
    return RunFolder(folder.parent, folder.name, clock=clock)


def refuse_second_writer(folder: Path) -> str | None:
    """Raise StorageError, naming the process, while another one writes a run; call this before the run is read.

    If its last writer died, end the commands that the writer left running, and return a sentence about them.
    """
    lock = RunLock(folder)
    try:
        return clear_after(lock.dead_writer)
    finally:
        lock.release()


def clear_after(dead_writer: JsonObject | None) -> str | None:
    """End the commands of a dead process and remove its temporary folders; return a sentence about them, or None."""
    mark = (dead_writer or {}).get("mark")
    if not isinstance(mark, str):
        return None
    from agentv.execution.processes.left_behind import clear  # noqa: PLC0415 - 30 ms that only a killed run needs

    cleared = clear({mark})
    if not cleared.processes and not cleared.folders:
        return None
    return (
        f"the process that was killed had left {_count(cleared.processes, 'command process', 'command processes')} and "
        f"{_count(cleared.folders, 'temporary folder', 'temporary folders')}; they were ended and removed"
    )


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"


def with_team_store(store_url: StoreUrl | None, specs: Specs, open_folder: Callable[[], RunFolder]) -> ResultStore:
    """Open a run's folder, whose lines also go to the team database at `store_url`, if there is one.

    Raises ConfigError or StorageError, before the folder is opened, if the team database cannot store the run.
    """
    if store_url is None:
        return open_folder()
    store = open_run_store(store_url, specs.stores)
    with _named_errors(store_url):
        return store.share_run(open_folder)


def open_run_store(url: StoreUrl, stores: Registry[StoreSpec]) -> RunStore:
    """Return the store of runs behind a URL, whose scheme names its plug-in.

    Raises UnknownNameError for an unknown scheme, ConfigError for a store that does not take runs.
    """
    spec = stores.get(url.scheme)
    if spec.run_store is None:
        known = ", ".join(store.name for store in stores if store.run_store is not None)
        raise ConfigError(f"the store {spec.name!r} is for judgements, not for runs; stores for runs: {known}")
    make = load_reference(spec.run_store)
    with _named_errors(url):
        made = make(url)
    if not isinstance(made, RunStore):
        raise PluginError(f"store {spec.name!r} returned {type(made).__name__}, which has no share_run(open_folder)")
    return made


def open_quota(named: NamedQuota, plan: RunPlan) -> QuotaService | None:
    """Return the quota that a run shares with other processes; None if it shares none.

    The quota of the team database is used if the run has a limit to share: `requests_per_minute` or `tokens_per_minute`
    of a target, or the name of a budget. Raises ConfigError for a store without quotas, StorageError if the quota
    cannot be used.
    """
    is_named = plan.options.budget_name is not None
    if is_named and plan.options.budget_usd is None:
        raise ConfigError("--budget-name needs a budget to share: --budget-usd X")
    spec = None if named.url is None else plan.specs.stores.get(named.url.scheme)
    if named.url is None or spec is None or spec.quota is None:
        if is_named:
            raise ConfigError(
                "--budget-name needs a quota that all runs share: --quota postgresql://…, or --store of a PostgreSQL "
                "database"
            )
        if named.is_required and named.url is not None:
            known = ", ".join(store.name for store in plan.specs.stores if store.quota is not None)
            raise ConfigError(f"the store {named.url.scheme!r} has no quotas; stores with quotas: {known}")
        return None
    has_limit = any(target.requests_per_minute or target.tokens_per_minute for target in (*plan.targets, *plan.judges))
    if not (named.is_required or is_named or has_limit):
        return None
    with _named_errors(named.url):
        quota: QuotaService = load_reference(spec.quota)(named.url)
        check: Callable[[], None] = getattr(quota, "check", lambda: None)
        check()
    return quota


@contextmanager
def _named_errors(url: StoreUrl) -> Iterator[None]:
    """Turn exceptions of a plug-in's own code into a PluginError that names the store, without its password."""
    try:
        yield
    except (AgentvError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - a plug-in's own code may raise anything
        message = url.redact(f"{type(error).__name__}: {error}")
        raise PluginError(f"the store {url} failed: {message}{raised_at(error)}") from None
