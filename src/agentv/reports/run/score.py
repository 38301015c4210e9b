"""The output of `agentv score`: progress, and the report with the verdict last."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from agentv.reports.run.groups import group_tables
from agentv.reports.run.report_json import interval_to_json
from agentv.reports.run.row_text import row_score
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
    took_text,
)
from agentv.reports.text.printable import one_line, printable_json
from agentv.reports.text.signs import UNICODE, Paint, Signs, state_colour, without_colour
from agentv.reports.text.width import clip, side_by_side, table, with_reason
from agentv.scoring.counting.tallies import Tally, TargetTally, target_summary
from agentv.scoring.results.aggregation import row_state
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import pretty_json
from agentv.types.records.answer import source_of
from agentv.types.records.result import CaseResult
from agentv.types.results import RunReport, gate_to_json
from agentv.types.summaries import GroupSummary, TargetSummary
from agentv.types.usage import Usage

ResumeSource: TypeAlias = Literal["files", "stream"]
"""Where a resumed run reads its lines from: files only, or standard input, possibly together with files."""

_MAX_REASON_CHARS = 2000
_MAX_ANSWER_CHARS = 500
_NO_LINES = target_summary("", TargetTally())


def _all_lines(report: RunReport) -> TargetSummary:
    """Return the summary of all lines; the report has only this one, because lines are not counted by target."""
    return report.targets[0] if report.targets else _NO_LINES


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
    """The layout of the report as text."""

    width: int | None = 80
    """None: nothing is wrapped or cut."""
    signs: Signs = UNICODE
    paint: Paint = without_colour

    def report(
        self,
        report: RunReport,
        *,
        files: Sequence[str] = (),
        groups: Sequence[GroupSummary] = (),
        resume_from: ResumeSource | None = None,
    ) -> str:
        """Return the report; its last line is the verdict with the exit code.

        `files` are the written outputs. `groups` are the groups of `--by`, shown as tables; `report.groups` are the
        criteria. `resume_from` is where `agentv resume` reads the remaining lines.
        """
        errors = report.counts.get("error", 0)
        code = report.verdict.exit_code
        totals = side_by_side([_quality_rows(report), _count_rows(report)], self.width) if report.targets else []
        blocks = [
            *(table(rows, self.width, self.paint, mark=self.signs.ellipsis) for rows in totals),
            table(_criterion_rows(report), self.width, self.paint, mark=self.signs.ellipsis) if report.groups else [],
            [group_tables(groups, width=self.width, signs=self.signs, paint=self.paint).rstrip()] if groups else [],
            self._lines("lowest scores", report.worst),
            self._lines(f"errors: {errors:,}", report.errors, left_out=errors - len(report.errors)),
            [f"Note: {one_line(note)}" for note in report.notes],
            _footer(report, files, resume_from),
            [self.paint(f"{one_line(report.verdict.sentence)} Exit code {code}.", "red" if code else "green")],
        ]
        return self.signs.escape_unsupported("\n\n".join("\n".join(block) for block in blocks if block) + "\n")

    def _lines(self, head: str, rows: Sequence[CaseResult], *, left_out: int = 0) -> list[str]:
        if not rows:
            return []
        shown = [self.paint(head, "bold")]
        for row in rows:
            shown += self._row(row, _row_head(row), line_reason(row))
        return [*shown, f"and {left_out:,} more"] if left_out > 0 else shown

    def _row(self, row: CaseResult, head: str, reason: str) -> list[str]:
        state = row_state(row)
        mark = self.paint(self.signs.marks[state], state_colour(state))
        head, reason = self.signs.escape_unsupported(head), self.signs.escape_unsupported(reason)
        if not reason:
            return [f"{mark} {head if self.width is None else clip(head, self.width - 2, mark=self.signs.ellipsis)}"]
        return with_reason(mark, head=head, reason=reason, width=self.width, signs=self.signs)

    def row(self, row: CaseResult) -> str:
        """Return one result with the beginning of its answer, and why it did not pass."""
        parts = (source_of(row.file, row.line, row.part), row_score(row), row.candidate_answer[:_MAX_ANSWER_CHARS])
        head = "  ".join(one_line(part) for part in parts if part)
        reason = "" if row_state(row) == "pass" else line_reason(row)
        return "\n".join(self._row(row, head, reason))


def _quality_rows(report: RunReport) -> list[list[str]]:
    lines = _all_lines(report)
    return [
        ["lines", "pass rate", "95 % CI", "mean", "95 % CI"],
        [
            _lines_text(report),
            f"{percent_text(lines.pass_rate)} of {lines.judged:,}" if lines.judged else "none judged",
            percent_interval_text(lines.pass_rate_interval),
            score_text(lines.mean_score),
            score_interval_text(lines.mean_interval),
        ],
    ]


def _count_rows(report: RunReport) -> list[list[str]]:
    states = {"pass": "pass", "borderline": "borderline", "fail": "fail", "error": "errors"}
    counts = [(name, report.counts.get(state, 0)) for state, name in states.items()]
    unverified = _all_lines(report).unverified
    if unverified:
        counts.append(("unverified", unverified))
    if clamped := _all_lines(report).clamped:
        counts.append(("clamped", clamped))
    return [["lines", *(name for name, _ in counts)], [_lines_text(report), *(f"{count:,}" for _, count in counts)]]


def _lines_text(report: RunReport) -> str:
    return f"{_all_lines(report).rows:,} of {report.read or 0:,}"


def _criterion_rows(report: RunReport) -> list[list[str]]:
    return [
        ["criterion", "pass rate", "95 % CI", "mean", "95 % CI", "judged", "errors"],
        *(
            [
                one_line(each.name),
                percent_text(each.pass_rate),
                percent_interval_text(each.pass_rate_interval),
                score_text(each.mean_score),
                score_interval_text(each.mean_interval),
                f"{each.judged:,}",
                f"{each.counts.get('error', 0):,}",
            ]
            for each in report.groups
        ),
    ]


def _row_head(row: CaseResult) -> str:
    session = "" if row.session is None else f"session {row.session}"
    trace = f"trace {row.trace_id}" if row.trace_id else ""
    parts = (source_of(row.file, row.line, row.part), row_score(row), trace, session)
    return "  ".join(one_line(part) for part in parts if part)


def line_reason(row: CaseResult) -> str:
    """Return why a line did not pass: the error, else the criteria with a value below 1; cut after 2,000 characters."""
    results = [result for each in row.evaluator_results for result in each.results]
    missed = [each for each in results if each.value is not None and each.value < 1]
    reasons = " | ".join(f"{each.criterion_name}: {each.reasoning or f'{each.value:g}'}" for each in missed)
    reason = one_line((row.error.message if row.error is not None else "") or reasons) or "no reason was given"
    return reason if len(reason) <= _MAX_REASON_CHARS else f"{reason[:_MAX_REASON_CHARS]}…"


def _footer(report: RunReport, files: Sequence[str], resume_from: ResumeSource | None) -> list[str]:
    rows, usage = _all_lines(report).rows, _usage(report)
    speed = rows / report.duration_s if report.duration_s > 0 else 0
    rate = f" ({speed:,.0f} lines a second)" if speed >= 1 else ""
    lines = [f"Took {took_text(report.duration_s)}{rate}"]
    if usage is not None:
        tokens = f"{tokens_text(usage.total or usage.input + usage.output)} tokens"
        times = f"median {seconds_text(report.judging_median_s)}, p95 {seconds_text(report.judging_p95_s)}"
        lines.append(f"Judges: {money_text(_all_lines(report).judge_cost_usd)}, {tokens}, {times}")
    if report.state == "interrupted":
        lines += [f"Gate: {one_line(gate.sentence)}" for gate in report.verdict.gates if _all_lines(report).judged]
    if report.folder is not None:
        lines += [
            f"Saved to {one_line(report.folder)}",
            f"Details: agentv show {report.run_id} (in the browser: agentv view)",
        ]
        if resume_from is not None and report.state != "finished":
            pipe_hint = "" if resume_from == "files" else "pipe the same stream into "
            lines.append(f"Resume: {pipe_hint}agentv resume {report.run_id} {report.needs}".rstrip())
    return [*lines, *(f"Wrote {one_line(file)}" for file in files)]


def _usage(report: RunReport) -> Usage | None:
    """Return the tokens of the judges, None if none are known."""
    usage = _all_lines(report).judge_usage
    return None if usage == Usage() else usage


SCORE_SCHEMA = "agentv-score-1"


def score_to_json(report: RunReport, *, output: str | None, groups: Sequence[GroupSummary] = ()) -> JsonObject:
    """Return the report as JSON. An unknown mean, rate or cost is null, never 0."""
    lines, usage = _all_lines(report), _usage(report)
    return {
        "schema": SCORE_SCHEMA,
        "state": report.state,
        "exit_code": report.verdict.exit_code,
        "verdict": report.verdict.sentence,
        "gates": [gate_to_json(gate) for gate in report.verdict.gates],
        "lines_read": report.read,
        "counts": dict(report.counts),
        "unverified": lines.unverified,
        **({"clamped": lines.clamped} if lines.clamped else {}),
        "mean_score": lines.mean_score,
        "mean_interval": interval_to_json(lines.mean_interval),
        "pass_rate": lines.pass_rate,
        "pass_rate_interval": interval_to_json(lines.pass_rate_interval),
        "criteria": [_group_to_json(each) for each in report.groups],
        "groups": [{"by": each.by, **_group_to_json(each)} for each in groups],
        "worst": [_line(row) for row in report.worst],
        "errors": [_line(row) for row in report.errors],
        "notes": list(report.notes),
        "judges": {
            "cost_usd": lines.judge_cost_usd,
            "usage": None if usage is None else structs.asdict(usage),
        },
        "judging_median_s": report.judging_median_s,
        "judging_p95_s": report.judging_p95_s,
        "duration_s": report.duration_s,
        "output": output,
        "run_id": report.run_id or None,
        "folder": report.folder,
    }


def score_json_text(report: RunReport, *, output: str | None, groups: Sequence[GroupSummary] = ()) -> str:
    """Return the report as indented JSON that is safe to print."""
    return printable_json(pretty_json(score_to_json(report, output=output, groups=groups))) + "\n"


def _group_to_json(group: GroupSummary) -> JsonObject:
    return {
        "name": group.name,
        "judged": group.judged,
        "mean": group.mean_score,
        "mean_interval": interval_to_json(group.mean_interval),
        "pass_rate": group.pass_rate,
        "pass_rate_interval": interval_to_json(group.pass_rate_interval),
        "errors": group.counts.get("error", 0),
    }


def _line(row: CaseResult) -> JsonValue:
    return {
        "file": row.file,
        "line": row.line,
        "state": row_state(row),
        "score": row.score,
        "session_id": row.session,
        **{name: each for name, each in (("trace_id", row.trace_id), ("span_id", row.span_id)) if each},
        "reason": line_reason(row),
    }
