"""The numbers of a report, the same in every format."""

import pytest
from msgspec.structs import replace
from tests.reports.rows import REPORT

from agentv.reports.run.figures import shown_k, target_figures
from agentv.types.summaries import TrialSummary

TARGET = REPORT.targets[0]


@pytest.mark.parametrize(
    ("cases", "k"),
    [
        ([], 0),
        ([{1: 4, 2: 4, 3: 4}], 3),
        ([{1: 4, 2: 4, 3: 2}], 3),
        ([{1: 40, 2: 40, 3: 1}], 2),
        ([{1: 40, 2: 1}], 0),
        ([{1: 4, 10: 4, 20: 4}, {1: 4, 10: 4, 15: 4}, {}], 10),
    ],
)
def test_trials_are_shown_for_a_k_that_enough_cases_of_all_targets_have(cases: list[dict[int, int]], k: int) -> None:
    targets = [
        replace(TARGET, trials=tuple(TrialSummary(k, count, 0.5, 0.5) for k, count in each.items())) for each in cases
    ]
    assert shown_k(targets) == k


def test_a_rate_of_trials_stands_with_its_denominator() -> None:
    values = {figure.name: figure.value for figure in target_figures(TARGET, 3)}
    assert (values["pass@3"], values["pass^3"]) == ("90.1 % of 180 cases", "50.3 % of 180 cases")
    assert not [figure.name for figure in target_figures(TARGET, 0) if "@" in figure.name]
