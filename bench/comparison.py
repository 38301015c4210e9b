"""Jobs done side by side: ours in turn with all others, then one row for each of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.harness import AGENTV, Harness, in_turns
from bench.harnesses.job import Job, Used
from bench.rows import Row, Shown, Target, duration, row_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What is compared: `take` says which number of what a job took.

    `target` stands in the row of `against`, the name of a harness; without a name in the first row.
    """

    work: str
    take: Callable[[Used], float]
    target: Target | None = None
    against: str = ""
    shown: Shown = duration


def compared(asked: Comparison, done: Mapping[str, Sequence[Used]], ours: str, others: Iterable[str]) -> Iterator[Row]:
    """Yield a row for each of the others; one of ours alone comes first where the target's peer is not among them.

    `done` is what the job took each harness, by name; those that failed are not in it.
    """
    mine, names = [asked.take(used) for used in done[ours]], [name for name in others if name in done]
    held_by = asked.against or next(iter(names), "")
    if held_by not in names:
        yield row_of(asked.work, mine, target=asked.target, shown=asked.shown)
    for name in names:
        theirs = [asked.take(used) for used in done[name]]
        target = asked.target if name == held_by else None
        yield row_of(asked.work, mine, beside=name, theirs=theirs, target=target, shown=asked.shown)


def compare(asked: Comparison, job: Job, others: Sequence[Harness], *, rounds: int) -> Iterator[Row]:
    """Do a job with `agentv run` and all others in turn, and yield a row for each of the others."""
    done = in_turns((AGENTV, *others), job, rounds=rounds)
    yield from compared(asked, done, AGENTV.name, [other.name for other in others])


def cpu_per_case(job: Job) -> Callable[[Used], float]:
    """Return what takes the CPU seconds of one case."""
    return lambda used: used.cpu_s / job.cases


def wall_per_case(job: Job) -> Callable[[Used], float]:
    """Return what takes the seconds on the wall for one case."""
    return lambda used: used.wall_s / job.cases
