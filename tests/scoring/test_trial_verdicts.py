"""Cases whose trials disagree are found in any order, and a million cases fit into memory."""

import tracemalloc
from collections import defaultdict
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.counting.summary import TrialVerdicts
from agentv.types.records.answer import ResultKey
from agentv.types.results import RowState

slots = st.builds(
    ResultKey, st.sampled_from(["a", "b", "\ud800"]), st.sampled_from(["x", "y"]), st.sampled_from(["t", "u"])
)


@given(st.lists(st.tuples(slots, st.sampled_from(get_args(RowState))), max_size=20))
def test_flaky_are_the_cases_with_two_verdicts(trials: list[tuple[ResultKey, RowState]]) -> None:
    found, verdicts = TrialVerdicts(), defaultdict(set)
    for slot, state in trials:
        found.add(slot, state)
        verdicts[slot].add(state)
    expected = [
        f"{slot.eval_id} ({slot.target})" for slot, states in verdicts.items() if len(states - {"error", "skipped"}) > 1
    ]
    assert sorted(found.flaky) == sorted(expected)


def test_a_case_costs_twelve_bytes_at_most() -> None:
    verdicts = TrialVerdicts()
    tracemalloc.start()
    try:
        for number in range(100_000):
            verdicts.add(ResultKey("suite", f"case-{number}", "target"), "pass")
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown / 100_000 < 12
