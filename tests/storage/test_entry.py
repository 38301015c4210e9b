"""Entries: the same line whether they are written as they are or, for an odd value in them, made to fit first."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from tests.stored import NOON, make_answer
from tests.strategies import answers, case_records, case_results

from agentv.storage.entry import ALWAYS, Entry
from agentv.storage.json_line import decode, encode, fitted
from agentv.storage.record_answer import answer_to_entry
from agentv.storage.record_result import result_to_entry
from agentv.storage.record_run import case_to_entry
from agentv.types.provider import CallRecord
from agentv.types.results import Answer, CaseRecord, CaseResult


class OddTime(datetime):
    """As libraries have them that hold the clock in tests."""


@given(answers(), case_results(), case_records)
def test_a_line_that_is_made_to_fit_is_the_line_that_is_written(
    answer: Answer, row: CaseResult, case: CaseRecord
) -> None:
    rows = result_to_entry(row), result_to_entry(row, with_trace=False)
    for entry in (answer_to_entry(answer, run_id="r"), *rows, case_to_entry(case)):
        assert encode(fitted(entry)) == encode(entry)
        assert encode(entry.to_record()) == encode(entry)


def test_an_odd_value_costs_its_own_place_only() -> None:
    answer = make_answer(request={"half": "\ud800", "thing": object()}, calls=(CallRecord("ok", NOON, 0.5, 1.0),))
    line = decode(encode(answer_to_entry(answer, run_id="r")))
    assert line["request"] == {"half": "\ufffd", "thing": "[object: no JSON value]"}
    assert line == {
        **answer_to_entry(make_answer(calls=answer.calls), run_id="r").to_record(),
        "request": line["request"],
    }


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 1, 31, 12, 0, 0, 500_000, UTC),
        datetime(2026, 1, 31, 14, 0, 0, 500_000, timezone(timedelta(hours=2))),
        OddTime(2026, 1, 31, 12, 0, 0, 500_000, UTC),
        OddTime(2026, 1, 31, 14, 0, 0, 500_000, timezone(timedelta(hours=2))),
    ],
)
def test_a_moment_is_written_in_utc(moment: datetime) -> None:
    entry = answer_to_entry(make_answer(started_at=moment), run_id="r")
    for written in (entry, fitted(entry)):
        assert decode(encode(written))["started_at"] == "2026-01-31T12:00:00.500000Z"


class Shape(Entry):
    first: float | None
    second: int | None = None
    third: float | None = ALWAYS
    fourth: tuple[str, ...] = ()


def test_a_field_that_is_its_default_is_left_out_and_what_is_always_written_is_written() -> None:
    assert encode(Shape(None, None, None)) == b'{"first":null,"third":null}'
    assert Shape(None, None, None).to_record() == {"first": None, "third": None}
    assert encode(Shape(1.5, 0, 0.5, ("a",))) == b'{"first":1.5,"second":0,"third":0.5,"fourth":["a"]}'
