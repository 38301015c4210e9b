"""Cases with `turns`: a conversation is held with the target, and each of its turns is judged."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from msgspec.structs import replace
from tests.support.fake_server import serving_fake

from agentv import CaseTurn, ConfigError, EvalCase, EvaluatorConfig, TurnRules, evaluate, run_evaluators_for_case
from agentv.cli.main import agentv
from agentv.fake import FakeServer
from agentv.pytest_plugin.fixture import failure_text
from agentv.types.provider import ProviderRequest
from agentv.types.records.result import CaseResult


def has(value: str, **more: Any) -> EvaluatorConfig:
    return EvaluatorConfig("has", "contains", {"value": value}, **more)


def heard(request: ProviderRequest) -> str:
    """Answer with the number of messages and the last one."""
    said = request.chat_prompt or ()
    last = said[-1].content if said else request.question
    return f"{len(said) or 1} messages, the last: {last}"


def held(case: EvalCase, **options: Any) -> CaseResult:
    (row,) = evaluate([case], task=options.pop("task", heard), gates="none", **options).results
    return row


def scores(row: CaseResult) -> dict[str, float | None]:
    return {each.name: None if each.status == "skipped" else each.score for each in row.evaluator_results}


def turn(said: str, *evaluators: EvaluatorConfig) -> CaseTurn:
    return CaseTurn(read(said), evaluators=evaluators)


def read(said: str) -> Any:
    return EvalCase("x", said).input_messages[0]


def test_each_turn_is_sent_with_the_answers_before_it() -> None:
    asked: list[ProviderRequest] = []

    def task(request: ProviderRequest) -> str:
        asked.append(request)
        return f"answer {len(asked)}"

    case = EvalCase("a", [{"role": "system", "content": "Be short"}], turns=["one", "two", "three"])
    row = held(case, task=task)
    assert [request.turn for request in asked] == [1, 2, 3]
    assert [(each.role, each.content) for each in asked[2].chat_prompt or ()] == [
        ("system", "Be short"),
        ("user", "one"),
        ("assistant", "answer 1"),
        ("user", "two"),
        ("assistant", "answer 2"),
        ("user", "three"),
    ]
    assert asked[1].question == "@[System]:\nBe short\n\n@[User]:\none\n\n@[Assistant]:\nanswer 1\n\n@[User]:\ntwo"
    assert row.candidate_answer == "answer 3"
    assert [message.content for message in row.output_messages or ()] == [
        *("one", "answer 1", "two", "answer 2", "three", "answer 3")
    ]


def test_each_turn_is_judged_by_its_own_evaluators() -> None:
    case = EvalCase("a", turns=[turn("one", has("one")), turn("two", has("seven"), has("two")), turn("three")])
    row = held(case)
    assert scores(row) == {"turn-1": 1.0, "turn-2": 0.5, "turn-3": None}
    assert [each.score for each in row.evaluator_results[1].evaluator_results] == [0.0, 1.0]
    assert row.score == pytest.approx(0.75)
    assert (row.status, row.verdict) == ("fail", "borderline")


@pytest.mark.parametrize("aggregate", ["mean", "min", "max"])
def test_turns_without_evaluators_are_not_part_of_the_score(aggregate: Any) -> None:
    case = EvalCase("a", turns=["one"] * 5, evaluators=[has("never")], turn_rules=TurnRules(aggregate=aggregate))
    report = evaluate([case], task=heard)
    (row,) = report.results
    assert (row.score, row.verdict, report.verdict.exit_code) == (0.0, "fail", 1)
    assert {(each.status, each.verdict) for each in row.evaluator_results[:5]} == {("skipped", None)}
    assert [each.name for each in report.evaluators if each.judged] == ["has"]


def test_a_conversation_without_any_evaluator_is_not_judged() -> None:
    report = evaluate([EvalCase("a", turns=["one", "two"])], task=heard)
    (row,) = report.results
    assert (row.status, row.score, row.verdict) == ("skipped", None, None)
    assert report.verdict.exit_code == 3


def test_a_gate_on_a_turn_without_evaluators_does_not_pass() -> None:
    case = EvalCase("a", turns=[turn("one", has("one")), turn("two")])
    report = evaluate([case], task=heard, gates=("evaluator(turn-2).mean >= 1",))
    assert report.verdict.exit_code == 3
    assert "nothing was judged for evaluator 'turn-2'" in report.verdict.sentence


@pytest.mark.parametrize(("aggregate", "score"), [("mean", 0.5), ("min", 0.0), ("max", 1.0)])
def test_turns_and_the_case_s_evaluators_are_aggregated_as_one_value_each(aggregate: Any, score: float) -> None:
    case = EvalCase(
        "a",
        turns=[turn("one", has("one")), turn("two", has("never"))],
        evaluators=[has("the last: two", weight=3), replace(has("never", required=False, weight=3), name="never")],
        turn_rules=TurnRules(aggregate=aggregate),
    )
    assert held(case).score == pytest.approx(score)


def test_the_case_s_evaluators_judge_the_whole_conversation() -> None:
    members = {"evaluators": [{"name": "m", "type": "contains", "value": "User: one"}]}
    case = EvalCase(
        "a",
        turns=["one", "two"],
        evaluators=[
            EvaluatorConfig("early", "contains", {"value": "User: one"}),
            {"name": "composed", "type": "composite", **members},
            EvaluatorConfig("by turn", "contains", {"value": "User: one"}, per_turn=True),
        ],
    )
    assert scores(held(case)) == {"turn-1": None, "turn-2": None, "early": 1.0, "composed": 1.0, "by turn": 0.0}


def test_a_turn_that_does_not_pass_ends_the_conversation_if_told_so() -> None:
    asked: list[str] = []

    def task(request: ProviderRequest) -> str:
        asked.append(request.question)
        return "fine"

    turns = [turn("one", has("fine")), turn("two", has("never")), turn("three"), turn("four")]
    row = held(EvalCase("a", turns=turns, turn_rules=TurnRules(on_failure="stop")), task=task)
    assert len(asked) == 2
    assert scores(row) == {"turn-1": 1.0, "turn-2": 0.0, "turn-3": 0.0, "turn-4": 0.0}
    assert row.misses[1:] == ("skipped, because turn 2 did not pass",) * 2
    assert row.score == 0.25


def test_a_turn_is_judged_once_although_the_conversation_waits_for_it() -> None:
    judged: list[str] = []

    def judge(context: Any) -> float:
        judged.append(context.candidate)
        return 1.0

    turns = [{"input": "one", "evaluators": [judge]}, {"input": "two", "evaluators": [judge]}]
    held(EvalCase("a", turns=turns, turn_rules=TurnRules(on_failure="stop")), task=lambda request: request.question)
    assert len(judged) == 2


def test_a_window_limits_the_turns_that_the_target_gets() -> None:
    system = [{"role": "system", "content": "Be short"}]
    turns = [turn("one"), turn("two"), turn("three", has("4 messages, the last: three"))]
    row = held(EvalCase("a", system, turns=turns, turn_rules=TurnRules(window=2)))
    assert row.score == 1.0


def test_a_turn_that_fails_makes_the_row_an_error_that_names_it() -> None:
    def task(request: ProviderRequest) -> str:
        if request.turn == 2:
            raise RuntimeError("no more")
        return "fine"

    row = held(EvalCase("a", turns=[turn("one", has("fine")), turn("two"), turn("three")]), task=task)
    assert (row.status, row.score, row.error and row.error.kind) == ("error", None, "plugin_error")
    assert row.error is not None
    assert row.error.message.startswith("turn 2: ")
    assert row.partial is not None
    assert [message.content for message in row.partial.output_messages or ()] == ["one", "fine", "two"]


def test_an_evaluator_of_a_turn_that_fails_makes_the_row_an_error() -> None:
    def broken(_: Any) -> float:
        raise ValueError("cannot judge")

    row = held(EvalCase("a", turns=[{"input": "one", "evaluators": [broken]}, "two"]))
    assert (row.status, row.error and row.error.stage) == ("error", "evaluator")


def test_an_unmet_requirement_fails_its_turn_only() -> None:
    strict = has("never", required=True, unmet="zero", weight=0.1)
    case = EvalCase("a", turns=[turn("one", has("one"), strict), turn("two", has("two")), turn("three", has("three"))])
    row = held(case)
    assert scores(row) == {"turn-1": 0.0, "turn-2": 1.0, "turn-3": 1.0}
    assert (row.verdict, row.evaluator_results[0].verdict) == ("borderline", "fail")


def test_tools_that_were_called_in_any_turn_are_seen_by_the_case_s_evaluators() -> None:
    def task(request: ProviderRequest) -> Any:
        call = {"tool": f"search-{request.turn}", "input": {}}
        return {"output_messages": [{"role": "assistant", "content": "found", "tool_calls": [call]}]}

    def path(*names: str) -> dict[str, Any]:
        expected = [{"tool": name} for name in names]
        return {"name": "path", "type": "tool_trajectory", "mode": "exact", "expected": expected}

    turns = [{"input": "one", "evaluators": [path("search-1")]}, {"input": "two", "evaluators": [path("search-2")]}]
    row = held(EvalCase("a", turns=turns, evaluators=[path("search-1", "search-2")]), task=task)
    assert scores(row) == {"turn-1": 1.0, "turn-2": 1.0, "path": 1.0}


SUITE = """
execution: {target: t}
vars: {order: "1001"}
evalcases:
  - id: a
    turns:
      - input: Order {{ order }}
        evaluators: [{name: has, type: contains, value: "{{ order }}"}]
      - input: Then two
        evaluators: [{name: has, type: contains, value: WANTED}]
      - input: Then three
    execution: {on_turn_failure: stop}
