"""Cases that call a model over HTTP without latency, fifty at once: scored by a rule, then by a judge."""

from collections.abc import Iterator

from bench.comparison import Comparison, compare, cpu_per_case
from bench.harness import BARE_LOOP, PYDANTIC_EVALS
from bench.harnesses.job import Job, Kind
from bench.measuring import Effort
from bench.model_server import serving
from bench.rows import AtMostTimes, Row

CASES = 1000
AT_ONCE = 50
KINDS: tuple[tuple[Kind, str, AtMostTimes], ...] = (
    ("ask", "one contains", AtMostTimes(1 / 4)),
    ("judge", "a judge call each", AtMostTimes(1 / 8)),
)


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the CPU time per case, compared with that of a bare loop that makes the same calls."""
    with serving() as server:
        for kind, judged, target in KINDS:
            job = Job(kind=kind, cases=effort.calls(CASES), at_once=AT_ONCE, url=server.url)
            comparison = Comparison(
                work=f"CPU per case of {CASES:,}, {AT_ONCE} at once, {judged}",
                take=cpu_per_case(job),
                target=target,
                against=PYDANTIC_EVALS,
            )
            yield from compare(comparison, job, (BARE_LOOP, *effort.peers_for(job)), rounds=effort.rounds)
