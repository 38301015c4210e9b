"""Quotas and budgets, leased in blocks: the accounts of a quota, and what a process has leased from them.

A lease is a part of an account's requests, tokens or money that one process may use until the lease expires.
"""

import asyncio
import heapq
import math
import os
import socket
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
from msgspec import Struct, field

from agentv.types.errors import QuotaError
from agentv.types.protocols import (
    BLOCKS_PER_WINDOW,
    LEASE_S,
    WINDOW_S,
    Amounts,
    LeaseUse,
    QuotaGrant,
    QuotaLimits,
    QuotaRequest,
    QuotaService,
    block_of,
)

ROUNDING = 1e-9
"""Tolerance for rounding errors of sums: a budget of ten cents has room for ten calls of one cent."""

SHARE_OF_BLOCK = 4
"""A process that got no lease retries when a quarter of a block is free, not for every single permit."""


class _Lease(Struct):
    """What a process was granted or, after its report, what it used."""

    requests: int
    tokens: float
    usd: float
    expires_at: float


class _Account(Struct):
    """One account."""

    leases: dict[str, _Lease] = field(default_factory=dict)
    ends: list[tuple[float, str]] = field(default_factory=list)
    """A heap of the times at which leases no longer count."""
    requests: int = 0
    """The sum over its leases."""
    tokens: float = 0.0
    """The sum over its leases."""
    filled_from: float = -math.inf
    """Requests become free at an even pace since this time; a grant moves it forward by one interval per request."""
    held_until: float = -math.inf
    """Nothing is granted before this time."""


