"""Parameters of tests have ids that say what they are."""

from enum import Enum

import pytest
from tests.support.judging import make_context
from tests.support.parameter_ids import parameter_id


class Colour(Enum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("in short", "in short"),
        ("two\n  lines", "two lines"),
        ("x" * 61, f"{'x' * 57}..."),
        ({"max": 3, "of": ["a", None]}, "max=3, of=a, None"),
        ({"b", "a"}, "a, b"),
        ([], "()"),
        ([[[[["deep"]]]]], "..."),
        (b"\xff\x00 bytes", "\\xff\\x00 bytes"),
        ("half a pair: \ud800, é", "half a pair: \\ud800, é"),
        (ValueError("no number"), "ValueError: no number"),
        (parameter_id, "parameter_id"),
    ],
)
def test_a_value_is_named_by_what_it_says(value: object, expected: str) -> None:
    assert parameter_id(value) == expected


def test_what_has_no_short_text_is_left_to_pytest() -> None:
    values = [Colour.RED, "", object(), lambda: None, 10**5000, make_context()]
    assert [parameter_id(value) for value in values] == [None] * len(values)
