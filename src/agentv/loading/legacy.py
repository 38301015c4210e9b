"""`grader`, the older name of `evaluator` (seed REQ-EVAL-009)."""

from collections.abc import Iterable, Iterator

from agentv.loading.documents import JsonPath
from agentv.loading.reader import Reader, in_order
from agentv.types.problems import Problem

_WARNING = "`grader` is deprecated"


def read_grader(reader: Reader, at: JsonPath, *, grader: str | None, evaluator: str | None) -> str | None:
    """Return the legacy grader of the object at `at`, with a warning; None when `evaluator` stands beside it."""
    if grader is None:
        return None
    reader.warn((*at, "grader"), _WARNING, allowed="write `evaluator` instead", on_key=True)
    return None if evaluator is not None else grader


def warned_once(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield problems in order, of the warnings about `grader` only the first in each file."""
    warned: set[str] = set()
    for problem in in_order(problems):
        if problem.message == _WARNING:
            if problem.path in warned:
                continue
            warned.add(problem.path)
        yield problem
