"""Large JSON read as a stream, without the parts that are not needed."""

import json
import random
from typing import Any

import pytest

from agentv.loading.files.json_stream import JsonLimitError, JsonLimits, parse_except

VALUE = {
    "id": 1,
    "text": 'a "quoted" \\ text, with {brackets} [and] commas, in ünïcode 🙂',
    "events": [{"id": "x}", "messages": [1, 2]}, '"', "\\"],
    "messages": [{"events": [{"a": "]"}], "text": "\\\\"}, {}, []],
    "empty": {},
    "end": None,
}
UNNEEDED = {1: {"events"}}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1 << 17])
def test_unneeded_objects_and_lists_are_null_at_any_chunk_size(size: int, indent: int | None) -> None:
    value = {**VALUE, "long": "é,{" * 100_000, "events": ["[" * 200_000, VALUE]}
    data = json.dumps(value, ensure_ascii=False, indent=indent).encode()
    data = data if size > 10 else json.dumps(VALUE, ensure_ascii=False, indent=indent).encode()
    chunks = (data[at : at + size] for at in range(0, len(data), size))
    assert parse_except(chunks, UNNEEDED, None) == {**json.loads(data), "events": None}


def test_random_json_is_read_like_json() -> None:
    chance = random.Random(7)

    def value(depth: int) -> Any:
        match chance.randrange(6 if depth else 3):
            case 0:
                return chance.choice([1, -2.5, None, True, float("nan")])
            case 1 | 2:
                return "".join(chance.choices('ab"\\,{}[]:é🙂\n', k=chance.randrange(9)))
            case 3 | 4:
                return {str(value(0)): value(depth - 1) for _ in range(chance.randrange(4))}
            case _:
                return [value(depth - 1) for _ in range(chance.randrange(4))]

    for _ in range(300):
        text = json.dumps(value(4), ensure_ascii=chance.random() < 0.5)
        expected = json.loads(text, parse_constant=lambda _: None)
        assert parse_except([text.encode()], {}, None) == expected


@pytest.mark.parametrize(
    ("text", "values"),
    [("[]", 2), ("7", 1), ('[1, 2, "a,b,c"]', 4), ('{"a": {"b": [1]}, "c": ",{"}', 5), ("[{},7]", 4)],
)
def test_number_of_values_has_a_limit(text: str, values: int) -> None:
    parse_except([text.encode()], {}, JsonLimits(values, 100, 0))
    with pytest.raises(JsonLimitError, match=f"it has more than {values - 1} values"):
        parse_except([text.encode()], {}, JsonLimits(values - 1, 100, 0))


def test_needed_bytes_have_a_limit() -> None:
    data = [b'{"events": [', b"1" * 200_000, b'], "messages": [', b"1" * 70_000, b"]}"]
    assert parse_except([*data[:2], b"]}"], UNNEEDED, JsonLimits(100, 1000, 0)) == {"events": None}
    with pytest.raises(JsonLimitError, match="more than 1 MiB of it are needed"):
        parse_except([b'{"events": "', *[b"x" * 2**16] * 40, b'"}'], {}, JsonLimits(100, 2**20, 0))


def test_objects_and_lists_that_are_not_needed_have_a_limit_of_their_own() -> None:
    text = b'{"events": [[1, 2, "[["], {"a": {}}, [[], [{"b": []}]], []]}'
    assert parse_except([text], UNNEEDED, JsonLimits(3, 100, 4)) == {"events": None}
    with pytest.raises(JsonLimitError, match="it has more than 3 nested objects and lists in parts"):
        parse_except([text], UNNEEDED, JsonLimits(3, 100, 3))


@pytest.mark.parametrize("text", ['{"a": 1', '{"a": "b', "[1, 2", '{"events": [1', "{]", "", "}", '{"a" 1}', '"\\'])
def test_invalid_json_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_except([text.encode()], UNNEEDED, None)
