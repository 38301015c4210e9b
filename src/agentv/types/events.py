"""Events of a run for observers: the terminal, plain lines, JSON lines."""

from typing import Protocol, TypeAlias

from msgspec import Struct

from agentv.types.records.answer import Answer, ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord
from agentv.types.results import RunReport


class RunStarted(Struct, frozen=True):
    """A run begins."""

    run_id: str
    planned: int | None
    """None when the number of rows is not known yet (a stream)."""
    suites: tuple[str, ...]
    targets: tuple[str, ...]
    workers: int
    folder: str | None
    cases: int | None = None
    trials: int = 1
    """The number of trials of each case with each target; 1 if cases differ."""
    prompts: tuple[str, ...] = ()
    """The prompts of each case; empty if there are none, or if suites differ."""
    budget_usd: float | None = None
    """The run's budget; None without a limit."""
    spent_usd: float = 0.0
    """The cost before the run was resumed."""


class RowsCounted(Struct, frozen=True):
    """The rows and cases of a stream were counted while the run goes on. In a shard both numbers are estimates."""

    planned: int
    """The number of rows, an estimate if cases differ in trials."""
    cases: int


class RowBegun(Struct, frozen=True, gc=False):
    """A worker begins a row. `RowFinished`, `RowRerun` or `RowLeft` follows, unless the run is interrupted."""

    slot: ResultKey


class AnswerArrived(Struct, frozen=True, gc=False):
    """A target answered, or failed to; nothing is judged yet."""

    answer: Answer


class CaseOpened(Struct, frozen=True, gc=False):
    """A case is saved before its first call."""

    case: CaseRecord


class RowFinished(Struct, frozen=True, gc=False):
    """A row is judged and stored."""

    result: CaseResult


class RowRerun(Struct, frozen=True, gc=False):
    """A further answer of a row that has one is judged and stored; it changes no count (`rerun` of its result)."""

    result: CaseResult


class RowLeft(Struct, frozen=True):
    """A row that was begun will not be finished: the run was stopped or the budget was used up."""

    slot: ResultKey


class RowKept(Struct, frozen=True):
    """A result from before the run was resumed is reused."""

    result: CaseResult


class RetryNoted(Struct, frozen=True):
    """A call is being repeated."""

    target: str
    eval_id: str
    kind: str
    wait_s: float


class LogLine(Struct, frozen=True):
    """A line of the log of a call that is in progress, with secrets redacted.

    Only observers that list this class in `event_types` receive it, as one call may log thousands of lines.
    """

    slot: ResultKey
    target: str
    """The target of the call, which may be a fallback of the row's target."""
    text: str


class RunNote(Struct, frozen=True):
    """A message for the user: a warning, a fallback, a deprecated key."""

    message: str
    is_problem: bool = False
    """True if the message is printed in every display mode, for example that the team database is out of date."""
    is_urgent: bool = False
    """True if a display prints the message as it comes, for example that a wait begins; others that come after the
    first call are left to the report at the end.
    """


class RunStopping(Struct, frozen=True):
    """The run is stopping."""

    reason: str
    drains: bool = False
    """True if rows in progress are finished; else they are abandoned."""


class RunEnded(Struct, frozen=True):
    """The run is over."""

    report: RunReport


ProgressEvent: TypeAlias = (
    RunStarted
    | RowsCounted
    | RowBegun
    | AnswerArrived
    | RowFinished
    | RowRerun
    | RowLeft
    | RowKept
    | RetryNoted
    | RunNote
    | RunStopping
    | RunEnded
)
"""The events that an observer receives unless it lists others."""

RunEvent: TypeAlias = ProgressEvent | LogLine | CaseOpened


class Observer(Protocol):
    """An observer of a run. It is called in the run's thread with one event at a time, and must return quickly.

    An optional attribute `event_types`, a tuple, lists the classes of events that it receives; the default is every
    event but `LogLine` and `CaseOpened`. With `needs_whole_rows` False it gets finished rows without answer, messages,
    requests and judges' replies, if the run stores these elsewhere.
    """

    def notify(self, event: RunEvent) -> None:
        """Handle one event."""

    def close(self) -> None:
        """Stop observing; called once, also after an interrupt."""
