"""Fields that are declared as notes are in no key, wherever they are in the settings of an evaluator."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from agentv.evaluators import EVALUATORS
from agentv.scoring.keys.identity import evaluator_to_json
from agentv.scoring.keys.notes import without_notes
from agentv.types.cases import EvaluatorConfig, RubricItem

Note = Annotated[str | None, Meta(description="a remark for people", extra={"in_key": False})]


class Item(Struct, frozen=True):
    id: str
    note: Note = None


@dataclass(frozen=True)
class Rule:
    pattern: str
    why_so: str = field(default="", metadata={"in_key": False, "aliases": ("because",)})


class Settings(Struct, frozen=True):
    items: tuple[Item | str, ...] = ()
    rules: Mapping[str, Rule] = {}
    single: Item | None = None
    note: Note = None
    data: Mapping[str, Any] = {}


@pytest.mark.parametrize(
    ("written", "in_key"),
    [
        ({"note": "x"}, {}),
        ({"items": ["plain", {"id": "a", "note": "x"}]}, {"items": ["plain", {"id": "a"}]}),
        ({"single": {"id": "a", "note": "x"}}, {"single": {"id": "a"}}),
        ({"data": {"note": "x"}}, {"data": {"note": "x"}}),
        ({"items": [{"id": "note"}]}, {"items": [{"id": "note"}]}),
        ({"single": None, "unknown": 1}, {"single": None, "unknown": 1}),
    ],
)
def test_notes_are_left_out_at_any_depth(written: dict[str, Any], in_key: dict[str, Any]) -> None:
    assert without_notes(written, Settings) == in_key


def test_every_spelling_of_a_note_is_left_out() -> None:
    for spelling in ("why_so", "whySo", "because"):
        assert without_notes({"pattern": "a", spelling: "x"}, Rule) == {"pattern": "a"}


def test_members_of_a_composite_lose_their_notes() -> None:
    member = EvaluatorConfig("m", "noted", {"note": "x", "items": ["a"]})
    whole = EvaluatorConfig("c", "composite", cast(Any, {"evaluators": (member,)}))
    classes = {"noted": Settings}
    assert evaluator_to_json(whole) == {
        "name": "c",
        "type": "composite",
        "evaluators": [{"name": "m", "type": "noted", "note": "x", "items": ["a"]}],
    }
    assert evaluator_to_json(whole, classes.get) == {
        "name": "c",
        "type": "composite",
        "evaluators": [{"name": "m", "type": "noted", "items": ["a"]}],
    }


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["id", "rubrics", "a"]), inner),
    max_leaves=4,
)


@given(
    settings=st.dictionaries(st.sampled_from(["rubrics", "value", "evaluators"]), values),
    type_=st.sampled_from(sorted(EVALUATORS.canonical_names())),
)
def test_settings_without_notes_keep_their_key(settings: dict[str, Any], type_: str) -> None:
    config = EvaluatorConfig("e", type_, settings)
    assert evaluator_to_json(config, lambda name: EVALUATORS.get(name).load_settings()) == evaluator_to_json(config)


def test_a_rubric_item_is_found_within_its_evaluator() -> None:
    assert without_notes([{"id": "a", "description": "b"}], RubricItem) == [{"id": "a", "description": "b"}]
