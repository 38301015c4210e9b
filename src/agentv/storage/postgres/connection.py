"""A connection to the team's database, with its errors in our words and without its password."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from agentv.storage.postgres.url import StoreUrl
from agentv.types.errors import MissingExtraError, StorageError

if TYPE_CHECKING:
    import psycopg

    Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

# A network that swallows everything is noticed within half a minute; the URL's own settings win.
_DEFAULTS = {
    "connect_timeout": 10,
    "application_name": "agentv",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


def check_driver() -> None:
    """Raise MissingExtraError when psycopg is not installed."""
    try:
        import psycopg  # noqa: F401, PLC0415 - a quarter of a second, for those who use it
    except ImportError as error:
        raise MissingExtraError("a store in PostgreSQL", "postgres") from error


def connect(url: StoreUrl) -> "Connection":
    """Open a connection; every statement is its own transaction unless it stands in `transaction()`.

    Raises StorageError when the database cannot be reached, MissingExtraError without psycopg.
    """
    check_driver()
    import psycopg  # noqa: PLC0415 - see check_driver
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    try:
        given = conninfo_to_dict(url.text)
    except psycopg.Error:
        # The library's message would quote the URL, the password in it.
        raise StorageError(f"{url}: this is no URL that PostgreSQL can be reached by") from None
    with told(url, "cannot be reached", hint=url.hint):
        missing = {key: value for key, value in _DEFAULTS.items() if key not in given}
        return psycopg.connect(url.text, autocommit=True, **missing)  # type: ignore[arg-type] # strings or numbers


@contextmanager
def told(url: StoreUrl, what: str, *, hint: str = "") -> Iterator[None]:
    """Turn the driver's errors into a StorageError that says what was wanted, on one line and with no secret.

    `hint` is what to do then.
    """
    import psycopg  # noqa: PLC0415 - see check_driver

    try:
        yield
    except psycopg.Error as error:
        said = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise StorageError(f"the store {url} {what}: {url.strike(said)}{hint and f'. {hint}'}") from None
