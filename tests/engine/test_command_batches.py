"""`provider_batching: true` of a command: one call for all cases, and never its output as the answer of one case."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agentv import evaluate
from agentv.types.results import RunReport

AGENT = """
import json, pathlib, sys
mode, eval_id, *files = sys.argv[1:]
with open("calls", "a") as calls:
    print(json.dumps([eval_id, [pathlib.Path(file).name for file in files]]), file=calls)
ids = [pathlib.Path(file).stem for file in files]
if mode == "breaks":
    sys.exit(7)
if mode == "text":
    print("all is well")
if mode == "no-ids":
    for each in ids:
        print(json.dumps({"text": "answer " + each}))
if mode == "foreign":
    for each in ids:
        print(json.dumps({"id": "x" + each, "text": "answer " + each}))
if mode == "loses":
    ids = ids[1:]
if mode == "always-all":
    ids = ["a", "b", "c"]
if mode in ("good", "loses", "always-all"):
    for each in ids:
        print(json.dumps({"id": each, "text": "answer " + each}))
if mode == "half":
    print(json.dumps({"id": "a", "text": "answer a", "usage": {"input": 3, "output": 1}, "cost_usd": 0.5}))
    print('{"id": "b", "text": "answ', flush=True)
    sys.exit(7)
if mode == "prompt":
    print(json.dumps({"id": "batch"} if eval_id == "batch" else {"text": "answer " + eval_id}))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "agent.py").write_text(AGENT)
    cases = []
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(name)
        content = [{"type": "text", "value": "read it"}, {"type": "file", "value": f"{name}.txt"}]
        checks = [{"name": "has", "type": "equals", "value": f"answer {name}"}]
        message = {"role": "user", "content": content}
        cases.append({"id": name, "expected_outcome": "x", "input_messages": [message], "evaluators": checks})
    (tmp_path / "suite.yaml").write_text(json.dumps({"evalcases": cases}))
    return tmp_path


def run(project: Path, mode: str, template: str = "{EVAL_ID} {FILES}") -> RunReport:
    command = f"{sys.executable} agent.py {mode} {template}"
    target = {"name": "t", "provider": "cli", "command_template": command, "provider_batching": True, "max_retries": 0}
    (project / "targets.yaml").write_text(json.dumps({"targets": [target]}))
    return evaluate(project / "suite.yaml", folder=project / ".agentv")


def calls(project: Path) -> list[list[Any]]:
    return [json.loads(line) for line in (project / "calls").read_text().splitlines()]


def rows(report: RunReport) -> dict[str, tuple[str, str]]:
    assert report.folder is not None
    lines = (Path(report.folder) / "results.jsonl").read_text().splitlines()
    found = (json.loads(line) for line in lines)
    return {row["eval_id"]: (row["status"], row.get("candidate_answer") or "") for row in found}


ALL_FILES = ["batch", ["a.txt", "b.txt", "c.txt"]]


def test_a_template_without_the_cases_file_is_called_once_with_all_files(project: Path) -> None:
    report = run(project, "good")
    assert calls(project) == [ALL_FILES]
    assert rows(report) == {name: ("pass", f"answer {name}") for name in "abc"}
    assert report.exit_code == 0


@pytest.mark.parametrize("mode", ["text", "no-ids", "foreign", "breaks"])
def test_a_reply_without_our_ids_is_an_error_of_every_case(project: Path, mode: str) -> None:
    report = run(project, mode)
    assert calls(project) == [ALL_FILES]  # a call per case would get no prompt
    assert rows(report) == dict.fromkeys("abc", ("error", ""))
    assert report.exit_code == 3


def test_what_a_failed_batch_said_to_a_case_is_its_partial_answer(project: Path) -> None:
    report = run(project, "half")
    assert rows(report) == dict.fromkeys("abc", ("error", ""))
    assert report.folder is not None
    lines = (Path(report.folder) / "answers.jsonl").read_text().splitlines()
    answers = {answer["slot"]["eval_id"]: answer for answer in map(json.loads, lines)}
    partial = answers["a"]["partial"]
    assert (partial["text"], partial["usage"]["input"], partial["cost_usd"]) == ("answer a", 3, 0.5)
    assert (answers["a"]["error"]["kind"], answers["a"]["billed_usd"]) == ("target_exit", 0.5)
    assert ["partial" in answers[name] for name in "bc"] == [False, False]


def test_a_case_that_the_batch_lost_is_an_error(project: Path) -> None:
    report = run(project, "loses")
    assert calls(project) == [ALL_FILES]
    assert rows(report) == {"a": ("error", ""), "b": ("pass", "answer b"), "c": ("pass", "answer c")}
    assert any("no answer for a" in note for note in report.notes)


def test_a_template_with_a_prompt_falls_back_to_single_calls(project: Path) -> None:
    report = run(project, "prompt", "{EVAL_ID} {PROMPT_FILE}")
    assert [call[0] for call in calls(project)] == ["batch", "a", "b", "c"]
    assert {answer for _, answer in rows(report).values()} == {"answer a", "answer b", "answer c"}
    assert any("calling case by case" in note for note in report.notes)


@pytest.mark.parametrize("mode", ["always-all", "foreign"])
def test_a_batch_reply_to_a_single_call_is_never_the_answer(project: Path, mode: str) -> None:
    """The program answers every call with a whole batch, and its batch has an id too many."""
    project.joinpath("agent.py").write_text(AGENT.replace('["a", "b", "c"]', '["a", "b", "c", "z"]'))
    report = run(project, mode, "{EVAL_ID} {FILES} {PROMPT_FILE}")
    assert set(rows(report).values()) == {("error", "")}
    assert report.exit_code == 3


def with_dependency(project: Path, **more: Any) -> None:
    suite = json.loads((project / "suite.yaml").read_text())
    suite["evalcases"][1]["execution"] = {"depends_on": ["a"], **more}
    (project / "suite.yaml").write_text(json.dumps(suite))


def test_a_case_that_depends_on_another_is_in_a_later_batch(project: Path) -> None:
    with_dependency(project)
    report = run(project, "good")
    assert calls(project) == [["batch", ["a.txt"]], ["batch", ["b.txt", "c.txt"]]]
    assert rows(report) == {name: ("pass", f"answer {name}") for name in "abc"}


def test_a_failed_case_keeps_those_that_depend_on_it_out_of_the_batch(project: Path) -> None:
    with_dependency(project)
    report = run(project, "breaks")
    assert calls(project) == [["batch", ["a.txt"]], ["batch", ["c.txt"]]]
    assert report.folder is not None
    found = [json.loads(line) for line in (Path(report.folder) / "results.jsonl").read_text().splitlines()]
    assert {row["eval_id"]: row["error"]["kind"] for row in found if row["eval_id"] == "b"} == {"b": "dependency"}


def test_a_case_may_run_although_the_one_before_it_failed(project: Path) -> None:
    with_dependency(project, on_dependency_failure="run")
    run(project, "breaks")
    assert calls(project) == [["batch", ["a.txt"]], ["batch", ["b.txt", "c.txt"]]]
