"""Progress for programs: one JSON object a line, each with its schema."""

import io
import json

from tests.reports.rows import HOSTILE, REPORT, STARTED
from tests.support.stored import make_answer

from agentv.reports.progress.json_lines import JsonLines
from agentv.storage.records.encode import export_record
from agentv.types.events import AnswerArrived, RetryNoted, RowFinished, RunEnded, RunNote, RunStopping

EVENTS = (
    STARTED,
    AnswerArrived(make_answer()),
    RetryNoted("agent-v1", "refund-7", "rate_limited", 1.5),
    RowFinished(HOSTILE),
    RunNote("a note"),
    RunStopping("Ctrl-C"),
    RunEnded(REPORT),
)


def written() -> str:
    stream = io.StringIO()
    observer = JsonLines(stream, to_record=export_record)
    for event in EVENTS:
        observer.notify(event)
    observer.close()
    return stream.getvalue()


def test_every_event_is_a_line_with_schema_and_name() -> None:
    events = [json.loads(line) for line in written().splitlines()]
    assert {event["schema"] for event in events} == {"agentv-display-1"}
    assert [event["event"] for event in events] == [
        "run_started", "answer_arrived", "retry", "row_finished", "note", "stopping", "run_ended",
    ]  # fmt: skip
    assert events[1] == {
        "schema": "agentv-display-1",
        "event": "answer_arrived",
        "suite": "evals/refunds.yaml",
        "eval_id": "refund-7",
        "target": "agent-v2",
        "trial": 0,
        "duration_ms": 1500.0,
        "error": None,
    }


def test_a_row_is_what_exports_have_whole_and_unchanged() -> None:
    row = json.loads(written().splitlines()[3])["row"]
    assert row == json.loads(json.dumps(export_record(HOSTILE)))


def test_the_report_says_null_for_what_is_not_known() -> None:
    report = json.loads(written().splitlines()[-1])["report"]
    assert report["schema"] == "agentv-report-1"
    assert report["exit_code"] == 1
    assert report["verdict"] == REPORT.verdict.sentence
    assert report["counts"] == {"pass": 404, "borderline": 31, "fail": 125, "error": 4}
    assert report["targets"][0]["cost_usd"] == {"target": 0.84, "judge": None}
    assert [row["eval_id"] for row in report["failing"]] == ["refund-7", "日本語\x1b[2J", "order-9"]


def test_the_bytes_are_safe_to_look_at() -> None:
    text = written()
    assert "\x1b" not in text
    assert "\u202e" not in text
