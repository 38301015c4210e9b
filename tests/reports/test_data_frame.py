"""Columns of a data frame."""

from msgspec.structs import replace
from tests.reports.rows import FAILED
from tests.support.stored import CONTAINS, JUDGE

from agentv.reports.run.data_frame import columns_of
from agentv.types.failures import Failure
from agentv.types.results import CaseTexts


def test_an_evaluator_that_judged_nothing_has_no_score() -> None:
    skipped = replace(CONTAINS, name="skipped", status="skipped", score=0.0)
    failed = replace(JUDGE, name="failed", status="error", score=0.0, error=Failure("judge_error", "no JSON"))
    columns = columns_of([replace(FAILED, evaluator_results=(CONTAINS, skipped, failed))], [CaseTexts()])
    assert {name: cells for name, cells in columns.items() if name.startswith("score.")} == {
        "score.contains": [0.0],
        "score.skipped": [None],
        "score.failed": [None],
    }
