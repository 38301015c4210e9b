"""Runs whose agent fails half-way: what it said and cost is stored, charged and shown, and never scored."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.agents import codex_says, lines, stand_in
from tests.support.fake_server import serving_fake

from agentv import EvalCase, EvaluatorConfig, Message, RunReport, TargetConfig, evaluate
from agentv.execution.cancelled_calls import attached_call
from agentv.types.failures import Failure
from agentv.types.provider import ProviderError, ProviderRequest, ProviderResponse
from agentv.types.usage import Usage

FOREVER = "exec tail -f /dev/null"
HAS = EvaluatorConfig("has", "contains", {"value": "begin"})
PRICE = {"input_per_million": 1_000_000, "output_per_million": 10_000_000}
"""One dollar for a token in, ten for one out."""

LOOKED = lines(
    {
        "type": "item.completed",
        "item": {"id": "1", "type": "command_execution", "command": "ls", "aggregated_output": "a.txt"},
    }
)


def case_named(name: str) -> EvalCase:
    return EvalCase(name, "x" * 40, "x")


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., RunReport]:
    def go(target: TargetConfig | Callable[..., Any], *cases: str, **options: Any) -> RunReport:
        asked = {"target": target} if isinstance(target, TargetConfig) else {"task": target}
        return evaluate(
            [case_named(name) for name in cases or ("a",)],
            **asked,
            evaluators=[HAS],
            folder=tmp_path / ".agentv",
            gates="none",
            **options,
        )

    return go


def agent_target(folder: Path, prints: str, then: str = FOREVER, **settings: Any) -> TargetConfig:
    program = stand_in(folder / "agent", prints, then).program
    return TargetConfig("agent", "codex", {"executable": program, "timeout_seconds": 2, **settings})


def stored(report: RunReport, name: str) -> list[dict[str, Any]]:
    assert report.folder is not None
    return [json.loads(line) for line in (Path(report.folder) / name).read_text().splitlines()]


def test_a_hung_agents_transcript_and_estimated_cost_are_in_its_row(
    run: Callable[..., RunReport], tmp_path: Path
) -> None:
    report = run(agent_target(tmp_path, LOOKED + codex_says("I begin now."), price=PRICE))

    (row,) = report.results
    assert row.error is not None
    assert (row.status, row.score, row.error.kind) == ("error", None, "target_timeout")
    assert (row.candidate_answer, row.output_messages, row.evaluator_results) == ("", None, ())
    assert row.partial is not None
    assert row.partial.text == "I begin now."
    assert row.partial.output_messages is not None
    first, last = row.partial.output_messages
    assert [(call.tool, call.output) for call in first.tool_calls] == [("command_execution", "a.txt")]
    assert last.content == "I begin now."
    # Prompt 40 characters, the tool's output 5; written 12, the tool's name 17 and its input 16: a quarter each.
    assert row.target_usage == Usage(input=11, output=11, total=22)
    assert row.is_target_estimated
    assert row.target_cost_usd == pytest.approx(11 + 110)
    assert report.targets[0].target_cost_usd == pytest.approx(121)


def test_the_stored_answer_has_the_transcript_and_the_stored_row_its_text(
    run: Callable[..., RunReport], tmp_path: Path
) -> None:
    report = run(agent_target(tmp_path, LOOKED + codex_says("I begin now."), price=PRICE))

    (answer,), (row,) = stored(report, "answers.jsonl"), stored(report, "results.jsonl")
    assert answer["text"] == ""
    assert [message.get("content") for message in answer["partial"]["output_messages"]] == [None, "I begin now."]
    assert answer["estimated"] is answer["partial"]["estimated"] is True
    assert answer["billed_usd"] == answer["cost_usd"] == pytest.approx(121)
    (call,) = answer["calls"]
    assert (call["kind"], call["cost_usd"], call["estimated"]) == ("target_timeout", pytest.approx(121), True)
    assert answer["log_paths"]
    assert row["partial"] == {
        "text": "I begin now.",
        "usage": answer["usage"],
        "cost_usd": answer["cost_usd"],
        "estimated": True,
    }


def test_an_unknown_price_stays_unknown(run: Callable[..., RunReport], tmp_path: Path) -> None:
    (row,) = run(agent_target(tmp_path, codex_says("I begin now."), "exit 1")).results

    assert row.partial is not None
    assert (row.partial.usage, row.partial.cost_usd, row.partial.estimated) == (None, None, False)
    assert (row.usage_by, row.cost_usd) == (None, None)


def test_the_cost_of_a_failed_call_is_charged_to_the_budget(run: Callable[..., RunReport], tmp_path: Path) -> None:
    cheap_output = {"input_per_million": 1_000_000, "output_per_million": 10_000}
    target = agent_target(tmp_path, codex_says("I begin now."), "exit 1", price=cheap_output)

    report = run(target, "a", "b", "c", budget_usd=15)

    assert [row.eval_id for row in report.results] == ["a"]
    (stop,) = (event for event in stored(report, "events.jsonl") if event["type"] == "budget_stop")
    assert stop["spent_usd"] == pytest.approx(10.03)


def test_an_attempt_that_failed_counts_beside_the_one_that_succeeded(
    run: Callable[..., RunReport], tmp_path: Path
) -> None:
    usage = lines({"type": "turn.completed", "usage": {"input_tokens": 7, "output_tokens": 2}})
    then = f"test -e {tmp_path}/again || {{ touch {tmp_path}/again; {FOREVER}; }}\ncat <<'END'\n{usage}END"
    again = {"retry_timeouts": True, "retry_initial_delay_ms": 1}

    report = run(agent_target(tmp_path, codex_says("I begin now."), then, price=PRICE, **again))

    (row,) = report.results
    assert (row.status, row.attempt, row.partial) == ("pass", 1, None)
    assert row.target_usage == Usage(input=10 + 7, output=3 + 2, total=13 + 9)
    assert row.is_target_estimated
    assert row.target_cost_usd == pytest.approx(10 + 30 + 7 + 20)
    (answer,) = stored(report, "answers.jsonl")
    assert [call.get("cost_usd") for call in answer["calls"]] == [pytest.approx(40), None]


def test_what_a_plugin_says_before_it_fails_is_kept(run: Callable[..., RunReport]) -> None:
    said = ProviderResponse("half a sen", usage=Usage(input=3, output=1), cost_usd=0.5, session="s-1")

    async def cut(_request: ProviderRequest) -> str:
        raise ProviderError(Failure("transport", "the stream was cut"), partial=said)

    report = run(cut)

    (row,), (answer,) = report.results, stored(report, "answers.jsonl")
    assert row.partial is not None
    assert (row.partial.text, row.partial.estimated) == ("half a sen", False)
    assert (row.target_usage, row.target_cost_usd) == (Usage(input=3, output=1), 0.5)
    assert answer["session"] == "s-1"


def test_a_response_that_cannot_be_read_was_paid_for(run: Callable[..., RunReport]) -> None:
    async def odd(_request: ProviderRequest) -> ProviderResponse:
        return ProviderResponse("text", output_messages=({"speaks": "alien"},), cost_usd=0.5)  # type: ignore[arg-type]

    (row,) = run(odd).results

    assert row.error is not None
    assert (row.error.kind, row.target_cost_usd) == ("unexpected_shape", 0.5)
    assert row.partial is not None
    assert row.partial.text == "text"


def test_a_cancellation_without_anything_said_carries_nothing() -> None:
    assert attached_call(RuntimeError()) is None


def test_an_estimated_part_of_a_judges_cost_is_marked() -> None:
    with serving_fake() as server:
        settings: dict[str, Any] = {
            "base_url": f"{server.url}/v1",
            "model": "fake@cut-x1",
            "stream": True,
            "price": PRICE,
        }
        desk = TargetConfig("desk", "openai", {**settings, "retry_initial_delay_ms": 1})  # it judges itself
        case = EvalCase("a", (Message("user", "Say Paris."),), expected_outcome="Paris")
        exact = {"provider": "mock", "response": '{"score": 1, "hits": ["names Paris"]}'}
        judges: list[dict[str, Any]] = [{"type": "llm_judge", "name": "j"}, {"type": "llm_judge", "judge": exact}]
        report = evaluate([case], target=desk, evaluators=judges, gates="none")

    (row,), (shown,) = report.results, report.targets
    estimated = [call.estimated for result in row.evaluator_results for call in result.judge_calls]
    assert (row.error, estimated, row.is_judge_estimated, row.is_target_estimated) == (None, [True, False], True, True)
    assert (shown.is_judge_estimated, shown.is_target_estimated) == (True, True)
