"""What batches may cost: each is handed in with as many requests as the budget has room for, at the most each may cost.

Nobody can stop a batch on its way, so that a request is reserved for with the longest reply that its target allows.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate

from msgspec import Struct

from agentv.execution.foreign import off_the_clock
from agentv.pipeline.budget import Purse
from agentv.pipeline.calls import asked_tokens, longest_reply
from agentv.pipeline.resilience import BATCH_SHARE, ResilientProvider
from agentv.types.failures import Failure
from agentv.types.provider import ProviderRequest, ProviderResponse
from agentv.types.usage import Usage


class Bill(Struct):
    """What one batch costs, in dollars: all that is reserved for it until more is known."""

    usd: float
    purse: Purse | None

    def settle(self, answers: Mapping[str, ProviderResponse | Failure]) -> None:
        """Take in what the batch brought: what it brought no answer to costs nothing."""
        costs = [answer.cost_usd or 0.0 for answer in answers.values() if isinstance(answer, ProviderResponse)]
        self.usd = sum(costs)
        if self.purse is not None and costs:
            self.purse.learn(max(costs))


class BatchPurse(Struct, frozen=True):
    """Pays for the batches of one target; without a budget there is room for all."""

    resilient: ResilientProvider

    async def room_for(self, requests: Mapping[str, ProviderRequest]) -> dict[str, ProviderRequest]:
        """Return as many of the requests as may be handed in now, from the first on.

        While other calls are under way, what they leave is waited for. Raises ProviderError of kind `budget`, and
        stops the run, when there is no room for a single one.
        """
        purse = self.resilient.purse
        if purse is None:
            return dict(requests)
        while True:
            sums = list(accumulate(self._most_usd(purse, request) for request in requests.values()))
            fitting = sum(map(purse.budget.fits, sums))
            if fitting == len(sums) or (fitting and not purse.budget.in_flight):
                return dict(list(requests.items())[:fitting])
            if not purse.budget.in_flight:
                raise purse.budget.refuse(purse.target, sums[0])
            with off_the_clock():
                await purse.budget.change()

    @contextmanager
    def paying(self, requests: Mapping[str, ProviderRequest]) -> Iterator[Bill]:
        """Reserve for a batch as long as it is under way; one whose bill is not settled costs what is reserved."""
        purse = self.resilient.purse
        if purse is None:
            yield Bill(0.0, None)
            return
        reserved = sum(self._most_usd(purse, request) for request in requests.values())
        bill = Bill(reserved, purse)
        purse.budget.take(reserved)
        try:
            yield bill
        finally:
            purse.budget.settle(reserved, bill.usd)

    def _most_usd(self, purse: Purse, request: ProviderRequest) -> float:
        longest = longest_reply(request, self.resilient.target) or 0
        most_usd = purse.cost_of(Usage(input=round(asked_tokens(request)), output=longest)) or 0.0
        return max(most_usd * BATCH_SHARE, purse.dearest_usd)
