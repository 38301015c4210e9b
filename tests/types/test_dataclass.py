"""Classes whose methods are written late behave as the standard library's dataclasses do."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Hashable
from dataclasses import FrozenInstanceError, asdict, astuple, field, fields, replace
from typing import Any, get_type_hints

import pytest

from agentv.types.dataclass import Late, dataclass


@dataclass(frozen=True, slots=True)
class Frozen:
    name: str
    parts: list[int] = field(default_factory=list, compare=False)
    size: int = 3
    note: str = field(default="", kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("a size is at least 0")


@dataclasses.dataclass(frozen=True, slots=True)
class Usual:
    name: str
    parts: list[int] = field(default_factory=list, compare=False)
    size: int = 3
    note: str = field(default="", kw_only=True, repr=False)


@dataclass(slots=True)
class Open:
    """A class that may change."""

    name: str
    next: "Open | None" = None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Is derived from, and keeps what is reckoned from it in its dictionary."""

    name: str
    size: int = 1


def test_no_method_is_written_before_it_is_asked_for() -> None:
    @dataclass(frozen=True, slots=True)
    class Unused:
        name: str

    made = Unused("a")
    late = {name for name, value in vars(Unused).items() if isinstance(value, Late)}
    assert late == {"__repr__", "__eq__", "__hash__"}
    assert hash(made) == hash(Unused("a"))
    assert not isinstance(vars(Unused)["__hash__"], Late)


def test_it_holds_what_the_usual_class_holds() -> None:
    given: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        (("a",), {}),
        (("a", [1], 2), {"note": "n"}),
        ((), {"size": 0, "name": "b"}),
    ]
    for arguments, named in given:
        assert asdict(Frozen(*arguments, **named)) == asdict(Usual(*arguments, **named))
        assert astuple(Frozen(*arguments, **named)) == astuple(Usual(*arguments, **named))
        assert repr(Frozen(*arguments, **named)) == repr(Usual(*arguments, **named)).replace("Usual", "Frozen")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((), {}), (("a",), {"colour": 1}), (("a", [], 1, "note"), {}), (("a",), {"name": "b"})],
)
def test_what_it_is_not_made_of_is_refused_as_usual(arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError) as usual:
        Usual(*arguments, **named)
    with pytest.raises(TypeError) as late:
        Frozen(*arguments, **named)
    assert str(late.value) == str(usual.value).replace("Usual", "Frozen")


def test_a_default_is_made_for_each_instance_and_the_class_checks_what_it_gets() -> None:
    assert Frozen("a").parts is not Frozen("a").parts
    with pytest.raises(ValueError, match="at least 0"):
        Frozen("a", size=-1)


def test_instances_are_equal_and_hash_by_the_fields_that_count() -> None:
    assert Frozen("a", [1]) == Frozen("a", [2])
    assert {Frozen("a", [1]), Frozen("a", [2])} == {Frozen("a")}
    assert Frozen("a") != Frozen("b")
    assert Frozen("a") != Usual("a")  # type: ignore[comparison-overlap]
    assert hash(Frozen("a")) == hash(Usual("a"))


def test_a_class_that_may_change_is_equal_by_its_fields_and_has_no_hash() -> None:
    made = Open("a", Open("b"))
    assert made == Open("a", Open("b"))
    made.name = "c"
    assert made != Open("a", Open("b"))
    assert not isinstance(made, Hashable)


def test_what_refers_to_itself_has_a_repr() -> None:
    made = Open("a")
    made.next = made
    assert repr(made) == "Open(name='a', next=...)"


def test_a_frozen_one_cannot_be_changed_or_get_more() -> None:
    made = Frozen("a")
    for name in ("name", "new"):
        with pytest.raises(FrozenInstanceError):
            setattr(made, name, "b")
        with pytest.raises(FrozenInstanceError):
            delattr(made, name)
    assert made.name == "a"


def test_it_can_be_copied_replaced_sent_elsewhere_and_matched() -> None:
    for made in (Frozen("a", [1]), Open("a", Open("b")), Settings(name="a")):
        assert copy.copy(made) == copy.deepcopy(made) == pickle.loads(pickle.dumps(made)) == made
        assert replace(made, name="z").name == "z"
    match Frozen("a", [1]):
        case Frozen(name, parts):
            assert (name, parts) == ("a", [1])


def test_its_signature_fields_and_types_are_the_usual_ones() -> None:
    ours, usual = (inspect.signature(kind).parameters.values() for kind in (Frozen, Usual))
    assert [(it.name, it.kind, it.annotation) for it in ours] == [(it.name, it.kind, it.annotation) for it in usual]
    assert [each.name for each in fields(Frozen)] == [each.name for each in fields(Usual)]
    assert get_type_hints(Open.__init__)["next"] == Open | None
    described = "init", "repr", "eq", "order", "unsafe_hash", "frozen"
    late, standard = (vars(kind)["__dataclass_params__"] for kind in (Frozen, Usual))
    assert [getattr(late, name) for name in described] == [getattr(standard, name) for name in described]


def test_what_a_class_writes_itself_stays() -> None:
    @dataclass(frozen=True, slots=True)
    class Own:
        name: str

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

        def __hash__(self) -> int:
            return 7

    assert (repr(Own("a")), Own("a") == Own("b"), hash(Own("a"))) == ("own", True, 7)


def test_one_without_equality_is_equal_to_itself_alone() -> None:
    @dataclass(frozen=True, slots=True, eq=False)
    class Thing:
        name: str

    made = Thing("a")
    assert made == made  # noqa: PLR0124 - that is what is asked
    assert made != Thing("a")
    assert len({made, Thing("a")}) == 2


def test_it_is_derived_from_by_late_usual_and_plain_classes() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Late_(Settings):  # noqa: N801
        colour: str = "red"

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Standard(Settings):
        colour: str = "red"

    class Plain(Settings):
        pass

    assert asdict(Late_(name="a", size=2)) == asdict(Standard(name="a", size=2))
    assert (type(Plain(name="a")), Plain(name="a", size=2).size) == (Plain, 2)
    with pytest.raises(FrozenInstanceError):
        Late_(name="a").size = 3  # type: ignore[misc]
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):

        @dataclass()
        class Loose(Settings):  # type: ignore[misc]
            pass
