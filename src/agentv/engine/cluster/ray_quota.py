"""The quota of a run on a Ray cluster: one actor for each account, on the driver's machine, grants the leases."""

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ray.exceptions import ActorUnavailableError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import ray
from agentv.execution.quota_journal import JournaledBook
from agentv.scoring.keys.identity import digest
from agentv.types.errors import QuotaError
from agentv.types.protocols import BUDGET_ACCOUNT_PREFIX, Amounts, QuotaGrant, QuotaRequest, QuotaService

_ACTOR_OPTIONS: dict[str, Any] = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": 0}


class QuotaActor:
    """An actor of Ray that grants the leases of one account. A restarted actor continues from its journal."""

    def __init__(self, journal: str) -> None:
        self._book = JournaledBook(Path(journal), time.monotonic)

    def exchange(self, request: QuotaRequest) -> QuotaGrant:
        """Record what was used, and grant a lease."""
        return self._book.exchange(request)


class ActorQuota:
    """The quota of one account, leased from its actor."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor

    async def exchange(self, request: QuotaRequest) -> QuotaGrant:
        """Record what was used, and return a lease. Raises QuotaError when the actor cannot be reached."""
        try:
            grant: QuotaGrant = await self.actor.exchange.remote(request)
        except RayError as error:
            raise _no_answer(error) from error
        return grant

    async def aclose(self) -> None:
        """Close nothing: the driver ends the actor."""


class RayQuota:
    """The quota of a run, seen from the driver, which starts the actor of an account at its first request.

    The actors write their journals to `folder` and end with the driver. `is_over` returns False if the run may be
    resumed: the journals then stay, as after a kill, so that the resume knows the calls of the last minute. Money spent
    is read from answers.
    """

    def __init__(self, run_id: str, folder: Path, *, is_over: Callable[[], bool]) -> None:
        self._run_id = run_id
        self._folder = folder
        self._is_over = is_over
        self._accounts: dict[str, ActorQuota] = {}

    def __str__(self) -> str:
        """Return the name for messages."""
        return "the quota of the run"

    async def exchange(self, request: QuotaRequest) -> QuotaGrant:
        """Record what was used, and return a lease. Raises QuotaError when the actor cannot be reached."""
        account = self._accounts.get(request.account)
        if account is None:
            if _is_empty(request):
                return QuotaGrant(Amounts())
            self.start(request.account)
            account = self._accounts[request.account]
        return await account.exchange(request)

    def start(self, account: str) -> None:
        """Start the actor of an account. Raises QuotaError."""
        if not ray.is_initialized():  # a remote call would start another cluster
            raise QuotaError(f"{self} does not answer: the driver has left the cluster")
        journal = self._folder / digest(account)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        options = _ACTOR_OPTIONS | {"name": _name(self._run_id, account), "scheduling_strategy": here}
        try:
            self._folder.mkdir(exist_ok=True)
            if account.startswith(BUDGET_ACCOUNT_PREFIX):  # the answers record what was spent
                journal.unlink(missing_ok=True)
            self._accounts[account] = ActorQuota(ray.remote(QuotaActor).options(**options).remote(str(journal)))
        except (RayError, ValueError, OSError) as error:
            raise _no_answer(error) from error

    async def aclose(self) -> None:
        """End the actors."""
        for account in self._accounts.values():
            if ray.is_initialized():
                ray.kill(account.actor, no_restart=True)
        if self._is_over():
            shutil.rmtree(self._folder, ignore_errors=True)


class NodeQuota:
    """The quota of a run, seen from a node, which leases from actors.

    A request for an account without an actor goes to `driver`, which starts the actor, or leases from the database of
    `--quota`.
    """

    def __init__(self, run_id: str, driver: QuotaService) -> None:
        self._run_id = run_id
        self._driver = driver
        self._accounts: dict[str, QuotaService] = {}

    def __str__(self) -> str:
        """Return the name for messages."""
        return "the quota of the run"

    async def exchange(self, request: QuotaRequest) -> QuotaGrant:
        """Record what was used, and return a lease. Raises QuotaError when no actor and no driver can be reached."""
        account = self._accounts.get(request.account) or await self._find(request.account)
        if account is None:
            grant = await self._driver.exchange(request)
            account = await self._find(request.account) or self._driver
        else:
            grant = await account.exchange(request)
        self._accounts[request.account] = account
        return grant

    async def _find(self, account: str) -> ActorQuota | None:
        try:
            return ActorQuota(await asyncio.to_thread(ray.get_actor, _name(self._run_id, account)))
        except (RayError, ValueError):
            return None

    async def aclose(self) -> None:
        """Close nothing: the driver ends the actors."""


def _name(run_id: str, account: str) -> str:
    """Return the name of the actor of an account."""
    return f"agentv-quota-{run_id}-{digest(account)}"


def _is_empty(request: QuotaRequest) -> bool:
    """Return True for a request that neither asks for anything nor reports any use."""
    has_used = any(use.used != Amounts() for use in request.uses)
    return request.least == Amounts() and not has_used and not request.hold_s


def _no_answer(error: Exception) -> QuotaError:
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    reason = "its process cannot be reached" if isinstance(error, ActorUnavailableError) else lines[-1].strip()
    return QuotaError(f"the quota of the run does not answer: {reason}")
