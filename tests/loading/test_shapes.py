"""Files are read by pydantic's core alone: whatever stands in one, the whole of pydantic says the same of it."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import pytest
from pydantic import Field

from agentv.loading.documents import Document
from agentv.loading.eval_models import CaseModel, CriterionModel, EvaluatorModel, MessageModel, SuiteModel
from agentv.loading.json_shapes import adapter_of
from agentv.loading.marks import Limits
from agentv.loading.project import ProjectModel
from agentv.loading.reader import Reader
from agentv.loading.run_configs import RunConfigModel
from agentv.loading.shape_fields import names_of
from agentv.loading.shapes import reader_of
from agentv.loading.spellings import SpellingNotes
from agentv.loading.target_models import RetryModel, TargetModel
from agentv.pipeline.plugin_loading import load_specs
from agentv.types.errors import PluginError
from agentv.types.json_value import JsonValue
from agentv.types.problems import Problem

MODELS: tuple[type, ...] = (
    *(SuiteModel, CaseModel, MessageModel, EvaluatorModel, CriterionModel),
    *(TargetModel, RetryModel, ProjectModel, RunConfigModel),
)
VALUES = 200
_PLAIN: tuple[JsonValue, ...] = (None, True, False, 0, 1, -1, 2.5, float("inf"), "", "a", "4", "yes", "mean", "user")


def settings() -> list[type]:
    specs = load_specs()
    found: list[type] = []
    for spec in (*specs.providers, *specs.evaluators):
        try:
            found.append(spec.load_settings())
        except PluginError:  # its extra is not installed
            continue
    return list(dict.fromkeys(found))


def drawn(chance: random.Random, names: tuple[str, ...], depth: int = 0) -> JsonValue:
    """Return any JSON: objects with keys that are known, now and then another."""
    kind = chance.choice(("plain", "plain", "list", "object")) if depth else "object"
    if depth > 2 or kind == "plain":
        return chance.choice(_PLAIN)
    if kind == "list":
        return [drawn(chance, names, depth + 1) for _ in range(chance.randrange(3))]
    keys = chance.sample(names, min(len(names), chance.randrange(1, 5)))
    return {key: drawn(chance, names, depth + 1) for key in (*keys, *(["other"] if chance.random() < 0.1 else []))}


def result_of(read: Callable[[object, SpellingNotes], object], raw: JsonValue) -> tuple[object, list[Problem]]:
    reader = Reader(Document("here", raw))
    return reader.validate(partial(read, raw), raw, ()), reader.problems


@pytest.mark.parametrize("kind", [*MODELS, *settings()], ids=lambda kind: kind.__name__)
def test_a_value_is_read_and_refused_as_by_the_whole_of_pydantic(kind: type) -> None:
    chance = random.Random(kind.__name__)
    names = (*names_of(kind).spellings, "type", "config", "contains", "name")
    adapter = adapter_of(kind)
    refused = 0
    for _ in range(VALUES):
        raw = drawn(chance, names)
        ours, usual = (
            result_of(read, raw)
            for read in (
                cast(Any, reader_of(kind)),
                lambda value, notes: adapter.validate_python(value, context=notes),
            )
        )
        assert ours == usual, raw
        refused += bool(ours[1])
    assert refused > 0


def test_a_reader_that_is_not_strict_is_found_out() -> None:
    @dataclass(frozen=True)
    class Loose:
        count: Annotated[int, Limits(ge=1)]

    def loose(raw: object, _notes: SpellingNotes) -> object:
        return Loose(int(cast(Any, raw)["count"]))

    assert result_of(loose, {"count": "4"}) != result_of(reader_of(Loose), {"count": "4"})


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Unusual:
    """What a plug-in's author may write, who knows pydantic."""

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
