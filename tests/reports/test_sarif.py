"""SARIF: the rows that did not pass, where their cases stand."""

import json
from typing import Any

from msgspec.structs import replace
from tests.reports.hostile_run import HOSTILE_REPORT, HOSTILE_TOOLS, report_of, tools_of
from tests.reports.rows import FAILED, PASSED, UNANSWERED
from tests.support.stored import make_result

from agentv.reports.run.sarif import sarif
from agentv.reports.run.views import RowDetail
from agentv.types.records.result import CaseResult


def run_of(*rows: CaseResult) -> dict[str, Any]:
    log = json.loads(sarif(report_of(rows), tools_of([RowDetail(row) for row in rows])))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    return dict(run)


def test_a_row_that_did_not_pass_is_a_result_at_its_file_and_line() -> None:
    borderline = make_result(verdict="borderline", score=0.7)
    run = run_of(FAILED, PASSED, UNANSWERED, borderline)
    assert [result["level"] for result in run["results"]] == ["error", "error", "warning"]
    assert run["results"][0] == {
        "ruleId": "agentv/fail",
        "level": "error",
        "message": {"text": 'refund-7 · agent-v2: contains: expected "30 days", got "We will look into it."'},
        "locations": [
            {"physicalLocation": {"artifactLocation": {"uri": "evals/refunds.yaml"}, "region": {"startLine": 12}}}
        ],
        "partialFingerprints": {"slot/v1": "evals/refunds.yaml refund-7 agent-v2 0"},
    }


def test_a_row_from_a_trace_names_it() -> None:
    (result,) = run_of(replace(FAILED, trace_id="4bf92f", span_id="00f067"))["results"]
    assert result["properties"] == {"trace_id": "4bf92f", "span_id": "00f067"}


def test_every_result_names_a_rule_that_is_there() -> None:
    run = run_of(FAILED, UNANSWERED)
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in run["results"]} <= rules


def test_the_verdict_and_the_exit_code_are_those_of_the_run() -> None:
    (invocation,) = run_of(FAILED)["invocations"]
    assert (invocation["exitCode"], invocation["exitCodeDescription"]) == (1, "FAIL: nothing passed.")


def test_hostile_texts_are_safe_to_look_at() -> None:
    text = sarif(HOSTILE_REPORT, HOSTILE_TOOLS)
    assert len(json.loads(text)["runs"][0]["results"]) == len(HOSTILE_REPORT.results)
    assert not {"\x1b", "\x00", "\u202e", "\x85"} & set(text)
