"""Processes that lease from a shared quota, on a clock that the test owns."""

import uuid
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentv.types.protocols import (
    WINDOW_S,
    Amounts,
    LeaseUse,
    QuotaGrant,
    QuotaLimits,
    QuotaRequest,
    QuotaService,
    block_of,
)


def most_in_a_window(times: Sequence[float]) -> int:
    """Return the largest number of times within any 60 seconds, the end not included."""
    ordered = sorted(times)
    counts = (bisect_left(ordered, start + WINDOW_S) - first for first, start in enumerate(ordered))
    return max(counts, default=0)


def in_window(times: Sequence[float], start: float) -> int:
    """Return the number of times within the 60 seconds from `start`."""
    ordered = sorted(times)
    return bisect_left(ordered, start + WINDOW_S) - bisect_left(ordered, start)


@dataclass
class Process:
    """One process, which does as a run does, but only when the test says so."""

    quota: QuotaService
    limits: QuotaLimits
    account: str = "account"
    name: str = "process"
    lease: str = ""
    left: int = 0
    used: Amounts = field(default_factory=Amounts)
    expires_at: float = 0.0

    async def exchange(
        self,
        least: Amounts = Amounts(),  # noqa: B008 - frozen
        wanted: Amounts | None = None,
        *,
        lease: str | None = None,
        uses: tuple[LeaseUse, ...] = (),
        hold_s: float = 0.0,
    ) -> QuotaGrant:
        """Make one exchange."""
        return await self.quota.exchange(
            QuotaRequest(
                account=self.account,
                holder=self.name,
                lease=lease or uuid.uuid4().hex,
                limits=self.limits,
                least=least,
                wanted=wanted or least,
                uses=uses,
                hold_s=hold_s,
            )
        )

    async def draw(self, now: float) -> int:
        """Give back what is left, and lease a block; return its requests."""
        await self.give_back()
        self.lease, self.used = uuid.uuid4().hex, Amounts()
        grant = await self.exchange(Amounts(1), Amounts(block_of(self.limits.requests)), lease=self.lease)
        self.left, self.expires_at = grant.granted.requests, now + grant.expires_in_s
        return self.left

    def use(self, now: float) -> bool:
        """Use one permit, if there is one that has not expired."""
        if not self.left or now >= self.expires_at:
            return False
        self.left -= 1
        self.used = Amounts(self.used.requests + 1)
        return True

    async def give_back(self) -> None:
        """Report what was used of the lease, and end it."""
        if self.lease:
            await self.exchange(uses=(LeaseUse(self.lease, self.used),))
        self.crash()

    def crash(self) -> None:
        """Forget everything: what was leased is never reported."""
        self.lease, self.left, self.used = "", 0, Amounts()
