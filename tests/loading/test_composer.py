"""The YAML composer: values with positions."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.loading.files.composer import compose
from agentv.loading.files.documents import Document, JsonPath, containers
from agentv.loading.files.json_lines import parse_json, quick_json
from agentv.types.json_value import JsonValue

texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Cn", "Co"), exclude_characters="\ufeff"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def composed(text: str) -> JsonValue:
    document, problems = compose(text, "a.yaml")
    assert problems == ()
    assert document is not None
    return document.value


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("y", "y"),
        ("2024-01-31", "2024-01-31"),
        ("12:30:45", "12:30:45"),
        ("0o17", 15),
        ("0x1F", 31),
        ("017", 17),
        ("0b101", "0b101"),
        ("1_000", "1_000"),
        ("1e3", 1000.0),
        ("+12", 12),
        (".5", 0.5),
        ("5.", 5.0),
        ("-1.5E-2", -0.015),
        ("True", True),
        ("FALSE", False),
        ("tRUE", "tRUE"),
        ("~", None),
        ("NULL", None),
        ("", None),
        ("'7'", "7"),
        ('"true"', "true"),
        ("|-\n  7", "7"),
        ("=", "="),
    ],
)
def test_plain_scalars_mean_what_yaml_1_2_says(written: str, meant: JsonValue) -> None:
    value = composed(f"value: {written}\n")
    assert value == {"value": meant}
    assert type(value["value"]) is type(meant)


@given(json_values)
def test_json_is_yaml_and_means_the_same(value: JsonValue) -> None:
    assert composed(json.dumps(value, ensure_ascii=False)) == value
    assert composed(json.dumps(value, ensure_ascii=False, indent=2)) == value


@given(json_values)
def test_json_lines_are_read_alike_by_the_quick_and_the_exact_way(value: JsonValue) -> None:
    text = json.dumps(value)
    quick, (exact, problems) = quick_json(text, "a.jsonl", 1), parse_json(text, "a.jsonl", 1)
    assert quick is not None
    assert exact is not None
    assert quick.value == exact.value == value
    assert problems == ()


@given(json_values)
def test_every_place_in_yaml_is_where_the_value_starts(value: JsonValue) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    document, _ = compose(text, "a.yaml")
    assert document is not None
    check_places(document, text)


@given(json_values)
def test_every_place_in_a_json_line_is_where_the_value_starts(value: JsonValue) -> None:
    text = json.dumps(value, ensure_ascii=False)
    document, _ = parse_json(text, "a.jsonl", 1)
    assert document is not None
    check_places(document, text)


def check_places(document: Document, text: str) -> None:
    lines = text.split("\n")
    for path, container in containers(document.value):
        keys = list(container) if isinstance(container, dict) else range(len(container))  # type: ignore[arg-type] # a list
        for key in keys:
            at: JsonPath = (*path, key)
            line, column = document.mark(at)
            starts = json.dumps(document.at(at), ensure_ascii=False)[:1]
            assert lines[line - 1][column - 1] == starts
            if isinstance(key, str):
                line, column = document.mark(at, on_key=True)
                assert lines[line - 1][column - 1 :].startswith(json.dumps(key, ensure_ascii=False))


@given(st.text() | st.text(st.sampled_from("[]{}:,-?&*!|>'\"#%@`ab1 \n\t<~.")))
def test_any_text_is_read_or_reported_with_a_position(text: str) -> None:
    for document, problems in (compose(text, "a.yaml"), parse_json(text, "a.jsonl", 1)):
        assert document is not None or problems
        assert all(problem.line > 0 and problem.column > 0 for problem in problems)


def test_merge_keys_bring_entries_in_and_what_is_written_here_wins() -> None:
    text = """
