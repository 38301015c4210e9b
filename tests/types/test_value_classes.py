"""Value classes: the common guarantees of each of them."""

import copy
import pickle
from typing import Any

import msgspec
import pytest
from msgspec import Struct, structs
from tests.support.stored import ANSWER, CASE, JUDGE, RESULT, RUN

import agentv
from agentv import EvalCase, EvaluationCriteria, EvaluationInput, EvaluationScore, Message, TargetConfig, ToolCall
from agentv.loading.project import ProjectConfig
from agentv.storage.postgres.judgements import PostgresSettings
from agentv.templating.store_url import parse_store_url

SECRET = "hunter2-canary"
URL = f"postgresql://me:{SECRET}@localhost/evals"
VALUES: list[Struct] = [
    *(ANSWER, CASE, JUDGE, RESULT, RUN),
    EvalCase("c", (Message("user", "hi"),), metadata={"a": 1}),
    EvaluationCriteria("polite", scale="likert5"),
    EvaluationInput("Hello"),
    EvaluationScore(0.5, hits=("a",)),
    TargetConfig("t", "mock", {"response": "x"}),
    ToolCall("search", {"q": 1}),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_value_is_equal_to_its_copies(value: Struct) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.copy(value) == copy.deepcopy(value) == structs.replace(value) == value
    assert repr(value).startswith(f"{type(value).__name__}(")


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_value_refuses_to_be_changed(value: Any) -> None:
    name = value.__struct_fields__[0]
    with pytest.raises(AttributeError):
        setattr(value, name, None)
    with pytest.raises(TypeError, match="nonsense"):
        structs.replace(value, nonsense=1)


def test_value_as_plain_data_keeps_every_field() -> None:
    call = ToolCall("search", {"q": [1]})
    assert structs.asdict(call) == {
        "tool": "search",
        "input": {"q": [1]},
        "output": None,
        "id": None,
        "timestamp": None,
        "duration_ms": None,
    }
    assert msgspec.to_builtins(Message("user", "hi"))["content"] == "hi"


def test_subclass_is_a_struct_with_fields_of_its_own() -> None:
    class Noted(ToolCall, frozen=True):
        note: str = ""

    assert Noted("search", note="mine") == Noted("search", note="mine")
    assert structs.replace(Noted("search"), note="new").note == "new"


def test_public_structs_are_frozen() -> None:
    kinds = [
        kind
        for kind in (getattr(agentv, name) for name in agentv.__all__)
        if isinstance(kind, type) and issubclass(kind, Struct)
    ]
    assert len(kinds) > 15
    assert [kind.__name__ for kind in kinds if not kind.__struct_config__.frozen] == []


@pytest.mark.parametrize(
    "value", [PostgresSettings(url=URL), parse_store_url(URL), ProjectConfig(store=URL)], ids=lambda v: type(v).__name__
)
def test_repr_shows_no_secret(value: object) -> None:
    assert SECRET not in repr(value)
    assert SECRET not in repr([value])
