"""The cost of a long dataset: the growth of CPU time per case with the number of cases, and the peak memory."""

from collections.abc import Iterator

from bench.harness import AGENTV
from bench.harnesses.job import Job, Used
from bench.measuring import Effort
from bench.rows import AtMost, Row, megabytes, percent, row_of

FEW, SOME, MANY, MILLION = 1000, 10_000, 100_000, 1_000_000


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the growth of CPU time per case and of peak memory; a million cases only with `effort.everything`."""
    some, many = _run(effort, SOME), _run(effort, MANY)
    few = [_cpu_per_case(_run(effort, FEW), effort.calls(FEW)) for _ in range(effort.rounds)]
    per_case = _cpu_per_case(many, effort.calls(MANY))
    yield row_of(f"CPU per case of {FEW:,}", few)
    yield row_of(f"CPU per case of {MANY:,}", [per_case])
    grown = [per_case / each - 1 for each in few]
    yield row_of(f"growth of CPU per case, {FEW:,} to {MANY:,}", grown, target=AtMost(0.1), shown=percent)
    grown = [per_case / _cpu_per_case(some, effort.calls(SOME)) - 1]
    yield row_of(f"growth of CPU per case, {SOME:,} to {MANY:,}", grown, shown=percent)
    longest, used = (MILLION, _run(effort, MILLION)) if effort.everything else (MANY, many)
    beyond = [used.peak_mb - some.peak_mb]
    yield row_of(f"peak memory, {longest:,} beyond {SOME:,} cases", beyond, target=AtMost(30), shown=megabytes)


def _run(effort: Effort, cases: int) -> Used:
    return AGENTV.run(Job(kind="echo", cases=effort.calls(cases)))


def _cpu_per_case(used: Used, cases: int) -> float:
    return used.cpu_s / cases
