"""`field_accuracy`: fields of a JSON answer compared with those of the reference."""

import json
from datetime import date
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.judging import CASE, evaluator_of, make_context

from agentv.evaluators.rules.field_accuracy import read_date
from agentv.types.evaluation import EvaluationScore
from agentv.types.messages import Message

EXPECTED = {"number": "A-7", "total": 40, "paid": "2025-01-15", "lines": [{"sum": 1}], "none": None}


def score(candidate: str, *fields: dict[str, Any], expected: Any = EXPECTED, **settings: Any) -> EvaluationScore:
    case = replace(CASE, expected_messages=(Message("assistant", expected),) if expected is not None else ())
    context = make_context(candidate, eval_case=case, reference_answer=None, ground_truth=None)
    made = evaluator_of("field_accuracy", fields=list(fields), **settings).evaluate(context)
    assert isinstance(made, EvaluationScore)
    return made


def test_fields_count_by_their_weights() -> None:
    made = score('{"number": "A-7", "total": 41}', {"path": "number", "weight": 3}, {"path": "total"})
    assert (made.score, made.hits, made.misses) == (0.75, ("number",), ("total: expected 40, got 41",))


def test_all_or_nothing_needs_every_field() -> None:
    fields = ({"path": "number"}, {"path": "total"})
    assert score(json.dumps(EXPECTED), *fields, aggregation="all_or_nothing").score == 1.0
    assert score('{"number": "A-7"}', *fields, aggregation="all_or_nothing").score == 0.0


def test_paths_reach_into_lists() -> None:
    assert score('{"lines": [{"sum": 1}]}', {"path": "lines[0].sum"}).score == 1.0
    assert score('{"lines": []}', {"path": "lines[0].sum"}).misses == ("lines[0].sum: missing",)


def test_a_field_without_an_expected_value_passes() -> None:
    assert score("{}", {"path": "other"}).hits == ("other: nothing expected",)


def test_null_is_a_value_like_any_other() -> None:
    assert score('{"none": null}', {"path": "none"}).score == 1.0
    assert score('{"none": 0}', {"path": "none"}).score == 0.0


def test_a_missing_optional_field_does_not_count() -> None:
    made = score('{"number": "B"}', {"path": "number"}, {"path": "total", "required": False})
    assert made.score == 0.0


@pytest.mark.parametrize(
    ("given", "settings", "expected"),
    [
        (40.5, {"tolerance": 0.5}, 1.0),
        (40.6, {"tolerance": 0.5}, 0.0),
        (42, {"tolerance": 0.05, "relative": True}, 1.0),
        (42.1, {"tolerance": 0.05, "relative": True}, 0.0),
        ("40 euros", {}, 1.0),
        ("none", {}, 0.0),
        (True, {"tolerance": 100}, 0.0),
    ],
)
def test_numbers_may_differ_by_a_tolerance(given: Any, settings: dict[str, Any], expected: float) -> None:
    field = {"path": "total", "match": "numeric_tolerance", **settings}
    assert score(json.dumps({"total": given}), field).score == expected


@pytest.mark.parametrize(
    ("text", "formats", "expected"),
    [
        ("2025-01-15", (), date(2025, 1, 15)),
        ("2025-01-15T23:10:00Z", (), date(2025, 1, 15)),
        ("15-JAN-2025", (), date(2025, 1, 15)),
        ("01/15/2025", (), date(2025, 1, 15)),
        ("15/01/2025", (), date(2025, 1, 15)),
        ("03/04/2025", (), date(2025, 3, 4)),
        ("03/04/2025", ("DD/MM/YYYY",), date(2025, 4, 3)),
        ("03-04-2025", ("MM-DD-YYYY",), date(2025, 3, 4)),
        ("31/02/2025", (), None),
        ("soon", (), None),
    ],
)
def test_dates_are_read_in_the_common_forms(text: str, formats: tuple[str, ...], expected: date | None) -> None:
    assert read_date(text, formats) == expected


def test_days_are_compared_not_texts() -> None:
    assert score('{"paid": "15-JAN-2025"}', {"path": "paid", "match": "date"}).score == 1.0


@pytest.mark.parametrize("answer", ['```json\n{"total": 40}\n```', 'Here it is: {"total": 40}. Done.'])
def test_json_inside_text_is_read(answer: str) -> None:
    assert score(answer, {"path": "total"}).score == 1.0


def test_an_answer_without_json_scores_nothing() -> None:
    made = score("no idea", {"path": "total"})
    assert (made.score, made.misses) == (0.0, ('expected JSON, got "no idea"',))


def test_a_case_without_a_reference_scores_nothing() -> None:
    made = score("{}", {"path": "total"}, expected=None)
    assert (made.score, made.misses) == (0.0, ("the case has no reference answer in JSON to compare with",))
