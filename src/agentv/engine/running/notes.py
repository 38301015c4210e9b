"""The report of a run, as stored in its event `reported`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.results import GateResult, RunReport, RunVerdict
from agentv.types.summaries import BaselineSummary, baseline_from_json, baseline_to_json

if TYPE_CHECKING:
    from agentv.storage.run.stored import StoredRun


REPORTED = "reported"
"""The event with the verdict of a run, written just before the run ends."""


class RecordedReport(Struct, frozen=True):
    """The parts of a run's report that cannot be recounted from its rows."""

    verdict: RunVerdict
    planned: int | None
    notes: tuple[str, ...]
    duration_s: float
    baseline: BaselineSummary | None = None


def reported_fields(report: RunReport) -> JsonObject:
    """Return the fields of the event `reported`."""
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


def load_recorded_report(run: "StoredRun") -> RecordedReport | None:
    """Return the report that the last process of a run recorded, or None if it ended without one."""
    fields = None
    for event in run.events():
        if event.type == "started":
            fields = None
        elif event.type == REPORTED:
            fields = event.fields
    if fields is None:
        return None
    planned, notes, duration_s = fields.get("planned"), fields.get("notes"), fields.get("duration_s")
    return RecordedReport(
        verdict=_verdict_of(fields),
        planned=planned if isinstance(planned, int) else None,
        notes=tuple(map(str, notes)) if isinstance(notes, list) else (),
        duration_s=float(duration_s) if isinstance(duration_s, int | float) else 0.0,
        baseline=baseline_from_json(fields.get("baseline")),
    )


def _verdict_of(fields: JsonObject) -> RunVerdict:
    exit_code, gates = fields.get("exit_code"), fields.get("gates")
    return RunVerdict(
        exit_code=exit_code if isinstance(exit_code, int) else 0,
        sentence=str(fields.get("sentence", "")),
        gates=tuple(_gate_of(each) for each in gates if isinstance(each, Mapping)) if isinstance(gates, list) else (),
    )


def _gate_of(fields: JsonObject) -> GateResult:
    value = fields.get("value")
    return GateResult(
        expression=str(fields.get("expression", "")),
        passed=fields.get("passed") is True,
        value=float(value) if isinstance(value, int | float) else None,
        sentence=str(fields.get("sentence", "")),
    )
