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
