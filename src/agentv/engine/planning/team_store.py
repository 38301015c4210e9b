"""The team database and quota of a run: as named by options, environment and files, or as recorded in the run."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agentv.loading.project import NO_STORE, choose_store
from agentv.storage import STORES
from agentv.templating.store_url import StoreUrl, parse_store_url, store_secrets
from agentv.types.errors import ConfigError
from agentv.types.records.run import RunRecord

STORE_KEY = "store"
"""The key in run.json's `plan`: the URL without its password, or `none` for a run that is not to be shared."""


def named_store(option: str | None, *, cwd: Path, env: Mapping[str, str]) -> StoreUrl | None:
    """Return the store that `--store`, `AGENTV_STORE` or `.agentv.yaml` names, or None.

    Raises ConfigError for an invalid URL, a variable that is not set, or an invalid `.agentv.yaml`.
    """
    text = choose_store(option, cwd, env)
    return None if text is None else parse_store_url(text)


def store_of_run(run: RunRecord, option: str | None, *, cwd: Path, env: Mapping[str, str]) -> StoreUrl | None:
    """Return the store of a run that is continued: that of the option, else the store that the run recorded.

    A run that recorded no store uses the one that the environment or the project names. If the environment or the
    project names the recorded store, its URL is taken from there, because the recorded URL has no password. Raises
    ConfigError as `named_store` does, and for a recorded URL that cannot be read.
    """
    recorded = run.plan.get(STORE_KEY)
    if option is not None or not isinstance(recorded, str):
        return named_store(option, cwd=cwd, env=env)
    if recorded == NO_STORE:
        return None
    try:
        recorded_url = parse_store_url(recorded)
    except ConfigError as error:
        raise ConfigError(
            f"run {run.run_id} is stored in a team database whose recorded URL cannot be read without the password; "
            "name it with --store, or continue on this machine only: --store none"
        ) from error
    named = named_store(None, cwd=cwd, env=env)
    if named is not None and _is_same_database(named, recorded_url):
        return named
    return replace(recorded_url, hint=_hint(recorded_url))


def recorded_name(option: str | None, store: StoreUrl | None) -> str | None:
    """Return the record of a store or quota in run.json: its URL without password, else `none` if `option` is `none`.

    Return None if there is neither.
    """
    if store is not None:
        return store.public
    return NO_STORE if option == NO_STORE else None


QUOTA_KEY = "quota"
"""The key in run.json's `plan` for the quota that `--quota` named; its value is like that of STORE_KEY."""


class NamedQuota(Struct, frozen=True):
    """A shared quota."""

    url: StoreUrl | None
    """None for no sharing."""
    is_required: bool = True
    """False for the default, the store's own quota."""
    recorded: str | None = None
    """The quota's record for the run.json of a new run, as `recorded_name` returns it."""


def named_quota(option: str | None, store: StoreUrl | None) -> NamedQuota:
    """Return the quota that `--quota` names, else that of the team database. Raises ConfigError for an invalid URL."""
    if option is None:
        return NamedQuota(store, is_required=False)
    url = None if option == NO_STORE else parse_store_url(option)
    return NamedQuota(url, recorded=recorded_name(option, url))


def quota_of_run(
    run: RunRecord, option: str | None, store: StoreUrl | None, *, cwd: Path, env: Mapping[str, str]
) -> NamedQuota:
    """Return the quota of a run that is continued: that of the option, else the quota that the run recorded.

    A run that recorded no quota uses that of `store`. The recorded URL has no password: if `store`, or the store that
    the environment or the project names, is the same database, the URL is taken from there. Raises ConfigError as
    `store_of_run` does.
    """
    recorded = run.plan.get(QUOTA_KEY)
    if option is not None or not isinstance(recorded, str) or recorded == NO_STORE:
        default = NO_STORE if recorded == NO_STORE else None
        return named_quota(option or default, store)
    try:
        recorded_url = parse_store_url(recorded)
    except ConfigError as error:
        raise ConfigError(
            f"run {run.run_id} shares a quota whose recorded URL cannot be read without the password; name it with "
            "--quota, or continue without it: --quota none"
        ) from error
    for known in (store, named_store(None, cwd=cwd, env=env)):
        if known is not None and _is_same_database(known, recorded_url):
            return NamedQuota(known)
    return NamedQuota(replace(recorded_url, hint="Name the quota with --quota, or continue without it: --quota none"))


def secrets_of_store(store: StoreUrl | None, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets in the URL of a store or quota, and the password in its environment variable."""
    return () if store is None else store_secrets(store.text, env.get(_password_variable(store) or "", ""))


def _is_same_database(one: StoreUrl, other: StoreUrl) -> bool:
    return (one.place, _plugin(one)) == (other.place, _plugin(other))


def _plugin(store: StoreUrl) -> str:
    """Return the name of the built-in plug-in behind a URL, else the scheme itself."""
    return STORES.canonical(store.scheme) or store.scheme


def _password_variable(store: StoreUrl) -> str | None:
    known = STORES.specs.get(_plugin(store))
    return None if known is None else known.password_variable


def _hint(store: StoreUrl) -> str:
    variable = _password_variable(store)
    set_variable = f"set {variable}, or " if variable else ""
    return (
        f"The run records this store without its password: {set_variable}set AGENTV_STORE to the complete URL, "
        "or name the store with --store; --store none continues on this machine only"
    )
