"""The results of a run that its baseline does not have, and the gates for change that this leaves undecided."""

from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from agentv.scoring.comparison.compare import Comparison
from agentv.scoring.comparison.sides import PASSED, Side
from agentv.scoring.gates.failing_cases import MAX_FAILED_CASES
from agentv.scoring.gates.gates import NO_PAIRS
from agentv.types.results import CaseName
from agentv.types.summaries import NotInBaseline

_MAX_NAMED = 5
_HALF = 0.5

MOSTLY_NEW = "most cases are not in the baseline"

_Group: TypeAlias = tuple[str, str | None]
"""A target and a prompt."""


def not_in_baseline(comparison: Comparison) -> NotInBaseline:
    """Return the cases of the later run that the earlier one does not have, and why gates for change cannot measure it.

    A case with several trials passed if at least half of the judged ones did. A gate cannot measure a run, or a suite,
    if no case was judged in both runs, not even for one of its targets or prompts, nor if most cases are new.
    """
    after, new = comparison.after, comparison.alignment.only_after
    shares = [after.mean(PASSED, name) for name in new]
    failed = [name[:2] for name, share in zip(new, shares, strict=True) if share is not None and share < _HALF]
    planned = _groups(after, range(after.case_count))
    compared = _groups(after, comparison.cases.pairs.second)
    paired = _groups(after, comparison.alignment.pairs.second)
    mostly_new = set(_mostly_new(after, new))
    whys = {
        suite: _why(comparison, groups, compared[suite], paired[suite]) or (MOSTLY_NEW if suite in mostly_new else None)
        for suite, groups in planned.items()
    }
    new_cases = ("--case",) if MOSTLY_NEW in whys.values() else ()
    absent = sorted(planned[""] - compared[""], key=str) if compared[""] else ()
    return NotInBaseline(
        total=len(new),
        cases=len({name[:2] for name in new}),
        passed=sum(share is not None and share >= _HALF for share in shares),
        failed=len(failed),
        has_prompts=any(name.prompt is not None for name in new),
        selectors=tuple(dict.fromkeys(_selector(group, comparison.before) for group in absent)) or new_cases,
        unmeasured={suite: why for suite, why in whys.items() if why is not None},
        failed_cases=tuple(dict.fromkeys(failed))[:MAX_FAILED_CASES],
    )


def _mostly_new(after: Side, new: Iterable[CaseName]) -> Iterator[str]:
    """Yield the suites of which more than half of the cases are new; "" for the whole run."""
    cases, added = _count_by_suite(after.names()), _count_by_suite(new)
    return (suite for suite, count in added.items() if 2 * count > cases[suite])


def _count_by_suite(names: Iterable[CaseName]) -> Counter[str]:
    counts = Counter(name.suite for name in names)
    return counts + Counter({"": counts.total()})


def _groups(side: Side, indexes: Iterable[int]) -> dict[str, set[_Group]]:
    """Return the targets and prompts of cases by suite; those of all suites under the name ""."""
    found: dict[str, set[_Group]] = {"": set(), **{suite: set() for suite in side.suites}}
    for index in indexes:
        name = side.name_at(index)
        found[name.suite].add((name.target, name.prompt))
    found[""] = set().union(*found.values())
    return found


def _why(
    comparison: Comparison, groups: AbstractSet[_Group], compared: AbstractSet[_Group], paired: AbstractSet[_Group]
) -> str | None:
    if not compared:
        return NO_PAIRS
    return next(_reasons(comparison.before, groups - compared, paired), None)


def _reasons(before: Side, absent: AbstractSet[_Group], paired: AbstractSet[_Group]) -> Iterator[str]:
    """Yield why targets and prompts cannot be compared: first those that the baseline does not have."""
    for groups, what in ((absent - paired, "not in the baseline"), (absent & paired, "not judged in both runs")):
        names = list(dict.fromkeys(_text(group, before) for group in sorted(groups, key=str)))
        more = [f"{len(names) - _MAX_NAMED:,} more"] if len(names) > _MAX_NAMED else []
        if names:
            yield f"{', '.join(names[:_MAX_NAMED] + more)} {'is' if len(names) == 1 else 'are'} {what}"


def _text(group: _Group, before: Side) -> str:
    """Return the target, the prompt or both, whichever the baseline does not have."""
    target, prompt = group
    if prompt is None or target not in before.targets:
        return f"target {target!r}"
    return f"target {target!r} with prompt {prompt!r}" if prompt in before.prompts else f"prompt {prompt!r}"


def _selector(group: _Group, before: Side) -> str:
    """Return the option that leaves a target or prompt out."""
    target, prompt = group
    return "--target" if prompt is None or target not in before.targets else "--prompt"
