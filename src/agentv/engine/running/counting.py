"""The number of rows of streams, counted beside the run for its progress."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

from agentv.engine.planning.plan import RunPlan, SuitePlan
from agentv.types.errors import AgentvError
from agentv.types.events import RowsCounted


def count_beside(plan: RunPlan, emit: Callable[[RowsCounted], None]) -> Callable[[], None]:
    """Count the rows of a plan of unknown size in a thread, and emit the result; return a function that cancels this.

    Nothing is emitted if a part cannot be counted. The thread does not keep the process from ending.
    """
    loop = asyncio.get_running_loop()
    is_wanted = True

    def tell(counted: RowsCounted) -> None:
        if is_wanted:
            emit(counted)

    def count() -> None:
        counted = counted_rows(plan)
        if counted is not None and is_wanted:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(tell, counted)

    def cancel() -> None:
        nonlocal is_wanted
        is_wanted = False

    if plan.planned is None:
        Thread(target=count, name="agentv-counting", daemon=True).start()
    return cancel


def counted_rows(plan: RunPlan) -> RowsCounted | None:
    """Return the number of rows and cases of a plan; None if a part cannot be counted."""
    rows = cases = 0
    for suite in plan.suites:
        count = _cases_of(suite)
        if count is None:
            return None
        cases += count
        of_suite = suite.rows
        rows += count * (suite.options.trials or suite.suite.trials) * suite.times if of_suite is None else of_suite
    return RowsCounted(rows, cases)


def _cases_of(suite: SuitePlan) -> int | None:
    selection = suite.selection
    if selection.count is not None:
        return selection.count
    counter = getattr(suite.suite.cases, "count_rows", None)
    try:
        count: int | None = None if counter is None else counter()
    except AgentvError:  # the run reports it
        return None
    return count if count is None or selection.shard is None else count // selection.shard.count
