"""What happens in a run, as values for whoever watches: the terminal, plain lines, JSON lines."""

from typing import Protocol, TypeAlias

from msgspec import Struct

from agentv.types.records.answer import Answer, ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.results import RunReport


class RunStarted(Struct, frozen=True):
    """A run begins. `planned` is None when the number of rows is not known yet (a stream).

    `trials` is how often each case is asked by each target, 1 where that differs.
    `budget_usd` is what it may cost, None without a limit; `spent_usd` what it cost before it was taken up again.
    """

    run_id: str
    planned: int | None
    suites: tuple[str, ...]
    targets: tuple[str, ...]
    workers: int
    folder: str | None
    cases: int | None = None
    trials: int = 1
    budget_usd: float | None = None
    spent_usd: float = 0.0


class RowBegun(Struct, frozen=True, gc=False):
    """A worker takes up a row. `RowFinished` or `RowLeft` follows, unless the run is interrupted."""

    slot: ResultKey


class AnswerArrived(Struct, frozen=True):
    """A target answered (or failed to); nothing is judged yet."""

    answer: Answer


class RowFinished(Struct, frozen=True):
    """A row is judged and stored."""

    result: CaseResult


class RowLeft(Struct, frozen=True):
    """A row that was begun is not done: the run was stopped first, or the budget had no room for it. It is left."""

    slot: ResultKey


class RowKept(Struct, frozen=True):
    """A row that a run had before it was taken up again stands as it is."""

    result: CaseResult


class RetryNoted(Struct, frozen=True):
    """A call is being repeated."""

    target: str
    eval_id: str
    kind: str
    wait_s: float


class RunNote(Struct, frozen=True):
    """Something people should know: a warning, a fallback, a deprecated key."""

    message: str


class RunStopping(Struct, frozen=True):
    """The run was asked to stop; rows in flight are given up, or when it `drains`, finished."""

    reason: str
    drains: bool = False


class RunEnded(Struct, frozen=True):
    """The run is over."""

    report: RunReport


RunEvent: TypeAlias = (
    RunStarted
    | RowBegun
    | AnswerArrived
    | RowFinished
    | RowLeft
    | RowKept
    | RetryNoted
    | RunNote
    | RunStopping
    | RunEnded
)


class Observer(Protocol):
    """Watches a run. Called in the run's own thread, one event at a time; must return quickly.

    One that takes note of some kinds of events alone may name them in an attribute `hears`, a tuple of their classes.
    """

    def notify(self, event: RunEvent) -> None:
        """Take note of one event."""

    def close(self) -> None:
        """Stop watching; called once, also after an interrupt."""