class LeaseBook:
    """The accounts of a quota, in memory. `now` returns the seconds of its clock.

    Grants are paced: at most two seconds' worth of an account's requests at once. With `lease_s` 0, a grant is used at
    once: only the least requests and tokens are granted, and leases of money never expire.
    """

    def __init__(self, now: Callable[[], float], *, lease_s: float = LEASE_S) -> None:
        self._now = now
        self._lease_s = lease_s
        self._accounts: dict[str, _Account] = {}

    def exchange(self, request: QuotaRequest) -> QuotaGrant:
        """Record what was used, and grant a lease."""
        now = self._now()
        account = self._accounts.setdefault(request.account, _Account())
        _delete_old_leases(account, now)
        for use in request.uses:
            self._record(account, use, now, request.limits)
        if request.hold_s > 0:
            account.held_until = max(account.held_until, now + request.hold_s)
        if request.least == Amounts():
            return self._answer(account, request, Amounts(), 0.0)
        return self._grant(account, request, now)

    def dump(self) -> bytes:
        """Return the accounts as bytes."""
        return msgspec.msgpack.encode(self._accounts)

    def restore(self, dumped: bytes) -> None:
        """Replace the accounts by those that `dump` returned."""
        self._accounts = msgspec.msgpack.decode(dumped, type=dict[str, _Account])

    def _grant(self, account: _Account, request: QuotaRequest, now: float) -> QuotaGrant:
        limits, least = request.limits, request.least
        wanted = request.wanted if self._lease_s else _without_blocks(request.wanted, least)
        free = self._free(account, limits, now)
        fits = (
            account.held_until <= now
            and least.requests <= free.requests
            and least.tokens <= free.tokens + ROUNDING
            and least.usd <= free.usd + ROUNDING
        )
        if not fits:
            return self._answer(account, request, Amounts(), self._wait_s(account, request, free, now))
        granted = Amounts(
            max(least.requests, min(wanted.requests, free.requests)),
            max(least.tokens, min(wanted.tokens, free.tokens)),
            max(least.usd, min(wanted.usd, free.usd)),
        )
        self._add(account, request.lease, granted, self._expiry(limits, now))
        if limits.requests is not None:
            spacing_s = _spacing_s(limits.requests)
            account.filled_from = _filled_from(account, limits.requests, now) + granted.requests * spacing_s
        return self._answer(account, request, granted, 0.0)

    def _free(self, account: _Account, limits: QuotaLimits, now: float) -> Amounts:
        """Return what may be granted now: infinity, or 2**30 requests, where there is no limit."""
        requests: float = 1 << 30
        if limits.requests is not None:
            paced = (now - _filled_from(account, limits.requests, now)) / _spacing_s(limits.requests)
            requests = min(limits.requests - account.requests, math.floor(paced + ROUNDING))
        tokens = math.inf if limits.tokens is None else limits.tokens - account.tokens
        usd = math.inf if limits.usd is None else limits.usd - _spent_usd(account)
        return Amounts(int(requests), tokens, usd)

    def _wait_s(self, account: _Account, request: QuotaRequest, free: Amounts, now: float) -> float | None:
        limits, least = request.limits, request.least
        waits = [account.held_until - now]
        if limits.requests is not None and least.requests > 0:
            block = min(request.wanted.requests, block_of(limits.requests)) if self._lease_s else 0
            awaited = max(least.requests, block / SHARE_OF_BLOCK)
            waits.append(account.filled_from + awaited * _spacing_s(limits.requests) - now)
        is_full = limits.requests is not None and limits.requests - account.requests < least.requests
        if (is_full or least.tokens > free.tokens + ROUNDING) and account.ends:
            waits.append(account.ends[0][0] - now)
        if least.usd > free.usd + ROUNDING:
            others = [lease for lease_id, lease in account.leases.items() if lease_id != request.lease]
            if not any(lease.usd > 0 and lease.expires_at > now for lease in others):
                return None
            waits.append(self._lease_s / SHARE_OF_BLOCK)
        return max(0.001, *waits)

    def _expiry(self, limits: QuotaLimits, now: float) -> float:
        return math.inf if limits.usd is not None and not self._lease_s else now + self._lease_s

    def _answer(self, account: _Account, request: QuotaRequest, granted: Amounts, wait_s: float | None) -> QuotaGrant:
        is_money = request.limits.usd is not None
        expires_in_s = math.inf if is_money and not self._lease_s else self._lease_s
        return QuotaGrant(granted, expires_in_s, wait_s, _spent_usd(account) if is_money else 0.0)

    def _record(self, account: _Account, use: LeaseUse, now: float, limits: QuotaLimits) -> None:
        """Replace what a lease was granted by what was used."""
        lease, used = account.leases.get(use.lease), use.used
        if lease is None:
            if used != Amounts():
                self._add(account, use.lease, used, now if use.is_over else self._expiry(limits, now))
            return
        if limits.requests is not None:
            account.filled_from += (used.requests - lease.requests) * _spacing_s(limits.requests)
        account.requests += used.requests - lease.requests
        account.tokens += used.tokens - lease.tokens
        lease.requests, lease.tokens, lease.usd = used.requests, used.tokens, used.usd
        lease.expires_at = min(lease.expires_at, now) if use.is_over else self._expiry(limits, now)
        _schedule_deletion(account, lease.expires_at, use.lease)

    def _add(self, account: _Account, lease_id: str, granted: Amounts, expires_at: float) -> None:
        """Add to a lease, which may be new."""
        lease = account.leases.setdefault(lease_id, _Lease(0, 0.0, 0.0, expires_at))
        lease.requests += granted.requests
        lease.tokens += granted.tokens
        lease.usd += granted.usd
        lease.expires_at = expires_at
        account.requests += granted.requests
        account.tokens += granted.tokens
        _schedule_deletion(account, expires_at, lease_id)


def _schedule_deletion(account: _Account, expires_at: float, lease_id: str) -> None:
    if math.isfinite(expires_at):
        heapq.heappush(account.ends, (expires_at + WINDOW_S, lease_id))


def _without_blocks(wanted: Amounts, least: Amounts) -> Amounts:
    """Return the wanted money, but only the least of requests and tokens."""
    return Amounts(least.requests, least.tokens, wanted.usd)


def _delete_old_leases(account: _Account, now: float) -> None:
    """Delete the leases whose window is over, except those with spent money."""
    while account.ends and account.ends[0][0] <= now:
        end, lease_id = heapq.heappop(account.ends)
        lease = account.leases.get(lease_id)
        if lease is None or lease.expires_at + WINDOW_S != end:
            continue  # renewed or ended after this entry was added
        account.requests -= lease.requests
        account.tokens -= lease.tokens
        if lease.usd:
            lease.requests, lease.tokens = 0, 0.0
        else:
            del account.leases[lease_id]
    if not account.leases:
        account.tokens = 0.0  # drop accumulated rounding errors


def _spent_usd(account: _Account) -> float:
    return math.fsum(lease.usd for lease in account.leases.values())


def _spacing_s(requests_per_window: int) -> float:
    return WINDOW_S / requests_per_window


def _filled_from(account: _Account, requests_per_window: int, now: float) -> float:
    """Return `filled_from`, but no time so long ago that many requests have become free.

    The earliest time is two seconds before `now`, or one interval between requests if that is longer.
    """
    return max(account.filled_from, now - max(_spacing_s(requests_per_window), WINDOW_S / BLOCKS_PER_WINDOW))


