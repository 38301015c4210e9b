"""Encoding: values that JSON or UTF-8 cannot represent are replaced, so that no value can end a run."""

import math
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from tests.support.strategies import json_objects

from agentv.storage.records.json_line import decode, encode, pretty, to_encodable
from agentv.types.json_value import JsonObject, JsonValue


def numpy_like(number: float) -> Any:
    """Return a number like NumPy's: of a subclass of float, which the encoder does not know."""
    return type("float64", (float,), {})(number)


@given(json_objects)
def test_what_is_written_is_read(value: JsonObject) -> None:
    assert decode(encode(value)) == value
    assert decode(pretty(value)) == value


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, numpy_like(math.nan)])
def test_a_number_that_is_not_finite_is_not_known(number: float) -> None:
    assert decode(encode({"a": [number, 1.5]})) == {"a": [None, 1.5]}
    assert decode(encode({"a": [number, 1.5], "half": "\ud800"})) == {"a": [None, 1.5], "half": "\ufffd"}


def test_null_itself_and_the_word_null_are_fine() -> None:
    value = {"a": None, "b": "null", "c": [None, 1.5]}
    assert decode(encode(value)) == value


def test_half_a_character_becomes_the_replacement_character() -> None:
    assert decode(encode({"a\ud800": ["x\udfffy", 1]})) == {"a\ufffd": ["x\ufffdy", 1]}


def test_whole_characters_beside_a_half_one_stay() -> None:
    assert decode(encode({"a": "\ud800 \U0001f600 é"})) == {"a": "\ufffd \U0001f600 é"}


def test_integers_of_any_size_survive() -> None:
    assert decode(encode({"n": 10**40})) == {"n": 10**40}


def test_any_mapping_is_an_object() -> None:
    assert decode(encode({"a": MappingProxyType({"b": (1, 2)})})) == {"a": {"b": [1, 2]}}


class Sly(dict[str, JsonValue]):
    def items(self) -> Any:
        raise RuntimeError("no access")


def cycle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (object(), "[object: no JSON value]"),
        (Sly(a=1), {"a": 1}),
        ([Sly(a=1), "\ud800"], ["[Sly: no JSON value]", "\ufffd"]),
        ([10**5000], ["[int: no JSON value]"]),
        (type("Text", (str,), {})("x"), "x"),
        (type("Count", (int,), {})(7), 7),
        (numpy_like(0.5), 0.5),
        (Fraction(1, 4), 0.25),
        ({7: "x"}, {"7": "x"}),
    ],
)
def test_what_is_no_json_costs_its_own_place_only(value: Any, kept: Any) -> None:
    assert decode(encode({"before": 1, "a": value, "after": [2]})) == {"before": 1, "a": kept, "after": [2]}


def test_an_object_that_holds_itself_is_cut_off() -> None:
    line = encode({"a": cycle(), "b": 1})
    assert decode(line)["b"] == 1
    assert b"[too deep or too large to store]" in line


def test_an_object_that_holds_itself_twice_does_not_grow_without_end() -> None:
    twice: list[Any] = []
    twice += [twice, twice]
    assert len(encode(to_encodable(twice, most=1000))) < 100_000


def test_a_line_that_is_no_object_is_refused() -> None:
    with pytest.raises(ValueError, match="must hold a JSON object"):
        decode(b"[1]")
