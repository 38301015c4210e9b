"""Cases whose target is a command, four at once, compared with a bare loop that starts the same commands."""

from collections.abc import Iterator

from bench.comparison import Comparison, compare, wall_per_case
from bench.harness import BARE_POPEN
from bench.harnesses.job import Job
from bench.measuring import Effort
from bench.rows import AtMostTimes, Row

CASES = 500
AT_ONCE = 4


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the wall time per case."""
    job = Job(kind="commands", cases=effort.calls(CASES), at_once=AT_ONCE)
    comparison = Comparison(
        work=f"time per case of {CASES}, {AT_ONCE} at once",
        take=wall_per_case(job),
        target=AtMostTimes(1.4),
        against=BARE_POPEN.name,
    )
    yield from compare(comparison, job, (BARE_POPEN, *effort.peers_for(job)), rounds=effort.rounds)