class InProcessQuota:
    """A quota of one process. `now` returns the seconds of a clock that never goes back.

    With the default `lease_s` of 0 a permit is granted at the moment of its use.
    """

    def __init__(self, now: Callable[[], float], *, lease_s: float = 0.0) -> None:
        self._book = LeaseBook(now, lease_s=lease_s)

    async def exchange(self, request: QuotaRequest) -> QuotaGrant:
        """Record what was used, and grant a lease."""
        return self._book.exchange(request)

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""


class HeldLease(Struct):
    """A lease of this process: what was granted, and what of it was used. Times are seconds of this process's clock."""

    id: str
    granted: Amounts
    expires_at: float
    requests: int = 0
    tokens: float = 0.0
    closed_at: float | None = None
    is_single_use: bool = True
    """True for a grant that expires at once: it permits the call that requested it, and no other."""

    def use(self) -> LeaseUse:
        """Return the final use of the lease, to be reported."""
        return LeaseUse(self.id, Amounts(self.requests, self.tokens), is_over=True)


RETRY_S = 0.5
"""Seconds between two exchanges with a quota that does not answer."""

PATIENCE_S = 60.0
"""Seconds without an answer from the quota after which calls fail. Until then, calls wait."""


class QuotaClient(Struct):
    """The connection of a process to a quota, for all its accounts; it reports when the quota does not answer."""

    quota: QuotaService
    now: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    on_unanswered: Callable[[str], None] = lambda _message: None
    """Called with a message when the quota does not answer, and when it answers again."""
    on_loss: Callable[[str], None] = lambda _reason: None
    """Called with the reason when the quota has not answered for PATIENCE_S; every later exchange fails at once."""
    holder: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}")
    """The name of this process in its requests."""
    silent_since: float | None = None
    lost_reason: str | None = None

    async def exchange(self, request: QuotaRequest) -> QuotaGrant:
        """Send a request and return the grant. Raises QuotaError when the quota does not answer within LEASE_S."""
        if self.lost_reason is not None:
            raise QuotaError(self.lost_reason)
        sent_at = self.now()
        try:
            async with asyncio.timeout(LEASE_S):
                grant = await self.quota.exchange(request)
        except TimeoutError:
            raise self._note_no_answer(
                QuotaError(f"{self.quota} does not answer within {LEASE_S:g} s"), sent_at
            ) from None
        except QuotaError as error:
            raise self._note_no_answer(error, sent_at) from None
        if self.silent_since is not None:
            self.silent_since = None
            self.on_unanswered(f"{self.quota} answers again")
        return grant

    async def wait(self, error: QuotaError) -> None:
        """Wait before the exchange that follows a failed one. Raises `error` once the quota is given up (`on_loss`)."""
        if self.lost_reason is not None:
            raise error
        await self.sleep(RETRY_S)

    def _note_no_answer(self, error: QuotaError, sent_at: float) -> QuotaError:
        """Note that the quota did not answer a request sent at `sent_at`; return the error to raise."""
        if self.silent_since is None:
            self.silent_since = sent_at
            self.on_unanswered(f"{error}; no call is sent until it answers")
        elif self.now() - self.silent_since >= PATIENCE_S and self.lost_reason is None:
            self.lost_reason = f"{self.quota} has not answered for {PATIENCE_S:g} s"
            self.on_loss(self.lost_reason)
            return QuotaError(self.lost_reason)
        return error


