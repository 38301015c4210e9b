"""How often the matrix of a run marks a best cell where there is none."""

import random

import pytest
from tests.support.stored import make_result

from agentv.scoring.counting.summary import Summary
from agentv.types.records.answer import ResultKey

RUNS = 400
CASES = 24


def marks_a_best(cells: int, rng: random.Random) -> bool:
    """Return whether the matrix of equally good cells has a best; cases differ in how hard they are."""
    summary = Summary(by=(), has_shared_cases=True)
    for number in range(CASES):
        chance = rng.random()
        for cell in range(cells):
            slot, score = ResultKey("s", f"c{number}", f"t{cell}"), float(rng.random() < chance)
            summary.add(make_result(slot=slot, score=score, evaluator_results=()), has_trials=False)
    matrix = summary.matrix()
    assert matrix is not None
    return matrix.best is not None and matrix.best.is_significant


@pytest.mark.parametrize("cells", [2, 4, 8])
def test_a_best_is_marked_in_at_most_a_twentieth_of_runs_of_equal_cells(cells: int) -> None:
    rng = random.Random(cells)
    marked = sum(marks_a_best(cells, rng) for _ in range(RUNS))
    assert marked <= 0.05 * RUNS + 3 * (0.05 * 0.95 * RUNS) ** 0.5
