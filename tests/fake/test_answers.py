"""The replies of the fake model, without a server."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.fake.answers import answer, embed, example_object, example_of
from agentv.fake.api import Question, Tool, Turn, count_tokens

LOOKUP = Tool("lookup", {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]})
NOTE = Tool("note", {"type": "object", "properties": {"text": {"type": "string"}}})


def asking(*said: str, model: str = "fake", **more: Any) -> Question:
    return Question(model, tuple(Turn("user", text) for text in said), **more)


def after_tool(question: Question, *results: str) -> Question:
    turns = (*question.turns, *(Turn("tool", result) for result in results))
    return Question(question.model, turns, question.tools, question.must_call)


def test_it_repeats_the_last_thing_the_user_said() -> None:
    assert answer(asking("first", "second")).text == "You said: second"


def test_it_says_the_same_every_time() -> None:
    assert answer(asking("hello", model="calls-tool", tools=(LOOKUP,))) == answer(
        asking("hello", model="calls-tool", tools=(LOOKUP,))
    )


def test_long_questions_are_repeated_in_part() -> None:
    assert answer(asking("word " * 1000)).text == "You said: " + "word " * 60


def test_a_limit_of_tokens_cuts_the_reply() -> None:
    said = answer(asking("a long question", max_tokens=3))
    assert (said.text, said.finish, said.output_tokens) == ("You said: a ", "length", 3)


def test_only_the_model_that_calls_tools_calls_one() -> None:
    assert answer(asking("hi", tools=(LOOKUP,))).tool_uses == ()
    called = answer(asking("hi", model="calls-tool", tools=(LOOKUP, NOTE)))
    assert [(use.name, use.arguments) for use in called.tool_uses] == [("lookup", {"order": 1})]
    assert (called.text, called.finish) == ("", "tool")


def test_a_fault_behind_its_name_does_not_change_the_model() -> None:
    assert answer(asking("hi", model="calls-tool@429-x1", tools=(LOOKUP,))).tool_uses != ()


def test_a_demanded_tool_is_called_by_any_model() -> None:
    assert answer(asking("hi", tools=(LOOKUP, NOTE), must_call="note")).tool_uses[0].name == "note"
    assert answer(asking("hi", tools=(LOOKUP, NOTE), must_call="")).tool_uses[0].name == "lookup"


def test_after_the_tool_has_answered_it_answers() -> None:
    question = asking("hi", model="calls-tool", tools=(LOOKUP,))
    assert answer(after_tool(question, '{"total": 20}')).text == 'The tool answered: {"total": 20}'


def test_a_schema_gets_an_example_of_it() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    assert json.loads(answer(asking("hi", schema=schema)).text) == {"city": "some city"}


SCRIPT = 'Please do this:\n@call lookup {"order": 7}\n@call note\n@say All done.\nThank you.'


def test_steps_in_what_the_user_says_are_taken_one_by_one() -> None:
    question = asking(SCRIPT, tools=(LOOKUP, NOTE))
    first, second = answer(question), answer(after_tool(question, "ok"))
    assert [(use.name, use.arguments) for use in first.tool_uses] == [("lookup", {"order": 7})]
    assert [(use.name, use.arguments) for use in second.tool_uses] == [("note", {"text": "some text"})]
    assert first.tool_uses[0].id != second.tool_uses[0].id
    assert answer(after_tool(question, "ok", "ok")).text == "All done."


def test_steps_go_on_when_the_client_adds_words_of_its_own() -> None:
    question = asking(SCRIPT, tools=(LOOKUP, NOTE))
    turns = (*question.turns, Turn("tool", "ok"), Turn("user", "Remember the time."), Turn("tool", "ok"))
    assert answer(Question("fake", turns)).text == "All done."


def test_calls_without_last_words_end_with_what_the_tool_said() -> None:
    question = asking("@call lookup {}")
    assert answer(after_tool(question, "done")).text == "The tool answered: done"


def test_a_step_that_is_no_json_is_said() -> None:
    assert answer(asking("@call lookup {order: 7}")).text.startswith("The arguments of @call lookup are not valid JSON")


def test_four_characters_are_a_token() -> None:
    assert [count_tokens("x" * count) for count in (0, 1, 4, 5)] == [0, 1, 1, 2]


SCALARS = st.one_of(
    st.builds(lambda low: {"type": "integer", "minimum": low}, st.integers(-9, 9)),
    st.builds(lambda high: {"type": "number", "maximum": high}, st.integers(-9, 9)),
    st.builds(lambda low: {"type": "integer", "exclusiveMinimum": low}, st.integers(-9, 9)),
    st.builds(
        lambda low, more: {"type": "string", "minLength": low, "maxLength": low + more}, *[st.integers(0, 30)] * 2
    ),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"enum": ["a", "b"]}, {"const": 3}, {"type": ["string"]}]),
)
SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.builds(lambda items, low: {"type": "array", "items": items, "minItems": low}, inner, st.integers(0, 3)),
        st.builds(lambda one, two: {"anyOf": [one, two]}, inner, inner),
        st.builds(
            lambda properties: {"type": "object", "properties": properties, "required": sorted(properties)[:2]},
            st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
        ),
    ),
    max_leaves=8,
)


@given(SCHEMAS)
def test_an_example_keeps_to_its_schema(schema: dict[str, Any]) -> None:
    jsonschema.validate(example_of(schema), schema)


def test_references_are_followed_and_do_not_go_on_for_ever() -> None:
    tree: dict[str, Any] = {
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        "$ref": "#/$defs/node",
    }
    assert "next" in example_object(tree)


def test_required_properties_are_enough_and_without_any_all_are_given() -> None:
    properties = {"a": {"type": "integer"}, "b": {"type": "boolean"}}
    assert example_object({"properties": properties, "required": ["b"]}) == {"b": True}
    assert example_object({"properties": properties}) == {"a": 1, "b": True}


def dot(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def test_texts_that_share_words_lie_closer_together() -> None:
    refund, money, cat = (embed(text) for text in ("the refund was paid", "a refund was due", "cats sleep all day"))
    assert dot(refund, money) > dot(refund, cat)


@given(st.text(), st.integers(1, 64))
def test_a_vector_has_length_one_and_the_requested_dimensions(text: str, dimensions: int) -> None:
    vector = embed(text, dimensions)
    assert len(vector) == dimensions
    assert dot(vector, vector) == pytest.approx(1.0) or set(vector) == {0.0}
