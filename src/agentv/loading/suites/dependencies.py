"""The order of cases that depend on others of their suite."""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import TypeAlias

from msgspec.structs import replace

from agentv.types.cases import BrokenCase, CaseSource, EvalCase, ListedCases
from agentv.types.errors import nearest
from agentv.types.problems import Problem

_LOOKED_AT = 1000

PlaceOf: TypeAlias = Callable[[EvalCase, int, str], Problem]
"""Returns the problem with a message, at the place of an entry of a case's `depends_on`."""


def in_order_of_dependencies(source: CaseSource, place_of: PlaceOf) -> tuple[CaseSource, list[Problem]]:
    """Return cases with each one after those that it depends on, else in their order, and what is wrong with them.

    Only if one of the first 1,000 cases depends on another is a stream read whole. A case that depends on itself, also
    through others, is a problem.
    """
    if not any(isinstance(case, EvalCase) and case.depends_on for case in islice(source, _LOOKED_AT)):
        return source, []
    cases = list(source)
    by_id = {case.id: case for case in cases if isinstance(case, EvalCase)}
    problems = [problem for case in by_id.values() for problem in _unknown(case, by_id, place_of)]
    ordered: dict[int, EvalCase | BrokenCase] = {}
    for case in cases:
        circle = _add(case, by_id, ordered)
        if circle:
            first = by_id[circle[0]]
            message = f"the cases {' -> '.join(circle)} depend on each other in a circle"
            problems.append(_problem(first, first.depends_on.index(circle[1]), message, place_of))
            break
    return (source if problems else ListedCases(tuple(ordered.values()))), problems


def _unknown(case: EvalCase, by_id: Mapping[str, EvalCase], place_of: PlaceOf) -> list[Problem]:
    found = []
    for index, name in enumerate(case.depends_on):
        if name not in by_id:
            problem = _problem(case, index, f"it depends on {name!r}, which is no case of the suite", place_of)
            found.append(replace(problem, suggestion=nearest(name, by_id.keys() - {case.id})))
    return found


def _problem(case: EvalCase, index: int, message: str, place_of: PlaceOf) -> Problem:
    return place_of(case, index, f"case {case.id!r}: {message}")


def _add(
    first: EvalCase | BrokenCase, by_id: Mapping[str, EvalCase], ordered: dict[int, EvalCase | BrokenCase]
) -> list[str]:
    """Add a case after those that it depends on; return the ids of a circle, if there is one."""
    path: list[EvalCase | BrokenCase] = [first]
    while path:
        case = path[-1]
        needed = case.depends_on if isinstance(case, EvalCase) else ()
        missing = next((by_id[name] for name in needed if name in by_id and id(by_id[name]) not in ordered), None)
        if missing is None:
            ordered[id(case)] = case
            path.pop()
        elif any(missing is each for each in path):
            start = next(index for index, each in enumerate(path) if each is missing)
            return [each.id for each in (*path[start:], missing)]
        else:
            path.append(missing)
    return []
