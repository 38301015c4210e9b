"""The output of `agentv score`: progress, and the report with the verdict last."""

from collections.abc import Sequence

from msgspec import Struct, structs

from agentv.reports.run.report_json import interval_to_json
from agentv.reports.text.amounts import (
    clock_text,
    count_text,
    money_text,
    percent_interval_text,
    percent_text,
    score_interval_text,
    score_text,
    seconds_text,
    tokens_text,
)
from agentv.reports.text.paint import Paint, state_colour, without_colour
from agentv.reports.text.printable import one_line, printable_json
from agentv.reports.text.signs import UNICODE, Signs
from agentv.reports.text.table import side_by_side, table, with_reason
from agentv.scoring.counting.tallies import Tally
from agentv.types.criteria.judged_lines import CriterionSummary, JudgedLine, ScoreReport
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import pretty_json

_LONGEST_REASON = 2000


def score_progress_text(tally: Tally, *, read: int, elapsed_s: float, signs: Signs) -> str:
    """Return the progress of a stream on one line."""
    parts = [f"{count_text(read, 'line')} read", f"{tally.rows:,} judged"]
    if tally.rows and elapsed_s > 0:
        parts.append(f"{tally.rows / elapsed_s:,.0f}/s")
    parts.append(f"mean {score_text(tally.mean)}")
    if tally.counts["error"]:
        parts.append(count_text(tally.counts["error"], "error"))
    return f" {signs.dot} ".join((*parts, clock_text(elapsed_s)))


class ScoreView(Struct, frozen=True):
    """The layout of the report as text. `width` None: nothing is wrapped or cut."""

    width: int | None = 80
    signs: Signs = UNICODE
    paint: Paint = without_colour

    def report(self, report: ScoreReport, *, files: Sequence[str] = ()) -> str:
        """Return the report; its last line is the verdict with the exit code. `files` are the written outputs."""
        errors = report.counts.get("error", 0)
        code = report.verdict.exit_code
        totals = side_by_side([_quality(report), _counts(report)], self.width) if report.counts else []
        blocks = [
            *(table(rows, self.width, self.paint) for rows in totals),
            table(_criteria(report), self.width, self.paint) if report.criteria else [],
            self._lines("lowest scores", report.worst),
            self._lines(f"errors: {errors:,}", report.errors, more=errors - len(report.errors)),
            [f"Note: {one_line(note)}" for note in report.notes],
            _footer(report, files),
            [self.paint(f"{one_line(report.verdict.sentence)} Exit code {code}.", "red" if code else "green")],
        ]
        return self.signs.within("\n\n".join("\n".join(block) for block in blocks if block) + "\n")

    def _lines(self, head: str, lines: Sequence[JudgedLine], *, more: int = 0) -> list[str]:
        if not lines:
            return []
        shown = [self.paint(head, "bold")]
        for line in lines:
            mark = self.paint(self.signs.marks[line.state], state_colour(line.state))
            head, reason = self.signs.within(_head(line)), self.signs.within(line_reason(line))
            shown += with_reason(mark, head=head, reason=reason, width=self.width, signs=self.signs)
        return [*shown, f"and {more:,} more"] if more > 0 else shown


def _quality(report: ScoreReport) -> list[list[str]]:
    return [
        ["lines", "pass rate", "95 %", "mean", "95 %"],
        [
            _lines_text(report),
            f"{percent_text(report.pass_rate)} of {report.judged:,}" if report.judged else "none judged",
            percent_interval_text(report.pass_rate_interval),
            score_text(report.mean),
            score_interval_text(report.mean_interval),
        ],
    ]


def _counts(report: ScoreReport) -> list[list[str]]:
    states = {"pass": "pass", "borderline": "borderline", "fail": "fail", "error": "errors"}
    counts = [(name, report.counts.get(state, 0)) for state, name in states.items()]
    if report.unverified:
        counts.append(("unverified", report.unverified))
    return [["lines", *(name for name, _ in counts)], [_lines_text(report), *(f"{count:,}" for _, count in counts)]]


def _lines_text(report: ScoreReport) -> str:
    return f"{sum(report.counts.values()):,} of {report.read:,}"


def _criteria(report: ScoreReport) -> list[list[str]]:
    return [
        ["criterion", "pass rate", "95 %", "mean", "95 %", "judged", "errors"],
        *(
            [
                one_line(each.name),
                percent_text(each.pass_rate),
                percent_interval_text(each.pass_rate_interval),
                score_text(each.mean),
                score_interval_text(each.mean_interval),
                f"{each.judged:,}",
                f"{each.errors:,}",
            ]
            for each in report.criteria
        ),
    ]


def _head(line: JudgedLine) -> str:
    judged = line.judged
    score = "" if judged is None or line.state == "error" else score_text(judged.overall_score)
    session = "" if judged is None or judged.session_id is None else f"session {judged.session_id}"
    return "  ".join(one_line(part) for part in (line.place, score, session) if part)


def line_reason(line: JudgedLine) -> str:
    """Return on one line why a line did not pass, at most 2,000 characters."""
    reason = one_line(line.reason) or "no reason was given"
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}..."


def _footer(report: ScoreReport, files: Sequence[str]) -> list[str]:
    rows = sum(report.counts.values())
    rate = f" ({rows / report.duration_s:,.0f} lines a second)" if rows and report.duration_s > 0 else ""
    lines = [f"Took {clock_text(report.duration_s)}{rate}"]
    if report.judge_usage is not None:
        usage = report.judge_usage
        tokens = f"{tokens_text(usage.total or usage.input + usage.output)} tokens"
        times = f"median {seconds_text(report.median_s)}, p95 {seconds_text(report.p95_s)}"
        lines.append(f"Judges: {money_text(report.cost_usd)}, {tokens}, {times}")
    if report.state == "interrupted":
        lines += [f"Gate: {one_line(gate.sentence)}" for gate in report.verdict.gates if report.judged]
    return [*lines, *(f"Wrote {one_line(file)}" for file in files)]


SCORE_SCHEMA = "agentv-score-1"


def score_to_json(report: ScoreReport, *, output: str | None) -> JsonObject:
    """Return the report as JSON. An unknown mean, rate or cost is null, never 0."""
    return {
        "schema": SCORE_SCHEMA,
        "state": report.state,
        "exit_code": report.verdict.exit_code,
        "verdict": report.verdict.sentence,
        "gates": [structs.asdict(gate) for gate in report.verdict.gates],
        "lines_read": report.read,
        "counts": dict(report.counts),
        "unverified": report.unverified,
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
    """Return the report as indented JSON that is safe to print."""
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
