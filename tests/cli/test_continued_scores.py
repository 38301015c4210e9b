"""Every option of `agentv resume`, `retry` and `rescore` holds for a scored run, or is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.command_line import Call, command_line

from agentv.cli.running.score import DEFAULT_WORKERS
from agentv.cli.running.score import command as score_command
from agentv.storage.run.find import list_run_folders
from agentv.storage.run.stored import StoredRun

FREE = "evaluators: [{type: contains, name: polite, value: please}]\n"
JUDGED = "judge: j\nevaluators: [{type: llm_judge, name: tone}]\n"
JUDGE = """
from pathlib import Path

def judge(request):
    with (Path(__file__).parent / "judged").open("a") as calls:
        calls.write("x")
    return {"text": '{"score": 1.0}', "usage": {"input": 0, "output": 1_000}}
"""
PRICED = (
    "targets: [{name: j, provider: python, callable: 'judge.py:judge', "
    "price: {output_per_million: 10, input_per_million: 0}}]"
)
"""A cent a call."""


@pytest.fixture
def agentv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    (tmp_path / ".git").mkdir()
    (tmp_path / "logs").mkdir()
    (tmp_path / "judges.yaml").write_text(FREE)
    (tmp_path / "targets.yaml").write_text(PRICED)
    (tmp_path / "judge.py").write_text(JUDGE)
    monkeypatch.chdir(tmp_path)

    return command_line(capsys)


def log(name: str, count: int, **more: Any) -> None:
    lines = [{"id": f"q-{n}", "prompt": f"{n}?", "response": f"Wait {n}, please.", **more} for n in range(count)]
    Path(name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def score(agentv: Call, *options: str) -> None:
    code, out, err = agentv("score", "v1.jsonl", "--config", "judges.yaml", "--gate", "none", *options)
    assert code == 0, out + err


def latest() -> StoredRun:
    return StoredRun(list_run_folders(Path(".agentv"))[-1])


def judged() -> int:
    return len(Path("judged").read_text()) if Path("judged").exists() else 0


def test_reports_are_written_where_the_command_was_called(
    agentv: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log("v1.jsonl", 2)
    score(agentv)
    monkeypatch.chdir(tmp_path / "logs")
    assert agentv("resume", "latest", "-o", "rest.jsonl", "-o", str(tmp_path / "logs" / "rest.md"))[0] == 0
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["rest.jsonl", "rest.md"]
    assert Path.cwd() == tmp_path / "logs"


def test_resume_says_that_the_first_output_does_not_grow(agentv: Call) -> None:
    log("v1.jsonl", 1)
    score(agentv, "-o", "scores.jsonl")
    log("v1.jsonl", 2)
    code, _, err = agentv("resume", "latest")
    assert (code, "note: results of this resume are not appended to scores.jsonl" in err) == (0, True), err
    assert len(Path("scores.jsonl").read_text().splitlines()) == 1
    assert "scores.jsonl" not in agentv("rescore", "latest")[2]


def test_a_log_file_and_verbose_lines_are_written(
    agentv: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log("v1.jsonl", 1)
    score(agentv)
    log("v1.jsonl", 3)
    monkeypatch.chdir(tmp_path / "logs")
    code, out, err = agentv("resume", "latest", "--log-file", "events.jsonl", "-v")
    assert code == 0, out + err
    events = [json.loads(line)["event"] for line in Path("events.jsonl").read_text().splitlines()]
    assert sorted(events) == sorted(["row_kept", "note", *2 * ["answer_arrived", "row_finished"], "run_ended"])
    assert [line for line in err.splitlines() if line.startswith("answer: q-2 v1 in ")]


def test_a_log_file_that_cannot_be_written_is_refused(agentv: Call) -> None:
    log("v1.jsonl", 1)
    score(agentv)
    code, _, err = agentv("rescore", "latest", "--log-file", "missing/events.jsonl")
    assert (code, "--log-file" in err) == (4, True), err


def test_resume_refuses_fresh(agentv: Call) -> None:
    log("v1.jsonl", 1)
    score(agentv)
    code, _, err = agentv("resume", "latest", "--fresh")
    assert (code, "--fresh" in err and "calls no target" in err) == (4, True), err


@pytest.mark.parametrize("command", ["resume", "retry", "rescore"])
def test_a_budget_limits_the_judges(agentv: Call, command: str) -> None:
    log("v1.jsonl", 6)
    if command == "resume":
        Path("judges.yaml").write_text(JUDGED)
        log("v1.jsonl", 0)
        Path("v1.jsonl").write_text('{"id": "first", "response": "Wait."}\n')
        score(agentv)
        with Path("v1.jsonl").open("a") as file:
            file.writelines(json.dumps({"id": f"q-{n}", "response": f"Wait {n}."}) + "\n" for n in range(6))
        Path("judged").unlink()
    else:
        score(agentv)
        Path("judges.yaml").write_text(JUDGED)
    options = ["--case", "*"] if command == "retry" else []
    code, out, err = agentv(command, "latest", *options, "--budget-usd", "0.035")
    assert (code, judged()) == (2, 3), out + err
    assert "STOPPED: $0.0300 of the budget of $0.035 is spent" in out
    assert "--budget-usd X" in out
    names = [[each.name for each in row.evaluator_results] for row in latest().results()]
    assert names.count(["tone"]) == 3 + (command == "resume")
    assert all(row.status == "pass" for row in latest().results())
    assert len(names) == (4 if command == "resume" else 6)
    code, out, err = agentv("resume", "latest", "--budget-usd", "1")
    assert (code, judged()) == (0, 6), out + err
    assert {row.evaluator_results[0].name for row in latest().results()} == {"tone"}


def test_a_budget_needs_the_price_or_the_costs_of_the_judge(agentv: Call) -> None:
    log("v1.jsonl", 1)
    score(agentv)
    Path("judges.yaml").write_text(JUDGED)
    Path("targets.yaml").write_text(PRICED.partition(", price")[0] + "}]")
    unpriced = Path("targets.yaml").read_text()
    Path("targets.yaml").write_text("targets: [{name: j, provider: openai, model: m, api_key: x}]")
    before = (latest().folder / "results.jsonl").read_bytes()
    code, _, err = agentv("rescore", "latest", "--budget-usd", "1")
    assert (code, "needs a price for target 'j'" in err, judged()) == (4, True, 0), err
    assert (latest().folder / "results.jsonl").read_bytes() == before
    assert latest().state() == "finished"
    Path("targets.yaml").write_text(unpriced)
    code, out, err = agentv("rescore", "latest", "--budget-usd", "1")
    assert (code, "a call of target 'j' has no known cost" in out, judged()) == (2, True, 1), err


def test_a_run_without_a_configuration_names_the_command_that_takes_one(agentv: Call) -> None:
    log("v1.jsonl", 1)
    score(agentv)
    record = latest().folder / "run.json"
    run = json.loads(record.read_text())
    del run["plan"]["scored"]["config"]
    record.write_text(json.dumps(run))
    code, _, err = agentv("retry", "latest", "--case", "*")
    assert (code, f"agentv rescore {latest().run_id} --evaluators FILE" in err) == (4, True), err


def test_workers_have_one_default() -> None:
    (option,) = [each for each in score_command.params if each.name == "workers"]
    assert option.default == DEFAULT_WORKERS


@pytest.mark.parametrize("gates", ["none", "[pass_rate >= 10%]"])
def test_a_scored_run_is_judged_by_the_gates_stored_with_it(agentv: Call, gates: str) -> None:
    log("v1.jsonl", 3)
    rude = {"id": "q-9", "prompt": "9?", "response": "No."}
    Path("v1.jsonl").write_text(Path("v1.jsonl").read_text() + json.dumps(rude) + "\n")
    assert agentv("score", "v1.jsonl", "--config", "judges.yaml")[0] == 1
    Path("judges.yaml").write_text(f"gates: {gates}\n{FREE}")
    code, out, err = agentv("resume", "latest")
    assert (code, "FAIL: 3 of 4 judged lines passed" in out + err, "has other gates now" in err) == (1, True, True), out
    assert agentv("report", "latest", "--exit-code")[0] == 1
