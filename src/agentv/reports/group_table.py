"""Groups of rows as tables: a table for each kind, a line for each group."""

from collections.abc import Sequence

from agentv.reports.amounts import percent_interval_text, percent_text, score_interval_text, score_text
from agentv.reports.paint import Paint, without_colour
from agentv.reports.printable import one_line
from agentv.reports.signs import UNICODE, Signs
from agentv.reports.table import table
from agentv.types.summaries import GroupSummary


def group_tables(
    groups: Sequence[GroupSummary], *, width: int | None = 80, signs: Signs = UNICODE, paint: Paint = without_colour
) -> str:
    """Return the groups, in their order, with how sure their rates and means are."""
    kinds = dict.fromkeys(group.by for group in groups)
    tables = [_rows(kind, [group for group in groups if group.by == kind]) for kind in kinds]
    return signs.within("\n\n".join("\n".join(table(rows, width, paint)) for rows in tables) + "\n")


def _rows(kind: str, groups: Sequence[GroupSummary]) -> list[list[str]]:
    return [[one_line(kind), "pass rate", "95 %", "mean", "95 %", "errors"], *map(_row, groups)]


def _row(group: GroupSummary) -> list[str]:
    return [
        one_line(group.name),
        f"{percent_text(group.pass_rate)} of {group.judged:,}" if group.judged else "none judged",
        percent_interval_text(group.pass_rate_interval),
        score_text(group.mean_score),
        score_interval_text(group.mean_interval),
        f"{group.counts.get('error', 0):,}",
    ]
