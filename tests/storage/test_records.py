"""Every record survives its way to a line of JSON and back; newer ones are refused, unknown keys ignored."""

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stored import make_answer, make_result
from tests.strategies import answers, case_records, case_results, events, run_records

from agentv.storage.json_line import decode, encode
from agentv.storage.record_fields import milliseconds, read_objects
from agentv.storage.records import (
    EventRecord,
    answer_to_record,
    case_to_record,
    event_to_record,
    record_to_answer,
    record_to_case,
    record_to_event,
    record_to_result,
    record_to_run,
    result_to_record,
    run_to_record,
)
from agentv.types.errors import StorageError
from agentv.types.json_value import JsonObject
from agentv.types.results import Answer, CaseRecord, CaseResult, RunRecord


def through_json(record: JsonObject) -> JsonObject:
    return decode(encode(record))


@given(answers())
def test_an_answer_survives_a_round_trip(answer: Answer) -> None:
    assert record_to_answer(through_json(answer_to_record(answer, run_id="r"))) == answer


@given(case_results())
def test_a_row_survives_a_round_trip(result: CaseResult) -> None:
    assert record_to_result(through_json(result_to_record(result))) == result


@given(case_records)
def test_a_case_survives_a_round_trip(case: CaseRecord) -> None:
    assert record_to_case(through_json(case_to_record(case))) == case


@given(run_records)
def test_a_run_survives_a_round_trip(run: RunRecord) -> None:
    assert record_to_run(through_json(run_to_record(run))) == run


@given(events)
def test_an_event_survives_a_round_trip(event: EventRecord) -> None:
    assert record_to_event(through_json(event_to_record(event))) == event


def test_an_events_own_fields_cannot_replace_its_head() -> None:
    event = record_to_event(
        {"schema": "agentv-event-1", "seq": 3, "time": "2026-01-01T00:00:00Z", "type": "merged", "run_id": "other"}
    )
    forged = EventRecord(event.type, event.time, {"seq": 99, "type": "ended", "shard": "1/2"}, event.seq)
    assert event_to_record(forged) == {
        "schema": "agentv-event-1",
        "seq": 3,
        "time": "2026-01-01T00:00:00Z",
        "type": "merged",
        "shard": "1/2",
    }
    assert event.fields == {"run_id": "other"}


@given(case_results())
def test_unknown_keys_are_ignored(result: CaseResult) -> None:
    record = result_to_record(result) | {"later": {"things": [1]}, "evaluator_weather": "fine"}
    assert record_to_result(record) == result


@pytest.mark.parametrize("schema", ["agentv-result-2", "agentv-result-2.1", "agentv-result-10"])
def test_a_newer_row_is_refused_with_what_to_do(schema: str) -> None:
    record = result_to_record(make_result()) | {"schema": schema}
    with pytest.raises(StorageError, match=f"'{schema}' is newer.*upgrade agentv"):
        record_to_result(record)


def test_a_newer_answer_is_refused() -> None:
    with pytest.raises(StorageError, match="upgrade agentv"):
        record_to_answer(answer_to_record(make_answer(), run_id="r") | {"schema": "agentv-answer-2"})


def test_a_later_minor_version_is_read() -> None:
    record = result_to_record(make_result()) | {"schema": "agentv-result-1.4"}
    assert record_to_result(record) == make_result()


def test_a_record_of_another_sort_is_refused() -> None:
    with pytest.raises(StorageError, match="expected a record of schema 'agentv-result-1', found 'agentv-answer-1'"):
        record_to_result(answer_to_record(make_answer(), run_id="r"))


@pytest.mark.parametrize("name", ["evaluator_provider_request", "evaluator_raw_request", "grader_raw_request"])
def test_every_name_that_a_judges_request_has_had_is_read(name: str) -> None:
    evaluator: JsonObject = {"name": "judge", "type": "llm_judge", "score": 0.5, name: {"userPrompt": "?"}}
    record = result_to_record(make_result()) | {"evaluator_results": [evaluator]}
    assert record_to_result(record).evaluator_results[0].evaluator_provider_request == {"userPrompt": "?"}


def test_the_key_order_of_an_answer_is_that_of_the_format() -> None:
    record = answer_to_record(make_answer(), run_id="run-1")
    assert list(record) == [
        "schema", "run_id", "slot", "generation", "answer_key", "kind", "text", "output_messages", "usage",
        "cost_usd", "started_at", "ended_at", "duration_ms", "attempt", "calls", "request",
    ]  # fmt: skip


def test_a_row_without_an_answer_says_null_for_score_and_verdict_and_leaves_out_the_unknown() -> None:
    record = result_to_record(make_result(status="error", score=None, verdict=None, reasoning=None))
    assert record["score"] is None
    assert record["verdict"] is None
    assert "reasoning" not in record
    assert None not in [value for key, value in record.items() if key not in ("score", "verdict")]


def test_durations_are_kept_to_the_microsecond() -> None:
    assert result_to_record(make_result(duration_ms=0.05774600049335277))["duration_ms"] == 0.058


@given(st.integers(0, 10**15))
def test_a_measured_duration_is_kept_with_three_digits(microseconds: int) -> None:
    measured = timedelta(microseconds=microseconds).total_seconds() * 1000
    assert milliseconds(measured) == round(measured, 3)


@pytest.mark.parametrize("claimed", [None, 0, 0.0, -0.0, 2000, math.inf, -math.inf, 1e308, -1e308])
def test_what_no_clock_measured_is_kept_as_it_is(claimed: float | None) -> None:
    assert repr(milliseconds(claimed)) == repr(claimed)


@pytest.mark.parametrize("score", [5.0, -0.5, 1e300])
def test_a_score_that_none_can_be_is_refused(score: float) -> None:
    record = through_json(result_to_record(make_result()))
    with pytest.raises(ValueError, match="score: expected a score from 0 to 1, found"):
        record_to_result({**record, "score": score})
    (first, *others) = read_objects(record, "evaluator_results")
    with pytest.raises(ValueError, match="score: expected a score from 0 to 1, found"):
        record_to_result({**record, "evaluator_results": [{**first, "score": score}, *others]})
    value: JsonObject = {"criterion_name": "polite", "value": score}
    with pytest.raises(ValueError, match="value: expected a score from 0 to 1, found"):
        record_to_result({**record, "evaluator_results": [{**first, "results": [value]}, *others]})
