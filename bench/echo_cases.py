"""Cases that cost nothing but agentv's own work: a function repeats the question, a rule looks into it, all is kept."""

from collections.abc import Iterator

from bench.comparison import Comparison, compare, cpu_per_case
from bench.harness import AGENTV, EVALUATE, PYDANTIC_EVALS
from bench.harnesses.job import Job
from bench.measuring import Effort
from bench.rows import AtMostTimes, Row

CASES = 10_000


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the CPU per case of the command and of the function."""
    job = Job(kind="echo", cases=effort.calls(CASES))
    for ours in (AGENTV, EVALUATE):
        asked = Comparison(
            work=f"{ours.name}: CPU per case of {CASES:,}, one contains, all stored",
            job=job,
            take=cpu_per_case(job),
            target=AtMostTimes(0.5),
            against=PYDANTIC_EVALS,
        )
        yield from compare(asked, ours, effort.peers_for(job), rounds=effort.rounds)
