"""`grader`, the older name of `evaluator` (seed REQ-EVAL-009)."""

from agentv.loading.documents import JsonPath
from agentv.loading.reader import Reader


def read_grader(reader: Reader, at: JsonPath, *, grader: str | None, evaluator: str | None) -> str | None:
    """Return the legacy grader of the object at `at`, with a warning; None when `evaluator` stands beside it."""
    if grader is None:
        return None
    reader.warn((*at, "grader"), "`grader` is deprecated", allowed="write `evaluator` instead", on_key=True)
    return None if evaluator is not None else grader
