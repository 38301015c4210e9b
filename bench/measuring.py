"""How long things take: CPU time of one call, in rounds that take turns, so that a busy machine troubles all alike."""

import gc
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from bench.harness import Harness
from bench.harnesses.job import Job

Work: TypeAlias = Callable[[], object]
"""What is measured: called without arguments, once or many times."""

CpuClock: TypeAlias = Callable[[], float]
"""Seconds of CPU time spent so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is measured: how many rounds, which share of the full number of calls in each, and next to whom.

    With `everything` also what takes minutes.
    """

    rounds: int = 5
    share: float = 1.0
    peers: tuple[Harness, ...] = ()
    everything: bool = False

    def calls(self, full: int) -> int:
        """Return how many calls a round has, at least one, where `full` are enough for a steady number."""
        return max(1, round(full * self.share))

    def peers_for(self, job: Job) -> tuple[Harness, ...]:
        """Return the peers that do this kind of job."""
        return tuple(peer for peer in self.peers if job.kind in peer.kinds)


FULL = Effort()
QUICK = Effort(rounds=1, share=0.0)
"""Everything once: whether it works, not how fast."""


def children_time() -> float:
    """Return the CPU seconds, user and system, of all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds_per_call(
    *works: Work, calls: int, effort: Effort, clock: CpuClock = time.process_time
) -> tuple[tuple[float, ...], ...]:
    """Return for each work its CPU seconds per call, one number a round.

    The works take turns within each round, so that the numbers of one round belong together. One call of each goes
    ahead unmeasured: what is imported or made once is no part of any.
    """
    for work in works:
        work()
    times = effort.calls(calls)
    rounds = [tuple(_seconds(work, times, clock) / times for work in works) for _ in range(effort.rounds)]
    return tuple(zip(*rounds, strict=True))


def _seconds(work: Work, times: int, clock: CpuClock) -> float:
    gc.collect()  # what the one before left behind is not this one's to clean up
    begin = clock()
    for _ in range(times):
        work()
    return clock() - begin
