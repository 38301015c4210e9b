"""Connections to the team database; their errors become StorageErrors without the password."""

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from agentv.templating.store_url import StoreUrl
from agentv.types.errors import MissingExtraError, StorageError

if TYPE_CHECKING:
    import psycopg

    Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

CONNECT_TIMEOUT_S = 10
"""Seconds for connecting, and for each short statement to be answered, unless the URL has a `connect_timeout`."""

# A network that drops all packets is detected within half a minute; settings in the URL take precedence.
_CONNECTION_DEFAULTS = {
    "connect_timeout": CONNECT_TIMEOUT_S,
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

    given = _parameters_of(url)
    with store_errors(url, "cannot be reached", hint=url.hint):
        defaults = {key: value for key, value in _CONNECTION_DEFAULTS.items() if key not in given}
        return psycopg.connect(url.text, autocommit=True, **defaults)  # type: ignore[arg-type] # strings or numbers


_FILES = ("sslcert", "sslkey", "sslrootcert", "sslcrl", "sslcrldir")
"""The parameters that name files. libpq ignores some of them silently if the file does not exist."""


def _parameters_of(url: StoreUrl) -> Mapping[str, object]:
    """Return the connection parameters in a URL. Raises StorageError if one is unknown or names a missing file."""
    import psycopg  # noqa: PLC0415 - see check_driver
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    try:
        given = conninfo_to_dict(url.text)
    except psycopg.Error:
        # The library's message would quote the URL with its password.
        known = [option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()]
        unknown = url.unknown_parameters([*known, "ssl"])
        reason = f": there is no parameter {', '.join(unknown)}" if unknown else ""
        raise StorageError(f"{url}: not a valid PostgreSQL URL{reason}") from None
    for name in _FILES:
        path = given.get(name)
        if path and (name, path) != ("sslrootcert", "system") and not Path(str(path)).exists():
            raise StorageError(f"{url}: {name} {url.redact(str(path))} does not exist")
    return given


@contextmanager
def answer_in_time(connection: "Connection", url: StoreUrl) -> Iterator[None]:
    """End a block of short statements, and the connection, if the server does not answer within connect_timeout.

    A server may accept connections and hang, or another session may hold a lock. Raises StorageError.
    """
    # A value that the environment has as well is not among the parameters.
    given_s = float(connection.info.get_parameters().get("connect_timeout", CONNECT_TIMEOUT_S))
    timeout_s = given_s if given_s > 0 else threading.TIMEOUT_MAX  # as in libpq
    with socket.socket(fileno=os.dup(connection.fileno())) as transport:
        is_late = threading.Event()

        def cut_off() -> None:
            is_late.set()
            with suppress(OSError):  # the server closed it meanwhile
                transport.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(timeout_s, cut_off)
        timer.daemon = True
        timer.start()
        try:
            yield
        except Exception:
            if is_late.is_set():
                raise StorageError(f"the store {url} does not answer within {timeout_s:g} s") from None
            raise
        finally:
            timer.cancel()
            timer.join()  # it uses the socket


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
        reason = _one_line(str(error)) or type(error).__name__
        if isinstance(error, psycopg.errors.InsufficientPrivilege) and "row-level security" in reason:
            reason = _NOT_YOURS
        advice = f". {hint}" if hint else ""
        raise StorageError(f"the store {url} {problem}: {url.redact(reason)}{advice}") from None


def _one_line(message: str) -> str:
    """Return a message of several lines in one, without the last full stop. A line may begin a new sentence."""
    lines = [line for each in message.splitlines() if (line := " ".join(each.split()))]
    return "".join(
        f"{'.' if line[0].isupper() and before[-1:] not in '.:;,' else ''} {line}"
        for before, line in pairwise(["", *lines])
    ).strip(" .")
