"""Leases of shared quotas in the team database, timed by its clock.

The function `agentv.quota_exchange` (migration 0006) implements the rules; types/protocols.py describes leases.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, structs

from agentv.execution.quotas import SHARE_OF_BLOCK
from agentv.execution.threads import call_in_thread
from agentv.storage.postgres.connection import answer_in_time, check_driver, connect, store_errors
from agentv.storage.postgres.migrations import check_version
from agentv.templating.store_url import StoreUrl
from agentv.types.errors import QuotaError, StorageError
from agentv.types.protocols import LEASE_S, Amounts, LeaseUse, QuotaGrant, QuotaLimits, QuotaRequest

if TYPE_CHECKING:
    from agentv.storage.postgres.connection import Connection

_CALL_EXCHANGE = """
SELECT requests, tokens, usd, wait_s, spent_usd FROM agentv.quota_exchange(
    %s, %s, %s, %s::bigint, %s::float8, %s::float8,
    %s::bigint, %s::float8, %s::float8, %s::bigint, %s::float8, %s::float8,
    %s::jsonb, %s::float8, %s::float8, %s::float8
)
"""


_EMPTY_REQUEST = QuotaRequest(account="", holder="", lease="", limits=QuotaLimits())


class _Exchange(Struct):
    """One exchange, which runs in a thread. If it fails or its caller is cancelled, the connection is closed."""

    url: StoreUrl
    request: QuotaRequest
    connection: "Connection | None"
    is_given_up: bool = False

    def run(self) -> QuotaGrant:
        """Connect if necessary, and call `agentv.quota_exchange`. Raises StorageError."""
        try:
            if self.connection is None:
                self.connection = _connect(self.url)
            return _exchange(self.connection, self.url, self.request)
        except BaseException:
            self.is_given_up = True
            raise
        finally:
            if self.is_given_up:
                self.close()

    def close(self) -> None:
        if self.connection is not None:
            with suppress(Exception):
                self.connection.close()


class PostgresQuota:
    """A quota in a database. Nothing connects before `check` or the first exchange.

    Concurrent exchanges have a connection each; a connection that breaks or hangs is replaced.
    """

    def __init__(self, url: StoreUrl) -> None:
        check_driver()
        self._url = url
        self._idle: list[Connection] = []

    def __str__(self) -> str:
        """Return the name of this quota in messages."""
        return f"the shared quota in {self._url}"

    def check(self) -> None:
        """Connect. Raises StorageError if the database is unreachable, denies access or needs `agentv store upgrade`.

        A database with newer tables than this agentv supports is refused as well.
        """
        connection = _connect(self._url)
        try:
            with store_errors(self._url, "cannot be read"):
                check_version(connection, self._url)
            with connection.transaction(force_rollback=True):
                _exchange(connection, self._url, _EMPTY_REQUEST, hint="To run without a shared quota: --quota none")
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)

    async def exchange(self, request: QuotaRequest) -> QuotaGrant:
        """Record what was used, and grant a lease. Raises QuotaError when the database fails."""
        exchange = _Exchange(self._url, request, self._idle.pop() if self._idle else None)
        try:
            grant = await call_in_thread(exchange.run, timeout_s=None)
        except StorageError as error:
            reason = str(error).removeprefix(f"the store {self._url} ")
            raise QuotaError(f"{self} does not answer: {reason}") from None
        except BaseException:
            exchange.is_given_up = True
            raise
        if exchange.connection is not None:
            self._idle.append(exchange.connection)
        return grant

    async def aclose(self) -> None:
        """Close the connections."""
        while self._idle:
            self._idle.pop().close()


def _connect(url: StoreUrl) -> "Connection":
    """Connect with a statement timeout, so that the server does not run an exchange that the process gave up."""
    connection = connect(url)
    with answer_in_time(connection, url), store_errors(url, "cannot be reached"):
        connection.execute("SELECT set_config('statement_timeout', %s, false)", [f"{LEASE_S:g}s"])
    return connection


def _exchange(connection: "Connection", url: StoreUrl, request: QuotaRequest, *, hint: str = "") -> QuotaGrant:
    values = [
        request.account,
        request.holder,
        request.lease,
        *structs.astuple(request.limits),
        *structs.astuple(request.least),
        *structs.astuple(request.wanted),
        msgspec.json.encode([_use_to_json(use) for use in request.uses]).decode(),
        request.hold_s,
        LEASE_S,
        SHARE_OF_BLOCK,
    ]
    with answer_in_time(connection, url), store_errors(url, "cannot lease a quota", hint=hint):
        row = connection.execute(_CALL_EXCHANGE, values).fetchone()
    if row is None:
        raise StorageError(f"the store {url} returned no lease")
    requests, tokens, usd, wait_s, spent_usd = row
    return QuotaGrant(Amounts(requests, tokens, usd), LEASE_S, wait_s, spent_usd)


def _use_to_json(use: LeaseUse) -> dict[str, object]:
    return {"lease": use.lease, "is_over": use.is_over, **structs.asdict(use.used)}
