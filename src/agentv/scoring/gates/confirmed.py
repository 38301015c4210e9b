"""Confirmed regressions: cases that always passed in the baseline, fail now, and fail again each time they are called.

A single failure says little about an agent that varies: of 50 cases that pass 95 % of the time, two or three fail in
each run. Calling such a case again tells a broken case from an unlucky one (docs/reference/gates.md has the rates).
"""

from collections.abc import Sequence

from agentv.types.cases import DEFAULT_CONFIRM_RERUNS

_HALF = 0.5
_ROUNDING = 1e-9


def is_suspected(passed_before: float, passed_after: float) -> bool:
    """Return True if a case with its target and prompt passed in every trial of the baseline, and fails now.

    Both are shares of the judged trials with the verdict pass. With several trials, it fails if most of them do.
    """
    return passed_before > 1 - _ROUNDING and passed_after < _HALF - _ROUNDING


def is_confirmed(reruns: Sequence[bool | None], planned: int = DEFAULT_CONFIRM_RERUNS) -> bool | None:
    """Return True if a suspected regression failed in all of its planned re-runs, False if it passed in any.

    `reruns` has True for a pass, False for any other verdict, None for an error. The answer is None (undecided) if no
    re-run passed, and one has an error or is missing.
    """
    if True in reruns:
        return False
    return None if None in reruns or len(reruns) < planned else True
