"""`--budget-usd`: the cost of a call is reserved before it is sent, and a call that may exceed the limit is refused."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import asdict

from agentv.engine.calling.calls import cost_of_calls
from agentv.execution.cancelled_calls import attached_call
from agentv.execution.quotas import InProcessQuota, LeasedMoney, MoneyInUse, QuotaClient
from agentv.execution.user_code import off_the_clock
from agentv.types.errors import QuotaError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonValue
from agentv.types.protocols import BUDGET_ACCOUNT_PREFIX
from agentv.types.provider import EmbeddingResponse, ProviderError, ProviderResponse
from agentv.types.usage import Usage, total_usage

R = TypeVar("R", ProviderResponse, EmbeddingResponse)

FAILURES_BEFORE_CONCURRENCY = 3
"""Failed calls after which calls are sent concurrently, although the cost of a call is still unknown."""

_SLACK_USD = 1e-12
"""Tolerance for rounding errors of sums: a budget of ten cents has room for ten calls of one cent."""


class BudgetStop(Struct, frozen=True):
    """The reason why a budget stopped a run: the target's next call may cost more than is left."""

    target: str
    limit_usd: float
    spent_usd: float
    """The cost of the run so far, or of all runs that share the budget."""
    next_usd: float
    """The highest cost that the next call may have."""
    name: str | None = None
    """The name of a budget that several runs share."""
    is_unpriced: bool = False
    """True if the reason is instead that the cost of a call is unknown, so that the budget cannot be enforced."""

    def to_json(self) -> dict[str, JsonValue]:
        """Return the fields of the event `budget_stop`, without `name` and `is_unpriced` if they do not apply."""
        return {name: value for name, value in asdict(self).items() if value is not None and value is not False}

    @property
    def needs(self) -> str:
        """The option that a resume of the run needs; empty without one."""
        return "" if self.is_unpriced else "--budget-usd X"

    @property
    def reason(self) -> str:
        """The reason as one sentence."""
        budget = f"the budget {self.name!r}" if self.name else "the budget"
        if self.is_unpriced:
            return (
                f"{budget} of ${self.limit_usd:g} cannot be enforced: "
                f"a call of target {self.target!r} has no known cost; "
                "return `cost_usd` with each answer, or add a `price` to the target"
            )
        return (
            f"${self.spent_usd:.4f} of {budget} of ${self.limit_usd:g} is spent, and the next call of target "
            f"{self.target!r} may cost ${self.next_usd:.4f} (--budget-usd)"
        )


class Spent(Struct):
    """The cost of a run before it was resumed, in dollars: the sum, and the most expensive call of each target."""

    usd: float = 0.0
    max_call_cost_by_target: dict[str, float] = field(default_factory=dict)

    def add(self, target: str, cost_usd: float) -> None:
        """Count a call."""
        self.usd += cost_usd
        self.raise_max(target, cost_usd)

    def raise_max(self, target: str, cost_usd: float) -> None:
        """Raise the maximum cost of a target's calls to that of a call, if the call cost more."""
        if cost_usd > self.max_call_cost_by_target.get(target, 0.0):
            self.max_call_cost_by_target[target] = cost_usd

    def message(self, limit_usd: float) -> str:
        """Return the note that part of a budget was spent before the run was resumed."""
        return (
            f"${self.usd:.4f} of this run's budget of ${limit_usd:g} was spent before it was resumed; "
            "--budget-usd X sets a budget for the rest"
        )


