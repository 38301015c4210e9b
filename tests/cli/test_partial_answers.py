"""What an agent said before it failed or was interrupted, as commands show and use it."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.agents import codex_says, lines, stand_in
from tests.support.carrying import Project

CALLED = lines({"type": "item.completed", "item": {"id": "1", "type": "web_search", "query": "shoes"}})
PRICE = "{input_per_million: 1000000, output_per_million: 0}"
NOTE = "partly estimated: not every call reported what it used"
SUITE_HAS = "{name: has, type: contains, value: begin}"


@pytest.fixture
def hung(project: Project) -> Project:
    """A run of one case whose agent said something and then hung."""
    project.cases, project.evaluators = {"a": "question"}, SUITE_HAS
    write_agent(project.folder, "exec tail -f /dev/null", timeout_s=2)
    code, output = project.call("run", project.suite, "--gate", "cost_usd <= 5")
    assert code == 3, output
    return project


def write_agent(folder: Path, then: str, *, timeout_s: int = 60) -> None:
    program = stand_in(folder / "bin", CALLED + codex_says("I begin."), then).program
    settings = f"executable: {program}, timeout_seconds: {timeout_s}, price: {PRICE}"
    (folder / "targets.yaml").write_text(f"targets: [{{name: t, provider: codex, {settings}}}]")


def test_show_prints_the_partial_transcript_marked_as_partial(hung: Project) -> None:
    _, output = hung.call("show", "latest", "a")

    assert "error (target_timeout at target)" in output
    assert "partial answer (before the failure, not scored)\n│ I begin." in output
    assert 'partial transcript (before the failure)\n│ web_search({"query":"shoes"})\n│ assistant: I begin.' in output
    assert "cost $2.00 (estimated)" in output
    assert "\nanswer\n" not in output


def test_sums_with_estimated_parts_are_marked_in_every_report(hung: Project) -> None:
    outputs = ("report.html", "report.md", "report.json")
    code, written = hung.call("report", "latest", *(each for name in outputs for each in ("-o", name)))
    _, said = hung.call("report", "latest")

    assert code == 0, written
    html, markdown, text = ((hung.folder / name).read_text() for name in outputs)
    assert re.search(r"^t: none judged, 1 error, ~\$2\.00, ~\d+ tokens$", said, re.MULTILINE)
    assert said.count(NOTE) == markdown.count(NOTE) == html.count(NOTE) == 1
    assert "cost_usd is 2 (partly estimated), as required (<= 5)" in text
    assert "`t`: none judged, 1 error, \\~$2.00, " in markdown
    assert "<span>~$2.00</span>" in html
    assert json.loads(text)["targets"][0]["estimated"] == {"target": True, "judge": False}


def test_sums_without_estimated_parts_are_not_marked(project: Project) -> None:
    project.cases = {"a": "question"}
    _, said = project.call("run", project.suite, "--gate", "cost_usd <= 5", "-o", "report.md", "-o", "report.json")

    said += (project.folder / "report.md").read_text()
    assert "~" not in said
    assert "partly estimated" not in said
    assert "estimated" not in json.loads((project.folder / "report.json").read_text())["targets"][0]


def test_show_json_has_the_partial(hung: Project) -> None:
    _, output = hung.call("show", "latest", "a", "--json")

    (case,) = json.loads(output)["cases"]
    assert case["row"]["partial"]["text"] == "I begin."
    assert case["answer"]["partial"]["output_messages"][1]["content"] == "I begin."


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("report.html", "Partial transcript (before the failure)"),
        ("report.html", "$2.00 (estimated)"),
        ("report.md", "partial: `I begin.`"),
    ],
)
def test_reports_show_the_partial_answer_marked_as_partial(hung: Project, file: str, expected: str) -> None:
    code, output = hung.call("report", "latest", "-o", file)

    assert code == 0, output
    assert expected in (hung.folder / file).read_text()


def test_an_export_has_the_partial_transcript_with_include_trace_only(hung: Project) -> None:
    hung.call("report", "latest", "-o", "bare.jsonl")
    hung.call("report", "latest", "-o", "full.jsonl", "--include-trace")

    bare, full = (json.loads((hung.folder / name).read_text())["partial"] for name in ("bare.jsonl", "full.jsonl"))
    assert (bare["text"], "output_messages" in bare) == ("I begin.", False)
    assert [message.get("content") for message in full["output_messages"]] == [None, "I begin."]


def test_neither_rescore_nor_replay_takes_a_partial_for_an_answer(hung: Project) -> None:
    hung.call("rescore", "latest")
    (hung.folder / "targets.yaml").write_text(f"targets: [{{name: t, provider: replay, run: {hung.run.name}}}]")
    (row,) = hung.stored("results.jsonl")
    code, output = hung.call("run", hung.suite)

    assert (row["status"], row["evaluator_results"]) == ("error", [])
    assert (code, "recorded: no answer within 2 s" in output) == (3, True)


# --- Ctrl-C ------------------------------------------------------------------------------------------------------


def interrupted(project: Project, *options: str) -> str:
    """Run the suite, press Ctrl-C once its agent has said something, and return the output."""
    ready = project.folder / "ready"
    os.mkfifo(ready)
    project.cases, project.evaluators = {"a": "question"}, SUITE_HAS
    project.write()
    write_agent(project.folder, f"echo > {ready}\nexec tail -f /dev/null")
    command = [sys.executable, "-m", "agentv", "run", project.suite, *options]
    with subprocess.Popen(command, cwd=project.folder, stdout=subprocess.PIPE, text=True) as run:
        ready.read_bytes()
        run.send_signal(signal.SIGINT)
        return run.communicate()[0]


def test_ctrl_c_stores_what_the_agent_in_flight_said_and_cost(project: Project) -> None:
    output = interrupted(project)

    assert "INTERRUPTED: 0 of 1 planned result" in output
    (answer,) = project.stored("answers.jsonl")
    assert (answer["text"], answer["error"]["kind"], answer["partial"]["text"]) == ("", "cancelled", "I begin.")
    assert answer["billed_usd"] == pytest.approx(2.0)
    assert answer["log_paths"]
    assert project.stored("results.jsonl") == []


def test_a_resume_calls_the_interrupted_case_again_and_counts_its_cost(project: Project) -> None:
    interrupted(project, "--budget-usd", "10")
    write_agent(project.folder, "exit 0")

    code, output = project.call("resume", "latest")

    assert code == 0, output
    assert "$2.0000 of this run's budget of $10 was spent before" in output
    first, second = project.stored("answers.jsonl")
    assert (first["generation"], second["generation"]) == (0, 1)
    (row,) = project.stored("results.jsonl")
    facts: dict[str, Any] = {"status": row["status"], "answer": row["answer_ref"]["seq"], "partial": "partial" in row}
    assert facts == {"status": "pass", "answer": 1, "partial": False}
