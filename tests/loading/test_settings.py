"""Settings of plug-ins: from raw objects to the typed settings class."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pytest
from msgspec import Struct
from tests.loading.specs import SPECS, CompositeSettings, Threshold, TrajectorySettings, never_made

from agentv.loading.files.documents import Document
from agentv.loading.models.reader import Reader
from agentv.loading.models.settings import read_settings, settings_type
from agentv.registry import Spec
from agentv.types.errors import ConfigError, PluginError
from agentv.types.json_value import JsonObject, JsonValue


@dataclass(frozen=True, slots=True)
class Everything:
    text: str
    number: float = 1.0
    whole: int | None = None
    switch: bool = False
    choice: Literal["a", "b"] = field(default="a", metadata={"help": "one of two", "spellings": {"A-one": "a"}})
    texts: tuple[str, ...] = ()
    text_or_texts: str | tuple[str, ...] = field(default="", metadata={"aliases": ("words", "wordList")})
    pair: tuple[int, int] = (0, 0)
    counts: Mapping[str, int] = field(default_factory=dict)
    json: JsonValue = None
    schema: JsonObject | bool | None = None
    objects: tuple[JsonObject, ...] = ()

    def __post_init__(self) -> None:
        if self.number == 13:
            raise ValueError("`number` must not be 13")


EVERYTHING = Spec("everything", "", settings=Everything, factory=never_made)


def read(**raw: JsonValue) -> object:
    return read_settings(EVERYTHING, raw, where="here")


def refused(**raw: JsonValue) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(**raw)
    return str(caught.value).splitlines()


def test_lists_become_tuples_and_absent_settings_their_defaults() -> None:
    assert read(text="x") == Everything("x")
    assert read(text="x", texts=["a"], pair=[1, 2], counts={"a": 1}, objects=[{"a": [1]}]) == Everything(
        "x", texts=("a",), pair=(1, 2), counts={"a": 1}, objects=({"a": [1]},)
    )


def test_a_choice_between_one_and_several() -> None:
    assert read(text="x", text_or_texts="a") == Everything("x", text_or_texts="a")
    assert read(text="x", words=["a", "b"]) == Everything("x", text_or_texts=("a", "b"))
    assert read(text="x", wordList="a") == read(text="x", word_list="a") == Everything("x", text_or_texts="a")


def test_a_value_may_be_spelled_as_others_spell_it() -> None:
    assert read(text="x", choice="A-one") == Everything("x", choice="a")
    assert refused(text="x", choice="B-one") != []


def test_names_that_python_classes_use_are_ordinary_settings() -> None:
    assert read(text="x", json=[1, None], schema={"type": "object"}) == Everything(
        "x", json=[1, None], schema={"type": "object"}
    )
    assert read(text="x", schema=True) == Everything("x", schema=True)


def test_whole_numbers_are_numbers_and_nothing_else_is_converted() -> None:
    assert read(text="x", number=2) == Everything("x", number=2.0)
    assert refused(text=1, number="2", whole=1.5, switch=1, choice="c", texts="a", counts={"a": True}) == [
        "here  $.text  must be a string, but is a number; put it in quotes",
        "here  $.number  must be a number, but is a string; remove the quotes",
        "here  $.whole  must be a whole number, but is the fraction 1.5",
        "here  $.switch  must be true or false, but is a number",
        "here  $.choice  'c' is not allowed here; allowed: a, b",
        'here  $.texts  must be a list, but is a string; write it as a list: ["…"]',
        "here  $.counts.a  must be a whole number, but is true",
    ]


def test_a_list_of_the_wrong_length() -> None:
    assert refused(text="x", pair=[1]) == ["here  $.pair  item 2 is missing"]
    assert refused(text="x", pair=[1, 2, 3]) == ["here  $.pair  must have at most 2 items"]


def test_a_dataclass_refuses_a_value_at_its_own_key() -> None:
    assert refused(text="x", number=13) == ["here  $.number  `number` must not be 13"]


def test_unknown_and_missing_keys() -> None:
    (missing, unknown) = refused(txt="x")
    assert missing == "here  $  the key 'text' is missing"
    assert unknown.startswith("here  $.txt  unknown key 'txt'; allowed: text, number, whole")
    assert unknown.endswith("did you mean 'text'?")


def test_nested_dataclasses_are_distinguished_by_their_type() -> None:
    composite = SPECS.evaluators.get("composite")
    made = read_settings(composite, {"evaluators": [], "aggregator": {"type": "threshold", "atLeast": 2}}, where="here")
    assert made == CompositeSettings((), Threshold("threshold", 2))


def test_lists_of_dataclasses() -> None:
    spec = SPECS.evaluators.get("tool_trajectory")
    made = read_settings(spec, {"expected": [{"tool": "a", "args": {"x": 1}}]}, where="here")
    assert isinstance(made, TrajectorySettings)
    assert [call.tool for call in made.expected] == ["a"]


def test_a_plug_in_that_cannot_be_imported_says_so() -> None:
    spec = Spec("lost", "", settings="agentv.nowhere:Settings", factory=never_made)
    with pytest.raises(PluginError, match="cannot load"):
        read_settings(spec, {}, where="here")


class FirstPart(Struct):
    size: int = 0


class SecondPart(Struct):
    name: str = ""


class AmbiguousSettings(Struct):
    part: FirstPart | SecondPart


def test_a_settings_class_with_an_ambiguous_choice_is_an_error() -> None:
    spec = Spec("ambiguous", "", settings=AmbiguousSettings, factory=never_made)
    with pytest.raises(
        PluginError, match="ambiguous: the settings class AmbiguousSettings cannot be used: the choices"
    ):
        read_settings(spec, {"part": {"size": 1}}, where="here")
    reader = Reader(Document("here", {}))
    assert settings_type(reader, ("type",), spec) is None
    assert "each class needs a field `type`" in reader.problems[0].message
