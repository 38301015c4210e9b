"""A run in which everything that a stranger can write is hostile: names, answers, reasons, tool calls."""

from collections.abc import Sequence

from msgspec.structs import replace
from tests.reports.outcomes import listed
from tests.support.hostile_texts import HOSTILE_TEXTS
from tests.support.stored import CONTAINS, RUN, make_answer, make_case, make_result

from agentv.reports.run.formats import ReportTools
from agentv.reports.run.views import RowDetail
from agentv.scoring.counting.summary import Summary
from agentv.storage.records.encode import export_record
from agentv.types.evaluation import EvaluationResult
from agentv.types.failures import Failure
from agentv.types.messages import Message, ToolCall
from agentv.types.records.answer import AnswerRef, ResultKey
from agentv.types.records.label import Label
from agentv.types.records.result import CaseResult
from agentv.types.results import GateResult, RunReport, RunVerdict


def hostile_detail(text: str) -> RowDetail:
    """Return a row with the text wherever a stranger's may stand."""
    criterion = EvaluationResult(text, 0.5, reasoning=text)
    judged = replace(
        CONTAINS, name=text, type=text, hits=(text,), misses=(text,), reasoning=text, results=(criterion,) * 2
    )
    result = make_result(
        slot=ResultKey(text, text, text),
        evaluator_results=(replace(judged, evaluator_results=(judged,)),),
        candidate_answer=text,
        reasoning=text,
        tags=(text,),
        metadata={text: text},
        file=text,
        error=Failure("evaluator_error", text, "evaluator"),
        status="error",
    )
    return RowDetail(
        result,
        make_case(question=text, expected_outcome=text, reference_answer=text),
        make_answer(
            text=text,
            log_paths=(text,),
            output_messages=(Message("assistant", text, tool_calls=(ToolCall(text, {text: text}, text),)),),
        ),
        [
            Label(
                slot=result.slot,
                answer_key="v1:aa",
                answer_ref=AnswerRef(0),
                criterion=text,
                score=text,
                annotator=text,
                time=result.timestamp,
                reasoning=text,
            )
        ],
    )


def report_of(rows: Sequence[CaseResult], *, note: str = "", sentence: str = "FAIL: nothing passed.") -> RunReport:
    """Return the report of rows, failed."""
    summary = Summary()
    for row in rows:
        summary.add(row)
    return RunReport(
        run_id=RUN.run_id,
        state="finished",
        planned=len(rows),
        targets=summary.targets(),
        evaluators=summary.evaluators(),
        histogram=tuple(summary.counts.histogram),
        verdict=RunVerdict(1, sentence, (GateResult(note, "failed", 0.0, note),) * 2),
        failing=tuple(summary.counts.failing),
        failing_total=summary.counts.failing_total,
        **listed(rows, question=note, expected=note),
        flaky=(note,) if note else (),
        notes=(note,) if note else (),
        results=tuple(rows),
    )


def with_matrix(report: RunReport) -> RunReport:
    """Return a report of several targets with its matrix, for which a page has the answers side by side."""
    summary = Summary()
    for row in report.results:
        summary.add(row)
    return replace(report, matrix=summary.matrix())


def tools_of(details: Sequence[RowDetail], *, name: str | None = "nightly") -> ReportTools:
    """Return where formats read these rows."""
    by_row = {id(each.result): each for each in details}
    return ReportTools(
        export_record,
        details=lambda _report, rows: [by_row[id(row)] for row in rows],
        record=lambda _report: replace(RUN, name=name, tags=(name or "",)),
    )


HOSTILE_DETAILS = [hostile_detail(text) for text in HOSTILE_TEXTS]
ALL_AT_ONCE = "\n".join(HOSTILE_TEXTS)
HOSTILE_REPORT = report_of([each.result for each in HOSTILE_DETAILS], note=ALL_AT_ONCE, sentence=f"FAIL: {ALL_AT_ONCE}")
HOSTILE_TOOLS = tools_of(HOSTILE_DETAILS, name=ALL_AT_ONCE)
