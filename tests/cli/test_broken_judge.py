"""A judge that keeps failing stops the run before more targets are called; a resume judges what is stored."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from agentv.cli.main import main

TARGETS = """
targets:
  - {name: agent, provider: python, callable: "agent.py:answer", judge_target: judge}
  - {name: judge, provider: python, callable: "judge.py:judge"}
"""
AGENT = """
from pathlib import Path

def answer(request):
    with Path("called").open("a") as called:
        called.write("x")
    return "fine"
"""
JUDGE = """
import json
from pathlib import Path

def judge(request):
    fixed = Path("fixed").exists()
    if not fixed and int(request.eval_case_id[2:]) >= 5:
        return "I like it."
    return json.dumps({"nonce": request.metadata["nonce"], "score": 1.0})
"""
Call = Callable[..., tuple[int, str]]


@pytest.fixture
def agentv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that calls the command line in a project of 30 cases, the judge failing from the sixth on."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".agentv").mkdir()
    case = "  - {id: c-%d, expected_outcome: ok, input_messages: [{role: user, content: question %d}]}\n"
    cases = "".join(case % (number, number) for number in range(30))
    head = "target: agent\nexecution: {evaluators: [{name: tone, type: llm_judge}]}\nevalcases:\n"
    for name, text in (("agent.py", AGENT), ("judge.py", JUDGE), ("targets.yaml", TARGETS)):
        (tmp_path / name).write_text(text)
    (tmp_path / "suite.yaml").write_text(head + cases)

    def call(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as left:
            main(arguments)
        said = capsys.readouterr()
        return int(left.value.code or 0), " ".join((said.out + said.err).split())

    return call


def calls() -> int:
    return len(Path("called").read_text())


def test_ten_failures_in_a_row_stop_the_run_and_a_resume_judges_the_answers(agentv: Call) -> None:
    code, said = agentv("run", "suite.yaml")
    assert (code, calls()) == (3, 15)
    assert (
        "INCOMPLETE: the judge failed on 10 of 15 results; 10 failures of one judge in a row: the judge 'judge' "
        in said
    )
    assert "its reply is text without a JSON object. 15 of 30 planned results are complete. Exit code 3." in said
    events = [json.loads(line) for line in next(Path(".agentv/runs").glob("*/events.jsonl")).read_text().splitlines()]
    (stopped,) = (event for event in events if event["type"] == "judge_stop")
    assert (stopped["judge"], stopped["failures"]) == ("judge", 10)
    Path("fixed").touch()
    code, said = agentv("resume")
    assert (code, calls()) == (0, 30)
    assert "PASS: 30 of 30 judged results passed (100 %)." in said
    assert re.search(r"5 results unchanged; 15 target calls, 10 stored answers rescored", said)


def test_a_success_starts_the_count_again_and_the_option_sets_it(agentv: Call) -> None:
    Path("judge.py").write_text(JUDGE.replace(">= 5", "% 3"))
    code, said = agentv("run", "suite.yaml", "--judge-failures", "3")
    assert (code, calls()) == (3, 30)
    assert "INCOMPLETE: the judge failed on 20 of 30 results; 20 results with errors" in said
    code, said = agentv("run", "suite.yaml", "--judge-failures", "2")
    assert (code, calls()) == (3, 33)
    assert "INCOMPLETE: the judge failed on 2 of 3 results; 2 failures of one judge in a row: " in said


def test_a_failed_target_is_not_the_judges_failure(agentv: Call) -> None:
    Path("agent.py").write_text("def answer(request):\n    raise ValueError('no')\n")
    code, said = agentv("run", "suite.yaml")
    assert code == 3
    assert "INCOMPLETE: no result could be judged. 30 results with errors." in said


def test_a_failed_gate_leaves_a_run_that_a_judge_stopped_incomplete(agentv: Call) -> None:
    code, said = agentv("run", "suite.yaml", "--gate", "pass_rate > 100%")
    assert (code, calls()) == (3, 15)
    assert "INCOMPLETE: the judge failed on 10 of 15 results; 10 failures of one judge in a row: " in said
    code, said = agentv("report", "--exit-code")
    assert (code, "recorded at the end" in said) == (3, False)
    Path("fixed").touch()
    code, said = agentv("resume")
    assert code == 1
    assert "FAIL: pass_rate is 100 % (point estimate), not > 100 %." in said


@pytest.mark.parametrize("command", ["rescore", "retry"])
def test_a_judge_stops_a_rescore_and_a_retry_too_and_resume_completes_them(agentv: Call, command: str) -> None:
    Path("fixed").touch()
    assert agentv("run", "suite.yaml")[0] == 0
    Path("fixed").unlink()
    suite = Path("suite.yaml")
    suite.write_text(suite.read_text().replace("name: tone", "name: style"))
    which = ["latest"] if command == "rescore" else ["--case", "c-*"]
    code, said = agentv(command, *which, "--judge-failures", "4")
    assert code == 3
    assert "4 failures of one judge in a row: the judge 'judge' " in said
    Path("fixed").touch()
    code, said = agentv("resume")
    assert (code, calls()) == (0, 30 if command == "rescore" else 60)
    assert "PASS: 30 of 30 judged results passed (100 %)." in said


def test_a_resume_takes_another_number_of_failures(agentv: Call) -> None:
    assert agentv("run", "suite.yaml", "--judge-failures", "3")[0] == 3
    assert calls() == 8
    code, said = agentv("resume", "--judge-failures", "2")
    assert (code, calls()) == (3, 8)
    assert "2 failures of one judge in a row: " in said


def test_a_judge_without_tokens_and_price_makes_the_cost_of_a_stream_unknown(agentv: Call) -> None:
    Path("fixed").touch()
    Path("judge.py").write_text(JUDGE.replace("int(request.eval_case_id[2:]) >= 5", "True"))
    Path("config.yaml").write_text("evaluators: [{name: tone, type: llm_judge}]\njudge: judge\n")
    Path("log.jsonl").write_text('{"prompt": "question", "response": "fine"}\n')
    code, said = agentv("score", "log.jsonl", "--config", "config.yaml", "--gate", "cost_usd <= 5")
    assert code == 3
    assert "cost_usd could not be measured" in said
    code, said = agentv("score", "log.jsonl", "--config", "config.yaml", "--json")
    assert (code, json.loads(said)["judges"]["cost_usd"]) == (0, None)
    Path("config.yaml").write_text("evaluators: [{name: tone, type: contains, value: fine}]\n")
    Path("log.jsonl").write_text('{"prompt": "question", "response": "fine", "costUsd": 0}\n')
    assert agentv("score", "log.jsonl", "--config", "config.yaml", "--gate", "cost_usd <= 0")[0] == 0


def test_a_judge_that_keeps_failing_stops_a_stream(agentv: Call) -> None:
    Path("judge.py").write_text("def judge(request):\n    return 'I like it.'\n")
    Path("config.yaml").write_text(
        "evaluators: [{name: tone, type: llm_judge}]\njudge: judge\ngates: ['pass_rate >= 50%']\n"
    )
    lines = [json.dumps({"prompt": f"question {number}", "response": "fine"}) for number in range(30)]
    Path("log.jsonl").write_text("\n".join(lines) + "\n")
    code, said = agentv("score", "log.jsonl", "--config", "config.yaml", "--workers", "1", "--judge-failures", "3")
    assert code == 3
    assert "INCOMPLETE: the judge failed on 3 of 3 lines; 3 failures of one judge in a row: " in said
    code, said = agentv("score", "log.jsonl", "--config", "config.yaml", "--workers", "1")
    assert "the judge failed on 10 of 10 lines" in said
