"""The progress of a run, counted from its events, for the live block and the plain progress lines."""

import math
from collections import Counter
from datetime import datetime

from msgspec import Struct, field
from msgspec.structs import replace

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
    RowsCounted,
    RunEvent,
    RunStarted,
    RunStopping,
)
from agentv.types.records.result import CaseResult

_SUITES_NAMED = 3


class Progress(Struct):
    """Counts per target and in total. `cost_usd` sums the known prices; `priced` is True if any is known.

    `busy` workers are running a case; `done` results are finished, of which `kept` were stored before the run was
    resumed.
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
        """Add every target, so that the block does not grow during the run."""
        self.by_target = {target: Counter() for target in self.started.targets}

    def add(self, event: RunEvent) -> None:
        """Take one event into account."""
        if isinstance(event, RowBegun):
            self.busy += 1
        elif isinstance(event, RowsCounted):
            self.started = replace(self.started, planned=event.planned, cases=event.cases)
        elif isinstance(event, AnswerArrived):
            answer = event.answer
            self._pay(answer.cost_usd if answer.billed_usd is None else answer.billed_usd)
        elif isinstance(event, RowFinished):
            self.busy -= self.busy > 0
            self._count(event.result)
            if event.result.judge_cost_usd is not None:
                self._pay(max(0.0, event.result.judge_cost_usd - saved_by_judges(event.result)))
        elif isinstance(event, RowKept):
            # Counted first: the heartbeat thread may read in between, and `done - kept` must not be negative.
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
        """The results finished since the run started or was resumed, from which its pace is computed."""
        return self.done - self.kept

    @property
    def planned_per_target(self) -> int | None:
        """The planned results per target; None when the size of the plan is unknown."""
        planned = self.started.planned
        return None if planned is None else planned // max(len(self.started.targets), 1)

    @property
    def share(self) -> float | None:
        """The finished share of the planned results; None when the size of the plan is unknown."""
        return self.done / self.started.planned if self.started.planned else None

    def elapsed_s(self, now: datetime) -> float:
        """Return the seconds since the run started or was resumed."""
        return (now - self.at).total_seconds()

    def left_s(self, now: datetime) -> float | None:
        """Return the estimated seconds for the remaining results; None when there is no estimate yet."""
        done = self.done_now
        if not done or self.started.planned is None:
            return None
        return self.elapsed_s(now) / done * max(self.started.planned - self.done, 0)

    def pace(self, now: datetime) -> dict[str, str]:
        """Return workers, results per second, retries, cost, elapsed and remaining time by name, in display order."""
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
    """Return the number of results with a verdict, the denominator of a pass rate."""
    return sum(counts[state] for state in JUDGED_STATES)


def stopping_text(event: RunStopping) -> str:
    """Return why the run stops, and whether running cases are finished or cancelled."""
    action = "finishing" if event.drains else "cancelling"
    return f"stopping, {action} running cases: {one_line(event.reason)}"


def plan_text(started: RunStarted, signs: Signs) -> str:
    """Return `refunds · 240 cases × 2 targets × 3 trials = 1,440`, without factors that are 1 or unknown.

    If cases have different numbers of trials, return `3 cases, 9 rows` instead of a product.
    """  # noqa: RUF002
    several = len(started.suites) > _SUITES_NAMED
    suites = count_text(len(started.suites), "suite") if several else ", ".join(map(one_line, started.suites))
    return f" {signs.dot} ".join(filter(None, (suites, _extent_text(started, signs))))


def _extent_text(started: RunStarted, signs: Signs) -> str:
    factors = [] if started.cases is None else [count_text(started.cases, "case")]
    factors += [count_text(len(started.prompts), "prompt")] if len(started.prompts) > 1 else []
    factors += [count_text(len(started.targets), "target")] if len(started.targets) > 1 else []
    product = (started.cases or 0) * max(1, len(started.prompts)) * len(started.targets) * started.trials
    if started.planned is not None and started.cases is not None and started.planned != product:
        return ", ".join([*factors, count_text(started.planned, "result")])
    factors += [count_text(started.trials, "trial")] if started.trials > 1 else []
    total = "" if started.planned is None or len(factors) < 2 else f" = {started.planned:,}"  # noqa: PLR2004 - a product
    return f" {signs.times} ".join(factors) + total