class LeasedPermits:
    """The permits and tokens that this process has leased from one account."""

    def __init__(self, client: QuotaClient, account: str) -> None:
        self.limits = QuotaLimits()
        self._client = client
        self._account = account
        self._now = client.now
        self._current: HeldLease | None = None
        self._unreported: dict[str, LeaseUse] = {}
        self._hold_s = 0.0
        # One exchange at a time: reports of one lease must arrive in order.
        self._turn = asyncio.Lock()
        # Ends the current lease when it expires; without a lease, starts the report of a call that ended later.
        self._timer: asyncio.TimerHandle | None = None
        self._reporting: asyncio.Task[None] | None = None
        self._is_closed = False

    def take_now(self, tokens: float) -> HeldLease | None:
        """Use one permit of the current lease; return None if it has none left."""
        lease = self._current
        if lease is None or self._now() >= lease.expires_at or lease.requests >= lease.granted.requests:
            return None
        if self.limits.tokens is not None and lease.tokens + tokens > lease.granted.tokens + ROUNDING:
            return None
        return _use_permit(lease, tokens)

    async def draw(self, tokens: float) -> HeldLease | None:
        """Request a lease and use one permit of it. If none is granted, wait and return None: call again.

        Raises QuotaError when the quota has not answered for PATIENCE_S.
        """
        self._close()
        limits = self.limits
        block = block_of(limits.requests)
        least, wanted = Amounts(1), Amounts(block)
        if limits.tokens is not None:
            # A call that is larger than the limit needs the whole limit and leaves a debt.
            least = Amounts(1, min(tokens, limits.tokens))
            wanted = Amounts(block, max(least.tokens, limits.tokens / BLOCKS_PER_WINDOW))
        sent_at = self._now()
        lease_id = uuid.uuid4().hex
        try:
            grant = await self._exchange(lease_id, least, wanted)
        except BaseException as error:
            self._unreported.setdefault(lease_id, LeaseUse(lease_id, Amounts()))  # the lease may have been granted
            if not isinstance(error, QuotaError):
                raise
            await self._client.wait(error)
            return None
        if not grant.granted.requests:
            await self._client.sleep(grant.wait_s or RETRY_S)
            return None
        expires_at, is_single_use = sent_at + grant.expires_in_s, grant.expires_in_s <= 0
        held = self._current = HeldLease(lease_id, grant.granted, expires_at, is_single_use=is_single_use)
        if is_single_use:
            return _use_permit(held, tokens)
        if self._now() >= held.expires_at:  # this process was suspended meanwhile
            self._close()
            return None
        self._timer = asyncio.get_running_loop().call_later(grant.expires_in_s, self._on_expiry, held)
        return _use_permit(held, tokens)

    def correct(self, lease: HeldLease, *, requests: int, tokens: float) -> None:
        """Add to a lease the requests and tokens that a call used beyond its permit; `tokens` may be negative."""
        lease.requests += requests
        lease.tokens += tokens
        if lease.closed_at is None or not (requests or tokens):
            return
        if self._now() - lease.closed_at < WINDOW_S:
            self._unreported[lease.id] = lease.use()
        elif requests > 0 or tokens > 0:
            # The window of the lease is over: only the additional use is reported, as a lease of its own.
            debt = LeaseUse(uuid.uuid4().hex, Amounts(max(0, requests), max(0.0, tokens)))
            self._unreported[debt.lease] = debt
        if not lease.is_single_use and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LEASE_S / 2, self._start_report)

    def hold(self, seconds: float) -> None:
        """Give back all permits and block the account for all processes for `seconds`: the server refused a call."""
        self._hold_s = max(self._hold_s, seconds)
        self._close()
        self._start_report()

    async def aclose(self) -> None:
        """Report what was used, so that other processes can use the rest."""
        self._is_closed = True
        self._close()
        if self._reporting is not None:
            await self._reporting
        if self._unreported:
            await self._report()

    def _close(self) -> None:
        """End the current lease; the next exchange reports its use."""
        lease, self._current = self._current, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if lease is not None:
            lease.closed_at = min(self._now(), lease.expires_at)
            if self._now() - lease.closed_at < WINDOW_S:
                self._unreported[lease.id] = lease.use()

    def _on_expiry(self, lease: HeldLease) -> None:
        if lease is self._current:
            self._close()
            self._start_report()

    def _start_report(self) -> None:
        self._timer = None
        if not self._is_closed and (self._reporting is None or self._reporting.done()):
            self._reporting = asyncio.get_running_loop().create_task(self._report())

    async def _report(self) -> None:
        with suppress(QuotaError):  # without a report, the whole lease counts as used
            await self._exchange(uuid.uuid4().hex, Amounts(), Amounts())
            while self._hold_s:  # a call was refused during the exchange
                await self._exchange(uuid.uuid4().hex, Amounts(), Amounts())

    async def _exchange(self, lease_id: str, least: Amounts, wanted: Amounts) -> QuotaGrant:
        async with self._turn:
            uses, self._unreported = self._unreported, {}
            hold_s, self._hold_s = self._hold_s, 0.0
            request = QuotaRequest(
                account=self._account,
                holder=self._client.holder,
                lease=lease_id,
                limits=self.limits,
                least=least,
                wanted=wanted,
                uses=tuple(uses.values()),
                hold_s=hold_s,
            )
            try:
                return await self._client.exchange(request)
            except BaseException:
                self._unreported = {**uses, **self._unreported}
                self._hold_s = max(self._hold_s, hold_s)
                raise


