"""The fields of one line of feedback, each held to its type, in whichever spelling it is written."""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from msgspec import Struct

from agentv.types.records.label import HumanScore

NAMES: Mapping[str, tuple[str, ...]] = {
    "eval_id": ("eval_id", "evalId", "session_id", "sessionId"),
    "criterion": ("criterion", "criterion_name", "criterionName"),
    "score": ("score",),
    "annotator": ("annotator",),
    "reasoning": ("reasoning",),
    "time": ("time",),
    "suite": ("suite",),
    "target": ("target",),
    "trial": ("trial",),
}
"""What a line may say, each with its spellings; the first one wins. Other keys are left alone."""

_TRIAL_FIGURES = 18
"""How many figures the number of a trial may have; Python reads no number of thousands."""

Entry: TypeAlias = Mapping[str, object]
Refuse: TypeAlias = Callable[..., None]
"""Notes what is wrong with a line: `refuse(line, message, allowed=…)`."""


class FeedbackFields(Struct, frozen=True):
    """The fields of one line, each held to its type; what is not of it is noted and counts as absent."""

    entry: Entry
    line: int
    refuse: Refuse

    def written(self, key: str) -> object:
        """Return what stands under a key, in whichever spelling; None when nothing does."""
        value = next((self.entry[name] for name in NAMES[key] if name in self.entry), None)
        return None if isinstance(value, str) and not value.strip() else value

    def text(self, key: str) -> str | None:
        """Return a text; a whole number is one as well, for ids are often numbers."""
        value = self.written(key)
        if value is None or isinstance(value, str):
            return value.strip() if value is not None else None
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        self._refuse(key, value, "a text")
        return None

    def score(self) -> HumanScore:
        """Return the score as it was given; whether its scale has such a score is another question."""
        value = self.written("score")
        if isinstance(value, str):
            return value.strip()
        if value is None or isinstance(value, bool):
            return bool(value)
        if isinstance(value, int | float) and _is_finite(value):
            return value
        self._refuse("score", value, "a number, true, false, or a text such as 4/5, 85% or a label")
        return False

    def time(self) -> datetime | None:
        """Return a moment: ISO 8601, taken as UTC when it names no zone, or milliseconds since 1970."""
        value = self.written("time")
        try:
            if isinstance(value, str):
                moment = datetime.fromisoformat(value.strip())
                return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return datetime.fromtimestamp(value / 1000, UTC)
        except (ValueError, OverflowError, OSError):
            pass
        if value is not None:
            self._refuse("time", value, "like 2026-01-31T12:00:00Z")
        return None

    def trial(self) -> int | None:
        """Return a number of a trial, from 0."""
        value = self.written("trial")
        if isinstance(value, str) and value.strip().isdecimal() and len(value.strip()) <= _TRIAL_FIGURES:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        if value is not None:
            self._refuse("trial", value, "a whole number from 0")
        return None

    def _refuse(self, key: str, value: object, allowed: str) -> None:
        self.refuse(self.line, f"{key!r} is {repr(value)[:60]}", allowed=f"it must be {allowed}")


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number that no float holds
        return False
