"""Measure the CPU time of one call, in rounds in which all works take turns, so that load affects all alike."""

import gc
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from bench.harness import Harness
from bench.harnesses.job import Job

Work: TypeAlias = Callable[[], object]
"""The function to measure: called without arguments, once or many times."""

CpuClock: TypeAlias = Callable[[], float]
"""Returns the CPU seconds used so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The amount of measuring: rounds, the share of the full number of calls in each, and peers to compare with.

    With `everything`, jobs that take minutes are included.
    """

    rounds: int = 5
    share: float = 1.0
    peers: tuple[Harness, ...] = ()
    everything: bool = False

    def calls(self, full: int) -> int:
        """Return the number of calls in a round, at least one; `full` calls give a stable number."""
        return max(1, round(full * self.share))

    def peers_for(self, job: Job) -> tuple[Harness, ...]:
        """Return the peers that run this kind of job."""
        return tuple(peer for peer in self.peers if job.kind in peer.kinds)


FULL = Effort()
QUICK = Effort(rounds=1, share=0.0)
"""Runs everything once, to check that it works."""


def children_time() -> float:
    """Return the CPU seconds, user and system, of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds_per_call(
    *works: Work, calls: int, effort: Effort, clock: CpuClock = time.process_time
) -> tuple[tuple[float, ...], ...]:
    """Return for each work its CPU seconds per call, one number per round.

    The works take turns within each round, so that the numbers of one round are comparable. One call of each before
    that is not measured, because it may import or create things once.
    """
    for work in works:
        work()
    times = effort.calls(calls)
    rounds = [tuple(_seconds(work, times, clock) / times for work in works) for _ in range(effort.rounds)]
    return tuple(zip(*rounds, strict=True))


def _seconds(work: Work, times: int, clock: CpuClock) -> float:
    gc.collect()  # garbage of the previous work is not counted here
    begin = clock()
    for _ in range(times):
        work()
    return clock() - begin
