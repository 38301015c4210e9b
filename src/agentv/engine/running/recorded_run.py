"""The recording of a run from its first line to its last: whatever happens to its work, it ends with a report."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from agentv.engine.running.recorder import RunRecorder
from agentv.execution.threads import abandoned_calls
from agentv.types.errors import ClusterError, StorageError
from agentv.types.events import RunEnded
from agentv.types.protocols import Clock, ReportingStore
from agentv.types.results import RunReport


async def record_run(
    recorder: RunRecorder,
    work: Callable[[], Awaitable[None]],
    *,
    clock: Clock,
    has_every_row: Callable[[], bool] = lambda: True,
    complete: Callable[[RunReport], RunReport] = lambda report: report,
) -> RunReport:
    """Do the work of a run, and return its report, which is saved with the run. The store is closed in any case.

    A failure of the store or the cluster ends the run as failed; any other exception is raised after the end of the run
    is recorded. `has_every_row` is called at the end: it returns False if the run may have rows that were not counted.
    `complete` returns the report with what only the caller knows.
    """
    started, store, stop = clock(), recorder.store, recorder.stop
    if isinstance(store, ReportingStore):
        store.report_to(partial(recorder.note, is_problem=True))
    try:
        await work()
    except ClusterError as error:
        stop.fail(str(error))
    except StorageError as error:
        stop.fail(f"store_error: {error}")
    except BaseException as error:
        stop.crash("interrupted" if isinstance(error, asyncio.CancelledError) else "failed")
        raise
    finally:
        if abandoned := abandoned_calls():
            recorder.note(f"abandoned calls of Python functions, which may still be running: {abandoned}")
        recorder.check_files()
        try:
            report = recorder.report((clock() - started).total_seconds())
            recorder.save_report(report, has_every_row=has_every_row())
        finally:
            store.close(stop.state)
    report = complete(report)
    recorder.emit(RunEnded(report))
    return report
