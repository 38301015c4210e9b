"""Cases that call a model with a latency of 200 ms, many at once: the ideal time as a share of the wall time."""

from collections.abc import Callable, Iterator

from bench.comparison import Comparison, compare
from bench.harness import BARE_LOOP
from bench.harnesses.job import Job, Used
from bench.measuring import Effort
from bench.model_server import serving
from bench.rows import AtLeast, Row, percent

CASES = 5000
DELAY_S = 0.2
TARGETS = {100: AtLeast(0.97), 500: AtLeast(0.85)}
ROUNDS = 1
"""Without peers: a round takes half a minute, and the time is mostly waiting, which varies little."""


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the ideal time as a share of the wall time, compared with that of a bare loop."""
    rounds = effort.rounds if effort.everything else min(ROUNDS, effort.rounds)
    with serving(delay_s=DELAY_S) as server:
        for at_once, target in TARGETS.items():
            job = Job(kind="ask", cases=effort.calls(CASES), at_once=at_once, url=server.url)
            comparison = Comparison(
                work=f"share of the ideal time, {CASES:,} at 200 ms, {at_once} at once",
                take=_share_of_ideal(job),
                target=target,
                shown=percent,
            )
            yield from compare(comparison, job, (BARE_LOOP, *effort.peers_for(job)), rounds=rounds)


def _share_of_ideal(job: Job) -> Callable[[Used], float]:
    ideal_s = DELAY_S * max(1, job.cases / job.at_once)
    return lambda used: ideal_s / used.wall_s
