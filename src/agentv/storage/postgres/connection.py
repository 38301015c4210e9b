"""Connections to the team database; their errors become StorageErrors without the password."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from agentv.templating.store_url import StoreUrl
from agentv.types.errors import MissingExtraError, StorageError

if TYPE_CHECKING:
    import psycopg

    Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

# A network that drops all packets is detected within half a minute; settings in the URL take precedence.
_CONNECTION_DEFAULTS = {
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
        import psycopg  # noqa: F401, PLC0415 - slow to import
    except ImportError as error:
        raise MissingExtraError("a store in PostgreSQL", "postgres") from error


def connect(url: StoreUrl) -> "Connection":
    """Open a connection in autocommit mode; use `transaction()` to group statements.

    Raises StorageError when the database cannot be reached, MissingExtraError without psycopg.
    """
    check_driver()
    import psycopg  # noqa: PLC0415 - see check_driver
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    try:
        given = conninfo_to_dict(url.text)
    except psycopg.Error:
        # The library's message would quote the URL with its password.
        raise StorageError(f"{url}: not a valid PostgreSQL URL") from None
    with store_errors(url, "cannot be reached", hint=url.hint):
        defaults = {key: value for key, value in _CONNECTION_DEFAULTS.items() if key not in given}
        return psycopg.connect(url.text, autocommit=True, **defaults)  # type: ignore[arg-type] # strings or numbers


_NOT_YOURS = (
    "the run was stored by another user of the database. Only that user and members of its role may continue it or "
    "change its tags; others may label it"
)


@contextmanager
def store_errors(url: StoreUrl, problem: str, *, hint: str = "") -> Iterator[None]:
    """Convert the driver's errors into a StorageError of one line without secrets: "the store URL PROBLEM: …".

    `hint` is advice for the user, which ends the message.
    """
    import psycopg  # noqa: PLC0415 - see check_driver

    try:
        yield
    except psycopg.Error as error:
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        if isinstance(error, psycopg.errors.InsufficientPrivilege) and "row-level security" in reason:
            reason = _NOT_YOURS
        advice = f". {hint}" if hint else ""
        raise StorageError(f"the store {url} {problem}: {url.redact(reason)}{advice}") from None
