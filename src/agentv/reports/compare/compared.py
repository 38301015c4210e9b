"""What `agentv compare` found: one or several comparisons, or one for each group."""

from typing import NamedTuple, TypeAlias

from msgspec import Struct

from agentv.scoring.comparison.compare import Comparison
from agentv.scoring.comparison.explanations import Explain
from agentv.scoring.comparison.grouping import GroupKey
from agentv.types.results import RunVerdict


class ExplainedComparison(NamedTuple):
    """A comparison with the reader of its explanations, and the verdict of the gates if there are any."""

    comparison: Comparison
    explain: Explain
    verdict: RunVerdict | None = None


class ComparedGroup(NamedTuple):
    """The comparison of one group."""

    key: GroupKey
    explained: ExplainedComparison


class GroupedComparison(Struct, frozen=True):
    """The comparisons of the groups of kind `by` that both sides have, and the groups of one side only."""

    by: str
    whole: ExplainedComparison
    """All cases of both sides, whatever their groups."""
    groups: tuple[ComparedGroup, ...]
    only_before: tuple[GroupKey, ...] = ()
    only_after: tuple[GroupKey, ...] = ()


Compared: TypeAlias = GroupedComparison | tuple[ExplainedComparison, ...]
"""The groups of two runs, or comparisons with the same first run: one or several."""
