"""Lines that contain only texts: the quick reader gives the same cases as the models."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.loading.specs import SPECS

from agentv.loading.files.attached import FileFinder
from agentv.loading.files.json_lines import parse_json
from agentv.loading.files.path_guard import PathGuard
from agentv.loading.models.reader import Reader
from agentv.loading.suites.case_sources import read_plain
from agentv.loading.suites.cases import CaseScope, read_case
from agentv.loading.suites.evaluators import EvaluatorScope
from agentv.types.cases import EvalCase, Location
from agentv.types.messages import Message
from bench.mutations import damaged

PLACE = Location("cases.jsonl", 7)
SCOPE = CaseScope(
    EvaluatorScope(SPECS.evaluators, "."), FileFinder(Path(), Path(), Path(), PathGuard(Path())), "cases.jsonl"
)
MESSAGE = {"role": "user", "content": "hi"}
CASE: dict[str, object] = {"id": "a", "expected_outcome": "ok", "input_messages": [MESSAGE]}


def by_models(line: bytes) -> EvalCase | None:
    """Return the case that the models read from a line; None if they report any problem."""
    try:
        document, problems = parse_json(line.decode().strip("\r\n"), "cases.jsonl", PLACE.line)
    except UnicodeDecodeError:
        return None
    if document is None:
        return None
    reader = Reader(document, problems)
    case = read_case(reader, (), SCOPE)
    return None if reader.problems else case


texts = st.text(st.characters(exclude_categories=()) | st.sampled_from('"\\{}[]:,\n\ud800'), max_size=6)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system", "tool", "User", ""]), "content": texts},
    optional={"name": texts},
)
lists = st.lists(messages, max_size=2)
lines = st.fixed_dictionaries(
    {"id": texts, "expected_outcome": texts},
    optional={
        "input": lists,
        "input_messages": lists,
        "expected": lists | texts,
        "expected_messages": lists | texts,
        "conversation_id": texts | st.none(),
        "tags": st.lists(texts, max_size=2),
        "metadata": st.dictionaries(texts, texts | st.integers(), max_size=2),
        "rubrics": st.lists(texts, max_size=1),
        "ID": texts,
    },
)


@given(lines, st.booleans())
def test_a_line_is_read_as_the_models_read_it_or_left_to_them(case: dict[str, object], ascii_only: bool) -> None:
    line = json.dumps(case, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass") + b"\n"
    plain = read_plain(line, PLACE)
    assert plain is None or plain == by_models(line)


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_line_is_read_as_the_models_read_it_or_left_to_them(seed: int) -> None:
    chance = random.Random(f"line {seed}")
    full = {**CASE, "expected_messages": [MESSAGE], "tags": ["x", "y"], "metadata": {"k": 'a "b" c'}}
    for _ in range(500):
        line = damaged(json.dumps(full), chance)
        plain = read_plain(line, PLACE)
        assert plain is None or plain == by_models(line), line


def test_a_case_of_texts_is_plain() -> None:
    full = {**CASE, "conversation_id": "c", "tags": ["x"], "metadata": {"k": 'a "b" c'}, "expected_messages": []}

    assert read_plain(json.dumps(full).encode(), PLACE) == EvalCase(
        id="a",
        input_messages=(Message("user", "hi"),),
        expected_outcome="ok",
        conversation_id="c",
        tags=("x",),
        metadata={"k": 'a "b" c'},
        location=PLACE,
    )


@pytest.mark.parametrize(
    "line",
    [
        b'{"id": "a", "id": "b", "expected_outcome": "ok", "input_messages": [{"role": "user", "content": "hi"}]}',
        b'{"id": "a", "expected_outcome": "ok", "input_messages": [{"role": "user", "content": "x", "content": "y"}]}',
        b'{"id":"a","expected_outcome":"b","input_messages":[{"role":"user","content":"c"}],"metadata":{"k":"\\\\","k":"v"}}',
    ],
    ids=["key", "key of a message", "key behind a backslash"],
)
def test_a_key_that_stands_twice_is_left_to_the_models_which_refuse_it(line: bytes) -> None:
    assert read_plain(line, PLACE) is None
    assert by_models(line) is None
