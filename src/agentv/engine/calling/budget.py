"""`--budget-usd`: what a call may cost is reserved before it is sent, and nothing is sent that could pass the limit."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TypeVar

from msgspec import Struct, field

from agentv.execution.user_code import off_the_clock
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.provider import EmbeddingResponse, ProviderResponse
from agentv.types.usage import Usage, total_usage

R = TypeVar("R", ProviderResponse, EmbeddingResponse)

FAILURES_TO_LEARN_FROM = 3
"""After so many calls that brought no answer others go at once, although nobody knows yet what one costs."""

_SLACK_USD = 1e-12
"""Sums of amounts are no more exact than this: a budget of ten cents has room for ten calls of one cent."""


class BudgetStop(Struct, frozen=True):
    """Why a run stopped: the target's next call may cost `next_usd`, which the limit has no room for."""

    target: str
    limit_usd: float
    spent_usd: float
    next_usd: float

    @property
    def reason(self) -> str:
        """Return it as one sentence."""
        return (
            f"${self.spent_usd:.4f} of the budget of ${self.limit_usd:g} is spent, and the next call of target "
            f"{self.target!r} may cost ${self.next_usd:.4f} (--budget-usd)"
        )


class Spent(Struct):
    """What a run spent before it is taken up again, in dollars. `dearest` is the most that one call cost, by target."""

    usd: float = 0.0
    dearest: dict[str, float] = field(default_factory=dict)

    def add(self, target: str, cost_usd: float) -> None:
        """Count a call."""
        self.usd += cost_usd
        self.note(target, cost_usd)

    def note(self, target: str, cost_usd: float) -> None:
        """Remember what a call may cost."""
        if cost_usd > self.dearest.get(target, 0.0):
            self.dearest[target] = cost_usd

    def told(self, limit_usd: float) -> str:
        """Return what people should know of a budget that is not whole any more."""
        return (
            f"${self.usd:.4f} of this run's budget of ${limit_usd:g} was spent before; "
            "--budget-usd X is for what it spends from now on"
        )


class Budget(Struct):
    """The money of one run, in dollars. `on_stop` is called once, when a call does not fit any more.

    `dearest_usd` is what calls of a target are known to cost before the first is made.

    At every moment what is spent and what is reserved for the calls under way are within the limit, but for what calls
    cost beyond their reservations.
    """

    limit_usd: float
    on_stop: Callable[[BudgetStop], None] = lambda _stop: None
    spent_usd: float = 0.0
    reserved_usd: float = 0.0
    in_flight: int = 0
    stopped: BudgetStop | None = None
    dearest_usd: Mapping[str, float] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def fits(self, amount_usd: float) -> bool:
        """Whether a call may be sent beside those that are under way."""
        return self.spent_usd + self.reserved_usd + amount_usd <= self.limit_usd + _SLACK_USD

    def take(self, amount_usd: float) -> None:
        """Reserve for a call."""
        self.reserved_usd += amount_usd
        self.in_flight += 1

    def settle(self, reserved_usd: float, cost_usd: float) -> None:
        """Put what a call cost in place of what was reserved for it."""
        self.in_flight -= 1
        # Exactly nothing is reserved when nothing is under way, whatever the sums have lost on the way.
        self.reserved_usd = self.reserved_usd - reserved_usd if self.in_flight else 0.0
        self.spent_usd += cost_usd
        self._changed.set()
        self._changed = asyncio.Event()

    async def change(self) -> None:
        """Wait until a call is settled."""
        await self._changed.wait()

    def refuse(self, target: str, amount_usd: float) -> ProviderError:
        """Return the failure of a call that does not fit, and stop the run."""
        stop = BudgetStop(target, self.limit_usd, self.spent_usd, amount_usd)
        if self.stopped is None:
            self.stopped = stop
            self.on_stop(stop)
        failure = Failure("budget", stop.reason)
        note_refusal(failure)
        return ProviderError(failure)


class BudgetAccount(Struct):
    """What one target spends of a budget. `cost_of` is what tokens cost, None where that is not known.

    A call is reserved for as the dearest so far, or as guessed from its prompt if that is more. As long as no answer is
    there to tell what one costs, calls go one at a time.
    """

    budget: Budget
    target: str
    cost_of: Callable[[Usage], float | None]
    dearest_usd: float = 0.0
    _in_flight: int = 0
    _answered: bool = False
    _failed: int = 0

    def __post_init__(self) -> None:
        """Take over what is known of the target's calls."""
        self.dearest_usd = max(self.dearest_usd, self.budget.dearest_usd.get(self.target, 0.0))
        self._answered = self._answered or self.dearest_usd > 0

    async def pay(self, call: Callable[[], Awaitable[R]], *, guess_usd: float) -> R:
        """Make a call within the budget; raises ProviderError of kind `budget`, before it is sent, for one too many.

        A call whose cost nobody tells, or that was given up on the way, is taken to have cost what was reserved.
        """
        reserved = await self._reserve(guess_usd)
        cost: float | None = None
        try:
            response = await call()
            cost = response.cost_usd
            self._answered = True
        except ProviderError as error:
            cost = self._cost_of_failure(error)
            self._failed += 1
            raise
        finally:
            self._in_flight -= 1
            paid = reserved if cost is None else cost
            self.dearest_usd = max(self.dearest_usd, paid)
            self.budget.settle(reserved, paid)
        return response

    def learn(self, cost_usd: float) -> None:
        """Take in what an answer cost that a batch brought."""
        self.dearest_usd = max(self.dearest_usd, cost_usd)
        self._answered = True

    async def _reserve(self, guess_usd: float) -> float:
        """Wait until a call fits, off the clock; when it would not fit if all others were over, it is refused."""
        budget = self.budget
        while True:
            amount = max(guess_usd, self.dearest_usd)
            is_blind = self._in_flight > 0 and not self._answered and self._failed < FAILURES_TO_LEARN_FROM
            if budget.fits(amount) and not is_blind:
                break
            if not budget.in_flight:
                raise budget.refuse(self.target, amount)
            with off_the_clock():
                await budget.change()
        self._in_flight += 1
        budget.take(amount)
        return amount

    def _cost_of_failure(self, error: ProviderError) -> float | None:
        """Return what a failed call cost. One without an answer in time may be billed all the same."""
        used = total_usage(call.usage for call in error.calls)
        if used is not None:
            return self.cost_of(used)
        return None if error.failure.kind == "deadline" else 0.0


_refusals: ContextVar[list[Failure] | None] = ContextVar("budget_refusals", default=None)


_NONE_REFUSED: AbstractContextManager[Sequence[Failure]] = nullcontext(())


def refused_calls(budget: Budget | None) -> AbstractContextManager[Sequence[Failure]]:
    """Return what notes the calls that a budget refuses in a `with` block: what was made of them is no result."""
    return _NONE_REFUSED if budget is None else _noting_refusals()


@contextmanager
def _noting_refusals() -> Iterator[Sequence[Failure]]:
    failures: list[Failure] = []
    token = _refusals.set(failures)
    try:
        yield failures
    finally:
        _refusals.reset(token)


def note_refusal(failure: Failure) -> None:
    """Note a refused call with whoever asked for it."""
    refused = _refusals.get()
    if refused is not None and failure.kind == "budget":
        refused.append(failure)
