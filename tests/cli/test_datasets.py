"""Runs of datasets from the command line: what a user sees, and what a run finds again."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from agentv import EvaluatorConfig, evaluate
from agentv.storage.run.find import find_run
from agentv.storage.run.stored import open_run

TARGETS = "targets:\n  - {name: echo, provider: python, callable: 'agent.py:answer'}\n"
AGENT = """
import pathlib


def answer(request):
    with pathlib.Path("calls.txt").open("a") as file:
        file.write(request.question + "\\n")
    return request.question.upper()
"""
SUITE = """
vars: {prefix: Say}
execution: {evaluators: [{name: right, type: contains, value: "{{ expected }}"}]}
evalcases:
  file: q.csv
  case: {input_messages: [{role: user, content: "{{ prefix }} {{ question }}"}]}
"""
CSV = "question,expected\none,ONE\ntwo,TWO\nthree,THREE\n"


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write({"targets.yaml": TARGETS, "agent.py": AGENT, "evals/suite.yaml": SUITE, "evals/q.csv": CSV})
    Path("evals/agent.py").write_text(AGENT)


def write(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)


def agentv(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agentv", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def calls() -> list[str]:
    return Path("calls.txt").read_text().splitlines()


def test_a_table_is_run_from_an_eval_file() -> None:
    done = agentv("run", "--display", "plain")
    assert done.returncode == 0, done.stderr
    assert "suite · 3 cases" in done.stdout
    assert calls() == ["Say one", "Say two", "Say three"]


def test_limit_runs_the_first_cases_and_var_sets_a_value() -> None:
    assert agentv("run", "--limit", "2", "--var", "prefix=Ask").returncode == 0
    assert calls() == ["Ask one", "Ask two"]
    assert "exclude each other" in agentv("run", "--limit", "2", "--sample", "1").stderr
    assert "unknown variable 'prefx'; known: expected, prefix, question" in agentv("run", "--var", "prefx=x").stderr
    assert agentv("check", "--var", "prefix=x").returncode == 0


def test_a_resumed_run_finds_rows_again_and_repeats_only_the_changed_one() -> None:
    assert agentv("run", "--var", "prefix=Ask", "--limit", "3").returncode == 0
    write({"evals/q.csv": "question,expected\nzero,ZERO\none,ONE\ntwo,2\nthree,THREE\n"})
    done = agentv("resume", "latest")
    assert calls()[3:] == ["Ask zero", "Ask two"]
    assert "1 result unchanged; 2 target calls" in done.stdout
    assert "no longer in the eval files, not counted: 2 results" in done.stdout
    assert done.returncode == 1
    assert agentv("retry", "latest", "--failed").returncode == 1
    assert calls()[5:] == ["Ask two"]
    assert "0 target calls" in agentv("rescore", "latest").stdout


def test_the_rows_of_a_long_table_are_counted_beside_the_run() -> None:
    rows = "".join(f"q{number},Q{number}\n" for number in range(1200))
    write({"evals/q.csv": f"question,expected\n{rows}"})
    done = agentv("run", "--display", "json", "--workers", "8")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[0]["planned"] is None
    assert {"planned": 1200, "cases": 1200} in [
        {key: event[key] for key in ("planned", "cases")} for event in events if event["event"] == "rows_counted"
    ]


def test_check_and_dry_run_call_no_function_and_say_so() -> None:
    code = "from pathlib import Path\nPath('imported.txt').touch()\n"
    code += "def rows():\n    return [{'input': 'a', 'target': 'A'}]\n"
    text = "execution: {evaluators: [{name: r, type: contains, value: '{{ target }}'}]}\n"
    text += "evalcases: {file: 'data.py:rows'}\n"
    write({"evals/data.py": code, "evals/suite.yaml": text})
    checked, planned, listed = agentv("check"), agentv("run", "--dry-run"), agentv("check", "--untrusted")
    assert (checked.returncode, planned.returncode, listed.returncode) == (0, 0, 0)
    said = "the cases of data.py:rows are unknown, since the function is not called here"
    assert said in checked.stdout
    assert said in planned.stdout + planned.stderr
    assert "callable  data.py:rows  (evals/suite.yaml:2  $.evalcases.file)" in listed.stdout
    assert not Path("imported.txt").exists()
    assert agentv("run").returncode == 0
    assert Path("imported.txt").exists()


def test_untrusted_lists_datasets_and_the_files_that_their_rows_attach() -> None:
    part = "{type: file, value: '{{ doc }}'}"
    text = f"evalcases: {{file: q.csv, case: {{input_messages: [{{role: user, content: [{part}]}}]}}}}\n"
    write({"evals/suite.yaml": text, "evals/q.csv": "doc,expected\n/etc/passwd,x\n"})
    listed = agentv("check", "--untrusted").stdout
    assert "path      q.csv  (evals/suite.yaml:1  $.evalcases.file)" in listed
    assert "path      /etc/passwd  (evals/q.csv:2  $.doc)" in listed
    checked = agentv("check")
    assert checked.returncode == 4
    assert "evals/q.csv:2:1" in checked.stdout
    assert "leads outside of" in checked.stdout


JUDGED = """
execution: {evaluators: [{name: j, type: llm_judge, prompt: "{{ topic }}: {{ vars.answer }} {{ candidate_answer }}"}]}
evalcases: {file: q.csv}
"""


def test_a_judge_prompt_shows_variables_but_never_fills_what_the_model_said() -> None:
    write(
        {
            "evals/suite.yaml": JUDGED,
            "evals/q.csv": "question,topic,answer\n{{ topic }},{{ candidate_answer }},own\n",
            "targets.yaml": """targets:
  - {name: echo, provider: mock, response: "I say {{ topic }} {{ vars.answer }}", judge_target: judge}
  - {name: judge, provider: mock, response: '{"score": 1, "hits": [], "misses": []}'}
""",
        }
    )
    assert agentv("run", "--target", "echo").returncode == 0
    (row,) = open_run(find_run(Path(".agentv"), "latest")).results()
    request = row.evaluator_results[0].evaluator_provider_request
    prompt = str((request or {})["userPrompt"])
    first, *rest = prompt.splitlines()
    assert first.startswith("{{ candidate_answer }}: own <<<")
    assert rest[0] == "I say {{ topic }} {{ vars.answer }}"


def test_evaluators_from_python_replace_those_that_a_suite_fills() -> None:
    given = EvaluatorConfig("own", "contains", {"value": "SAY"})
    report = evaluate("evals/suite.yaml", evaluators=[given], variables={"prefix": "say"}, limit=1)
    (row,) = report.results
    assert [each.name for each in row.evaluator_results] == ["own"]
    assert report.exit_code == 0