class Budget(Struct):
    """The budget of one run, in dollars. The run leases money, in portions, from a quota.

    Always spent + reserved <= leased <= limit, except for calls that cost more than was reserved for them.
    """

    limit_usd: float
    on_stop: Callable[[BudgetStop], None] = lambda _stop: None
    """Called once, when a call no longer fits."""
    spent_usd: float = 0.0
    reserved_usd: float = 0.0
    in_flight: int = 0
    settled_calls: int = 0
    stopped: BudgetStop | None = None
    max_call_cost_by_target: Mapping[str, float] = field(default_factory=dict)
    """The highest cost of a call in earlier processes of the run."""
    name: str | None = None
    """All budgets of one name in a quota are one budget, shared by their runs."""
    client: QuotaClient | None = None
    """Communicates with the quota."""
    _reserved_calls: int = 0
    _money: LeasedMoney | None = None
    _settlement: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Set up the lease of the money. Without a client, no other process shares the budget."""
        client = self.client or QuotaClient(InProcessQuota(time.monotonic), time.monotonic)
        self._money = LeasedMoney(client, self.account, self.limit_usd, self._in_use)

    @property
    def account(self) -> str:
        """The name of the budget's account in a quota."""
        return f"{BUDGET_ACCOUNT_PREFIX}{self.name or ''}"

    @property
    def money(self) -> LeasedMoney:
        """The leased money."""
        assert self._money is not None  # noqa: S101 - set by __post_init__
        return self._money

    def fits(self, amount_usd: float) -> bool:
        """Return True if the leased money has room for a call in addition to those in flight."""
        return self.spent_usd + self.reserved_usd + amount_usd <= self.money.leased_usd + _SLACK_USD

    async def lease(self, amount_usd: float, wanted_usd: float = 0.0) -> float | None:
        """Lease `amount_usd` in addition to the money in use, and more up to `wanted_usd` if available.

        Return 0 on success; else the seconds to wait before another try. Return None if waiting cannot help, because no
        other process has leased any money. Raises ProviderError of kind `budget` when the shared quota does not answer.
        """
        try:
            with off_the_clock():
                return await self.money.draw(amount_usd, wanted_usd)
        except QuotaError as error:
            raise refusal(str(error)) from None

    async def aclose(self) -> None:
        """Report the money spent to the quota, and return the rest of the lease to it."""
        await self.money.aclose()

    def _in_use(self) -> MoneyInUse:
        return MoneyInUse(self.spent_usd + self.reserved_usd, self._reserved_calls, self.in_flight)

    def reserve(self, amount_usd: float) -> None:
        """Reserve an amount for a call."""
        self.reserved_usd += amount_usd
        self.in_flight += 1
        self._reserved_calls += 1

    def settle(self, reserved_usd: float, cost_usd: float) -> None:
        """Replace the reservation of a call with its cost."""
        self.in_flight -= 1
        self.settled_calls += 1
        # Exactly zero when nothing is in flight, without accumulated rounding errors.
        self.reserved_usd = self.reserved_usd - reserved_usd if self.in_flight else 0.0
        self.spent_usd += cost_usd
        self._settlement.set()
        self._settlement = asyncio.Event()

    async def wait_for_settlement(self, within_s: float | None = None) -> None:
        """Wait until a call is settled, at most `within_s` seconds. The wait does not count towards deadlines."""
        with off_the_clock(), suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._settlement.wait()

    def stop(self, reason: BudgetStop) -> None:
        """Stop the run because a call did not fit, here or on a node. Does nothing if the run was stopped before."""
        if self.stopped is None:
            self.stopped = reason
            self.on_stop(reason)

    def refuse(self, target: str, amount_usd: float) -> ProviderError:
        """Return the failure of a call that does not fit, and stop the run."""
        stop = BudgetStop(target, self.limit_usd, self._total_usd, amount_usd, name=self.name)
        self.stop(stop)
        return refusal(stop.reason)

    def stop_unpriced(self, target: str) -> None:
        """Stop the run because a call of a target has no known cost."""
        self.stop(BudgetStop(target, self.limit_usd, self._total_usd, 0.0, name=self.name, is_unpriced=True))

    @property
    def _total_usd(self) -> float:
        """What the run has spent; for a shared budget, what all of its runs have spent."""
        return self.money.total_usd if self.name else self.spent_usd


