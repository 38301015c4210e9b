"""What runs once a night only: `.ci/run --nightly` sets AGENTV_NIGHTLY=1.

There, tests marked `nightly` run, every matrix is whole, and properties are tried with many more examples.
"""

import os
import random
from collections.abc import Callable, Sequence
from typing import TypeVar

Value = TypeVar("Value")

IS_NIGHTLY = os.environ.get("AGENTV_NIGHTLY") == "1"


def sample(values: Sequence[Value], count: int, *, of_each: Callable[[Value], object] = lambda _: 0) -> list[Value]:
    """Return `count` of the values for each group that `of_each` makes of them, in their order; all of them at night.

    The choice is the same in every run.
    """
    if IS_NIGHTLY:
        return list(values)
    groups: dict[object, list[int]] = {}
    for at, value in enumerate(values):
        groups.setdefault(of_each(value), []).append(at)
    rng = random.Random(0)
    chosen = {at for group in groups.values() for at in rng.sample(group, min(count, len(group)))}
    return [value for at, value in enumerate(values) if at in chosen]
