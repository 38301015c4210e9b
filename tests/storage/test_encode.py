"""A value has the same line whether it is encoded directly or made to fit first because of an unusual field."""

import importlib
import pkgutil
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from msgspec import Struct
from tests.support.stored import NOON, make_answer, make_result
from tests.support.strategies import answers, case_records, case_results

import agentv.storage
from agentv.storage.records.encode import encodable_answer, encodable_case, encodable_result, to_record
from agentv.storage.records.json_line import decode, encode, to_encodable
from agentv.storage.records.narrow import Subset
from agentv.types.provider import CallRecord
from agentv.types.records.answer import Answer
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord
from agentv.types.stored import always


class OddTime(datetime):
    """A subclass of datetime, as libraries that freeze time use it."""


@given(answers(), case_results(), case_records)
def test_a_line_that_is_made_to_fit_is_the_line_that_is_written(
    answer: Answer, row: CaseResult, case: CaseRecord
) -> None:
    for line in (
        encodable_answer(answer),
        encodable_result(row),
        encodable_result(row, with_trace=False),
        encodable_case(case),
    ):
        assert encode(to_encodable(line)) == encode(line)
    for value, line in ((answer, encodable_answer(answer)), (row, encodable_result(row)), (case, encodable_case(case))):
        assert encode(to_record(value)) == encode(line)


def test_an_odd_value_costs_its_own_place_only() -> None:
    calls = (CallRecord(kind="ok", started_at=NOON, wait_ms=0.5, duration_ms=1.0),)
    answer = make_answer(request={"half": "\ud800", "thing": object()}, calls=calls)
    line = decode(encode(encodable_answer(answer)))
    assert line["request"] == {"half": "\ufffd", "thing": "[object: no JSON value]"}
    assert line == {**to_record(make_answer(calls=calls)), "request": line["request"]}


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
    line = encodable_answer(make_answer(started_at=moment))
    for written in (line, to_encodable(line)):
        assert decode(encode(written))["started_at"] == "2026-01-31T12:00:00.500000Z"


ELSEWHERE = datetime(2026, 1, 31, 14, 0, 0, 500_000, timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    "line",
    [
        encodable_answer(make_answer(started_at=ELSEWHERE)),
        encodable_answer(make_answer(ended_at=ELSEWHERE)),
        encodable_answer(make_answer(calls=(CallRecord(kind="ok", started_at=ELSEWHERE, duration_ms=1.0),))),
        encodable_result(make_result(timestamp=ELSEWHERE)),
    ],
    ids=["start of an answer", "end of an answer", "start of a call", "time of a result"],
)
def test_every_time_of_a_line_is_written_in_utc(line: Struct) -> None:
    text = encode(line).decode()
    assert "2026-01-31T12:00:00.500000Z" in text
    assert "+02:00" not in text


class Shape(Struct, frozen=True, omit_defaults=True):
    first: float | None
    second: int | None = None
    third: float | None = always(None)
    fourth: tuple[str, ...] = ()


def test_a_default_is_left_out_and_what_is_always_written_is_written() -> None:
    assert encode(Shape(None)) == b'{"first":null,"third":null}'
    assert to_record(Shape(None)) == {"first": None, "third": None}
    assert encode(Shape(1.5, 0, 0.5, ("a",))) == b'{"first":1.5,"second":0,"third":0.5,"fourth":["a"]}'


def subsets() -> list[type[Subset]]:
    """Return every subclass of Subset."""
    for module in pkgutil.walk_packages(agentv.storage.__path__, "agentv.storage."):
        importlib.import_module(module.name)
    return sorted(Subset.__subclasses__(), key=lambda subset: f"{subset.__module__}.{subset.__name__}")


@pytest.mark.parametrize("subset", subsets(), ids=lambda subset: f"{subset.__module__}.{subset.__name__}")
def test_a_subset_reads_only_keys_that_its_whole_writes(subset: type[Subset]) -> None:
    assert set(subset.__struct_encode_fields__) <= set(subset.WHOLE.__struct_encode_fields__)
