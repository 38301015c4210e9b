"""Classes with many fields are filled in order, which is quicker than by name: each value stands at its own place."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Any

import pytest
from msgspec import Struct

MANY = 6
"""So many values in order can no longer be told apart at a glance."""

FILLED_IN = (
    "agentv.pipeline.answer",
    "agentv.pipeline.context",
    "agentv.pipeline.rows",
    "agentv.scoring.evaluator_results",
    "agentv.storage.record_answer",
    "agentv.storage.record_evaluator",
    "agentv.storage.record_result",
    "agentv.storage.record_run",
)
OF_ANOTHER = {
    ("Answer", "billed_usd", "cost_usd"),
    ("CaseRecord", "files", "input_messages"),
    ("CaseRecord", "reference_answer", "expected_messages"),
    ("CaseResult", "answer_seq", "seq"),
    ("CaseResult", "target_cost_usd", "cost_usd"),
    ("CaseResult", "trace_summary", "output_messages"),
}
"""Fields that are made of what has the name of another field of the class: class, field, that name."""


def names_of(kind: Any) -> tuple[str, ...]:
    """Return the fields of a class in their order; none of what is no such class."""
    if isinstance(kind, type) and is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    return kind.__struct_fields__ if isinstance(kind, type) and issubclass(kind, Struct) else ()


def misplaced(tree: ast.AST, known: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield class, field, and the name of the value in it that belongs into another field of the class."""
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and len(call.args) >= MANY):
            continue
        names = names_of(known.get(call.func.id))
        for name, value in zip(names, call.args, strict=False):
            said = [part.attr for part in ast.walk(value) if isinstance(part, ast.Attribute) and part.attr in names]
            if said and name not in said:
                yield call.func.id, name, said[0]


def filled(module: ModuleType) -> ast.AST:
    return ast.parse(inspect.getsource(module))


@pytest.mark.parametrize("name", FILLED_IN)
def test_each_value_stands_in_the_field_that_has_its_name(name: str) -> None:
    module = importlib.import_module(name)
    assert set(misplaced(filled(module), vars(module))) - OF_ANOTHER == set()


def test_two_values_that_are_swapped_are_found() -> None:
    module = importlib.import_module("agentv.pipeline.rows")
    source = inspect.getsource(module)
    swapped = source.replace("fields.hits,\n        fields.misses,", "fields.misses,\n        fields.hits,")
    assert swapped != source
    found = set(misplaced(ast.parse(swapped), vars(module))) - OF_ANOTHER
    assert found == {("CaseResult", "hits", "misses"), ("CaseResult", "misses", "hits")}