class BudgetAccount(Struct):
    """The calls of one target under a budget.

    Each call reserves the highest cost of a call so far, or the estimate from its prompt if that is higher. Calls are
    sent one at a time until one has succeeded (now, or before the run was resumed), or `FAILURES_BEFORE_CONCURRENCY` of
    them have failed.
    """

    budget: Budget
    target: str
    cost_of: Callable[[Usage], float | None]
    """Returns the cost of tokens in dollars, None without a price."""
    needs_costs: bool = False
    """True for a target without a price, which must report its costs: the first answer without one stops the run, as
    does a call that ran out of time before any cost is known.
    """
    max_call_cost_usd: float = 0.0
    _in_flight: int = 0
    _has_response: bool = False
    _failed_calls: int = 0

    def __post_init__(self) -> None:
        """Take over the known maximum cost of the target's calls."""
        self.max_call_cost_usd = max(self.max_call_cost_usd, self.budget.max_call_cost_by_target.get(self.target, 0.0))
        self._has_response = self._has_response or self.max_call_cost_usd > 0

    async def pay(self, call: Callable[[], Awaitable[R]], *, estimate_usd: float) -> R:
        """Make a call within the budget. Raises ProviderError of kind `budget`, without sending it, if it does not fit.

        A call of unknown cost (usually one that was cancelled in flight) counts as the amount reserved for it.
        """
        reserved = await self._reserve(estimate_usd)
        cost: float | None = None
        is_unpriced = False
        try:
            response = await call()
            cost = response.cost_usd
            self._has_response = True
            is_unpriced = cost is None
        except ProviderError as error:
            cost = self._cost_of_failure(error)
            self._failed_calls += 1
            is_unpriced = cost is None and not reserved
            raise
        except asyncio.CancelledError as error:
            attached = attached_call(error)
            cost = None if attached is None else cost_of_calls(attached.calls)
            raise
        finally:
            self._in_flight -= 1
            paid = reserved if cost is None else cost
            self.max_call_cost_usd = max(self.max_call_cost_usd, paid)
            self.budget.settle(reserved, paid)
            if is_unpriced and self.needs_costs:
                self.budget.stop_unpriced(self.target)
        return response

    def record_cost(self, cost_usd: float) -> None:
        """Record the cost of an answer that came from a batch."""
        self.max_call_cost_usd = max(self.max_call_cost_usd, cost_usd)
        self._has_response = True

    async def _reserve(self, estimate_usd: float) -> float:
        """Reserve the amount for a call, waiting for room; the wait does not count towards deadlines.

        Raises ProviderError if the call does not fit although no other is in flight.
        """
        budget = self.budget
        while True:
            amount = max(estimate_usd, self.max_call_cost_usd)
            must_wait_for_first = (
                self._in_flight > 0 and not self._has_response and self._failed_calls < FAILURES_BEFORE_CONCURRENCY
            )
            wait_s = None
            settled_calls = budget.settled_calls
            if not must_wait_for_first:
                if not budget.fits(amount):
                    wait_s = await budget.lease(amount)
                if budget.fits(amount):
                    break
                if settled_calls != budget.settled_calls:
                    continue  # a call was settled while money was requested: its reservation is free again
                if wait_s is None and not budget.in_flight:
                    raise budget.refuse(self.target, amount)
            await budget.wait_for_settlement(wait_s)
        self._in_flight += 1
        budget.reserve(amount)
        return amount

    def _cost_of_failure(self, error: ProviderError) -> float | None:
        """Return the cost of a failed call; None if unknown, as for a missed deadline, which may be billed."""
        cost_usd = cost_of_calls(error.calls)
        if cost_usd is not None:
            return cost_usd
        used = total_usage(call.usage for call in error.calls)
        if used is not None:
            return self.cost_of(used)
        return None if error.failure.kind in ("deadline", "target_timeout") else 0.0


_refusals: ContextVar[list[Failure] | None] = ContextVar("budget_refusals", default=None)


NO_REFUSALS: AbstractContextManager[Sequence[Failure]] = nullcontext(())
"""In place of `refused_calls` for runs that refuse no call."""


@contextmanager
def refused_calls() -> Iterator[Sequence[Failure]]:
    """Collect the failures of calls that are refused in a `with` block; a row with a refused call has no result."""
    failures: list[Failure] = []
    token = _refusals.set(failures)
    try:
        yield failures
    finally:
        _refusals.reset(token)


def refusal(reason: str) -> ProviderError:
    """Return the failure of a call that the budget refuses, and record it, so that its row gets no result."""
    failure = Failure("budget", reason)
    note_refusal(failure)
    return ProviderError(failure)


def note_refusal(failure: Failure) -> None:
    """Record a failure for the enclosing `refused_calls` block if its kind is `budget`; ignore any other failure."""
    refused = _refusals.get()
    if refused is not None and failure.kind == "budget":
        refused.append(failure)
