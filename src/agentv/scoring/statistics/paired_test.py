"""What a test of paired differences comes to."""

from typing import Literal

from msgspec import Struct


class PairedTest(Struct, frozen=True):
    """Outcome of a test. `p` is two-sided, 0..1; `is_exact` says that all patterns of signs were counted."""

    name: Literal["mcnemar", "sign-flips"]
    p: float
    is_exact: bool
