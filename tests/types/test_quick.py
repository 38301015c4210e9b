"""Classes that are made quickly behave as frozen dataclasses do."""

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, replace
from typing import Any, TypeAlias

import pytest
from pydantic import BaseModel, ValidationError

from agentv.types.quick import quick

Given: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]


@quick
@dataclass(frozen=True, slots=True)
class Quick:
    name: str
    parts: list[int] = field(default_factory=list)
    size: int = 3
    note: str = ""

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("a size is at least 0")


@dataclass(frozen=True, slots=True)
class Usual:
    name: str
    parts: list[int] = field(default_factory=list)
    size: int = 3
    note: str = ""


def test_it_holds_what_the_usual_class_holds() -> None:
    given: list[Given] = [(("a",), {}), (("a", [1], 2), {"note": "n"}), ((), {"size": 0, "name": "b"})]
    for arguments, named in given:
        assert asdict(Quick(*arguments, **named)) == asdict(Usual(*arguments, **named))


def test_each_instance_has_a_default_of_its_own() -> None:
    assert Quick("a").parts is not Quick("b").parts


def test_a_field_that_is_missing_or_unknown_is_refused() -> None:
    given: list[Given] = [((), {}), (("a",), {"colour": 1}), (("a", [], 1, "note", "more"), {})]
    for arguments, named in given:
        with pytest.raises(TypeError, match="argument"):
            Quick(*arguments, **named)


def test_it_cannot_be_changed() -> None:
    made = Quick("a")
    with pytest.raises(FrozenInstanceError):
        made.name = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del made.name


def test_it_can_be_compared_copied_replaced_and_sent_elsewhere() -> None:
    made = Quick("a", [1])
    assert made == Quick("a", [1]) == copy.deepcopy(made) == pickle.loads(pickle.dumps(made))
    assert replace(made, size=9) == Quick("a", [1], 9)
    assert repr(made) == "Quick(name='a', parts=[1], size=3, note='')"


def test_what_the_class_checks_is_checked() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        Quick("a", size=-1)


def test_a_subclass_is_refused_with_what_to_do_instead() -> None:
    with pytest.raises(TypeError, match="no subclasses: hold it in a class of your own"):

        class Named(Quick):
            colour: str = "red"


def test_a_pydantic_model_takes_an_instance_and_refuses_anything_else() -> None:
    class Model(BaseModel):
        held: Quick

    made = Quick("a")
    assert Model(held=made).held is made
    with pytest.raises(ValidationError, match="instance of Quick"):
        Model.model_validate({"held": {"name": "a"}})


def test_its_signature_has_the_same_names() -> None:
    assert list(inspect.signature(Quick).parameters) == list(inspect.signature(Usual).parameters)
