"""Half-price batches, against the fake server's batch endpoint: handed in once, taken up after a kill."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fake_server import serving_fake

from agentv import EvaluatorConfig, RunReport, evaluate
from agentv.server.fake import FakeServer

SUITE = """
execution: {evaluators: [{name: any, type: length, min: 1}]}
evalcases:
  - {id: a, expected_outcome: x, input_messages: [{role: user, content: alpha}]}
  - {id: b, expected_outcome: x, input_messages: [{role: user, content: beta}]}
"""
ANY = EvaluatorConfig("any", "length", {"min": 1})


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving_fake(batch_polls=2) as found:
        yield found


def write_project(folder: Path, server: FakeServer, model: str = "fake") -> None:
    (folder / ".git").mkdir()
    (folder / ".agentv").mkdir()
    (folder / "suite.yaml").write_text(SUITE)
    (folder / "targets.yaml").write_text(
        f"targets: [{{name: t, provider: openai, base_url: '{server.url}/v1', model: '{model}', batch_api: true, "
        "price: {input_per_million: 1000000, output_per_million: 0}, max_retries: 0}]"
    )


def events(report: RunReport) -> list[dict[str, object]]:
    assert report.folder is not None
    return [json.loads(line) for line in (Path(report.folder) / "events.jsonl").read_text().splitlines()]


def test_a_batch_is_handed_in_stored_waited_for_and_costs_half(tmp_path: Path, server: FakeServer) -> None:
    write_project(tmp_path, server)
    report = evaluate(tmp_path / "suite.yaml", folder=tmp_path / ".agentv")
    assert report.exit_code == 0
    assert ["alpha" in row.candidate_answer for row in report.results] == [True, False]
    kinds = [event["type"] for event in events(report)]
    assert kinds == ["started", "batch_submitted", "batch_fetched", "ended"]
    row = report.results[0]
    assert row.target_usage is not None
    assert row.target_cost_usd == pytest.approx(row.target_usage.input / 2)
    assert all(call.batch for call in server.calls if call.billed)


def test_what_a_batch_lost_is_asked_by_itself(tmp_path: Path, server: FakeServer) -> None:
    write_project(tmp_path, server, model="fake@batch-lost")
    report = evaluate(tmp_path / "suite.yaml", folder=tmp_path / ".agentv")
    assert [row.status for row in report.results] == ["pass", "pass"]
    assert any("no answer for a, b" in note for note in report.notes)


def test_a_run_that_was_killed_while_waiting_is_taken_up_and_nothing_is_handed_in_twice(tmp_path: Path) -> None:
    with serving_fake(batch_polls=3) as server:
        write_project(tmp_path, server)
        command = [sys.executable, "-m", "agentv", "run", "suite.yaml", "--display", "json"]
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout is not None
            for line in run.stdout:
                if "batch" in line and json.loads(line)["event"] == "note":
                    break
            os.kill(run.pid, signal.SIGKILL)
        (submitted,) = (tmp_path / ".agentv" / "runs").glob("*/events.jsonl")
        (ticket,) = (
            json.loads(line)["id"] for line in submitted.read_text().splitlines() if '"batch_submitted"' in line
        )
        report = evaluate(tmp_path / "suite.yaml", folder=tmp_path / ".agentv")
        assert report.exit_code == 0
        assert [event["id"] for event in events(report) if event["type"] == "batch_submitted"] == [ticket]
        assert any(f"taking up batch {ticket}" in note for note in report.notes)
        again = evaluate(tmp_path / "suite.yaml", folder=tmp_path / ".agentv")
        assert [event["id"] for event in events(again) if event["type"] == "batch_submitted"] != [ticket]
