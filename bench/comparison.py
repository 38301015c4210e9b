"""Comparisons: run a job with agentv and all others in turn, then yield one row for each of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.harness import AGENTV, Harness, in_turns
from bench.harnesses.job import Job, Used
from bench.rows import Row, Shown, Target, duration, row_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A number to compare: `take` returns it from the measurements of a job.

    `target` is checked in the row of `against`, the name of a harness; without a name, in the first row.
    """

    work: str
    take: Callable[[Used], float]
    target: Target | None = None
    against: str = ""
    shown: Shown = duration


def compared(
    comparison: Comparison, done: Mapping[str, Sequence[Used]], ours: str, others: Iterable[str]
) -> Iterator[Row]:
    """Yield a row for each of the others, after a row of ours alone when the target's peer is not among them.

    `done` has the measurements of the job by harness; those that failed are not in it.
    """
    mine, names = [comparison.take(used) for used in done[ours]], [name for name in others if name in done]
    against = comparison.against or next(iter(names), "")
    if against not in names:
        yield row_of(comparison.work, mine, target=comparison.target, shown=comparison.shown)
    for name in names:
        theirs = [comparison.take(used) for used in done[name]]
        target = comparison.target if name == against else None
        yield row_of(comparison.work, mine, beside=name, theirs=theirs, target=target, shown=comparison.shown)


def compare(comparison: Comparison, job: Job, others: Sequence[Harness], *, rounds: int) -> Iterator[Row]:
    """Run a job with `agentv run` and all others in turn, and yield a row for each of the others."""
    done = in_turns((AGENTV, *others), job, rounds=rounds)
    yield from compared(comparison, done, AGENTV.name, [other.name for other in others])


def cpu_per_case(job: Job) -> Callable[[Used], float]:
    """Return a function that returns the CPU seconds per case."""
    return lambda used: used.cpu_s / job.cases


def wall_per_case(job: Job) -> Callable[[Used], float]:
    """Return a function that returns the wall seconds per case."""
    return lambda used: used.wall_s / job.cases
