"""Scores on the 0..1 contract: clamped if they are a little outside, an error if they are on another scale."""

from msgspec import Struct

from agentv.types.failures import Failure
from agentv.types.stored import TOLERANCE

LOWEST_CLAMPED, HIGHEST_CLAMPED = -0.5, 1.5
"""The bounds within which a number outside 0..1 is clamped; a number further out was given on another scale."""


class UnitScore(Struct, frozen=True):
    """A number of a judge on the 0..1 contract."""

    value: float
    """The number, clamped to 0..1."""
    is_clamped: bool = False
    """True if the number was outside of 0..1."""
    off_scale: str | None = None
    """The message about a number on another scale, which is never a verdict."""

    @property
    def failure(self) -> Failure | None:
        """The failure of a script or function whose number is on another scale, else None."""
        if self.off_scale is None:
            return None
        return Failure("judge_error", f"the score is off its scale: {self.off_scale}", stage="evaluator")


def unit_score(number: float) -> UnitScore:
    """Return a finite number as a score of 0..1; a number up to 1e-9 outside counts as the bound itself."""
    value = min(1.0, max(0.0, number))
    if abs(number - value) <= TOLERANCE:
        return UnitScore(value)
    if LOWEST_CLAMPED <= number <= HIGHEST_CLAMPED:
        return UnitScore(value, is_clamped=True)
    return UnitScore(value, is_clamped=True, off_scale=f"{number:g} is outside 0 to 1")
