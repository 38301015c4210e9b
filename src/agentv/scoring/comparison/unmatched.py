"""The reason why no case of two runs can be compared."""

from collections.abc import Iterable

from agentv.scoring.comparison.pairs import align, counterpart_suites
from agentv.scoring.comparison.sides import PASSED, Side

_MAX_NAMES = 3


def why_unmatched(before: Side, after: Side) -> str:
    """Return why no case of one run has a score that can be compared with one of the other.

    The first reason of these: a run without results, other eval files, other cases, other targets, other prompts, no
    score.
    """
    empty = [side.label for side in (before, after) if not side.case_count]
    if empty:
        return f"{' and '.join(empty)} has no result" if len(empty) == 1 else "both runs have no result"
    if len(align(before, after).pairs):
        return _why_unscored(before, after)
    suites = counterpart_suites(before, after)
    if not suites:
        return f"eval files differ: {_names(before.suites)} before, {_names(after.suites)} after"
    ids = {(suites[name.suite], name.eval_id) for name in before.names() if name.suite in suites}
    if ids.isdisjoint((name.suite, name.eval_id) for name in after.names()):
        return f"no case id is in both runs; {before.label} and {after.label} have other cases"
    if max(len(before.targets), len(after.targets)) > 1 and not set(before.targets) & set(after.targets):
        targets = f"{_names(before.targets)} before, {_names(after.targets)} after"
        return f"targets differ: {targets}; --targets A B pairs two of them"
    if not set(before.prompts) & set(after.prompts):
        prompts = f"{_names(before.prompts)} before, {_names(after.prompts)} after"
        return f"prompts differ: {prompts}; --prompts A B pairs two of them"
    return "no case has the same eval file, target and prompt in both runs"


def _why_unscored(before: Side, after: Side) -> str:
    scored = [any(map(side.column(PASSED).count, range(side.case_count))) for side in (before, after)]
    missing = [side.label for side, has_score in zip((before, after), scored, strict=True) if not has_score]
    if len(missing) == 1:
        return f"{missing[0]} has no result with a score"
    return "neither run has a result with a score" if missing else "no case has a score in both runs"


def _names(names: Iterable[str | None]) -> str:
    """Return the first names, and how many more there are; a case without a prompt has "no prompt"."""
    listed = [name or "no prompt" for name in names]
    more = f" and {len(listed) - _MAX_NAMES:,} more" if len(listed) > _MAX_NAMES else ""
    return ", ".join(listed[:_MAX_NAMES]) + more