base: &base {a: 1, b: 2}
more: &more {b: 3, c: 4}
one: {<<: *base, b: 9}
two: {<<: [*base, *more], d: 5}
quoted: {"<<": text}
"""
    value = composed(text)
    assert isinstance(value, dict)
    assert value["one"] == {"b": 9, "a": 1}
    assert value["two"] == {"d": 5, "a": 1, "b": 2, "c": 4}
    assert value["quoted"] == {"<<": "text"}


def test_a_merged_entry_is_placed_where_it_was_written() -> None:
    document, _ = compose("base: &base {a: 1}\none: {<<: *base}\n", "a.yaml")
    assert document is not None
    assert document.mark(("one", "a")) == (1, 17)


def test_an_aliased_value_is_placed_where_it_was_written() -> None:
    document, _ = compose("base: &base [7]\none: *base\n", "a.yaml")
    assert document is not None
    assert document.mark(("one", 0)) == (1, 14)
    assert document.mark(("one",)) == (2, 6)


def test_what_is_not_there_is_placed_at_what_is_around_it() -> None:
    document, _ = compose("a:\n  b: {c: 1}\n", "a.yaml")
    assert document is not None
    assert document.mark(("a", "b", "x", "y")) == (2, 6)
    assert document.mark(("z",)) == (1, 1)


def test_columns_count_characters_not_bytes() -> None:
    document, _ = compose("{é: 'äöü', 😀: [x]}\n", "a.yaml")
    assert document is not None
    assert document.mark(("😀", 0)) == (1, 16)


def test_numbers_that_json_cannot_hold_are_refused() -> None:
    for text in (".inf", "-.Inf", ".NaN", "1e999"):
        document, problems = compose(f"a: {text}", "a.yaml")
        assert len(problems) == 1
        assert document is not None
        assert document.value == {"a": None}
    assert quick_json('{"a": NaN}', "a.jsonl", 1) is None
    assert quick_json('{"a": 1e999}', "a.jsonl", 1) is None


def test_half_a_surrogate_pair_in_a_json_line_is_a_located_problem() -> None:
    text = '{"a": "\\ud83d\\ude00", "b": "\\ud83d"}'
    assert quick_json(text, "a.jsonl", 3) is None
    document, problems = parse_json(text, "a.jsonl", 3)
    assert document is not None
    assert document.at(("a",)) == "😀"
    assert [problem.render() for problem in problems] == [
        "a.jsonl:3:28  $.b  half of a surrogate pair is not a character"
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"a": 1,}', "1:9  $  this line is not valid JSON: a key in double quotes is missing here"),
        (
            "{",
            "1:2  $  this line is only the beginning of a JSON value: write each on one line, or name the file .json",
        ),
        ("{'a': 1}", "1:2  $  this line is not valid JSON: a key in double quotes is missing here"),
        ('{"a" 1}', "1:6  $  this line is not valid JSON: a ':' is missing here"),
        ('{"a": 1 "b": 2}', "1:9  $  this line is not valid JSON: a ',' is missing here"),
        ('{"a": }', "1:7  $  this line is not valid JSON: a value is missing here"),
        ('{"a": "x', "1:7  $  this line is not valid JSON: the string that starts here is not closed"),
        ('{"a": [1, 2', "1:12  $  this line is not valid JSON: a ',' is missing here"),
        ('{"a": 1} {"b": 2}', "1:10  $  this line is not valid JSON: unexpected text after the end of the object"),
        ('{"a": 1, "a": 2}', "1:10  $.a  the key 'a' appears twice"),
        ('{"a": NaN}', "1:7  $.a  NaN is not allowed"),
        ('{"a": [1e999, 2]}', "1:8  $.a[0]  this number is too large"),
        ('{"a": "\\x"}', "1:8  $  this line is not valid JSON: '\\' starts an unknown escape sequence"),
        ("[" * 200 + "]" * 200, "1:101  $  this line is not valid JSON: nested more than 100 levels deep"),
    ],
)
def test_a_wrong_json_line_is_reported_with_its_column(line: str, said: str) -> None:
    assert quick_json(line, "a.jsonl", 1) is None
    _, problems = parse_json(line, "a.jsonl", 1)
    assert [problem.render() for problem in problems] == [f"a.jsonl:{said}"]


def test_the_naive_reader_of_yaml_changes_what_people_wrote() -> None:
    import yaml  # noqa: PLC0415 - only used for comparison

    assert yaml.safe_load("answer: no") == {"answer": False}
    assert math.isinf(yaml.safe_load("a: .inf")["a"])
    assert yaml.safe_load("a: 1\na: 2") == {"a": 2}
    assert composed("answer: no") == {"answer": "no"}


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r", "\x85", "\u2028", "\u2029"])
def test_wrong_character_is_named_after_any_line_break(line_break: str) -> None:
    document, problems = compose(f'a: "x{line_break}y"\nb: @c', "a.yaml")
    assert document is None
    assert [problem.message for problem in problems] == ["the character '@' cannot start a value"]
