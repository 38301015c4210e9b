"""Leases in a database: connections that break, many processes at once, and a server that goes away."""

import asyncio
import time
import uuid

import psycopg
import pytest
from tests.support.postgres_server import new_database, own_server, upgraded_database

from agentv.storage.postgres.quotas import PostgresQuota
from agentv.templating.store_url import parse_store_url
from agentv.types.errors import QuotaError, StorageError
from agentv.types.quotas import Amounts, QuotaGrant, QuotaLimits, QuotaRequest


def wanted(requests: int, *, limit: int = 3000, lease: str | None = None) -> QuotaRequest:
    return QuotaRequest(
        account="account",
        holder="test",
        lease=lease or uuid.uuid4().hex,
        limits=QuotaLimits(requests=limit),
        least=Amounts(1),
        wanted=Amounts(requests),
    )


def test_processes_at_once_get_no_more_than_the_limit_together() -> None:
    url = parse_store_url(upgraded_database())

    async def run() -> list[QuotaGrant]:
        quotas = [PostgresQuota(url) for _ in range(8)]
        grants = await asyncio.gather(*(quota.exchange(wanted(7)) for quota in quotas for _ in range(5)))
        for quota in quotas:
            await quota.aclose()
        return grants

    begin = time.monotonic()
    granted = [grant.granted.requests for grant in asyncio.run(run())]
    # Two seconds' worth at once, and 50 a second while the exchanges last.
    assert 100 <= sum(granted) <= 110 + 50 * (time.monotonic() - begin)
    with psycopg.connect(url.text) as connection:
        leased = connection.execute("SELECT sum(requests), max(expires_at - granted_at) FROM agentv.quota_leases")
        total, longest = leased.fetchone() or (0, None)
    assert total == sum(granted)
    assert longest is not None
    assert longest.total_seconds() == 2.0


def test_a_connection_that_breaks_is_replaced() -> None:
    url = parse_store_url(upgraded_database())

    async def run() -> QuotaGrant:
        quota = PostgresQuota(url)
        quota.check()
        with psycopg.connect(url.text) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name = 'agentv'"
            )
        with pytest.raises(QuotaError, match=r"the shared quota in postgresql://.* does not answer"):
            await quota.exchange(wanted(1))
        grant = await quota.exchange(wanted(1))
        await quota.aclose()
        return grant

    assert asyncio.run(run()).granted.requests == 1


def test_a_server_that_goes_away_is_a_quota_error_and_is_found_again() -> None:
    with own_server() as server:
        quota = PostgresQuota(parse_store_url(upgraded_database(server)))
        asyncio.run(quota.exchange(wanted(1)))
        server.stop()
        for _ in range(2):
            with pytest.raises(QuotaError):
                asyncio.run(quota.exchange(wanted(1)))
        server.start()
        assert asyncio.run(quota.exchange(wanted(1))).granted.requests == 1
        asyncio.run(quota.aclose())


def test_a_call_that_is_given_up_leaves_no_connection_in_use() -> None:
    url = parse_store_url(upgraded_database())

    async def run() -> None:
        quota = PostgresQuota(url)
        await quota.exchange(wanted(1))
        with psycopg.connect(url.text) as other:
            other.execute("LOCK TABLE agentv.quota_accounts")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await quota.exchange(wanted(1))
        assert (await quota.exchange(wanted(1))).granted.requests == 1
        await quota.aclose()

    asyncio.run(run())


def test_a_database_without_the_tables_is_refused() -> None:
    quota = PostgresQuota(parse_store_url(new_database()))
    with pytest.raises(StorageError, match="agentv store upgrade"):
        quota.check()


def test_a_user_who_may_not_lease_is_refused_at_the_start() -> None:
    url = upgraded_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA agentv TO reader")
        connection.execute("GRANT SELECT ON agentv.schema_versions TO reader")
        quota = PostgresQuota(parse_store_url(url.replace("postgres@", "reader@")))
        with pytest.raises(StorageError, match=r"permission denied .*--quota none"):
            quota.check()
        connection.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON agentv.quota_leases TO reader")
        connection.execute("GRANT SELECT, INSERT, UPDATE ON agentv.quota_accounts TO reader")
        quota.check()
        assert connection.execute("SELECT count(*) FROM agentv.quota_accounts").fetchone() == (0,)
        asyncio.run(quota.exchange(wanted(1)))
        asyncio.run(quota.aclose())
