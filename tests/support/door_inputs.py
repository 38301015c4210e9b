"""Inputs for all doors of agentv: one answer with its evaluators, rubric items and criteria, valid or with a fault."""

import copy
import json
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field

ANSWERS = ("Yes, within 30 days.", "", "42", '{"a": 1}', "No.\nNever.", "The answer is 42 \N{GRINNING FACE}")
REFERENCES = ("Sure, within 30 days.", "42", "The answer is 42.")
VERDICT: Mapping[str, Any] = {
    "score": 0.7,
    "hits": ["names a period"],
    "misses": ["no greeting"],
    "reasoning": "One of two.",
    "overall_reasoning": "One of two.",
    "checks": [
        {"id": id_, "satisfied": id_ in ("a", "rubric-1"), "score": 4, "reasoning": f"about {id_}"}
        for id_ in ("a", "b", "rubric-1", "rubric-2")
    ],
}
"""The judge's reply to every request: it answers each rubric item of these inputs."""
JUDGE: Mapping[str, Any] = {"provider": "mock", "response": json.dumps(VERDICT)}

_ITEMS: list[Any] = [{"id": "a", "description": "Names a period"}, {"id": "b", "description": "Greets", "weight": 2}]
_EVALUATORS: tuple[dict[str, Any], ...] = (
    {"type": "contains", "value": "days"},
    {"type": "one_of", "values": ["42", "Yes"]},
    {"type": "regex", "pattern": r"\d+"},
    {"type": "equals", "value": "42"},
    {"type": "starts_with", "value": "Yes"},
    {"type": "length", "max": 4, "unit": "words"},
    {"type": "numeric", "value": 42},
    {"type": "is_json"},
    {"type": "lexical_similarity"},
    {"type": "llm_judge"},
    {"type": "rubric", "rubrics": _ITEMS},
    {"type": "rubric", "rubrics": ["Names a period", "Greets"]},
    {"type": "rubric", "rubrics": [{"id": "a", "description": "Clear", "scale": "likert5", "min_value": 0.5}]},
    {"type": "composite", "evaluators": [{"name": "inner", "type": "regex", "pattern": "4"}]},
)
_COMMON: tuple[dict[str, Any], ...] = (
    {"weight": 0},
    {"weight": 0.5},
    {"weight": 3},
    {"negate": True},
    {"required": True},
    {"required": 0.5},
    {"required": True, "unmet": "zero"},
    {"timeout_seconds": 30},
)
_CRITERIA: tuple[dict[str, Any], ...] = (
    {"name": "polite"},
    {"name": "polite", "description": "It is polite.", "weight": 2},
    {"name": "polite", "scale": "likert5"},
    {"name": "polite", "scale": "percent"},
    {"name": "polite", "scale": "numeric", "min": 1, "max": 9},
    {"name": "polite", "scale": ["bad", "fair", "good"]},
    {"name": "polite", "scale": "grade", "labels": ["C", "B", "A"]},
)
_OF_CRITERIA = frozenset({"llm_judge", "rubric", "composite"})
"""Types that name or judge criteria themselves: with criteria they mean other things in a case than elsewhere."""


class DoorInput(Struct):
    """One answer to a question, and what judges it. `fault` names what is wrong with it; "" for a valid input."""

    answer: str
    reference: str
    evaluators: list[Any]
    rubrics: list[Any] = field(default_factory=list)
    criteria: list[Any] = field(default_factory=list)
    fault: str = ""
    question: str = "May I return it?"


def door_inputs(count: int, seed: int) -> Iterator[DoorInput]:
    """Yield inputs: each fault once, then valid ones."""
    rng = random.Random(seed)
    faults = list(_faults())
    for index in range(count):
        given = _valid_input(rng)
        if index < len(faults):
            given.fault, break_input = faults[index]
            break_input(given, rng)
        yield given


def _valid_input(rng: random.Random) -> DoorInput:
    given = DoorInput(rng.choice(ANSWERS), rng.choice(REFERENCES), [])
    for number in range(rng.randint(1, 3)):
        evaluator = {"name": f"evaluator-{number}", **copy.deepcopy(rng.choice(_EVALUATORS))}
        if rng.random() < 0.5:
            evaluator |= rng.choice(_COMMON)
        given.evaluators.append(evaluator)
    if rng.random() < 0.3 and _OF_CRITERIA.isdisjoint(each["type"] for each in given.evaluators):
        given.criteria.append(copy.deepcopy(rng.choice(_CRITERIA)))
        for evaluator in given.evaluators:
            evaluator["criterion"] = "polite"
    return given


