"""The report as JSON: what other programs read of a run's numbers."""

import json
from typing import Any

from msgspec.structs import replace
from tests.reports.rows import REPORT

from agentv.reports.run.report_json import report_text

READ: dict[str, Any] = json.loads(report_text(REPORT))


def test_every_rate_and_mean_has_its_interval_and_method() -> None:
    assert READ["schema"] == "agentv-report-1"
    first, second = READ["targets"]
    assert first["pass_rate_interval"] == {"low": 0.6831, "high": 0.7577, "level": 0.95, "method": "clustered-wilson"}
    assert first["mean_interval"] == {"low": 0.7812, "high": 0.8391, "level": 0.95, "method": "scaled-wilson"}
    assert first["latency_median_interval"]["method"] == "order-statistics"
    assert first["latency_p95_interval"] is None
    assert (second["pass_rate_interval"], second["mean_interval"], second["trials"]) == (None, None, [])
    assert READ["evaluators"][0]["mean_interval"]["low"] == 0.775
    assert READ["evaluators"][0]["pass_rate_interval"]["method"] == "wilson"


def test_trials_say_for_each_k_how_many_cases_they_are_of() -> None:
    trials = READ["targets"][0]["trials"]
    assert [(each["k"], each["cases"], each["pass_at"], each["pass_hat"]) for each in trials] == [
        (1, 240, 0.722, 0.722),
        (3, 180, 0.901, 0.503),
    ]
    assert trials[0]["pass_at_interval"] is None
    assert trials[1]["pass_hat_interval"]["method"] == "scaled-wilson"


def test_groups_say_by_what_and_keep_errors_apart() -> None:
    (group,) = READ["groups"]
    assert (group["by"], group["name"], group["rows"], group["judged"]) == ("tag", "refund", 5, 4)
    assert group["counts"]["error"] == 1


def test_a_result_from_a_trace_names_it() -> None:
    failing = replace(REPORT.failing[0], line_digest="d", file="a.jsonl", line=3, trace_id="4bf92f", span_id="00f067")
    (first, *_) = json.loads(report_text(replace(REPORT, failing=[failing])))["failing"]
    assert first["origin"] == {"file": "a.jsonl", "line": 3, "trace_id": "4bf92f", "span_id": "00f067"}
