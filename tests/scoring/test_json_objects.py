import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.judge_replies.json_objects import find_objects, last_object

OBJECTS = st.dictionaries(
    st.text(max_size=5), st.integers(-(2**53), 2**53) | st.text(max_size=5) | st.booleans(), min_size=1, max_size=4
)


@given(st.lists(OBJECTS, max_size=5), st.text(alphabet="ab 1\n,;"))
def test_all_objects_are_found_in_order(objects: list[dict[str, object]], between: str) -> None:
    text = between.join(json.dumps(each) for each in objects)
    assert list(find_objects(text).objects) == objects


@given(st.lists(OBJECTS, min_size=1, max_size=4), st.text(alphabet="log 1:[]{\"'\n"), st.text(alphabet="done 1\n"))
def test_the_last_whole_object_counts(objects: list[dict[str, object]], before: str, after: str) -> None:
    text = before + "\n" + "\n".join(json.dumps(each, indent=2) for each in objects) + after
    assert last_object(text) == objects[-1]


@pytest.mark.parametrize("text", ["", "no braces", "}", "{", '{"a": 1', "{'a': 1}", "}{", "[1]"])
def test_without_an_object_there_is_none(text: str) -> None:
    assert last_object(text) is None


def test_an_outer_object_is_last_not_what_it_holds() -> None:
    assert last_object('{"a": {"b": [{"c": 1}]}}') == {"a": {"b": [{"c": 1}]}}


@pytest.mark.parametrize("text", ["{}}" * 100_000, "{" * 300_000 + "}", '{"a":' * 50_000 + "}" * 50_000])
def test_a_hostile_output_is_searched_at_once(text: str) -> None:
    started = time.process_time()
    last_object(text)
    assert time.process_time() - started < 10


@pytest.mark.parametrize("depth", [10, 63])
def test_objects_are_read_to_a_depth_that_can_be_walked_again(depth: int) -> None:
    assert len(find_objects('{"a":' * depth + "1" + "}" * depth).objects) == 1


def test_an_object_nested_too_deep_is_not_read_whole() -> None:
    outermost = find_objects('{"a":' * 500 + "1" + "}" * 500).objects[0]
    assert len(json.dumps(outermost)) < 1000
