"""`agentv show --by`: the rows of a run counted by what they have in common."""

from collections.abc import Iterable, Sequence

from agentv.cli.terminal import terminal_style
from agentv.reports.group_table import group_tables
from agentv.scoring.aggregation import row_state
from agentv.scoring.case_sums import case_of
from agentv.scoring.groups import KINDS, Groups, kind_named
from agentv.scoring.row_kinds import kind_of
from agentv.types.errors import ConfigError
from agentv.types.records.result import CaseResult
from agentv.types.summaries import GroupSummary


def count_groups(rows: Iterable[CaseResult], words: Sequence[str]) -> tuple[GroupSummary, ...]:
    """Return the groups of rows by each of the words. Raises ConfigError for a word by which there is no group."""
    kinds = tuple(dict.fromkeys(map(kind_named, words)))
    groups = Groups(kinds)
    for row in rows:
        groups.add(kind_of(row, row_state(row)), case=case_of(row.slot), metadata=row.metadata)
    found = groups.summaries()
    missing = [kind for kind in kinds if kind not in {group.by for group in found}]
    if missing:
        known = ", ".join(KINDS)
        raise ConfigError(
            f"no row has {missing[0]!r} to group by; name one of {known}, or a key of the cases' metadata"
        )
    return found


def group_text(groups: Sequence[GroupSummary]) -> str:
    """Return groups as tables in the style of this terminal."""
    style = terminal_style()
    return group_tables(groups, width=style.width, signs=style.signs, paint=style.paint)
