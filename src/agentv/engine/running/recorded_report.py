"""The report of a run, as stored in its event `reported`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, get_args

import msgspec
from msgspec import Struct

from agentv.scoring.gates.failing_cases import NO_CASES, ListedCase, ListedCases
from agentv.scoring.gates.run_verdict import ScopedGate
from agentv.types.errors import StorageError
from agentv.types.json_value import JsonObject, JsonValue, objects_of
from agentv.types.records.run import REPORTED
from agentv.types.results import CaseId, RowState, RunReport, RunVerdict, gate_from_json, gate_to_json
from agentv.types.summaries import BaselineSummary, baseline_from_json, baseline_to_json

if TYPE_CHECKING:
    from agentv.storage.run.stored import StoredRun


class RecordedReport(Struct, frozen=True):
    """The report that a run's last writer recorded."""

    verdict: RunVerdict
    """Only compared with the verdict that is computed from the rows."""
    planned: int | None
    notes: tuple[str, ...]
    duration_s: float
    baseline: BaselineSummary | None = None
    reason: str | None = None
    gates: tuple[ScopedGate, ...] | None = ()
    """The gates that the writer checked; None for the default gate. Empty in events of older versions, which do not
    record the suites of gates.
    """
    has_gates: bool = False
    """False in events of older versions."""
    counts: Mapping[str, int] | None = None
    """The rows by state; None if the writer did not see every row of the run, and in events of older versions."""
    ended: JsonObject | None = None
    """The fields of the event that ended the run; None if the writer was killed before it."""
    is_judge_stop: bool = False
    """True if a judge that kept failing ended the run."""
    listed_cases: tuple[ListedCases, ...] = ()
    """For each gate, the cases that fell against the baseline."""
    planned_in_all_shards: int | None = None
    """The number of planned rows of all shards of the run together; None if it is not known."""


def reported_fields(
    report: RunReport,
    *,
    gates: Sequence[ScopedGate] | None,
    reason: str | None,
    is_judge_stop: bool,
    has_every_row: bool,
    listed_cases: Sequence[ListedCases] = (),
    planned_in_all_shards: int | None = None,
) -> JsonObject:
    """Return the fields of the event `reported`. `gates` are those of the verdict, None for the default one.

    Of `listed_cases`, the cases of each gate, those that fell against a baseline are stored: a later report cannot find
    them again.
    """
    written: Sequence[JsonObject] = [{"suite": None}] if gates is None else [gate.to_json() for gate in gates]
    # Where no gate was evaluated, the default gate follows; it is not one of the gates to check again.
    results = report.verdict.gates[: len(written)]
    listed = listed_cases[: len(written)] or [NO_CASES] * len(written)
    checked: list[JsonValue] = [
        {**gate, **gate_to_json(result), **_cases_to_json(cases)}
        for gate, result, cases in zip(written, results, listed, strict=True)
    ]
    return {
        "exit_code": report.verdict.exit_code,
        "sentence": report.verdict.sentence,
        "reason": reason,
        "is_judge_stop": is_judge_stop,
        "counts": {state: report.counts.get(state, 0) for state in get_args(RowState)} if has_every_row else None,
        "gates": checked,
        "is_default_gate": gates is None,
        "baseline": None if report.baseline is None else baseline_to_json(report.baseline),
        "planned": report.planned,
        "planned_in_all_shards": planned_in_all_shards,
        "notes": list(report.notes),
        "duration_s": report.duration_s,
    }


def _cases_to_json(listed: ListedCases) -> JsonObject:
    """Return the cases that fell against the baseline as JSON; nothing without any."""
    fallen = [msgspec.to_builtins(case) for case in listed.cases if case.before is not None]
    if not fallen:
        return {}
    others = msgspec.to_builtins(listed.others)
    return {"cases": fallen, "other_cases": others, "cases_total": listed.total, "cases_distinct": listed.distinct}


def _cases_from_json(fields: JsonObject) -> ListedCases:
    """Return the stored cases of a gate. Raises StorageError for cases that cannot be read."""
    if "cases" not in fields:
        return NO_CASES
    try:
        return ListedCases(
            msgspec.convert(fields["cases"], tuple[ListedCase, ...]),
            msgspec.convert(fields.get("cases_total"), int),
            msgspec.convert(fields.get("cases_distinct"), int | None),
            others=msgspec.convert(fields.get("other_cases", ()), tuple[CaseId, ...]),
        )
    except msgspec.ValidationError as error:
        raise StorageError(f"event {REPORTED!r}, `cases` of a gate: {error}") from error


def load_recorded_report(run: "StoredRun") -> RecordedReport | None:
    """Return the report that a run's last writer recorded, or None if it did not record any.

    Raises GateError for a recorded gate that cannot be parsed, StorageError for cases of a gate that cannot be read.
    """
    fields: JsonObject | None = None
    ended: JsonObject | None = None
    for event in run.events():
        if event.type == "started":
            fields = ended = None
        elif event.type == REPORTED:
            fields = event.fields
        elif event.type == "ended":
            ended = event.fields
    if fields is None:
        return None
    notes, duration_s = fields.get("notes"), fields.get("duration_s")
    reason, gates, has_gates = fields.get("reason"), objects_of(fields.get("gates")), "counts" in fields
    return RecordedReport(
        verdict=_verdict_of(fields),
        planned=_count_of(fields, "planned"),
        notes=tuple(map(str, notes)) if isinstance(notes, list) else (),
        duration_s=float(duration_s) if isinstance(duration_s, int | float) else 0.0,
        baseline=baseline_from_json(fields.get("baseline")),
        reason=reason if isinstance(reason, str) else None,
        gates=_scoped_gates(fields, gates) if has_gates else (),
        has_gates=has_gates,
        counts=_counts_of(fields.get("counts")),
        ended=ended,
        is_judge_stop=fields.get("is_judge_stop") is True,
        listed_cases=tuple(map(_cases_from_json, gates)),
        planned_in_all_shards=_count_of(fields, "planned_in_all_shards"),
    )


def _count_of(fields: JsonObject, name: str) -> int | None:
    value = fields.get(name)
    return value if isinstance(value, int) else None


def _counts_of(value: JsonValue) -> Mapping[str, int] | None:
    if not isinstance(value, Mapping):
        return None
    return {state: count for state, count in value.items() if isinstance(count, int)}


def _scoped_gates(fields: JsonObject, gates: Sequence[JsonObject]) -> tuple[ScopedGate, ...] | None:
    if fields.get("is_default_gate") is True:
        return None
    return tuple(map(ScopedGate.from_json, gates))


def _verdict_of(fields: JsonObject) -> RunVerdict:
    exit_code = fields.get("exit_code")
    return RunVerdict(
        exit_code=exit_code if isinstance(exit_code, int) else 0,
        sentence=str(fields.get("sentence", "")),
        gates=tuple(map(gate_from_json, objects_of(fields.get("gates")))),
    )
