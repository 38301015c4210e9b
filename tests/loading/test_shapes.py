"""Readers of files and settings: what they take and refuse, and the JSON Schemas written from them."""

import dataclasses
import random
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import jsonschema
import pytest
from msgspec import Meta
from pydantic import Field, PydanticUserError

from agentv.engine.plugins.loading import load_specs
from agentv.loading.criteria.run_configs import RunConfigModel
from agentv.loading.files.documents import Document
from agentv.loading.models.core_schema import reader_of
from agentv.loading.models.eval_files import CaseModel, EvaluatorModel, SuiteModel
from agentv.loading.models.file_model import SpellingNotes, file_fields, has_members, key_of, names_of
from agentv.loading.models.reader import Reader
from agentv.loading.models.targets_files import RetryModel, TargetModel
from agentv.loading.project import ProjectModel
from agentv.loading.schemas import describe, rewritten
from agentv.types.errors import PluginError
from agentv.types.json_value import JsonValue
from agentv.types.messages import Message
from agentv.types.problems import Problem
from agentv.types.structs import has_fields

MODELS: tuple[type, ...] = (
    *(SuiteModel, CaseModel, Message, EvaluatorModel),
    *(TargetModel, RetryModel, ProjectModel, RunConfigModel),
)
VALUES = 300
_PLAIN: tuple[JsonValue, ...] = (None, True, False, 0, 1, -1, 2.5, float("inf"), "", "a", "4", "yes", "mean", "user")
_GOOD: dict[object, tuple[JsonValue, ...]] = {
    str: ("a", "https://host.example/v1", "https://host.example/{{ question }}", "echo {PROMPT}", "$.a"),
    int: (1, 3),
    float: (0.5, 1),
    bool: (True, False),
    type(None): (None,),
}


def settings() -> list[type]:
    specs = load_specs()
    found: list[type] = []
    for spec in (*specs.providers, *specs.evaluators):
        try:
            found.append(spec.load_settings())
        except PluginError:  # its extra is not installed
            continue
    return list(dict.fromkeys(found))


