"""Exported results: the keys of the format in order, and the flat single form."""

import json
from datetime import UTC, datetime
from typing import cast

from hypothesis import given
from msgspec.structs import replace
from tests.support.stored import CONTAINS, JUDGE, make_result
from tests.support.strategies import case_results

from agentv.storage.records.decode import RESULTS
from agentv.storage.records.encode import encodable_result, export_record
from agentv.storage.records.json_line import decode, encode
from agentv.types.evaluation import EvaluatorResult
from agentv.types.failures import Failure
from agentv.types.json_value import JsonValue
from agentv.types.messages import Message, TraceEvent
from agentv.types.messages_json import compact_json
from agentv.types.records.result import EXPORT_KEYS, CaseResult

STORED_ONLY = {"seq", "slot", "answer_key", "score_key", "answer_ref", "single_form", "file", "line"}


@given(case_results())
def test_an_export_has_the_keys_of_the_format_in_its_order(result: CaseResult) -> None:
    keys = list(export_record(result, include_trace=True))
    assert keys == [key for key in EXPORT_KEYS if key in keys]
    assert not STORED_ONLY & set(keys)


def test_the_keys_of_a_row_with_several_evaluators() -> None:
    assert list(export_record(make_result(conversation_id="c-17", raw_aspects=("a",)))) == [
        "schema", "run_id", "timestamp", "eval_id", "suite", "dataset", "conversation_id", "tags", "metadata",
        "target", "trial", "attempt", "generation", "status", "score", "verdict", "hits", "misses", "reasoning",
        "expected_aspect_count", "raw_aspects", "candidate_answer", "evaluator_results", "trace_summary",
        "lm_provider_request", "usage_by", "cost_usd", "duration_ms", "cached",
    ]  # fmt: skip


def test_the_keys_of_an_evaluators_result() -> None:
    full = replace(
        JUDGE,
        raw_aspects=("a",),
        error=Failure("judge_error", "no JSON", stage="evaluator"),
        duration_ms=3.0,
        evaluator_results=(CONTAINS,),
    )
    exported = export_record(make_result(evaluator_results=(full,)))
    (record,) = cast(list[dict[str, JsonValue]], exported["evaluator_results"])
    assert list(record) == [
        "name", "type", "status", "score", "weight", "required", "verdict", "hits", "misses", "reasoning",
        "expected_aspect_count", "raw_aspects", "error", "evaluator_provider_request", "evaluator_raw_request",
        "duration_ms", "usage", "cost_usd", "evaluator_results",
    ]  # fmt: skip
    assert record["error"] == {"kind": "judge_error", "message": "no JSON"}


def test_the_inner_keys_of_a_trace_summary_are_those_of_the_seed() -> None:
    assert export_record(make_result())["trace_summary"] == {
        "eventCount": 2,
        "toolNames": ["lookup_order"],
        "toolCallsByName": {"lookup_order": 1},
        "errorCount": 0,
    }


def test_the_single_form_stands_flat_at_the_top() -> None:
    failure = Failure("judge_error", "no JSON", stage="evaluator")
    broken = replace(JUDGE, score=0.0, status="error", error=failure, hits=(), misses=("no JSON",))
    record = export_record(make_result(evaluator_results=(broken,), single_form=True, reasoning="tone: something"))
    assert "evaluator_results" not in record
    assert "grader_raw_request" not in record
    assert record["evaluator_provider_request"] == JUDGE.evaluator_provider_request
    assert record["evaluator_raw_request"] == JUDGE.evaluator_provider_request
    assert record["evaluator_error"] == {"kind": "judge_error", "message": "no JSON"}
    assert record["reasoning"] == JUDGE.reasoning
    assert record["misses"] == ["no JSON"]


def test_traces_are_exported_on_request_only() -> None:
    result = make_result(trace=(TraceEvent("tool_call", name="t"),), output_messages=(Message("assistant", "hi"),))
    assert not {"trace", "output_messages"} & set(export_record(result))
    record = export_record(result, include_trace=True)
    assert record["trace"] == [{"type": "tool_call", "name": "t"}]
    assert record["output_messages"] == [{"role": "assistant", "content": "hi"}]


def test_an_exported_row_can_be_read_again() -> None:
    row = RESULTS.of_record(export_record(make_result()))
    assert row == make_result(answer_key="", score_keys={}, file="", line=0)


def test_an_exported_row_of_the_single_form_can_be_read_again() -> None:
    row = RESULTS.of_record(export_record(make_result(evaluator_results=(JUDGE,), single_form=True)))
    assert row.single_form
    assert row.evaluator_results == (
        EvaluatorResult(
            name="evaluator",
            type="llm_judge",
            score=row.score or 0.0,
            hits=JUDGE.hits,
            reasoning=JUDGE.reasoning,
            misses=JUDGE.misses,
            evaluator_provider_request=JUDGE.evaluator_provider_request,
        ),
    )


def test_values_that_are_not_json_are_exported_as_in_the_run_folder() -> None:
    odd = {"thing": object(), "at": datetime(2026, 1, 31, 12, tzinfo=UTC), "nan": float("nan"), "kept": [1, "a", None]}
    result = make_result(agent_provider_request=odd, lm_provider_request=None)
    exported = export_record(result)["agent_provider_request"]
    assert exported == decode(encode(encodable_result(result)))["agent_provider_request"]
    assert exported == {
        "thing": "[object: no JSON value]",
        "at": "2026-01-31T12:00:00Z",
        "nan": None,
        "kept": [1, "a", None],
    }
    assert json.loads(compact_json(exported)) == exported
