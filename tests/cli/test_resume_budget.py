"""A run that goes on has what is left of its budget, unless it is given another."""

import pytest
from msgspec.structs import replace
from tests.support.carrying import Project
from tests.support.fake_server import serving_fake

from agentv.fake.answers import answer
from agentv.fake.api import Question, Reply

PAID_AGENT = """
from pathlib import Path

def answer(request):
    with (Path(__file__).parent / "calls").open("a") as calls:
        calls.write(request.eval_case_id + "\\n")
    return {"text": "answer", "usage": {"input": 0, "output": 1_000}}

def judge(request):
    with (Path(__file__).parent / "judged").open("a") as calls:
        calls.write("x")
    return {"text": '{"score": 1.0}', "usage": {"input": 0, "output": 1_000}}
"""
PRICE = "price: {input_per_million: 0, output_per_million: 10}"
"""A cent a call."""


@pytest.fixture
def paid(project: Project) -> Project:
    """Six cases at a cent each."""
    (project.folder / "agent.py").write_text(PAID_AGENT)
    (project.folder / "targets.yaml").write_text(
        f"targets: [{{name: t, provider: python, callable: 'agent.py:answer', judge_target: j, {PRICE}}}, "
        f"{{name: j, provider: python, callable: 'agent.py:judge', {PRICE}}}]"
    )
    project.cases = {name: f"question {name}" for name in "abcdef"}
    return project


def test_spent_budget_counts_and_a_new_budget_is_for_the_rest(paid: Project) -> None:
    assert paid.call("run", "suite.yaml", "--target", "t", "--budget-usd", "0.035")[0] == 2
    assert len(paid.calls()) == 3
    code, said = paid.call("resume")
    assert (code, paid.calls()) == (2, [])
    assert f"agentv resume {paid.run.name} --budget-usd X\n" in said
    assert "$0.0300 of this run's budget of $0.035 was spent before it was resumed; --budget-usd X sets a" in said
    assert "STOPPED: $0.0300 of the budget of $0.035 is spent, and the next call of target 't' may cost $0.0100" in said
    code, said = paid.call("resume", "--budget-usd", "0.02")
    assert (code, len(paid.calls())) == (2, 2)
    assert "$0.0200 of the budget of $0.02 is spent" in said
    assert paid.call("resume", "--budget-usd", "1")[0] == 0
    assert len(paid.calls()) == 1


def test_what_a_batch_had_no_room_for_is_for_the_next_one(project: Project) -> None:
    def wordy(question: Question) -> Reply:
        return replace(answer(question), text="an answer " * 40)

    with serving_fake(batch_polls=1, answer=wordy) as server:
        (project.folder / "targets.yaml").write_text(
            f"targets: [{{name: t, provider: openai, model: m, base_url: '{server.url}/v1', batch_api: true, "
            f"max_output_tokens: 100, {PRICE}}}]"
        )
        project.cases = {name: f"question {name}" for name in "abcdef"}  # half a tenth of a cent each
        assert project.call("run", "suite.yaml", "--target", "t", "--budget-usd", "0.0021")[0] == 2
        assert len(server.calls) == 4
        assert project.call("resume", "--budget-usd", "1")[0] == 0
        assert len([call for call in server.calls if call.batch]) == len(server.calls) == 6


def test_a_killed_run_knows_what_it_has_spent(paid: Project) -> None:
    assert paid.call("run", "suite.yaml", "--target", "t", "--budget-usd", "0.055")[0] == 2
    assert len(paid.calls()) == 5
    paid.forget("answers.jsonl", [4])
    paid.forget("results.jsonl", [4])
    paid.forget("events.jsonl", [1, 2])
    assert paid.call("resume")[0] == 2
    assert len(paid.calls()) == 1


def test_judgements_count_once_and_so_do_rows_that_were_done_again(paid: Project) -> None:
    paid.evaluators += ", {name: judge, type: llm_judge}"
    paid.cases = {"a": "question a", "b": "question b"}
    assert paid.call("run", "suite.yaml", "--target", "t", "--budget-usd", "0.105")[0] == 0
    assert len(paid.calls()) == 2
    assert len((paid.folder / "judged").read_text()) == 2
    assert paid.call("retry", "--case", "a")[0] == 0  # six cents by now
    paid.evaluators += ", {name: more, type: contains, value: answer}"
    assert paid.call("rescore", "latest")[0] == 0  # what the judge said stands, and is paid for already
    assert paid.call("retry", "--case", "b")[0] == 0
    assert paid.call("retry", "--case", "b")[0] == 0
    assert len(paid.calls()) == 3
    code, said = paid.call("retry", "--case", "b")
    assert (code, paid.calls()) == (2, [])
    assert "$0.1000 of the budget of $0.105 is spent" in said


def test_a_budget_may_be_given_to_a_run_that_had_none(paid: Project) -> None:
    assert paid.call("run", "suite.yaml", "--target", "t")[0] == 0
    paid.calls()
    code, said = paid.call("retry", "--case", "*", "--budget-usd", "0.025")
    assert (code, len(paid.calls())) == (2, 2)
    assert "$0.0200 of the budget of $0.025 is spent" in said


def test_a_whole_has_the_budgets_of_its_parts(paid: Project) -> None:
    for part in ("1/2", "2/2"):
        paid.call("run", "suite.yaml", "--target", "t", "--budget-usd", "0.04", "--shard", part)
    paid.calls()
    assert paid.call("merge", "latest", "latest~1")[0] == 0
    paid.cases |= {"g": "question g", "h": "question h", "i": "question i"}
    code, said = paid.call("resume", "latest")
    assert (code, len(paid.calls())) == (2, 2)
    assert "$0.0800 of the budget of $0.08 is spent" in said
