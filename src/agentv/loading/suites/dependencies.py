"""The order of cases that depend on others of their suite."""

from collections.abc import Mapping
from itertools import islice

from agentv.types.cases import BrokenCase, CaseSource, EvalCase, ListedCases
from agentv.types.errors import nearest
from agentv.types.problems import Problem

_LOOKED_AT = 1000


def in_order_of_dependencies(source: CaseSource, path: str) -> tuple[CaseSource, list[Problem]]:
    """Return cases with each one after those that it depends on, else in their order, and what is wrong with them.

    Only if one of the first 1,000 cases depends on another is a stream read whole. `path` is the eval file, for
    problems of cases without a place. A case that depends on itself, also through others, is a problem.
    """
    if not any(isinstance(case, EvalCase) and case.depends_on for case in islice(source, _LOOKED_AT)):
        return source, []
    cases = list(source)
    by_id = {case.id: case for case in cases if isinstance(case, EvalCase)}
    problems = [problem for case in by_id.values() for problem in _unknown(case, by_id, path)]
    ordered: dict[int, EvalCase | BrokenCase] = {}
    for case in cases:
        circle = _add(case, by_id, ordered)
        if circle:
            problems.append(_problem(case, f"the cases {' -> '.join(circle)} depend on each other in a circle", path))
            break
    return (source if problems else ListedCases(tuple(ordered.values()))), problems


def _unknown(case: EvalCase, by_id: Mapping[str, EvalCase], path: str) -> list[Problem]:
    unknown = [name for name in case.depends_on if name not in by_id]
    found = []
    for name in unknown:
        near = nearest(name, by_id)
        advice = f"did you mean {near!r}?" if near else None
        found.append(_problem(case, f"it depends on {name!r}, which is no case of the suite", path, advice))
    return found


def _problem(case: EvalCase | BrokenCase, message: str, path: str, advice: str | None = None) -> Problem:
    place = case.location
    return Problem(path, f"case {case.id!r}: {message}", line=place.line if place else 0, allowed=advice)


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
