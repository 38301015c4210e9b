"""Writing a line: what JSON or UTF-8 cannot hold is refused by name or made to fit, never lost in silence."""

from types import MappingProxyType

import msgspec
import pytest
from hypothesis import given
from tests.strategies import json_objects

from agentv.storage.json_line import decode, encode, pretty
from agentv.types.errors import StorageError
from agentv.types.json_value import JsonObject


@given(json_objects)
def test_what_is_written_is_read(value: JsonObject) -> None:
    assert decode(encode(value)) == value
    assert decode(pretty(value)) == value


def test_the_bare_encoder_would_turn_nan_into_null() -> None:
    assert msgspec.json.encode({"score": float("nan")}) == b'{"score":null}'
    with pytest.raises(StorageError, match=r"\$\.score is nan"):
        encode({"score": float("nan")})


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


def test_what_is_no_json_is_refused_by_its_kind() -> None:
    with pytest.raises(StorageError, match="object is no JSON value"):
        encode({"a": object()})  # type: ignore[dict-item]  # a plug-in's mistake


def test_a_line_that_is_no_object_is_refused() -> None:
    with pytest.raises(ValueError, match="must hold a JSON object"):
        decode(b"[1]")
