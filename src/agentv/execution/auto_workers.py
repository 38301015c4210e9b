"""`workers: auto`: the number of concurrent calls of a target follows what its server accepts."""

from collections.abc import Callable
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

START = 4
MOST = 64
LEAST_CALLS = 12
"""A round has as many calls as there are workers, but not fewer than this: times of single calls vary too much."""

SLOWER = 1.5
"""Calls that take 1.5 times as long as usual show that the server works on no more of them at once."""


class AutoWorkers(Struct, frozen=True):
    """The policy: a number of workers, and what is known about the calls made with it.

    It doubles after each round of calls, until one is refused or calls take half as long again as usual. Then it is
    halved, and from there on grows by one a round. It is never below 1 or above `most`.
    """

    workers: int = START
    most: int = MOST
    usual_s: float | None = None
    """The shortest median time of the calls of a round; None in the first round."""
    times_s: tuple[float, ...] = ()
    """The times of the answered calls of this round."""
    has_met_limit: bool = False
    changes: int = 0
    """How often `workers` has changed. A call sent before the latest change says nothing about the present number."""

    def answered(self, seconds: float) -> "AutoWorkers":
        """Return the policy after a call that took so many seconds."""
        times_s = (*self.times_s, seconds)
        if len(times_s) < max(LEAST_CALLS, self.workers):
            return replace(self, times_s=times_s)
        typical_s = median(times_s)
        usual_s = typical_s if self.usual_s is None else min(self.usual_s, typical_s)
        known = replace(self, usual_s=usual_s, times_s=())
        if typical_s > SLOWER * usual_s:
            return known.refused()
        return _with_workers(known, self.workers + 1 if self.has_met_limit else self.workers * 2)

    def refused(self) -> "AutoWorkers":
        """Return the policy after a call that the server refused because there were too many."""
        return _with_workers(replace(self, has_met_limit=True), self.workers // 2)


def _with_workers(policy: AutoWorkers, workers: int) -> AutoWorkers:
    bounded = max(1, min(workers, policy.most))
    if bounded == policy.workers:
        return policy
    return replace(policy, workers=bounded, times_s=(), changes=policy.changes + 1)


class WorkerTuner:
    """Applies the policy to the calls of one target; `resize` gets each new number of workers."""

    def __init__(self, resize: Callable[[int], None], policy: AutoWorkers) -> None:
        self.policy = policy
        self._resize = resize

    def answered(self, seconds: float, *, sent_at: int) -> None:
        """Count an answered call that was sent when `changes` of the policy was `sent_at`."""
        if sent_at == self.policy.changes:
            self._change(self.policy.answered(seconds))

    def refused(self, *, sent_at: int) -> None:
        """Count a refused call that was sent when `changes` of the policy was `sent_at`."""
        if sent_at == self.policy.changes:
            self._change(self.policy.refused())

    def _change(self, policy: AutoWorkers) -> None:
        before, self.policy = self.policy, policy
        if policy.workers != before.workers:
            self._resize(policy.workers)
