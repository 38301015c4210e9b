"""Code judges that start Python for each answer, where a function in a process that stays would do."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from agentv.types.cases import EvalCase, EvalSuite, EvaluatorConfig, EvaluatorLike

WORTH_A_NOTE = 50
"""Cases from which the starts of Python are worth a note."""


def slow_judge_note(suite: EvalSuite, cases: Iterable[EvalCase]) -> tuple[EvalCase, str] | None:
    """Return the first case that starts Python for a code judge, with a message; None for less than 50 such cases."""
    judges = ((case, next(_started(case.evaluators or suite.evaluators or ()), None)) for case in cases)
    found = [(case, judge) for case, judge in judges if judge is not None]
    if len(found) < WORTH_A_NOTE:
        return None
    case, judge = found[0]
    return case, (
        f"code_judge {judge.name!r} starts Python for each of {len(found):,} cases, about 50 ms each time; "
        "`python: FILE.py:FUNCTION` calls a function in a process that stays, in about 1 ms"
    )


def _started(evaluators: Sequence[EvaluatorLike]) -> Iterator[EvaluatorConfig]:
    for each in evaluators:
        if isinstance(each, EvaluatorConfig) and each.type == "code_judge" and _is_python(each.settings.get("script")):
            yield each


def _is_python(script: object) -> bool:
    """Return True for a command that starts with a Python interpreter, as a text or as a list."""
    words = script.split() if isinstance(script, str) else script if isinstance(script, list | tuple) else ()
    return bool(words) and PurePath(str(words[0])).name.startswith("python")
