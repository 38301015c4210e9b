"""Rows counted by what they have in common: a tag, a dataset, a criterion, a target, a key of their metadata."""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from agentv.scoring.aggregation import result_verdict, verdict_of
from agentv.scoring.tallies import Tally
from agentv.types.evaluation import EvaluationResult, EvaluatorResult
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


class _Member(NamedTuple):
    """One thing that is counted: the row, or the result of an evaluator or a criterion in it."""

    group: str
    state: RowState
    score: float | None


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
            for group, member_state, score in _members(result, state, by):
                tally = tallies.get(group)
                if tally is None:
                    is_kept = by == "tag" or len(tallies) < GROUPS_KEPT or (by, group) in self._kept
                    tally = tallies.setdefault(group if is_kept else OTHERS, Tally())
                tally.add(member_state, score, case)

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


def _members(result: CaseResult, state: RowState, by: str) -> Iterator[_Member]:
    match by:
        case "evaluator":
            yield from (_Member(each.name, evaluator_state(each), each.score) for each in result.evaluator_results)
        case "criterion":
            for evaluator in result.evaluator_results:
                yield from (_of_criterion(each) for each in evaluator.results if _is_told(each))
        case _:
            yield from (_Member(name, state, result.score) for name in _names(result, by))


def _is_told(result: EvaluationResult) -> bool:
    """Whether a criterion has a value or an error; one on a scale that cannot be averaged has neither."""
    return result.value is not None or result.error is not None


def _of_criterion(result: EvaluationResult) -> _Member:
    if result.error is not None or result.value is None:
        return _Member(result.criterion_name, "error", None)
    return _Member(result.criterion_name, verdict_of(result.value), result.value)


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
