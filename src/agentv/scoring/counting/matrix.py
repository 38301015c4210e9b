"""The matrix of a run: pass rate and mean of each prompt with each target, and which cell is best."""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from agentv.scoring.counting.tallies import Tally
from agentv.types.summaries import LEVEL, BestCell, CellSummary, MatrixSummary

CellName: TypeAlias = tuple[str | None, str]
"""The prompt and the target of a cell."""


class PlanOrder(Struct, frozen=True):
    """The targets and prompts of a run in the order of its plan; others come last, in the order of their rows."""

    targets: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()

    def target_index(self, target: str) -> int:
        """Return the index of a target, for sorting."""
        return _index(target, self.targets)

    def cell_index(self, cell: CellName) -> tuple[int, int]:
        """Return the indexes of a cell's prompt and target, for sorting."""
        prompt, target = cell
        return (-1 if prompt is None else _index(prompt, self.prompts)), _index(target, self.targets)


def _index(name: str, names: tuple[str, ...]) -> int:
    return names.index(name) if name in names else len(names)


_SEED = 0
_MIN_CELLS = 2


def matrix_summary(
    cells: Mapping[CellName, Tally], costs: Mapping[CellName, float | None] | None = None
) -> MatrixSummary | None:
    """Return the matrix of a run's cells, None with fewer than two cells. Each tally has the sums of its cases.

    `costs` are the mean costs of an answer, in dollars, as far as they are known.

    The best cell has the highest mean. It is compared with each other one by a paired permutation test over the cases
    that both have, with all p corrected by Holm's method. It is significantly best if each of these tests
    finds it higher.
    """
    if any(prompt is not None for prompt, _ in cells):
        # Lines of a dataset that cannot be read have no prompt.
        cells = {name: tally for name, tally in cells.items() if name[0] is not None or tally.judged}
    if len(cells) < _MIN_CELLS:
        return None
    return MatrixSummary(
        prompts=tuple(dict.fromkeys(prompt for prompt, _ in cells)),
        targets=tuple(dict.fromkeys(target for _, target in cells)),
        cells=tuple(_cell(name, tally, (costs or {}).get(name)) for name, tally in cells.items()),
        best=_best(cells),
    )


def _cell(name: CellName, tally: Tally, mean_cost_usd: float | None) -> CellSummary:
    return CellSummary(
        prompt=name[0],
        target=name[1],
        counts=dict(tally.counts),
        mean_score=tally.mean,
        pass_rate=tally.pass_rate,
        mean_interval=tally.mean_interval,
        pass_rate_interval=tally.pass_rate_interval,
        mean_cost_usd=mean_cost_usd,
    )


def _best(cells: Mapping[CellName, Tally]) -> BestCell | None:
    """Return the best cell, compared with the others; None if fewer than two cells have a judged row."""
    means = {name: tally.mean for name, tally in cells.items() if tally.mean is not None}
    if len(means) < _MIN_CELLS:
        return None
    from agentv.scoring.statistics.differences import holm  # noqa: PLC0415
    from agentv.scoring.statistics.paired import paired_procedure  # noqa: PLC0415

    # `sorted` is stable: of cells with the same mean, the first is listed first.
    best, *others = sorted(means, key=lambda name: -(means[name] or 0.0))
    differences = [list(_paired(cells[best], cells[other])) for other in others]
    rng = random.Random(_SEED)  # noqa: S311 - draws sign patterns, not secrets
    procedures = [paired_procedure([[value] for value in each], rng) if each else None for each in differences]
    corrected_p = holm([1.0 if each is None else each.p for each in procedures])
    first, kept = procedures[0], sum(p > 1 - LEVEL for p in corrected_p)
    are_lower = [_is_higher(*each) for each in zip(differences, corrected_p, strict=True)]
    return BestCell(
        prompt=best[0],
        target=best[1],
        next_prompt=others[0][0],
        next_target=others[0][1],
        cases=len(differences[0]),
        difference=None if first is None else math.fsum(differences[0]) / len(differences[0]),
        interval=None if first is None else first.interval(1 - (1 - LEVEL) / max(kept, 1)),
        p=corrected_p[0],
        is_significant=all(are_lower),
        lower=tuple(other for other, is_lower in zip(others, are_lower, strict=True) if is_lower),
    )


def _is_higher(differences: Sequence[float], p: float) -> bool:
    return sum(differences) > 0 and p <= 1 - LEVEL


def _paired(best: Tally, other: Tally) -> Iterator[float]:
    """Yield the difference of the mean scores of each case that was judged in both cells."""
    if best.cases is None or other.cases is None:
        return
    for case in best.cases:
        paired = other.cases.get(case.case)
        if paired is not None:
            yield case.score_sum / case.rows - paired.score_sum / paired.rows