"""


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving_fake(keep_requests=True) as server:
        yield server


Rows: TypeAlias = list[dict[str, Any]]


@pytest.fixture
def run(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Rows]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    target = {"name": "t", "provider": "openai", "model": "m", "base_url": f"{server.url}/v1", "api_key": "sk-x"}
    (tmp_path / "targets.yaml").write_text(json.dumps({"targets": [target]}))

    def go(wanted: str, *options: str) -> Rows:
        (tmp_path / "suite.yaml").write_text(SUITE.replace("WANTED", wanted))
        return command("run", "suite.yaml", *options)

    return go


def command(*line: str) -> Rows:
    agentv.main([*line, "-o", "rows.jsonl", "--include-trace"], standalone_mode=False)
    return [json.loads(row) for row in Path("rows.jsonl").read_text().splitlines()]


def test_the_cache_answers_every_turn_of_a_second_run(run: Callable[..., Rows], server: FakeServer) -> None:
    first = run("two", "--cache", "on")
    made = len(server.calls)
    second = run("two", "--cache", "on")
    assert (made, len(server.calls)) == (3, 3)
    assert [row["cached"] for row in (*first, *second)] == [False, True]
    assert first[0]["output_messages"] == second[0]["output_messages"]


def test_rescoring_uses_the_stored_answers_of_the_turns(run: Callable[..., Rows], server: FakeServer) -> None:
    run("two")
    Path("suite.yaml").write_text(SUITE.replace("WANTED", "nothing"))
    (row,) = command("rescore", "latest")
    assert len(server.calls) == 3
    assert [each["score"] for each in row["evaluator_results"]] == [1.0, 0.0, 0.0]


def test_a_turn_that_was_left_out_and_would_follow_now_needs_another_call(
    run: Callable[..., Rows], server: FakeServer
) -> None:
    run("nothing")
    assert len(server.calls) == 2
    Path("suite.yaml").write_text(SUITE.replace("WANTED", "two"))
    (row,) = command("rescore", "latest")
    assert (row["status"], row["error"]["kind"]) == ("error", "target_missing")
    assert "'turn-3'" in row["error"]["message"]
    (row,) = command("retry", "latest")
    assert [each["status"] for each in row["evaluator_results"]] == ["scored", "scored", "skipped"]
    assert (row["score"], len(server.calls)) == (1.0, 5)


def test_a_finished_conversation_is_not_held_again_on_resume(run: Callable[..., Rows], server: FakeServer) -> None:
    run("two")
    (row,) = command("resume", "latest")
    assert (row["score"], len(server.calls)) == (1.0, 3)


def test_a_stored_conversation_is_replayed_turn_by_turn(run: Callable[..., Rows]) -> None:
    (first,) = run("two")
    target = {"name": "t", "provider": "replay", "run": first["run_id"]}
    Path("targets.yaml").write_text(json.dumps({"targets": [target]}))
    (again,) = command("run", "suite.yaml")
    assert (again["output_messages"], again["score"]) == (first["output_messages"], 1.0)


def test_show_and_the_page_print_the_turns(run: Callable[..., Rows], capsys: pytest.CaptureFixture[str]) -> None:
    run("nothing")
    capsys.readouterr()
    agentv.main(["show", "latest", "a"], standalone_mode=False)
    printed = capsys.readouterr().out
    assert "turn-2 (turn)  0.00  fail\n│ user: Then two\n│ assistant: You said: Then two\n" in printed
    assert "turn-3 (turn)  0.00  fail\n│ - skipped, because turn 2 did not pass\n" in printed
    agentv.main(["report", "latest", "-o", "page.html"], standalone_mode=False)
    assert "Then two" in Path("page.html").read_text()
    run("two")
    agentv.main(["show", "latest", "a"], standalone_mode=False)
    printed = capsys.readouterr().out
    assert "turn-3 (turn)  skipped\n│ user: Then three\n" in printed
    assert "│ not judged: the turn has no evaluators\n" in printed


def test_failed_conversations_are_exported_with_their_turns(run: Callable[..., Rows]) -> None:
    run("nothing")
    agentv.main(["runs", "export", "latest", "--failed", "-o", "failed.yaml"], standalone_mode=False)
    (row,) = evaluate("failed.yaml", gates="none").results
    assert [each.score for each in row.evaluator_results] == [1.0, 0.0, 0.0]


INTERRUPTING = """
import asyncio, os, signal

