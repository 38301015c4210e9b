"""Where a run stands, added up from its events: what the live block and the heartbeat show."""

import math
from collections import Counter
from datetime import datetime

from msgspec import Struct, field

from agentv.reports.text.amounts import clock_text, count_text, money_text
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import Signs
from agentv.scoring.counting.tallies import JUDGED_STATES, saved_by_judges
from agentv.scoring.results.aggregation import row_state
from agentv.types.events import (
    AnswerArrived,
    RetryNoted,
    RowBegun,
    RowFinished,
    RowKept,
    RowLeft,
    RunEvent,
    RunStarted,
    RunStopping,
)
from agentv.types.records.result import CaseResult

_SUITES_NAMED = 3


class Progress(Struct):
    """Counts per target and over all. `cost_usd` sums the prices that are known; `priced` says whether any was.

    `busy` workers have a row in hand; `done` rows are finished, of which `kept` were there before the run was taken up
    again.
    """

    started: RunStarted
    at: datetime
    by_target: dict[str, Counter[str]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    busy: int = 0
    done: int = 0
    kept: int = 0
    retries: int = 0
    cost_usd: float = 0.0
    priced: bool = False
    stopping: RunStopping | None = None

    def __post_init__(self) -> None:
        """Give every target its place, so that the block does not grow while people read it."""
        self.by_target = {target: Counter() for target in self.started.targets}

    def add(self, event: RunEvent) -> None:
        """Take one event into account."""
        if isinstance(event, RowBegun):
            self.busy += 1
        elif isinstance(event, AnswerArrived):
            answer = event.answer
            self._pay(answer.cost_usd if answer.billed_usd is None else answer.billed_usd)
        elif isinstance(event, RowFinished):
            self.busy -= self.busy > 0
            self._count(event.result)
            if event.result.judge_cost_usd is not None:
                self._pay(max(0.0, event.result.judge_cost_usd - saved_by_judges(event.result)))
        elif isinstance(event, RowKept):
            # Counted first: a heartbeat's thread may look in between, and fewer than none are never finished.
            self._count(event.result)
            self.kept += 1
        elif isinstance(event, RowLeft):
            self.busy -= self.busy > 0
        elif isinstance(event, RetryNoted):
            self.retries += 1
        elif isinstance(event, RunStopping):
            self.stopping = event

    def _count(self, result: CaseResult) -> None:
        state, target = row_state(result), result.slot.target
        counts = self.by_target.get(target)
        if counts is None:
            counts = self.by_target[target] = Counter()
        counts[state] += 1
        self.counts[state] += 1
        self.done += 1

    def _pay(self, dollars: float | None) -> None:
        if dollars is not None:
            self.cost_usd += dollars
            self.priced = True

    @property
    def done_now(self) -> int:
        """Rows that were finished since the run began or was taken up again: what its pace is told by."""
        return self.done - self.kept

    @property
    def planned_per_target(self) -> int | None:
        """Rows that each target is to answer; None when the plan's size is not known."""
        planned = self.started.planned
        return None if planned is None else planned // max(len(self.started.targets), 1)

    @property
    def share(self) -> float | None:
        """Share of the planned rows that is finished; None when the plan's size is not known."""
        return self.done / self.started.planned if self.started.planned else None

    def elapsed_s(self, now: datetime) -> float:
        """Seconds since the run began."""
        return (now - self.at).total_seconds()

    def left_s(self, now: datetime) -> float | None:
        """Seconds that the rest will take at the pace so far; None when nothing can be said yet."""
        done = self.done_now
        if not done or self.started.planned is None:
            return None
        return self.elapsed_s(now) / done * max(self.started.planned - self.done, 0)

    def pace(self, now: datetime) -> dict[str, str]:
        """Return workers, rows a second, retries, cost, time gone and time left, by name, in the order of showing."""
        elapsed, left, done = self.elapsed_s(now), self.left_s(now), self.done_now
        busy = min(self.busy, self.started.workers)
        parts = {"workers": f"{busy:,}/{count_text(self.started.workers, 'worker')}"}
        if done and elapsed > 0:
            parts["rate"] = f"{done / elapsed:.1f}/s"
        if self.retries:
            parts["retries"] = f"retries {self.retries:,}"
        if self.started.budget_usd is not None:
            spent = money_text(self.started.spent_usd + self.cost_usd)
            parts["cost"] = f"{spent} of {money_text(self.started.budget_usd)}"
        elif self.priced:
            parts["cost"] = money_text(self.cost_usd)
        parts["elapsed"] = clock_text(elapsed)
        if self.stopping is not None:
            parts["left"] = "stopping"
        elif left:
            parts["left"] = f"about {clock_text(math.ceil(left))} left"
        return parts


def judged(counts: Counter[str]) -> int:
    """Return how many of the counted rows were cleanly judged: the denominator of a pass rate."""
    return sum(counts[state] for state in JUDGED_STATES)


def stopping_text(event: RunStopping) -> str:
    """Return what a stop means for the rows that are under way, and why the run stops."""
    fate = "are finished" if event.drains else "are given up"
    return f"stopping, rows under way {fate}: {one_line(event.reason)}"


def plan_text(started: RunStarted, signs: Signs) -> str:
    """Return `refunds · 240 cases × 2 targets × 3 trials = 1,440`, without what is one or unknown.

    Where cases are asked unequally often it is no product: `3 cases, 9 rows`.
    """  # noqa: RUF002
    several = len(started.suites) > _SUITES_NAMED
    suites = count_text(len(started.suites), "suite") if several else ", ".join(map(one_line, started.suites))
    return f" {signs.dot} ".join(filter(None, (suites, _extent_text(started, signs))))


def _extent_text(started: RunStarted, signs: Signs) -> str:
    factors = [] if started.cases is None else [count_text(started.cases, "case")]
    factors += [count_text(len(started.targets), "target")] if len(started.targets) > 1 else []
    product = (started.cases or 0) * len(started.targets) * started.trials
    if started.planned is not None and started.cases is not None and started.planned != product:
        return ", ".join([*factors, count_text(started.planned, "row")])
    factors += [count_text(started.trials, "trial")] if started.trials > 1 else []
    total = "" if started.planned is None or len(factors) < 2 else f" = {started.planned:,}"  # noqa: PLR2004 - a product
    return f" {signs.times} ".join(factors) + total
