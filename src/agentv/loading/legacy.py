"""`grader`, the older name of `evaluator` (seed REQ-EVAL-009)."""

from collections.abc import Iterable, Iterator
from typing import Annotated, TypeAlias

from agentv.loading.documents import JsonPath
from agentv.loading.file_model import DEPRECATED, FileModel
from agentv.loading.marks import DefinedAs, Limits
from agentv.loading.reader import Reader, in_order
from agentv.types.problems import Problem

EvaluatorType: TypeAlias = Annotated[str, Limits(min_length=1), DefinedAs("EvaluatorType")]

_WARNING = "`grader` is deprecated"


class SingleFormModel(FileModel, frozen=True, kw_only=True):
    """What suites and cases have in common: the form that names one evaluator by its type."""

    evaluator: EvaluatorType | None = None
    grader: Annotated[EvaluatorType | None, DEPRECATED] = None


SINGLE_FORM_KEYS = SingleFormModel.__struct_fields__


def read_grader(reader: Reader, at: JsonPath, model: SingleFormModel) -> str | None:
    """Return the legacy grader of the object at `at`, with a warning; None when `evaluator` stands beside it."""
    if model.grader is None:
        return None
    reader.warn((*at, "grader"), _WARNING, allowed="write `evaluator` instead", on_key=True)
    return None if model.evaluator is not None else model.grader


def warned_once(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield problems in order, of the warnings about `grader` only the first in each file."""
    warned: set[str] = set()
    for problem in in_order(problems):
        if problem.message == _WARNING:
            if problem.path in warned:
                continue
            warned.add(problem.path)
        yield problem
