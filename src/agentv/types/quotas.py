"""A quota that several processes share: what a process requests from the holder of its leases, and what it gets.

An account is limited in the requests and tokens of every 60 seconds, a budget in its dollars altogether. A process
leases a part of that, uses it before it expires, and reports what it used; the rest is free again. What a process never
reported counts as used.
"""

from typing import Protocol

from msgspec import Struct

LEASE_S = 2.0
"""Seconds for which a lease may be used. A call needs its permit only when it is sent."""
NODE_LEASE_S = 5.0
"""Seconds for which the driver of a run on several machines leases rows, permits and money to a node."""
WINDOW_S = 60.0
"""Requests and tokens count from their grant until so many seconds after their lease ended."""
BLOCKS_PER_WINDOW = 30
LARGEST_BLOCK = 100


class Amounts(Struct, frozen=True):
    """Requests, tokens and dollars."""

    requests: int = 0
    tokens: float = 0.0
    usd: float = 0.0


class QuotaLimits(Struct, frozen=True):
    """The limits of an account: requests and tokens in every 60 seconds, dollars in all. None means no limit."""

    requests: int | None = None
    tokens: float | None = None
    usd: float | None = None


class LeaseUse(Struct, frozen=True):
    """What was used of a lease so far, as totals: reporting it again changes nothing.

    `is_over` ends the lease, and the rest of it is free; otherwise it is renewed with exactly these amounts. More than
    was granted is a debt, which counts like a grant. So does a use of an unknown lease.
    """

    lease: str
    used: Amounts
    is_over: bool = True


class QuotaRequest(Struct, frozen=True, kw_only=True):
    """A request for a lease, or only a report when `least` is empty.

    `least` is granted or nothing is; up to `wanted` is granted if it is free. `lease` is the id of the new lease, which
    the process chooses, or of one that it has, to which the grant is added. `uses` are recorded before anything is
    granted. With `hold_s` no process gets anything of the account for so many seconds: the server refused a call.
    """

    account: str
    holder: str
    lease: str
    limits: QuotaLimits
    least: Amounts = Amounts()
    wanted: Amounts = Amounts()
    uses: tuple[LeaseUse, ...] = ()
    hold_s: float = 0.0


class QuotaGrant(Struct, frozen=True):
    """The answer to a request. `granted` is empty if not even the least was free.

    The lease expires `expires_in_s` after the request was sent. `wait_s` is when to request again, in seconds; None if
    no process has anything that it could give back. `spent_usd` is what all processes have spent or leased.
    """

    granted: Amounts
    expires_in_s: float = LEASE_S
    wait_s: float | None = 0.0
    spent_usd: float = 0.0


class QuotaLease(Protocol):
    """The holder of an account's leases. One object may serve many accounts, and concurrent requests."""

    async def exchange(self, request: QuotaRequest) -> QuotaGrant:
        """Record what was used, and grant a lease. Raises QuotaError when the holder cannot be reached."""

    async def aclose(self) -> None:
        """Close connections."""


def block_of(requests_per_window: int | None) -> int:
    """Return the number of requests that a process leases at once: those of two seconds, at least 1, at most 100."""
    if requests_per_window is None:
        return LARGEST_BLOCK
    return max(1, min(LARGEST_BLOCK, requests_per_window // BLOCKS_PER_WINDOW))
