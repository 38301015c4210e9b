"""The report of `agentv score` as JSON."""

from msgspec import structs

from agentv.reports.printable import printable_json
from agentv.reports.report_json import interval_to_json
from agentv.reports.score_view import line_reason
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.judged_lines import CriterionSummary, JudgedLine, ScoreReport
from agentv.types.messages_json import pretty_json

SCORE_SCHEMA = "agentv-score-1"


def score_to_json(report: ScoreReport, *, output: str | None) -> JsonObject:
    """Return the report as JSON. A mean, rate or cost that is not known is null, never 0."""
    return {
        "schema": SCORE_SCHEMA,
        "state": report.state,
        "exit_code": report.verdict.exit_code,
        "verdict": report.verdict.sentence,
        "gates": [structs.asdict(gate) for gate in report.verdict.gates],
        "lines_read": report.read,
        "counts": dict(report.counts),
        "mean_score": report.mean,
        "mean_interval": interval_to_json(report.mean_interval),
        "pass_rate": report.pass_rate,
        "pass_rate_interval": interval_to_json(report.pass_rate_interval),
        "criteria": [_criterion(each) for each in report.criteria],
        "worst": [_line(line) for line in report.worst],
        "errors": [_line(line) for line in report.errors],
        "notes": list(report.notes),
        "judges": {
            "cost_usd": report.cost_usd,
            "usage": None if report.judge_usage is None else structs.asdict(report.judge_usage),
        },
        "judging_median_s": report.median_s,
        "judging_p95_s": report.p95_s,
        "duration_s": report.duration_s,
        "output": output,
    }


def score_json_text(report: ScoreReport, *, output: str | None) -> str:
    """Return the report as two-space JSON that may be shown on a terminal."""
    return printable_json(pretty_json(score_to_json(report, output=output))) + "\n"


def _criterion(criterion: CriterionSummary) -> JsonObject:
    return {
        "name": criterion.name,
        "judged": criterion.judged,
        "mean": criterion.mean,
        "mean_interval": interval_to_json(criterion.mean_interval),
        "pass_rate": criterion.pass_rate,
        "pass_rate_interval": interval_to_json(criterion.pass_rate_interval),
        "errors": criterion.errors,
    }


def _line(line: JudgedLine) -> JsonValue:
    judged = line.judged
    return {
        "file": line.file,
        "line": line.number,
        "state": line.state,
        "score": None if judged is None else judged.overall_score,
        "session_id": None if judged is None else judged.session_id,
        "reason": line_reason(line),
    }