def fitting(hint: Any, chance: random.Random) -> JsonValue:
    """Return a value of a type; objects have all required keys and some others, in any spelling."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _GOOD:
        return chance.choice(_GOOD[hint])
    if has_fields(hint):
        return fitting_object(cast(type, hint), chance)
    if origin is Annotated:
        return fitting(arguments[0], chance)
    if origin is Literal:
        return cast(JsonValue, chance.choice(arguments))
    if origin in (Union, types.UnionType):
        return fitting(chance.choice(arguments), chance)
    if origin is tuple and ... not in arguments:
        return [fitting(item, chance) for item in arguments]
    if origin in (tuple, list, Sequence):
        return [fitting(arguments[0], chance) for _ in range(chance.randrange(1, 3))]
    if origin in (dict, Mapping):
        return {"k": fitting(arguments[1], chance)}
    return chance.choice(("a", 1, ["a"], {"a": None}))


def fitting_object(kind: type, chance: random.Random) -> dict[str, JsonValue]:
    spellings = names_of(kind).spellings
    made: dict[str, JsonValue] = {}
    for each in file_fields(kind):
        if each.is_required or chance.random() < 0.2:
            key = key_of(each)
            written = chance.choice([name for name, ours in spellings.items() if ours == key])
            others = each.extra.get("spellings", {})
            value = fitting(tuple[Any, ...] if has_members(each) else each.type, chance)
            made[written] = chance.choice(sorted(others)) if others and chance.random() < 0.5 else value
    return made


def damaged(value: JsonValue, chance: random.Random) -> JsonValue:
    """Return a value with one thing in it replaced, left out or added."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(sorted(value))
        rest = {name: inner for name, inner in value.items() if name != key}
        if chance.random() < 0.2:
            return rest
        return {**rest, ("other" if chance.random() < 0.1 else key): damaged(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.8:
        place = chance.randrange(len(value))
        return [*value[:place], damaged(value[place], chance), *value[place + 1 :]]
    return chance.choice((*_PLAIN, [], {}, ["a"], [1], {"a": 1}, {"type": "a"}))


def result_of(read: Callable[[object, SpellingNotes], object], raw: JsonValue) -> tuple[object, list[Problem]]:
    reader = Reader(Document("here", raw))
    return reader.validate(partial(read, raw), raw, ()), reader.problems


@pytest.mark.parametrize("kind", [*MODELS, *settings()], ids=lambda kind: kind.__name__)
def test_json_schema_allows_what_the_reader_takes(kind: type) -> None:
    chance = random.Random(kind.__name__)
    schema = rewritten(describe(kind), lambda part: {} if "$ref" in part else part)
    validator = jsonschema.Draft202012Validator(schema)
    taken = refused = 0
    for number in range(VALUES):
        raw: JsonValue = fitting_object(kind, chance)
        if number % 2:
            raw = damaged(raw, chance)
        made, problems = result_of(reader_of(kind), raw)
        assert made is None or validator.is_valid(raw), raw
        taken += made is not None
        refused += bool(problems)
    assert refused
    assert taken


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Unusual:
    """Settings as an author of plug-ins who knows pydantic may write them."""

    colour: Colour
    folder: Path = Path()
    size: Annotated[int, Field(le=3)] = 1
    mode: Literal["a", "b"] = field(default="a", metadata={"aliases": ("kind",)})


def test_types_that_are_not_known_here_are_left_to_pydantic() -> None:
    read = reader_of(Unusual)
    assert read({"colour": Colour.RED, "kind": "b", "size": 3}, SpellingNotes()) == Unusual(
        Colour.RED, size=3, mode="b"
    )
    made, problems = result_of(read, {"colour": Colour.RED, "size": 4})  # type: ignore[dict-item]
    assert (made, [each.message for each in problems]) == (None, ["must be at most 3"])


@dataclass(frozen=True)
class One:
    type: Literal["one"]
    size: Annotated[int | None, Meta(ge=1)] = None


@dataclass(frozen=True)
class Two:
    type: Literal["two"] = "two"


@dataclass(frozen=True)
class Untold:
    size: int = 1


def settings_of(hint: object, metadata: Mapping[str, object] | None = None) -> type:
    made = field(default=None, metadata=metadata or {})
    return dataclasses.make_dataclass("Settings", [("value", cast(type, hint), made)], frozen=True)


@pytest.mark.parametrize(
    ("hint", "raw", "value"),
    [
        (typing.List, ["a"], ["a"]),  # noqa: UP006 - the old spelling is still in use
        (list, [1], [1]),
        (Sequence, ("a",), ("a",)),
        (Sequence[str], ["a"], ["a"]),
        (Sequence[str], ("a",), ("a",)),
        (Mapping, {"a": 1}, {"a": 1}),
        (One | Two, {"type": "two"}, Two()),
        (One | None, {"type": "one", "size": 2}, One("one", 2)),
        (Path, Path("a"), Path("a")),
    ],
)
def test_what_the_types_of_a_plug_in_take(hint: object, raw: object, value: object) -> None:
    read: Any = reader_of(settings_of(hint))
    assert read({"value": raw}, SpellingNotes()).value == value


@pytest.mark.parametrize("hint", [One | Two | str, One | Untold, One | One | Untold | None])
def test_an_ambiguous_union_is_refused_when_it_is_made(hint: object) -> None:
    with pytest.raises((TypeError, PydanticUserError)):
        reader_of(settings_of(hint))


def test_a_set_has_no_order_and_is_no_list() -> None:
    _, problems = result_of(reader_of(settings_of(Sequence[str])), {"value": {"a"}})  # type: ignore[dict-item]
    assert [each.message for each in problems] == ["must be a list, but is a set"]


def test_metadata_of_a_plug_in_s_own_changes_no_key() -> None:
    read: Any = reader_of(settings_of(int, {"key": "other"}))
    assert read({"value": 1}, SpellingNotes()).value == 1


def test_what_is_given_is_the_reader_s_own() -> None:
    theirs: dict[str, JsonValue] = {"metadata": {"list": [1]}}
    model = reader_of(RunConfigModel)(theirs, SpellingNotes())
    given = model.given()
    assert given == theirs
    cast(Any, theirs)["metadata"]["list"].append(2)
    assert given == {"metadata": {"list": [1]}}


def test_a_key_that_is_no_text_is_an_unknown_one() -> None:
    _, problems = result_of(reader_of(RunConfigModel), {5: 1})  # type: ignore[dict-item]
    assert [each.message for each in problems] == ["unknown key 5"]
