"""Counts of rows by group: by tag, dataset, criterion, target, week, or a key of the cases' metadata."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from agentv.scoring.counting.case_sums import Spill, cluster_of
from agentv.scoring.counting.row_kinds import RowKind, Scored, kind_of
from agentv.scoring.counting.tallies import Tally
from agentv.scoring.results.aggregation import row_state
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.records.result import CaseResult
from agentv.types.results import RowState
from agentv.types.summaries import GroupSummary

ALWAYS_BY = ("tag", "dataset", "criterion", "prompt")
KINDS = ("tag", "dataset", "criterion", "evaluator", "target", "suite", "prompt", "week")
METADATA = "metadata."
"""The prefix of a metadata key: rows are grouped by its value; a list puts a row into several groups."""
MAX_GROUPS = 1000
MAX_STREAM_GROUPS = 200
OTHERS = "(others)"
"""The name for all groups of a kind after the first 1,000, except tags and the groups that gates name.

In a stream it is for those after the first 200: each line may bring new criteria.
"""
SHOWN_KEYS = 20
_NO_METADATA: JsonObject = {}


def nothing_grouped(kind: str, keys: Iterable[str], *, of: str = "result") -> str:
    """Return the message that no result, or no line, has a group of this kind; `keys` are those of the metadata."""
    if kind == "tag":
        return no_tags(of)
    known = ", ".join(sorted(keys)[:SHOWN_KEYS])
    has = f"the metadata has the keys: {known}" if known else "there is no metadata"
    return f"no {of} has {kind!r} to group by; {has}"


def no_tags(of: str) -> str:
    """Return the message that no labelled case, or whatever `of` names, has a tag."""
    return f"no {of} has a tag to group by; a case gets them by `tags:` in its eval file"


def kind_named(word: str) -> str:
    """Return the kind of group with that name: one of KINDS, else a key of the metadata."""
    return word if word in KINDS or word.startswith(METADATA) else METADATA + word


class Groups:
    """Tallies by kind and name of group.

    `by` names the kinds: one of KINDS, or `metadata.KEY`. `named` groups, given by kind and name, always get a tally of
    their own, also after the first MAX_GROUPS groups. `has_given_answers` and `spill` are as for Summary.
    """

    def __init__(
        self,
        by: Iterable[str] = ALWAYS_BY,
        named: Collection[tuple[str, str]] = (),
        *,
        has_given_answers: bool = False,
        spill: Spill | None = None,
    ) -> None:
        self._named = named
        self._are_given = has_given_answers
        self._spill = spill
        self._max_groups = MAX_STREAM_GROUPS if has_given_answers else MAX_GROUPS
        self._tallies: dict[str, dict[str, Tally]] = {kind: {} for kind in by}

    def add(
        self,
        kind: RowKind,
        rows: int = 1,
        case: int | None = None,
        *,
        metadata: JsonObject = _NO_METADATA,
        time: datetime | None = None,
    ) -> None:
        """Count rows of one kind in every group that they belong to. `rows` and `case` are as for Tally.add.

        `metadata` is that of their cases and `time` when they finished; they are needed only to group by them.
        """
        for by, tallies in self._tallies.items():
            if self._are_given and by == "criterion":
                self._list_criteria(kind)
            parts = parts_of(kind, by, metadata=metadata, time=time)
            if by in _PARTS and case is None and _has_duplicate_names(parts):
                self._add_whole(by, parts, rows)
                continue
            for group, state, score in parts:
                tally = tallies.get(group) or self._tally_for(by, group)
                tally.add(state, score, rows, case)

    def _list_criteria(self, kind: RowKind) -> None:
        """List every criterion, including those on a scale that cannot be averaged, which have no counted result."""
        for name, _, _ in kind.criteria:
            if name not in self._tallies["criterion"]:
                self._tally_for("criterion", name)

    def _add_whole(self, by: str, parts: Iterable[Scored], cases: int) -> None:
        """Count the parts of `cases` equal rows, each the only row of its case; parts of one name are a cluster."""
        by_name: dict[str, list[tuple[RowState, float | None]]] = {}
        for name, state, score in parts:
            by_name.setdefault(name, []).append((state, score))
        for name, named in by_name.items():
            tally = self._tallies[by].get(name) or self._tally_for(by, name)
            tally.add_whole(named, cases)

    def _tally_for(self, by: str, group: str) -> Tally:
        """Return a new tally for a group, or the common tally of all groups after the first ones."""
        tallies = self._tallies[by]
        is_own = by == "tag" or len(tallies) < self._max_groups or (by, group) in self._named
        return tallies.setdefault(group if is_own else OTHERS, Tally(self._spill))

    def get(self, by: str, group: str) -> Tally | None:
        """Return the tally of one group, None when nothing belongs to it."""
        return self._tallies.get(by, {}).get(group)

    def names(self, by: str) -> Collection[str]:
        """Return the groups of a kind."""
        return self._tallies.get(by, {}).keys()

    def summaries(self) -> tuple[GroupSummary, ...]:
        """Return every group, kind by kind, in order of first appearance."""
        return tuple(
            group_summary(by, group, tally) for by, tallies in self._tallies.items() for group, tally in tallies.items()
        )


def group_summary(by: str, name: str, tally: Tally) -> GroupSummary:
    """Return the summary of one group."""
    return GroupSummary(
        by=by,
        name=name,
        counts=dict(tally.counts),
        mean_score=tally.mean,
        pass_rate=tally.pass_rate,
        mean_interval=tally.mean_interval,
        pass_rate_interval=tally.pass_rate_interval,
    )


def parts_of(kind: RowKind, by: str, *, metadata: JsonObject, time: datetime | None) -> list[Scored]:
    """Return the groups of kind `by` that a row belongs to, each with the state and the score that count there.

    These are the row's own, and for evaluators and criteria those of their results. `metadata` is that of its case,
    `time` when it finished.
    """
    if by in _PARTS:
        return _PARTS[by](kind)
    return [(group, kind.state, kind.score) for group in _names(kind, by, metadata, time)]


def _has_duplicate_names(parts: Sequence[Scored]) -> bool:
    """Return True if two parts have the same name, such as a criterion that two evaluators judge."""
    return len(parts) > 1 and len({name for name, _, _ in parts}) < len(parts)


def _scored_evaluators(kind: RowKind) -> list[Scored]:
    return [(name, state, score) for name, _, state, score in kind.scored_evaluators()]


_PARTS: dict[str, Callable[[RowKind], list[Scored]]] = {
    "evaluator": _scored_evaluators,
    "criterion": RowKind.scored_criteria,
}
"""Kinds of groups that count parts of a row; all others count rows."""


def _names(kind: RowKind, by: str, metadata: JsonObject, time: datetime | None) -> tuple[str, ...]:
    if by == "tag":
        return kind.tags
    if by == "week":
        return () if time is None else (week_of(time),)
    if by == "dataset":
        return (kind.dataset,)
    if by == "target":
        return (kind.target,)
    if by == "suite":
        return (kind.suite,)
    if by == "prompt":
        return () if kind.prompt is None else (kind.prompt,)
    return tuple(dict.fromkeys(_texts(metadata.get(by.removeprefix(METADATA)))))


def week_of(time: datetime) -> str:
    """Return the ISO week of a time in UTC, such as `2026-W47`."""
    year, week, _ = time.astimezone(UTC).isocalendar()
    return f"{year}-W{week:02}"


def _texts(value: JsonValue) -> Iterator[str]:
    """Yield the groups that a metadata value stands for; none for a value without a simple name."""
    if isinstance(value, bool):
        yield "true" if value else "false"
    elif isinstance(value, str | int | float):
        yield f"{value}"
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def count_groups(rows: Iterable[CaseResult], words: Sequence[str]) -> tuple[GroupSummary, ...]:
    """Return the summaries of results grouped by each of `words`, each target and prompt of a group separately.

    Raises ConfigError for a word without any group.
    """
    kinds = tuple(dict.fromkeys(map(kind_named, words)))
    variants: dict[tuple[str, str | None], Groups] = {}
    keys: set[str] = set()
    for row in rows:
        keys.update(row.metadata)
        variant = row.slot.target, row.slot.prompt
        groups = variants.get(variant) or variants.setdefault(variant, Groups(kinds))
        groups.add(kind_of(row, row_state(row)), case=cluster_of(row), metadata=row.metadata, time=row.timestamp)
    counted = [
        replace(group, target=target, prompt=prompt)
        for (target, prompt), groups in variants.items()
        for group in groups.summaries()
    ]
    names = list(dict.fromkeys((group.by, group.name) for group in counted))
    place = {name: (kinds.index(name[0]), number) for number, name in enumerate(names)}
    found = tuple(sorted(counted, key=lambda group: place[group.by, group.name]))
    missing = [kind for kind in kinds if kind not in {group.by for group in found}]
    if missing:
        others = ", ".join(kind for kind in KINDS if kind != missing[0])
        raise ConfigError(f"{nothing_grouped(missing[0], keys)}; or use one of {others}")
    return found