def _faults() -> Iterator[tuple[str, Callable[[DoorInput, random.Random], None]]]:
    for key, values in _EVALUATOR_FAULTS.items():
        for value in values:
            yield f"evaluator {key}={value!r}", _set_in_evaluator(key, value)
    for key in ("name", "type"):
        yield f"evaluator without {key}", _drop_from_evaluator(key)
    for key, values in _ITEM_FAULTS.items():
        for value in values:
            item = {"id": "a", "description": "Names a period", key: value}
            yield f"item {key}={value!r}", _add_rubric([item])
            yield f"case item {key}={value!r}", _set_rubrics([item])
    for key in ("id", "description"):
        item = {name: "a" for name in ("id", "description") if name != key}
        yield f"item without {key}", _add_rubric([item])
        yield f"case item without {key}", _set_rubrics([item])
    twice = [{"id": "a", "description": "One"}, {"id": "a", "description": "Two"}]
    lists: Mapping[str, list[Any]] = {"same id": twice, "number": [3], "empty": [""], "blank": ["  "]}
    for name, items in lists.items():
        yield f"items: {name}", _add_rubric(items)
        yield f"case items: {name}", _set_rubrics(items)
    yield "items: none", _add_rubric([])
    for key, values in _CRITERION_FAULTS.items():
        for value in values:
            yield f"criterion {key}={value!r}", _set_criteria([{"name": "polite", "description": "Kind.", key: value}])
    yield "criterion without name", _set_criteria([{"description": "Kind."}])
    yield "criteria: same name", _set_criteria([{"name": "polite"}, {"name": "polite"}])
    yield "criteria: number", _set_criteria([3])
    yield "evaluators: none", lambda given, _rng: given.evaluators.clear()
    yield "evaluators: number", lambda given, _rng: given.evaluators.append(3)
    yield "evaluators: null", lambda given, _rng: given.evaluators.append(None)
    yield "evaluators: same name", lambda given, _rng: given.evaluators.append(dict(given.evaluators[0]))


_NOT_FINITE = float("inf")
_EVALUATOR_FAULTS: Mapping[str, tuple[Any, ...]] = {
    "weight": (-1, "1", None, True, _NOT_FINITE),
    "required": (None, 2, -0.5, "yes"),
    "negate": (None, "yes", 1),
    "name": ("", "  ", None, 3),
    "type": ("containz", "", None, 3),
    "unmet": ("no", None),
    "criterion": ("undefined", "", None, 3),
    "source": ("nowhere", "", None),
    "timeout_seconds": (0, -1, "3", None),
    "timeout_s": (3,),
    "window": (0, 1.5, "2"),
    "per_turn": ("yes", None),
    "aggregate": ("max", None),
    "config": (3, {"nope": 1}, {"weight": 2}),
    "nope": (1,),
}
_ITEM_FAULTS: Mapping[str, tuple[Any, ...]] = {
    "id": ("", "  ", None, 3),
    "description": ("", "  ", None, 3),
    "weight": (-1, "2", None, True, _NOT_FINITE, 0),
    "required": (None, 1, "yes"),
    "scale": ("likert4", 5, None),
    "min_value": (2, -1, "1", None),
    "minValue": (0.5,),
    "nope": (1,),
}
_CRITERION_FAULTS: Mapping[str, tuple[Any, ...]] = {
    "name": ("", "  ", None, 3),
    "description": (3, None),
    "scale": ("Likert5", None, ["a"], ["a", "a"], 5),
    "weight": (-1, "2", None, True, _NOT_FINITE),
    "min": (3, "1"),
    "max": (-1,),
    "labels": (["x"], None, "abc"),
    "nope": (1,),
}


def _set_in_evaluator(key: str, value: Any) -> Callable[[DoorInput, random.Random], None]:
    def break_input(given: DoorInput, rng: random.Random) -> None:
        rng.choice(given.evaluators)[key] = copy.deepcopy(value)

    return break_input


def _drop_from_evaluator(key: str) -> Callable[[DoorInput, random.Random], None]:
    def break_input(given: DoorInput, rng: random.Random) -> None:
        del rng.choice(given.evaluators)[key]

    return break_input


def _add_rubric(items: list[Any]) -> Callable[[DoorInput, random.Random], None]:
    def break_input(given: DoorInput, _rng: random.Random) -> None:
        given.evaluators.append({"name": "items", "type": "rubric", "rubrics": copy.deepcopy(items)})

    return break_input


def _set_rubrics(items: list[Any]) -> Callable[[DoorInput, random.Random], None]:
    def break_input(given: DoorInput, _rng: random.Random) -> None:
        given.rubrics = copy.deepcopy(items)

    return break_input


def _set_criteria(criteria: list[Any]) -> Callable[[DoorInput, random.Random], None]:
    def break_input(given: DoorInput, _rng: random.Random) -> None:
        given.criteria = copy.deepcopy(criteria)
        for evaluator in given.evaluators:
            evaluator.pop("criterion", None)

    return break_input
