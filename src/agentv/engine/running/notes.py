"""What a run told at its end, as its event `reported` keeps it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.results import GateResult, RunReport, RunVerdict
from agentv.types.summaries import BaselineSummary, baseline_from_json, baseline_to_json

if TYPE_CHECKING:
    from agentv.storage.run.stored import StoredRun


REPORTED = "reported"
"""The event that keeps what a run came to, written just before it ends."""


class RunNotes(Struct, frozen=True):
    """What was told at the end of a run and cannot be counted again from its rows."""

    verdict: RunVerdict
    planned: int | None
    notes: tuple[str, ...]
    duration_s: float
    baseline: BaselineSummary | None = None


def comparisons_to_json(report: RunReport) -> JsonObject:
    """Return what the event `reported` keeps."""
    gates: list[JsonValue] = [
        {"expression": each.expression, "passed": each.passed, "value": each.value, "sentence": each.sentence}
        for each in report.verdict.gates
    ]
    return {
        "exit_code": report.verdict.exit_code,
        "sentence": report.verdict.sentence,
        "gates": gates,
        "baseline": None if report.baseline is None else baseline_to_json(report.baseline),
        "planned": report.planned,
        "notes": list(report.notes),
        "duration_s": report.duration_s,
    }


def load_notes(run: "StoredRun") -> RunNotes | None:
    """Return what the last writer of a run told; None when it did not come to that."""
    told = None
    for event in run.events():
        if event.type == "started":
            told = None
        elif event.type == REPORTED:
            told = event.fields
    if told is None:
        return None
    planned, notes, duration_s = told.get("planned"), told.get("notes"), told.get("duration_s")
    return RunNotes(
        verdict=_verdict_of(told),
        planned=planned if isinstance(planned, int) else None,
        notes=tuple(map(str, notes)) if isinstance(notes, list) else (),
        duration_s=float(duration_s) if isinstance(duration_s, int | float) else 0.0,
        baseline=baseline_from_json(told.get("baseline")),
    )


def _verdict_of(told: JsonObject) -> RunVerdict:
    exit_code, gates = told.get("exit_code"), told.get("gates")
    return RunVerdict(
        exit_code=exit_code if isinstance(exit_code, int) else 0,
        sentence=str(told.get("sentence", "")),
        gates=tuple(_gate_of(each) for each in gates if isinstance(each, Mapping)) if isinstance(gates, list) else (),
    )


def _gate_of(told: JsonObject) -> GateResult:
    value = told.get("value")
    return GateResult(
        expression=str(told.get("expression", "")),
        passed=told.get("passed") is True,
        value=float(value) if isinstance(value, int | float) else None,
        sentence=str(told.get("sentence", "")),
    )
