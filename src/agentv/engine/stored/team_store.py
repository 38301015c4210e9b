"""The team's database that a run is shared in: as named now, or as recorded in the run."""

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
STORE_KEY = "store"
"""The key in run.json's `plan`: the URL without its password, or `none` for a run that is not to be shared."""

_HINT = (
    "The run is stored there, without the password: set AGENTV_STORE to the complete URL, or PGPASSWORD, "
    "or name the database with --store; --store none continues on this machine only"
)


def named_store(option: str | None, *, cwd: Path, env: Mapping[str, str]) -> "StoreUrl | None":
    """Return the database that `--store`, `AGENTV_STORE` or `.agentv.yaml` names, or None.

    Raises ConfigError for an invalid URL, or a variable that is not set.
    """
    text = choose_store(option, cwd, env)
    return None if text is None else _parsed(text)


def store_of_run(run: RunRecord, option: str | None, *, cwd: Path, env: Mapping[str, str]) -> "StoreUrl | None":
    """Return the database of a run that is continued: the option's, else the one it started with.

    A run that started without one uses what the environment or the project names now. If these name the same database
    as the run, their URL is used, because it has the password. Raises ConfigError as `named_store` does.
    """
    recorded = run.plan.get(STORE_KEY)
    if option is not None or not isinstance(recorded, str):
        return named_store(option, cwd=cwd, env=env)
    if recorded == NO_STORE:
        return None
    try:
        mine = replace(_parsed(recorded), hint=_HINT)
    except ConfigError as error:
        raise ConfigError(
            f"run {run.run_id} is stored in a database whose recorded URL cannot be read without the password; "
            "name it with --store, or continue on this machine only: --store none"
        ) from error
    named = named_store(None, cwd=cwd, env=env)
    return named if named is not None and named.place == mine.place else mine


def kept_name(option: str | None, store: "StoreUrl | None") -> str | None:
    """Return what a run records about its database: the URL without password, `none`, or nothing."""
    return (NO_STORE if option == NO_STORE else None) if store is None else store.public


def secrets_of_store(store: "StoreUrl | None", env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets of the database that is in use."""
    return () if store is None else store_secrets(store.text, env.get(PASSWORD_VARIABLE, ""))


def _parsed(text: str) -> "StoreUrl":
    from agentv.storage.postgres.url import parse_store_url  # noqa: PLC0415 - for shared runs only

    return parse_store_url(text)
