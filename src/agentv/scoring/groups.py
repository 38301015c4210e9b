"""Rows counted by what they have in common: a tag, a dataset, a criterion, a target, a key of their metadata."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeAlias

from agentv.scoring.aggregation import result_verdict, verdict_of
from agentv.scoring.case_sums import case_of
from agentv.scoring.tallies import Tally
from agentv.types.evaluation import EvaluatorResult
from agentv.types.json_value import JsonValue
from agentv.types.results import CaseResult, RowState
from agentv.types.summaries import GroupSummary

ALWAYS_BY = ("tag", "dataset", "criterion")
KINDS = ("tag", "dataset", "criterion", "evaluator", "target", "suite")
METADATA = "metadata."
"""Stands before a key of the cases' metadata: rows are grouped by its value, a list puts a row into several groups."""
GROUPS_KEPT = 1000
OTHERS = "(others)"
"""Stands for all groups of a kind after the first 1,000; tags are all kept, and what a gate asks for."""


def kind_named(word: str) -> str:
    """Return the kind of group that people mean by a word: one of KINDS, else a key of the metadata."""
    return word if word in KINDS or word.startswith(METADATA) else METADATA + word


_Member: TypeAlias = tuple[str, RowState, float | None]
"""One result in a row that is counted by itself: its group, its state, its score."""


class Groups:
    """Tallies by kind and name of group.

    `by` names the kinds: one of KINDS, or `metadata.KEY`. `kept` groups, given by kind and name, are counted by
    themselves however late they come.
    """

    def __init__(self, by: Iterable[str] = ALWAYS_BY, kept: Collection[tuple[str, str]] = ()) -> None:
        self._kept = kept
        self._tallies: dict[str, dict[str, Tally]] = {kind: {} for kind in by}

    def add(self, result: CaseResult, state: RowState, case: int | None) -> None:
        """Count a row in every group that it belongs to. `case` is as for a tally."""
        for by, tallies in self._tallies.items():
            if by in _OF_RESULTS:
                members = _OF_RESULTS[by](result)
                # A criterion that several evaluators of a row judge is one case, however often cases are asked.
                of_row = case or (case_of(result.slot) if _has_twice(members) else None)
                for group, member_state, score in members:
                    tally = tallies.get(group) or self._made(by, group)
                    tally.add(member_state, score, of_row)
                continue
            for group in _names(result, by):
                tally = tallies.get(group) or self._made(by, group)
                tally.add(state, result.score, case)

    def _made(self, by: str, group: str) -> Tally:
        """Return the tally of a group that has none of its own yet: a new one, or that of all others."""
        tallies = self._tallies[by]
        is_kept = by == "tag" or len(tallies) < GROUPS_KEPT or (by, group) in self._kept
        return tallies.setdefault(group if is_kept else OTHERS, Tally())

    def get(self, by: str, group: str) -> Tally | None:
        """Return the tally of one group, None when nothing belongs to it."""
        return self._tallies.get(by, {}).get(group)

    def names(self, by: str) -> Collection[str]:
        """Return the groups of a kind."""
        return self._tallies.get(by, {}).keys()

    def summaries(self) -> tuple[GroupSummary, ...]:
        """Return every group, kind by kind, in the order in which they first came."""
        return tuple(
            group_summary(by, group, tally) for by, tallies in self._tallies.items() for group, tally in tallies.items()
        )


def group_summary(by: str, name: str, tally: Tally) -> GroupSummary:
    """Return what is told of one group."""
    return GroupSummary(
        by=by,
        name=name,
        counts=dict(tally.counts),
        mean_score=tally.mean,
        pass_rate=tally.pass_rate,
        mean_interval=tally.mean_interval,
        pass_rate_interval=tally.pass_rate_interval,
    )


def evaluator_state(result: EvaluatorResult) -> RowState:
    """Return the state of one evaluator's result, as rows have one."""
    if result.status in ("error", "skipped"):
        return result.status
    return result_verdict(result)


def _of_evaluators(row: CaseResult) -> list[_Member]:
    return [(each.name, evaluator_state(each), each.score) for each in row.evaluator_results]


def _of_criteria(row: CaseResult) -> list[_Member]:
    """Return the criteria that have a value or an error; one on a scale that cannot be averaged has neither."""
    told: list[_Member] = []
    for evaluator in row.evaluator_results:
        for each in evaluator.results:
            if each.error is not None:
                told.append((each.criterion_name, "error", None))
            elif each.value is not None:
                told.append((each.criterion_name, verdict_of(each.value), each.value))
    return told


def _has_twice(members: list[_Member]) -> bool:
    return len(members) > 1 and len({group for group, _, _ in members}) < len(members)


_OF_RESULTS: dict[str, Callable[[CaseResult], list[_Member]]] = {
    "evaluator": _of_evaluators,
    "criterion": _of_criteria,
}
"""Kinds of groups whose members are parts of a row; those of all others are rows."""


def _names(result: CaseResult, by: str) -> tuple[str, ...]:
    if by == "tag":
        return result.tags
    if by == "dataset":
        return (result.dataset,)
    if by == "target":
        return (result.slot.target,)
    if by == "suite":
        return (result.slot.suite,)
    return tuple(dict.fromkeys(_texts(result.metadata.get(by.removeprefix(METADATA)))))


def _texts(value: JsonValue) -> Iterator[str]:
    """Yield the names of the groups that a value of metadata stands for; none for what has no simple name."""
    if isinstance(value, bool):
        yield "true" if value else "false"
    elif isinstance(value, str | int | float):
        yield f"{value}"
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
