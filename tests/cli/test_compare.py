"""`agentv compare`: two stored runs, side by side."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from tests.carrying import Project
from tests.rows import make_row
from tests.stored import at_noon, make_run

from agentv.storage import RunFolder, runs_folder
from agentv.types.results import CaseResult

Keep = Callable[[str, Sequence[CaseResult]], None]


@pytest.fixture
def keep(project: Project) -> Keep:
    """Return what keeps rows as a finished run."""

    def keep_run(run_id: str, rows: Sequence[CaseResult]) -> None:
        store = RunFolder(runs_folder(project.folder / ".agentv"), run_id, clock=at_noon)
        store.begin(make_run(run_id=run_id, name=None))
        for row in rows:
            store.append(row)
        store.close("finished")

    return keep_run


def scores(*values: float) -> list[CaseResult]:
    return [make_row(f"case-{number}", score=value) for number, value in enumerate(values)]


def test_the_last_line_is_the_finding(project: Project, keep: Keep) -> None:
    keep("r1", scores(*[0.2] * 8))
    keep("r2", scores(*[0.9] * 8))
    keep("r3", scores(*[0.9] * 7, 0.8))
    last = {pair: project.call("compare", *pair.split())[1].splitlines()[-1] for pair in ("r1 r2", "r2 r1", "r2 r3")}
    assert last == {"r1 r2": "better", "r2 r1": "worse", "r2 r3": "no evidence of a difference"}


def test_a_later_generation_of_a_row_counts_and_the_earlier_does_not(project: Project, keep: Keep) -> None:
    keep("r1", scores(0.5, 0.5))
    keep("r2", [*scores(0.0, 0.5), replace(make_row("case-0", score=1.0), generation=1)])
    assert "+0.25" in project.call("compare", "r1", "r2")[1]
