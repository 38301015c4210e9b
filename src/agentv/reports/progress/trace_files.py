"""Trace files as AgentV 1.5 defines them: for each answer of a run, a JSON file with the steps that led to it."""

import re
from pathlib import Path

from agentv.types.events import RowFinished, RowRerun, RunEvent
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import TraceEvent, TraceSummary
from agentv.types.messages_json import compact_json, trace_summary_to_json, trace_to_json
from agentv.types.records.result import CaseResult

NO_EVENTS = TraceSummary(0, (), {}, 0)
_MAX_NAME = 100


class TraceFiles:
    """An observer that writes one file per answer into the folder of its run, within `folder`.

    The name of a file has the case, the target, the trial and the attempt; that of a result that was judged or answered
    again has its generation, too.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: set[str] = set()

    def notify(self, event: RunEvent) -> None:
        """Write the file of an answer that is judged. Raises OSError."""
        if isinstance(event, RowFinished | RowRerun):
            result = event.result
            folder = self._folder / result.run_id
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / self._file_name(result)
            path.write_text(compact_json(trace_record(result)) + "\n", encoding="utf-8")

    def close(self) -> None:
        """Do nothing: each file is written at once."""

    def _file_name(self, result: CaseResult) -> str:
        slot = result.slot
        case = re.sub(r"[^\w.-]+", "_", slot.eval_id)[:_MAX_NAME]
        target = re.sub(r"[^\w.-]+", "_", slot.target)[:_MAX_NAME]
        generation = f"_generation-{result.generation}" if result.generation else ""
        base = name = f"{case}_{target}_trial-{slot.trial}_attempt-{result.attempt}{generation}"
        number = 2
        while name in self._names:
            name, number = f"{base}_{number}", number + 1
        self._names.add(name)
        return f"{name}.json"


def trace_record(result: CaseResult) -> JsonObject:
    """Return the trace of an answer: that of the provider, else the tool calls of the output messages."""
    known: dict[str, JsonValue] = {
        "eval_id": result.slot.eval_id,
        "suite": result.slot.suite,
        "target": result.slot.target,
        "trial": result.slot.trial,
        "attempt": result.attempt,
        "timestamp": result.timestamp.isoformat(),
        "trace": trace_to_json(_events(result)) or [],
        "trace_summary": trace_summary_to_json(result.trace_summary or NO_EVENTS),
    }
    return known


def _events(result: CaseResult) -> tuple[TraceEvent, ...]:
    if result.trace is not None:
        return result.trace
    calls = (call for message in result.output_messages or () for call in message.tool_calls)
    return tuple(
        TraceEvent(
            "tool_call", timestamp=call.timestamp, id=call.id, name=call.tool, input=call.input, output=call.output
        )
        for call in calls
    )
