"""Cases that measure agentv's own work: the target is a function that echoes the prompt, one rule, all stored."""

from collections.abc import Iterator

from bench.comparison import Comparison, compared, cpu_per_case
from bench.harness import AGENTV, EVALUATE, PYDANTIC_EVALS, in_turns
from bench.harnesses.job import Job
from bench.measuring import Effort
from bench.rows import AtMost, AtMostTimes, Row, megabytes

CASES = 10_000


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the CPU time per case of `agentv run` and of `evaluate()`, and the peak memory of `agentv run`."""
    job = Job(kind="echo", cases=effort.calls(CASES))
    peers = effort.peers_for(job)
    done = in_turns((AGENTV, EVALUATE, *peers), job, rounds=effort.rounds)
    names = [peer.name for peer in peers]
    for ours in (AGENTV, EVALUATE):
        comparison = Comparison(
            work=f"{ours.name}: CPU per case of {CASES:,}, one contains, all stored",
            take=cpu_per_case(job),
            target=AtMostTimes(0.5),
            against=PYDANTIC_EVALS,
        )
        yield from compared(comparison, done, ours.name, names)
    peak = Comparison(
        work=f"peak memory, {CASES:,} cases", take=lambda used: used.peak_mb, target=AtMost(110), shown=megabytes
    )
    yield from compared(peak, done, AGENTV.name, names)
