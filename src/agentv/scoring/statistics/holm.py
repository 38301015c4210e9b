"""Several tests at once: Holm's correction."""

from collections.abc import Sequence


def holm(chances: Sequence[float]) -> tuple[float, ...]:
    """Return each p as it counts when all of them are looked at, in the given order.

    The chance that any true null hypothesis falls below 5 % stays at 5 %, however the tests depend on each other
    (Holm 1979).
    """
    adjusted = [0.0] * len(chances)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        highest = max(highest, min(1.0, chances[place] * (len(chances) - rank)))
        adjusted[place] = highest
    return tuple(adjusted)
