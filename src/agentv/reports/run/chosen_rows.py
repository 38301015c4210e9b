"""Select the results, and the parts of a long text, that a report shows when it cannot show all."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from agentv.reports.text.amounts import count_text
from agentv.scoring.results.aggregation import row_state
from agentv.types.records.result import CaseResult
from agentv.types.results import RowState

WORST_FIRST: tuple[RowState, ...] = ("fail", "error", "borderline", "pass", "skipped")
LONGEST_TEXT = 20_000
_SHOWN_AT_THE_END = 2_000


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
        """Return `3,000 results: 2,990 pass, 10 fail`; empty when all are shown."""
        left = self.left_out
        states = ", ".join(f"{left[state]:,} {state}" for state in WORST_FIRST if state in left)
        return f"{count_text(sum(left.values()), 'result')}: {states}" if left else ""


def choose_rows(rows: Iterable[CaseResult], *, most: int) -> ChosenRows:
    """Return at most `most` results, ordered by `WORST_FIRST`, each state in the given order."""
    chosen: dict[RowState, list[CaseResult]] = {state: [] for state in WORST_FIRST}
    totals = dict.fromkeys(WORST_FIRST, 0)
    for row in rows:
        state = row_state(row)
        totals[state] += 1
        if len(chosen[state]) < most:
            chosen[state].append(row)
    return ChosenRows(tuple([row for state in WORST_FIRST for row in chosen[state]][:most]), totals)


def shortened(text: str, *, most: int = LONGEST_TEXT) -> str:
    """Return a text of at most about `most` characters: the middle of a longer one is omitted."""
    if len(text) <= most:
        return text
    end = min(_SHOWN_AT_THE_END, most // 4)
    left_out = len(text) - most
    return f"{text[: most - end]}\n[… {left_out:,} characters omitted …]\n{text[-end:]}"
