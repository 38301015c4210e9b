"""Summaries that count what a run's gates ask for, however many groups there are."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentv.scoring.run_verdict import AskedGate
from agentv.scoring.summary import Summary

if TYPE_CHECKING:
    from agentv.scoring.judged_summary import JudgedSummary


def summary_for(gates: Sequence[AskedGate] | None, *, has_targets: bool) -> Summary:
    """Return a summary that counts apart the suites with gates of their own. `has_targets` is as for Summary."""
    suites = {asked.suite for asked in gates or () if asked.suite is not None}
    return Summary(suites, kept=_names(gates), has_targets=has_targets)


def judged_summary_for(gates: Sequence[AskedGate] | None) -> "JudgedSummary":
    """Return a summary of a stream."""
    from agentv.scoring.judged_summary import JudgedSummary  # noqa: PLC0415 - a run has none

    return JudgedSummary(kept=frozenset(name for _, name in _names(gates)))


def _names(gates: Sequence[AskedGate] | None) -> frozenset[tuple[str, str]]:
    """Return what gates ask for by name, as the kind of group and its name."""
    named = (asked.gate for asked in gates or () if asked.gate.metric.takes == "name")
    return frozenset((gate.name, gate.argument or "") for gate in named)
