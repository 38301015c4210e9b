"""Lists of criteria in files: each entry is an object, or a name that `.agentv/criteria.yaml` defines."""

from collections.abc import Mapping
from typing import TypeAlias

from agentv.loading.files.documents import JsonPath
from agentv.loading.models.reader import Reader
from agentv.types.errors import nearest
from agentv.types.scales import EvaluationCriteria

NamedCriteria: TypeAlias = Mapping[str, tuple[EvaluationCriteria, ...]]
"""The criteria by the names that lists may use: one criterion each, or a set of them."""


def named_criteria(
    criteria: Mapping[str, EvaluationCriteria], sets: Mapping[str, tuple[EvaluationCriteria, ...]]
) -> NamedCriteria:
    """Return the criteria and sets of `.agentv/criteria.yaml` by name, for use in lists of criteria."""
    return {**{name: (criterion,) for name, criterion in criteria.items()}, **sets}


def read_criteria(reader: Reader, at: JsonPath, named: NamedCriteria | None) -> tuple[EvaluationCriteria, ...]:
    """Return the criteria listed at a path: objects or, unless `named` is None, names in .agentv/criteria.yaml."""
    raw = reader.document.at(at)
    if raw is None:
        return ()
    if not isinstance(raw, list | tuple):
        reader.error(at, "must be a list of criteria", allowed="objects, or names from .agentv/criteria.yaml")
        return ()
    found: dict[str, EvaluationCriteria] = {}
    for index, entry in enumerate(raw):
        place = (*at, index)
        for criterion in (
            _criteria_of_name(reader, place, entry, named)
            if isinstance(entry, str) and named is not None
            else read_defined_criterion(reader, place)
        ):
            if criterion.name in found:
                reader.error(place, f"a second criterion named {criterion.name!r}")
            found.setdefault(criterion.name, criterion)
    return tuple(found.values())


def _criteria_of_name(reader: Reader, at: JsonPath, name: str, named: NamedCriteria) -> tuple[EvaluationCriteria, ...]:
    if name not in named:
        known = ", ".join(named) or "none"
        near = nearest(name, named)
        reader.error(at, f"no criterion {name!r} in .agentv/criteria.yaml", allowed=f"known: {known}", suggestion=near)
    return named.get(name, ())


def read_defined_criterion(reader: Reader, at: JsonPath) -> tuple[EvaluationCriteria, ...]:
    """Return the criterion defined by the object at a path; nothing if it has problems, which are recorded."""
    criterion = reader.read(EvaluationCriteria, at)
    if criterion is None:
        return ()
    for fault in criterion.faults():
        reader.error((*at, fault.split("`")[1]), fault)
    return (criterion,)
