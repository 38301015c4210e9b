"""Classes that Python looks for no circles in: what they hold leads back to nobody."""

import gc
import importlib
import pkgutil
import weakref
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from datetime import datetime
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from msgspec import Struct

import agentv
from agentv import EvalCase, EvaluationContext, EvaluationScore, Message, evaluate
from agentv.types.evaluation import EvaluatorResult
from agentv.types.json_value import JsonObject
from agentv.types.quick import quick_data
from agentv.types.results import CaseResult

DATA = frozenset({str, int, float, bool, bytes, NoneType, datetime, array, ...})


def not_data(kind: Any, *, within: frozenset[Any] = frozenset()) -> Iterator[Any]:
    """Yield what a class holds that is no data, its fields' fields too. Those it stands `within` are looked at."""
    if kind in DATA | within or get_origin(kind) is Literal:
        return
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind, localns={"JsonValue": str})  # whose own name stands in it
        for name in kind.__dataclass_fields__:
            yield from not_data(hints[name], within=within | {kind})
    elif get_origin(kind) is None:
        yield kind
    else:
        for part in get_args(kind):
            yield from not_data(part, within=within)


def is_data(kind: Any) -> bool:
    return isinstance(kind, type) and is_dataclass(kind) and issubclass(kind, Struct) and not kind.__struct_config__.gc


def modules() -> Iterator[Any]:
    for found in pkgutil.walk_packages(agentv.__path__, "agentv."):
        if ".templates" not in found.name and not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def test_they_hold_nothing_but_data() -> None:
    kinds = {value for module in modules() for value in vars(module).values() if is_data(value)}
    assert {CaseResult, EvaluatorResult} < kinds
    assert [(kind, found) for kind in kinds for found in not_data(kind)] == []


class Anything:
    """May lead anywhere."""


@quick_data
@dataclass(frozen=True, slots=True)
class Inner:
    metadata: JsonObject
    parts: tuple[Anything | str, ...] = ()


@quick_data
@dataclass(frozen=True, slots=True)
class Outer:
    inner: Inner | None


def test_an_object_in_one_is_found_wherever_it_stands() -> None:
    assert list(not_data(Outer)) == [Anything]


class Remembering:
    """An evaluator that keeps every context, so that a circle leads over the cases back to it."""

    kind = "remembering"

    def __init__(self) -> None:
        self.seen: list[EvaluationContext] = []

    def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        self.seen.append(context)
        return EvaluationScore(1.0)


def _gone_evaluator() -> weakref.ref[Remembering]:
    evaluator = Remembering()
    case = EvalCase("a", (Message("user", "What?"),), evaluators=(evaluator,))
    evaluate([case], task=lambda _request: "That.")
    assert evaluator.seen[0].eval_case.evaluators == (evaluator,)
    return weakref.ref(evaluator)


def test_an_evaluator_that_keeps_what_it_was_shown_goes_when_nobody_holds_it() -> None:
    evaluator = _gone_evaluator()
    gc.collect()
    assert evaluator() is None