def _use_permit(lease: HeldLease, tokens: float) -> HeldLease:
    lease.requests += 1
    lease.tokens += tokens
    return lease


class LeasedMoney:
    """The money that this process has leased from one budget, in dollars.

    `in_use` returns what is spent and what is reserved for calls in progress; `leased_usd` includes both. Money that is
    not used for a while is returned, and a lease with calls in progress is renewed until `aclose`.
    """

    def __init__(self, client: QuotaClient, account: str, limit_usd: float, in_use: "Callable[[], MoneyInUse]") -> None:
        self.leased_usd = 0.0
        self.total_usd = 0.0
        self._client = client
        self._account = account
        self._limit_usd = limit_usd
        self._in_use = in_use
        self._lease = uuid.uuid4().hex
        self._turn = asyncio.Lock()
        self._renewal: asyncio.Task[None] | None = None
        self._reported: LeaseUse | None = None

    async def draw(self, amount_usd: float, wanted_usd: float = 0.0) -> float | None:
        """Lease `amount_usd` in addition to what is in use, and more up to `wanted_usd`.

        Return 0 on success; else the seconds after which another process may have returned money, or None if no other
        process has leased any. Raises QuotaError when the quota has not answered for PATIENCE_S.
        """
        wanted_usd = max(amount_usd, wanted_usd)
        async with self._turn:
            in_use = self._in_use().usd
            if in_use + wanted_usd <= self.leased_usd:
                return 0.0
            block_usd = max(wanted_usd, self._limit_usd / BLOCKS_PER_WINDOW)
            # A free call needs a grant too, so that it is not made once the budget is exceeded.
            least_usd = max(amount_usd, ROUNDING)
            try:
                grant = await self._exchange(Amounts(usd=least_usd), Amounts(usd=block_usd))
            except QuotaError as error:
                await self._client.wait(error)
                return RETRY_S
            if grant.granted.usd:
                self.leased_usd = in_use + grant.granted.usd
            if math.isfinite(grant.expires_in_s) and self._renewal is None:
                self._renewal = asyncio.get_running_loop().create_task(self._renew())
            return 0.0 if grant.granted.usd else grant.wait_s

    async def aclose(self) -> None:
        """Report what was spent, so that other processes can use the rest."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)
        with suppress(QuotaError):  # all that was leased then counts as spent
            await self._exchange(Amounts(), Amounts())

    async def _renew(self) -> None:
        while True:
            calls_before = self._in_use().calls
            await self._client.sleep(LEASE_S / 3)
            async with self._turn:
                in_use = self._in_use()
                # A process whose calls follow each other closely keeps its block.
                keeps_block = in_use.calls != calls_before
                use = self._current_use(in_use, keeps_block=keeps_block)
                if use != self._reported or not use.is_over:
                    with suppress(QuotaError):
                        await self._exchange(Amounts(), Amounts(), keeps_block=keeps_block)

    def _current_use(self, in_use: "MoneyInUse", *, keeps_block: bool) -> LeaseUse:
        usd = max(self.leased_usd, in_use.usd) if keeps_block else in_use.usd
        return LeaseUse(self._lease, Amounts(usd=usd), is_over=not in_use.in_flight and not keeps_block)

    async def _exchange(self, least: Amounts, wanted: Amounts, *, keeps_block: bool = False) -> QuotaGrant:
        use = self._current_use(self._in_use(), keeps_block=keeps_block)
        # The exchange gives back the money that is not in use. The limit bounds it, so that free calls are refused too.
        self.leased_usd = min(use.used.usd, self._limit_usd)
        self._reported = None
        request = QuotaRequest(
            account=self._account,
            holder=self._client.holder,
            lease=self._lease,
            limits=QuotaLimits(usd=self._limit_usd),
            least=least,
            wanted=wanted,
            uses=(use,),
        )
        try:
            grant = await self._client.exchange(request)
        except QuotaError:
            self.leased_usd = min(self._in_use().usd, self._limit_usd)  # no call is sent without an answer
            raise
        self._reported = use if grant.granted == Amounts() else None
        self.total_usd = grant.spent_usd
        return grant


class MoneyInUse(Struct, frozen=True):
    """The dollars that a process has spent and reserved, the number of all its calls, and of those in progress."""

    usd: float
    calls: int
    in_flight: int
