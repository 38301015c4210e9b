"""Runs of targets with `otel: true`: what their spans become in rows, and each attempt and turn with its own spans."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.traced_agent import answer_to

from agentv import CaseTurn, ConfigError, EvalCase, EvaluatorConfig, RunReport, evaluate
from agentv.telemetry.sending.evaluations import judged_span
from agentv.types.provider import ProviderResponse, ReceivedSpans

AGENT = Path(__file__).parents[1] / "support" / "traced_agent.py"


def target(*modes: str, **settings: Any) -> dict[str, Any]:
    template = shlex.join([sys.executable, str(AGENT)]) + " {PROMPT} " + " ".join(modes)
    return {"provider": "cli", "name": "agent", "command_template": template, "otel": True, **settings}


def calls(**settings: Any) -> EvaluatorConfig:
    return EvaluatorConfig("calls", "tool_trajectory", {"mode": "any_order", **settings})


def case(question: str, *evaluators: EvaluatorConfig, **fields: Any) -> EvalCase:
    return EvalCase(question.replace(" ", "-"), question, evaluators=evaluators, **fields)


def run(*cases: EvalCase, target: dict[str, Any], folder: Path, **options: Any) -> RunReport:
    return evaluate(list(cases), target=target, folder=folder / ".agentv", gates="none", **options)


def answers(report: RunReport) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(str(report.folder), "answers.jsonl").read_text().splitlines()]


def test_calls_tokens_and_cost_are_those_of_the_spans(tmp_path: Path) -> None:
    used = EvaluatorConfig("used", "trace", {"max_tokens": 30, "max_cost_usd": 0.001})
    report = run(
        case("my order", calls(minimums={"find_order": 1}), used),
        case("thanks", calls(maximums={"find_order": 0})),
        target=target(),
        folder=tmp_path,
        workers=2,
    )

    assert [row.verdict for row in report.results] == ["pass", "pass"]
    by_id = {row.eval_id: row for row in report.results}
    usage = by_id["my-order"].target_usage
    assert usage is not None
    assert (usage.input, usage.output, usage.requests) == (20, 10, 2)
    assert by_id["my-order"].target_cost_usd
    assert report.notes == ()


def test_evaluations_are_attached_to_the_span_that_answered(tmp_path: Path) -> None:
    report = run(case("my order", calls(minimums={"find_order": 1})), target=target(), folder=tmp_path)
    (row,), (answer,) = report.results, answers(report)

    assert answer["origin"] == {"file": "", "line": 0, "trace_id": row.trace_id, "span_id": row.span_id}
    judged = judged_span(row)
    assert (judged.trace_id.hex(), judged.span_id.hex(), judged.is_own) == (row.trace_id, row.span_id, False)


@pytest.mark.parametrize("requirement", [{"minimums": {"find_order": 1}}, {"maximums": {"find_order": 0}}])
def test_without_spans_requirements_on_calls_fail_with_a_note(requirement: dict[str, Any], tmp_path: Path) -> None:
    report = run(case("thanks", calls(**requirement)), target=target("unsent", otel_wait_s=0), folder=tmp_path)
    (row,), (answer,) = report.results, answers(report)

    assert (row.verdict, row.evaluator_results[0].misses) == ("fail", ("No trace available for evaluation",))
    (note,) = answer["notes"]
    assert note.startswith("no spans arrived, so its tool calls are unknown")
    assert report.notes == (f"target 'agent': {note}",)


def test_the_wait_for_spans_is_not_time_of_the_target(tmp_path: Path) -> None:
    """The provider waited for an hour, which is more than the call took."""
    spans = ReceivedSpans(waited_s=3600.0)
    report = evaluate(
        [case("thanks", calls(maximums={"find_order": 0}))],
        task=lambda _request: ProviderResponse("Here.", spans=spans),
        folder=tmp_path / ".agentv",
        gates="none",
    )
    (answer,) = answers(report)

    assert (answer["duration_ms"], answer["calls"][0]["duration_ms"]) == (0.0, 0.0)
    assert answer["ended_at"] == answer["started_at"]


def test_every_attempt_has_spans_of_its_own(tmp_path: Path) -> None:
    """The first attempt fails after its spans; its tokens count, and its calls are not those of the answer."""
    agent = tmp_path / "agent.py"
    agent.write_text(
        f"import sys; sys.path.insert(0, {str(AGENT.parents[2])!r})\n"
        "from tests.support.traced_agent import main\n"
        "main(sys.argv[1] + sys.argv[2], *(['fails'] if sys.argv[2] == '0' else []))\n"
    )
    template = shlex.join([sys.executable, str(agent)]) + " {PROMPT} {ATTEMPT}"
    made = target(command_template=template, max_retries=1, retry_initial_delay_ms=0)
    made["retry_status_codes"] = []
    report = run(case("order ", calls(minimums={"find_order": 1})), target=made, folder=tmp_path)
    (answer,) = answers(report)

    assert [call["kind"] for call in answer["calls"]] == ["target_exit"]
    assert answer["calls"][0]["usage"]["input"] == 20
    assert answer["usage"]["input"] == 20


def test_every_turn_has_spans_of_its_own(tmp_path: Path) -> None:
    turns = [CaseTurn(EvalCase("x", text).input_messages[0]) for text in ("order one", "thanks", "order two")]
    report = run(
        EvalCase("talk", turns=turns, evaluators=(calls(minimums={"find_order": 3}),)),
        target=target("quiet"),
        folder=tmp_path,
    )
    (row,), (answer,) = report.results, answers(report)

    assert row.verdict == "pass"
    asked = [call["input"] for message in answer["output_messages"] for call in message.get("tool_calls", ())]
    assert len({each["question"] for each in asked}) == len(asked) == 3  # each prompt holds the turns before, too
    assert [turn["has_messages"] for turn in answer["turns"]] == [True, True, True]
    assert answer["turns"][2]["text"].endswith("on its way.")
    assert report.notes == ()


def test_trials_at_the_same_time_have_their_own_spans(tmp_path: Path) -> None:
    cases = [case(f"order {number}", calls(minimums={"find_order": 1})) for number in range(3)]
    report = run(*cases, target=target(), folder=tmp_path, trials=2, workers=6)

    spans = {(row.trace_id, row.span_id) for row in report.results}
    assert len(spans) == 6
    for answer in answers(report):
        question = answer["slot"]["eval_id"].replace("-", " ")
        asked = [call["input"] for message in answer["output_messages"] for call in message.get("tool_calls", ())]
        assert (answer["text"], asked) == (answer_to(question), [{"question": question}])


def test_nodes_cannot_call_a_service_whose_spans_come_to_one_machine(tmp_path: Path) -> None:
    service = {"provider": "http", "name": "web", "url": "http://c/{{ question }}", "method": "GET", "otel": True}
    with pytest.raises(ConfigError, match="'web' cannot be called with --backend ray: with `otel` the service sends"):
        run(case("thanks"), target=service, folder=tmp_path, backend="ray")
