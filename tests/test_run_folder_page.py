"""docs/reference/run-folder.md names every file, field and event that the code writes, and no other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from msgspec import Struct

from agentv.engine.calling.budget import BudgetStop
from agentv.engine.running.recorder import JudgeStop
from agentv.types import stored
from agentv.types.evaluation import EvaluationResult, EvaluatorResult, EvaluatorStatus, JudgeCall, JudgeRole
from agentv.types.failures import FAILURE_KINDS, Failure
from agentv.types.provider import CallRecord
from agentv.types.records.answer import Answer, ResultKey
from agentv.types.records.category import CategoryEvent
from agentv.types.records.label import Label
from agentv.types.records.result import CaseResult
from agentv.types.records.review import ReviewQueue
from agentv.types.records.run import CaseRecord, RunRecord
from agentv.types.records.segment import SegmentRecord
from agentv.types.usage import Usage

SOURCE = Path(__file__).parent.parent / "src" / "agentv"
PAGE = (Path(__file__).parent.parent / "docs" / "reference" / "run-folder.md").read_text("utf-8")
SECTIONS = {
    title: text for title, _, text in (part.partition("\n") for part in re.split(r"^## ", PAGE, flags=re.MULTILINE))
}
NAME = re.compile(r"`([^`]+)`")

RECORDS = {
    "plan": [
        ("engine/planning/plan.py", "to_json"),
        ("engine/runs/run.py", "_run_record"),
        ("engine/criteria/run_record.py", "to_record"),
        ("engine/stored/shards.py", "merged_plan"),
    ],
}
STRUCTS: dict[str, type[Struct]] = {
    "run.json": RunRecord,
    "cases.jsonl": CaseRecord,
    "answers.jsonl": Answer,
    "calls": CallRecord,
    "results.jsonl": CaseResult,
    "evaluator_results": EvaluatorResult,
    "results": EvaluationResult,
    "judge_calls": JudgeCall,
    "labels.jsonl": Label,
    "categories.jsonl": CategoryEvent,
    "reviews/NAME.json": ReviewQueue,
    "segments.jsonl": SegmentRecord,
    "usage": Usage,
    "error": Failure,
}
INNER = {
    "plan": {
        *("path", "sha256", "cases", "about", "name", "provider", "key", "settings", "prompts", "pass_score"),
        "guideline_patterns",
        "scored_sha256",
        *("configuration", "expression", "suite"),
    }
}
"""Keys inside a field, which the page names beside it."""


def tree(path: str) -> ast.Module:
    return ast.parse((SOURCE / path).read_text("utf-8"))


def keys_of(node: ast.AST) -> set[str]:
    """Return the keys of all dict literals below a node, and the keys that are assigned."""
    found: set[str] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Dict):
            found |= {key.value for key in each.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
        if isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Store) and isinstance(each.slice, ast.Constant):
            found.add(str(each.slice.value))
    return found


def written_by(path: str, function: str) -> set[str]:
    (found,) = [
        node
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function
    ]
    return keys_of(found)


def cells(section: str, column: int) -> Iterator[set[str]]:
    for row in re.findall(r"^\| .* \|$", SECTIONS[section], re.MULTILINE)[1:]:
        cell = row.strip("| ").split(" | ")[column]
        if set(cell) - set("-| "):
            yield set(NAME.findall(cell))


@pytest.mark.parametrize("section", RECORDS)
def test_every_field_of_a_record_stands_in_its_table(section: str) -> None:
    written = set().union(*(written_by(*place) for place in RECORDS[section])) - INNER.get(section, set())
    assert set().union(*cells(section, 0)) == written


@pytest.mark.parametrize("section", STRUCTS)
def test_every_field_of_a_stored_shape_stands_in_its_table(section: str) -> None:
    assert set().union(*cells(section, 0)) == set(STRUCTS[section].__struct_encode_fields__)


def events_of_the_code() -> dict[str, set[str]]:
    """Return the types of events, with the fields in a dict literal of the call."""
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            is_note = "note" in (getattr(called, "attr", ""), getattr(called, "id", ""))
            if not is_note or not isinstance(node, ast.Call) or len(node.args) != 2:
                continue
            type_, fields = node.args
            if isinstance(type_, ast.Constant) and re.fullmatch("[a-z_]+", str(type_.value)):
                found.setdefault(str(type_.value), set()).update(_outer_keys(fields))
            if isinstance(type_, ast.Name) and type_.id == "GENERATION_STARTED":
                found["generation_started"] = written_by("engine/stored/resume.py", "to_event")
            if isinstance(type_, ast.Name) and type_.id in ("TARGET_CHANGED", "JUDGES_CHANGED"):
                found.setdefault(type_.id.lower(), set()).update(_outer_keys(fields))
    return found


def _outer_keys(node: ast.expr) -> set[str]:
    keys = node.keys if isinstance(node, ast.Dict) else []
    return {key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}


def test_every_event_of_a_run_stands_in_the_table_with_its_fields() -> None:
    events = events_of_the_code()
    events["budget_stop"] = set(BudgetStop.__struct_fields__)  # which is written whole
    events["judge_stop"] = set(JudgeStop.__struct_fields__)
    types, listed_fields = list(cells("events.jsonl", 0)), list(cells("events.jsonl", 1))
    listed = {type_.pop(): names for type_, names in zip(types, listed_fields, strict=True)}
    assert listed == events
    assert len(events) > 10


def test_every_event_of_the_display_stands_in_the_table() -> None:
    (function,) = [
        node
        for node in ast.walk(tree("reports/progress/json_lines.py"))
        if isinstance(node, ast.FunctionDef) and node.name == "event_to_json"
    ]
    dicts = [node for node in ast.walk(function) if isinstance(node, ast.Dict)]
    events = {
        str(value.value)
        for node in dicts
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and key.value == "event" and isinstance(value, ast.Constant)
    }
    section, a_slot = "Events of a run in progress", ResultKey("s.yaml", "case", "target").to_json()
    assert set().union(*cells(section, 0)) == events
    assert set().union(*cells(section, 1)) == keys_of(function) - {"event"} | set(a_slot) | {"kind", "message"}


def test_every_name_of_the_closed_lists_stands_on_the_page() -> None:
    names = set(NAME.findall(PAGE))
    schemas = {value for key, value in vars(stored).items() if key.endswith("_SCHEMA")}
    assert {*get_args(JudgeRole), *get_args(EvaluatorStatus), *FAILURE_KINDS} <= names
    assert schemas - {stored.EVENT_SCHEMA} <= names
