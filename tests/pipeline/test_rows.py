"""Rows that no answer stands behind belong to the generation of their task, as all others do."""

import pytest
from tests.stored import NOON

from agentv.pipeline.plan import CaseTask
from agentv.pipeline.rows import broken_row, crashed_row, skipped_row
from agentv.pipeline.targets import KnownTargets
from agentv.types.cases import BrokenCase, EvalCase, EvalSuite, Location, listed
from agentv.types.results import CaseResult
from agentv.types.targets import ResolvedTarget

CASE = EvalCase("a", ())
BROKEN = BrokenCase("a", (), Location("s.jsonl", 7))


def task(case: EvalCase | BrokenCase) -> CaseTask:
    known: KnownTargets = object()  # type: ignore[assignment]  # nobody looks a target up here
    return CaseTask(case, EvalSuite("s.jsonl", listed([CASE])), ResolvedTarget("t", "mock", None), known, generation=3)


@pytest.mark.parametrize(
    "row",
    [
        broken_row("r", task(BROKEN), BROKEN, now=NOON),
        crashed_row("r", task(CASE), CASE, "oops", now=NOON),
        skipped_row("r", task(CASE), CASE, now=NOON),
    ],
)
def test_a_row_without_an_answer_is_of_its_tasks_generation(row: CaseResult) -> None:
    assert row.generation == 3
