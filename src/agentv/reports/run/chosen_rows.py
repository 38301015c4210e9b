"""Select the results that a report shows when it cannot show all."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from agentv.reports.text.amounts import count_text
from agentv.scoring.results.aggregation import row_state
from agentv.types.records.result import CaseResult
from agentv.types.results import RowState

WORST_FIRST: tuple[RowState, ...] = ("fail", "error", "borderline", "pass", "skipped")


class ChosenRows(Struct, frozen=True):
    """The results to show, those that did not pass first, and the total number in each state."""

    rows: tuple[CaseResult, ...]
    totals: Mapping[RowState, int]

    @property
    def left_out(self) -> Mapping[RowState, int]:
        """The number of results in each state that are not shown."""
        left = dict(self.totals)
        for row in self.rows:
            left[row_state(row)] -= 1
        return {state: count for state, count in left.items() if count}

    def left_out_text(self) -> str:
        """Return the results that are not shown, as `3,000 results: 10 fail, 2,990 pass`; empty when all are shown."""
        left = self.left_out
        states = ", ".join(f"{left[state]:,} {state}" for state in WORST_FIRST if state in left)
        return f"{count_text(sum(left.values()), 'result')}: {states}" if left else ""


def choose_rows(rows: Iterable[CaseResult], *, max_rows: int) -> ChosenRows:
    """Return at most `max_rows` results in the order of `WORST_FIRST`; those of one state stay in their order."""
    chosen: dict[RowState, list[CaseResult]] = {state: [] for state in WORST_FIRST}
    totals = dict.fromkeys(WORST_FIRST, 0)
    for row in rows:
        state = row_state(row)
        totals[state] += 1
        if len(chosen[state]) < max_rows:
            chosen[state].append(row)
    return ChosenRows(tuple([row for state in WORST_FIRST for row in chosen[state]][:max_rows]), totals)
