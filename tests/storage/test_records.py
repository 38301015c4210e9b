"""Every record survives a round trip through a line of JSON; newer schemas are refused, unknown keys ignored."""

import math
from collections.abc import Mapping
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.stored import make_answer, make_result
from tests.support.strategies import answers, case_records, case_results, events, run_records

from agentv.storage.records.decode import ANSWERS, CASES, EVENTS, RESULTS, RUNS
from agentv.storage.records.encode import encodable_event, to_record
from agentv.storage.records.json_line import decode, encode
from agentv.types.errors import StorageError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.records.answer import Answer
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord, EventRecord, RunRecord
from agentv.types.stored import rounded_ms


def through_json(record: JsonObject) -> JsonObject:
    return decode(encode(record))


def evaluator_records(record: JsonObject) -> list[JsonObject]:
    listed = record["evaluator_results"]
    assert isinstance(listed, list)
    return [each for each in listed if isinstance(each, Mapping)]


@given(answers())
def test_an_answer_survives_a_round_trip(answer: Answer) -> None:
    assert ANSWERS.of_record(through_json(to_record(answer))) == answer


@given(case_results())
def test_a_row_survives_a_round_trip(result: CaseResult) -> None:
    assert RESULTS.of_record(through_json(to_record(result))) == result


@given(case_records)
def test_a_case_survives_a_round_trip(case: CaseRecord) -> None:
    assert CASES.of_record(through_json(to_record(case))) == case


@given(run_records)
def test_a_run_survives_a_round_trip(run: RunRecord) -> None:
    assert RUNS.of_record(through_json(to_record(run))) == run


@given(events)
def test_an_event_survives_a_round_trip(event: EventRecord) -> None:
    assert EVENTS.of_record(through_json(encodable_event(event))) == event


def test_an_events_own_fields_cannot_replace_its_head() -> None:
    event = EVENTS.of_record(
        {"schema": "agentv-event-1", "seq": 3, "time": "2026-01-01T00:00:00Z", "type": "merged", "run_id": "other"}
    )
    forged = EventRecord(event.type, event.time, {"seq": 99, "type": "ended", "shard": "1/2"}, event.seq)
    assert encodable_event(forged) == {
        "schema": "agentv-event-1",
        "seq": 3,
        "time": "2026-01-01T00:00:00Z",
        "type": "merged",
        "shard": "1/2",
    }
    assert event.fields == {"run_id": "other"}


@given(case_results())
def test_unknown_keys_are_ignored(result: CaseResult) -> None:
    record = to_record(result) | {"later": {"things": [1]}, "evaluator_weather": "fine"}
    assert RESULTS.of_record(record) == result


@pytest.mark.parametrize("schema", ["agentv-result-2", "agentv-result-2.1", "agentv-result-10"])
def test_a_newer_row_is_refused_with_what_to_do(schema: str) -> None:
    record = to_record(make_result()) | {"schema": schema}
    with pytest.raises(StorageError, match=f"'{schema}' is newer.*upgrade agentv"):
        RESULTS.of_record(record)


def test_a_newer_answer_is_refused() -> None:
    with pytest.raises(StorageError, match="upgrade agentv"):
        ANSWERS.of_record(to_record(make_answer()) | {"schema": "agentv-answer-2"})


def test_a_later_minor_version_is_read() -> None:
    record = to_record(make_result()) | {"schema": "agentv-result-1.4"}
    assert RESULTS.of_record(record) == make_result()


def test_a_record_of_another_sort_is_refused() -> None:
    with pytest.raises(StorageError, match="expected a record of schema 'agentv-result-1', found 'agentv-answer-1'"):
        RESULTS.of_record(to_record(make_answer()))


@pytest.mark.parametrize("name", ["evaluator_provider_request", "evaluator_raw_request", "grader_raw_request"])
def test_every_name_that_a_judges_request_has_had_is_read(name: str) -> None:
    evaluator: JsonObject = {"name": "judge", "type": "llm_judge", "score": 0.5, name: {"userPrompt": "?"}}
    record = to_record(make_result()) | {"evaluator_results": [evaluator]}
    assert RESULTS.of_record(record).evaluator_results[0].evaluator_provider_request == {"userPrompt": "?"}


def test_the_key_order_of_an_answer_is_that_of_the_format() -> None:
    record = to_record(make_answer(run_id="run-1"))
    assert list(record) == [
        "schema", "run_id", "slot", "generation", "answer_key", "kind", "text", "output_messages", "usage",
        "cost_usd", "started_at", "ended_at", "duration_ms", "attempt", "calls", "request",
    ]  # fmt: skip


def test_a_result_without_an_answer_has_null_for_score_and_verdict() -> None:
    record = to_record(make_result(status="error", score=None, verdict=None, reasoning=None))
    assert record["score"] is None
    assert record["verdict"] is None
    assert "reasoning" not in record
    assert None not in [value for key, value in record.items() if key not in ("score", "verdict")]


@given(st.integers(0, 10**15))
def test_a_measured_duration_is_kept_with_three_digits(microseconds: int) -> None:
    measured = timedelta(microseconds=microseconds).total_seconds() * 1000
    assert rounded_ms(measured) == round(measured, 3)


@pytest.mark.parametrize("claimed", [None, 0, 0.0, -0.0, 2000, math.inf, -math.inf, 1e308, -1e308])
def test_what_no_clock_measured_is_kept_as_it_is(claimed: float | None) -> None:
    assert repr(rounded_ms(claimed)) == repr(claimed)


@pytest.mark.parametrize("score", [5.0, -0.5, 1e300])
def test_a_score_that_none_can_be_is_refused(score: float) -> None:
    record = through_json(to_record(make_result()))
    with pytest.raises(ValueError, match="score: expected a score from 0 to 1"):
        RESULTS.of_record({**record, "score": score})
    (first, *others) = evaluator_records(record)
    with pytest.raises(ValueError, match="score: expected a score from 0 to 1"):
        RESULTS.of_record({**record, "evaluator_results": [{**first, "score": score}, *others]})
    value: JsonObject = {"criterion_name": "polite", "value": score}
    with pytest.raises(ValueError, match="value: expected a score from 0 to 1"):
        RESULTS.of_record({**record, "evaluator_results": [{**first, "results": [value]}, *others]})


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("0.5", r"evaluator_results\[0\]: expected `object`, got `str`"),
        ({"name": "polite", "type": "rule_based"}, r"evaluator_results\[0\]: .*missing required field `score`"),
        ({"name": "polite", "type": "rule_based", "score": None}, r"evaluator_results\[0\]: .*field `score`"),
    ],
)
def test_an_evaluator_without_a_readable_score_is_refused_not_skipped_or_zero(entry: JsonValue, message: str) -> None:
    record = through_json(to_record(make_result()))
    with pytest.raises(ValueError, match=message):
        RESULTS.of_record({**record, "evaluator_results": [entry]})


def test_a_failed_evaluator_may_have_no_score() -> None:
    record = through_json(to_record(make_result()))
    error: JsonObject = {"kind": "judge_error", "message": "no reply"}
    entry: JsonObject = {"name": "judge", "type": "llm_judge", "status": "error", "error": error}
    (failed,) = RESULTS.of_record({**record, "evaluator_results": [entry]}).evaluator_results
    assert (failed.status, failed.error and failed.error.message) == ("error", "no reply")
