"""What `agentv compare` found: one or several comparisons, or one for each group."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from agentv.scoring.comparison.compare import CaseDifference, Comparison
from agentv.scoring.comparison.grouping import GroupKey
from agentv.scoring.comparison.sides import Side
from agentv.types.results import RunVerdict


class Reasons(NamedTuple):
    """The reasons for a case's scores before and after; None where only scores are stored."""

    before: str | None
    after: str | None


FindReasons: TypeAlias = Callable[[CaseDifference], Reasons]
"""Reads the reasons for the scores of a case from the stored results."""


class ExplainedComparison(NamedTuple):
    """A comparison with the reader of the reasons for its scores, and the verdict of the gates if there are any."""

    comparison: Comparison
    find_reasons: FindReasons
    verdict: RunVerdict | None = None


class ComparedGroup(NamedTuple):
    """The comparison of one group."""

    key: GroupKey
    explained: ExplainedComparison


class GroupedComparison(Struct, frozen=True):
    """The comparisons of the groups of kind `by` that both sides have, and the groups of one side only."""

    by: str
    before: Side
    after: Side
    groups: tuple[ComparedGroup, ...]
    only_before: tuple[GroupKey, ...] = ()
    only_after: tuple[GroupKey, ...] = ()


Compared: TypeAlias = GroupedComparison | tuple[ExplainedComparison, ...]
"""The groups of two runs, or comparisons with the same first run: one or several."""
