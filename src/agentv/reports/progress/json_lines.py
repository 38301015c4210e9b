"""Progress as JSON lines: one event per line, for programs that monitor a run."""

from pathlib import Path
from typing import TextIO, assert_never

from agentv.reports.run.report_json import ToRecord, report_to_json
from agentv.reports.text.printable import printable_json
from agentv.types.events import (
    AnswerArrived,
    CaseOpened,
    LogLine,
    ProgressEvent,
    RetryNoted,
    RowBegun,
    RowFinished,
    RowKept,
    RowLeft,
    RowRerun,
    RowsCounted,
    RunEnded,
    RunEvent,
    RunNote,
    RunStarted,
    RunStopping,
)
from agentv.types.json_value import JsonObject
from agentv.types.messages_json import compact_json

DISPLAY_SCHEMA = "agentv-display-1"


class JsonLines:
    """An observer that writes all events but lines of logs and cases as JSON objects with `schema` and `event`."""

    def __init__(self, stream: TextIO, *, to_record: ToRecord) -> None:
        self._stream = stream
        self._to_record = to_record

    def notify(self, event: RunEvent) -> None:
        """Write one event."""
        if isinstance(event, LogLine | CaseOpened):
            return
        line = compact_json({"schema": DISPLAY_SCHEMA, **event_to_json(event, self._to_record)})
        self._stream.write(printable_json(line) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Flush the stream."""
        self._stream.flush()


class JsonLinesFile(JsonLines):
    """The same observer, which appends to a file. Raises OSError if the file cannot be opened."""

    def __init__(self, path: Path, *, to_record: ToRecord) -> None:
        self._file = path.open("a", encoding="utf-8")
        super().__init__(self._file, to_record=to_record)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def event_to_json(event: ProgressEvent, to_record: ToRecord) -> JsonObject:  # noqa: C901, PLR0911, PLR0912 - one case for each event
    """Return an event as JSON."""
    match event:
        case RunStarted():
            return {
                "event": "run_started",
                "run_id": event.run_id,
                "planned": event.planned,
                "cases": event.cases,
                "trials": event.trials,
                "prompts": event.prompts,
                "suites": event.suites,
                "targets": event.targets,
                "workers": event.workers,
                "folder": event.folder,
                "budget_usd": event.budget_usd,
                "spent_usd": event.spent_usd,
            }
        case RowsCounted(planned, cases):
            return {"event": "rows_counted", "planned": planned, "cases": cases}
        case RowBegun(slot):
            return {"event": "row_begun", **slot.to_json()}
        case AnswerArrived(answer):
            error = None if answer.error is None else {"kind": answer.error.kind, "message": answer.error.message}
            place = answer.slot.to_json()
            return {"event": "answer_arrived", **place, "duration_ms": answer.duration_ms, "error": error}
        case RowFinished(result):
            return {"event": "row_finished", "row": to_record(result)}
        case RowRerun(result):
            return {"event": "row_rerun", "row": to_record(result)}
        case RowLeft(slot):
            return {"event": "row_left", **slot.to_json()}
        case RowKept(result):
            return {"event": "row_kept", "row": to_record(result)}
        case RetryNoted(target, eval_id, kind, wait_s):
            return {"event": "retry", "target": target, "eval_id": eval_id, "kind": kind, "wait_s": wait_s}
        case RunNote(message):
            return {"event": "note", "message": message}
        case RunStopping(reason, drains):
            return {"event": "stopping", "reason": reason, "drains": drains}
        case RunEnded(report):
            return {"event": "run_ended", "report": report_to_json(report)}
        case _:
            assert_never(event)
