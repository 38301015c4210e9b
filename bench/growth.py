"""What a long dataset costs: how much a case's CPU grows with the number of cases, and the peak of the memory."""

from collections.abc import Iterator

from bench.harness import AGENTV
from bench.harnesses.job import Job, Used
from bench.measuring import Effort
from bench.rows import AtMost, Row, megabytes, percent, row_of

FEW, SOME, MANY, MILLION = 1000, 10_000, 100_000, 1_000_000


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the growth of the CPU per case, and peaks of memory; the million only where all is to be measured."""
    few = [_cpu_per_case(_run(effort, FEW), effort.calls(FEW)) for _ in range(effort.rounds)]
    many = _run(effort, MANY)
    per_case = _cpu_per_case(many, effort.calls(MANY))
    yield row_of(f"CPU per case of {FEW:,}", few)
    yield row_of(f"CPU per case of {MANY:,}", [per_case])
    grown = [per_case / each - 1 for each in few]
    yield row_of(f"growth of CPU per case, {FEW:,} to {MANY:,}", grown, target=AtMost(0.1), shown=percent)
    some = [_run(effort, SOME).peak_mb]
    yield row_of(f"peak memory, {SOME:,} cases", some, target=AtMost(110), shown=megabytes)
    for peer in effort.peers:
        theirs = [peer.run(_job(effort, SOME)).peak_mb]
        yield row_of(f"peak memory, {SOME:,} cases", some, beside=peer.name, theirs=theirs, shown=megabytes)
    longest, used = (MILLION, _run(effort, MILLION)) if effort.everything else (MANY, many)
    yield row_of(
        f"memory beyond that of {SOME:,}, {longest:,} cases",
        [used.peak_mb - some[0]],
        target=AtMost(30),
        shown=megabytes,
    )


def _run(effort: Effort, cases: int) -> Used:
    return AGENTV.run(_job(effort, cases))


def _job(effort: Effort, cases: int) -> Job:
    return Job(kind="echo", cases=effort.calls(cases))


def _cpu_per_case(used: Used, cases: int) -> float:
    return used.cpu_s / cases
