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
from typing import Any, Literal, Optional, get_args, get_origin, get_type_hints

from msgspec import Struct

import agentv
from agentv import EvalCase, EvaluationContext, EvaluationScore, EvaluatorConfig, Message, evaluate
from agentv.types.json_value import JsonObject
from agentv.types.quick import quick_data
from agentv.types.results import Slot
from agentv.types.usage import Usage

RULE = {"value": "4"}
DATA = frozenset({str, int, float, bool, bytes, NoneType, datetime, array, ...})


def not_data(kind: Any, *, within: frozenset[Any] = frozenset()) -> Iterator[Any]:
    """Yield what a class holds that is no data, its fields' fields too. Those it stands `within` are looked at."""
    if kind in DATA | within or get_origin(kind) is Literal:
        return
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind, localns={"JsonValue": object})  # which holds what a program puts there
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
    assert {Slot, Usage} < kinds
    assert [(kind, found) for kind in kinds for found in not_data(kind)] == []


class Anything:
    """May lead anywhere."""


@quick_data
@dataclass(frozen=True, slots=True)
class Inner:
    metadata: JsonObject
    parts: tuple[Anything | str, ...] = ()
    whole: Optional["Inner"] = None


@quick_data
@dataclass(frozen=True, slots=True)
class Outer:
    inner: Inner | None


def test_an_object_in_one_is_found_wherever_it_stands() -> None:
    assert set(not_data(Outer)) == {object, Anything}


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


class Suite:
    """A program's own, with a check of its own in the cases' metadata, and the report."""

    def __init__(self) -> None:
        case = EvalCase("sum", (Message("user", "2 + 2?"),), metadata=self.checks())
        self.report = evaluate([case], task=lambda _request: "4", evaluators=[EvaluatorConfig("4", "contains", RULE)])

    def checks(self) -> dict[str, Any]:
        return {"check": self.is_four}

    def is_four(self, text: str) -> bool:
        return text == "4"


def _gone_suite() -> weakref.ref[Suite]:
    suite = Suite()
    assert suite.report.results[0].metadata == suite.checks()
    return weakref.ref(suite)


def test_a_report_goes_with_the_objects_that_its_cases_hold() -> None:
    suite = _gone_suite()
    gc.collect()
    assert suite() is None
