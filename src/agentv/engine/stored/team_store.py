"""Which database a run is shared in: as it is named now, or as the run kept it when it began."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agentv.loading.project import NO_STORE, choose_store
from agentv.templating.secrets import store_secrets
from agentv.types.errors import ConfigError
from agentv.types.records.run import RunRecord

if TYPE_CHECKING:
    from agentv.storage.postgres.url import StoreUrl


PASSWORD_VARIABLE = "PGPASSWORD"  # noqa: S105 - its name
KEPT = "store"
"""How run.json's `plan` calls it: the URL without its password, `none` for a run that is to stay on its machine."""

_HINT = (
    "The run says that it is kept there, and keeps no password: set AGENTV_STORE to the whole URL, or PGPASSWORD, "
    "or name the database by --store; with --store none it goes on on this machine alone"
)


def named_store(option: str | None, *, cwd: Path, env: Mapping[str, str]) -> "StoreUrl | None":
    """Return the database that `--store`, `AGENTV_STORE` or `.agentv.yaml` names; None when there is none.

    Raises ConfigError for what is no URL, or a variable that is not set.
    """
    text = choose_store(option, cwd, env)
    return None if text is None else _parsed(text)


def store_of_run(run: RunRecord, option: str | None, *, cwd: Path, env: Mapping[str, str]) -> "StoreUrl | None":
    """Return the database that a run which goes on is shared in: the option's, else the one that it began in.

    A run that began in none goes where the environment or the project says now. What these say of the same database
    as the run's is taken from them, for they have its password. Raises ConfigError as `named_store` does.
    """
    kept = run.plan.get(KEPT)
    if option is not None or not isinstance(kept, str):
        return named_store(option, cwd=cwd, env=env)
    if kept == NO_STORE:
        return None
    try:
        mine = replace(_parsed(kept), hint=_HINT)
    except ConfigError as error:
        raise ConfigError(
            f"run {run.run_id} is kept in a database whose URL cannot be told from its password; "
            "name it by --store, or go on on this machine alone: --store none"
        ) from error
    named = named_store(None, cwd=cwd, env=env)
    return named if named is not None and named.place == mine.place else mine


def kept_name(option: str | None, store: "StoreUrl | None") -> str | None:
    """Return what a run keeps of the database that it began in."""
    return (NO_STORE if option == NO_STORE else None) if store is None else store.public


def secrets_of_store(store: "StoreUrl | None", env: Mapping[str, str]) -> tuple[str, ...]:
    """Return whatever is secret of a database that is in use."""
    return () if store is None else store_secrets(store.text, env.get(PASSWORD_VARIABLE, ""))


def _parsed(text: str) -> "StoreUrl":
    from agentv.storage.postgres.url import parse_store_url  # noqa: PLC0415 - for those alone who share their runs

    return parse_store_url(text)
