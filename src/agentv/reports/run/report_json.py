"""The report of a run as JSON, as written by `-o x.json` and at the end of `--display json`."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec.structs import asdict

from agentv.reports.run.row_text import row_reason
from agentv.reports.text.printable import printable_json
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import pretty_json
from agentv.types.records.result import CaseResult
from agentv.types.results import CaseOutcome, GateResult, RunReport, gate_to_json
from agentv.types.summaries import (
    CellSummary,
    CorrectedRate,
    EvaluatorSummary,
    GroupSummary,
    Interval,
    MatrixSummary,
    TargetSummary,
    TrialSummary,
    baseline_to_json,
)

REPORT_SCHEMA = "agentv-report-1"

ToRecord: TypeAlias = Callable[[CaseResult], Mapping[str, JsonValue]]
"""Converts a result to its export record; in practice `export_record` of `agentv.storage`, passed in by the CLI."""


def report_to_json(report: RunReport) -> JsonObject:
    """Return a report as JSON. An unknown rate, mean or cost is null, never 0."""
    return {
        "schema": REPORT_SCHEMA,
        "run_id": report.run_id,
        "state": report.state,
        "exit_code": report.exit_code,
        "verdict": report.verdict.sentence,
        "gates": list(map(_gate, report.verdict.gates)),
        "planned": report.planned,
        "counts": dict(report.counts),
        "targets": [_target(target) for target in report.targets],
        "evaluators": [_evaluator(evaluator) for evaluator in report.evaluators],
        **({} if report.baseline is None else {"baseline": baseline_to_json(report.baseline)}),
        "corrected": [corrected_to_json(rate) for rate in report.corrected],
        **({} if report.matrix is None else {"matrix": _matrix(report.matrix)}),
        "groups": [group_to_json(group) for group in report.groups],
        "histogram": report.histogram,
        "failing": [_failing(result) for result in report.failing],
        "failing_total": report.failing_total,
        "cases": list(map(_case, report.cases)),
        "cases_total": report.cases_total,
        "flaky": report.flaky,
        **({"reruns": report.reruns} if report.reruns else {}),
        **({"rescored": report.rescored} if report.rescored else {}),
        "notes": report.notes,
        "duration_s": report.duration_s,
        "folder": report.folder,
    }


def report_text(report: RunReport) -> str:
    """Return a report as indented JSON that is safe to print."""
    return printable_json(pretty_json(report_to_json(report))) + "\n"


def _gate(gate: GateResult) -> JsonObject:
    """Return a gate as JSON, with the cases that made it fail."""
    return {
        **gate_to_json(gate),
        **({"cases": list(map(_case, gate.cases)), "cases_total": gate.cases_total} if gate.cases else {}),
    }


def _case(case: CaseOutcome) -> JsonObject:
    before = case.before
    return {
        **_failing(case.result),
        "results": case.results,
        "failed": case.failed,
        "reruns": case.reruns,
        "question": case.question,
        "expected": case.expected,
        "answer": None if case.result.error is not None else case.result.candidate_answer,
        **({} if before is None else {"before": {"score": before.score, "answer": before.answer}}),
    }


def _target(target: TargetSummary) -> Mapping[str, JsonValue]:
    return {
        "target": target.target,
        "rows": target.rows,
        "judged": target.judged,
        "counts": dict(target.counts),
        "unverified": target.unverified,
        **({"clamped": target.clamped} if target.clamped else {}),
        "pass_rate": target.pass_rate,
        "pass_rate_interval": interval_to_json(target.pass_rate_interval),
        "mean_score": target.mean_score,
        "mean_interval": interval_to_json(target.mean_interval),
        "trials": [_trial(trial) for trial in target.trials],
        "cost_usd": {"target": target.target_cost_usd, "judge": target.judge_cost_usd},
        "saved_usd": target.saved_usd,
        **_estimated(target),
        "usage": {"target": asdict(target.target_usage), "judge": asdict(target.judge_usage)},
        "latency_median_s": target.latency_median_s,
        "latency_median_interval": interval_to_json(target.latency_median_interval),
        "latency_p95_s": target.latency_p95_s,
        "latency_p95_interval": interval_to_json(target.latency_p95_interval),
        "latency_p5_s": target.latency_p5_s,
        "latency_p25_s": target.latency_p25_s,
        "latency_p75_s": target.latency_p75_s,
    }


def _estimated(target: TargetSummary) -> Mapping[str, JsonValue]:
    """Return whether the cost and usage of target and judge are partly estimated; nothing if neither is."""
    estimated = {"target": target.is_target_estimated, "judge": target.is_judge_estimated}
    return {"estimated": estimated} if any(estimated.values()) else {}


def _trial(trial: TrialSummary) -> Mapping[str, JsonValue]:
    return {
        "k": trial.k,
        "cases": trial.cases,
        "pass_at": trial.pass_at,
        "pass_at_interval": interval_to_json(trial.pass_at_interval),
        "pass_hat": trial.pass_hat,
        "pass_hat_interval": interval_to_json(trial.pass_hat_interval),
    }


def interval_to_json(interval: Interval | None) -> JsonValue:
    """Return an interval as JSON; null for None."""
    if interval is None:
        return None
    return {"low": interval.low, "high": interval.high, "level": interval.level, "method": interval.method}


def group_to_json(group: GroupSummary) -> JsonObject:
    """Return a group of results as JSON: counts, rate and mean with their intervals."""
    return {
        "by": group.by,
        "name": group.name,
        **({} if group.prompt is None else {"prompt": group.prompt}),
        **({} if group.target is None else {"target": group.target}),
        "rows": group.rows,
        "judged": group.judged,
        "counts": dict(group.counts),
        "pass_rate": group.pass_rate,
        "pass_rate_interval": interval_to_json(group.pass_rate_interval),
        "mean_score": group.mean_score,
        "mean_interval": interval_to_json(group.mean_interval),
    }


def _matrix(matrix: MatrixSummary) -> JsonObject:
    return {
        "prompts": matrix.prompts,
        "targets": matrix.targets,
        "cells": [{**_cell(each), "is_best": matrix.is_best(each)} for each in matrix.cells],
        "best": None
        if matrix.best is None
        else {**asdict(matrix.best), "interval": interval_to_json(matrix.best.interval)},
    }


def _cell(cell: CellSummary) -> JsonObject:
    return {
        "prompt": cell.prompt,
        "target": cell.target,
        "rows": cell.rows,
        "judged": cell.judged,
        "counts": dict(cell.counts),
        "pass_rate": cell.pass_rate,
        "pass_rate_interval": interval_to_json(cell.pass_rate_interval),
        "mean_score": cell.mean_score,
        "mean_interval": interval_to_json(cell.mean_interval),
        "mean_cost_usd": cell.mean_cost_usd,
    }


def corrected_to_json(rate: CorrectedRate) -> JsonObject:
    """Return a judge's pass rate, raw and corrected for its measured errors; `reason` says why it is not corrected."""
    return {
        "evaluator": rate.evaluator,
        "criterion": rate.criterion,
        "target": rate.target,
        "judged": rate.judged,
        "pass_rate": rate.raw,
        "pass_rate_interval": interval_to_json(rate.raw_interval),
        "corrected_rate": rate.rate,
        "corrected_interval": interval_to_json(rate.interval),
        "labels": rate.labels,
        "reason": rate.reason,
        "source": rate.source,
        "skipped": rate.skipped,
        "bounds": None if rate.bounds is None else {"low": rate.bounds[0], "high": rate.bounds[1]},
        "picked": rate.is_picked,
        "warnings": list(rate.warnings),
    }


def _evaluator(evaluator: EvaluatorSummary) -> Mapping[str, JsonValue]:
    return {
        "name": evaluator.name,
        "type": evaluator.type,
        "judged": evaluator.judged,
        "pass_rate": evaluator.pass_rate,
        "pass_rate_interval": interval_to_json(evaluator.pass_rate_interval),
        "mean_score": evaluator.mean_score,
        "mean_interval": interval_to_json(evaluator.mean_interval),
        "errors": evaluator.errors,
    }


def _failing(result: CaseResult) -> Mapping[str, JsonValue]:
    return {
        "suite": result.slot.suite,
        "eval_id": result.slot.eval_id,
        "target": result.slot.target,
        "trial": result.slot.trial,
        **({} if result.prompt is None else {"prompt": result.prompt}),
        "status": result.status,
        "verdict": result.verdict,
        "score": result.score,
        "reason": row_reason(result),
        **({} if result.origin is None else {"origin": result.origin.to_json()}),
    }