async def answer(request):
    with open("calls.txt", "a") as file:
        file.write(f"{request.turn}")
    if request.turn == 2 and not os.path.exists("again"):
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)
    return f"answer {request.turn}"
"""


def test_an_interrupted_conversation_keeps_what_was_said_and_begins_again(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "bot.py").write_text(INTERRUPTING)
    (tmp_path / "targets.yaml").write_text("targets: [{name: t, provider: python, callable: bot.py:answer}]")
    judge = "evaluators: [{name: e, type: contains, value: answer 2}]"
    (tmp_path / "suite.yaml").write_text(f"evalcases: [{{id: a, turns: [{{input: x}}, {{input: y, {judge}}}]}}]")

    def call(*line: str) -> str:
        command = [sys.executable, "-m", "agentv", *line]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False).stdout

    assert "INTERRUPTED" in call("run", "suite.yaml")
    (folder,) = (tmp_path / ".agentv" / "runs").iterdir()
    answer = json.loads((folder / "answers.jsonl").read_text())
    assert (answer["error"]["kind"], answer["error"]["message"][:7]) == ("cancelled", "turn 2:")
    assert [message["content"] for message in answer["partial"]["output_messages"]] == ["x", "answer 1", "y"]
    (tmp_path / "again").touch()
    assert "PASS" in call("resume", "latest")
    assert (tmp_path / "calls.txt").read_text() == "1212"


def test_a_result_of_a_turn_keeps_its_name_for_itself() -> None:
    with pytest.raises(ConfigError, match="an evaluator is named 'turn-1', like the result of a turn"):
        held(EvalCase("a", turns=["one"], evaluators=[EvaluatorConfig("turn-1", "contains", {"value": "x"})]))


def test_a_gate_can_name_a_turn_but_no_evaluator_of_a_turn() -> None:
    case = EvalCase("a", turns=[turn("one", has("one")), turn("two", has("nothing"))])
    report = evaluate([case], task=heard, gates=("evaluator(turn-1).mean >= 1",))
    assert report.verdict.sentence == "PASS: evaluator(turn-1).mean is 1, as required (>= 1)."
    with pytest.raises(ConfigError, match=r"unknown evaluator 'has'; known: turn-1, turn-2"):
        evaluate([case], task=heard, gates=("evaluator(has).mean >= 1",))


def test_an_answer_to_a_case_with_turns_cannot_be_given() -> None:
    with pytest.raises(ConfigError, match="case 'a' has turns, which are answered one by one"):
        asyncio.run(run_evaluators_for_case(EvalCase("a", turns=["one"]), "fine"))


def test_a_failed_test_of_pytest_shows_the_conversation() -> None:
    case = EvalCase("a", turns=[turn("one", has("never")), turn("two")])
    text = failure_text(held(case), case)
    assert "conversation: User: one\n    Assistant: 1 messages, the last: one\n    User: two\n" in text
