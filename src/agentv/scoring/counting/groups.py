"""Counts of rows by group: by tag, dataset, criterion, target, week, or a key of the cases' metadata."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime

from msgspec.structs import replace

from agentv.scoring.counting.case_sums import Spill, cluster_of
from agentv.scoring.counting.row_kinds import RowKind, ScoredPart, kind_of
from agentv.scoring.counting.tallies import Tally
from agentv.scoring.results.aggregation import row_state
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.moments import to_utc
from agentv.types.records.result import CaseResult
from agentv.types.results import RowState
from agentv.types.summaries import GroupSummary

DEFAULT_KINDS = ("tag", "dataset", "criterion", "prompt")
KINDS = ("tag", "dataset", "criterion", "evaluator", "target", "suite", "prompt", "week")
METADATA = "metadata."
"""The prefix of a metadata key: rows are grouped by its value; a list puts a row into several groups."""
MAX_GROUPS = 1000
MAX_STREAM_GROUPS = 200
OTHERS = "(others)"
"""The common name of all groups of a kind after the first 1,000, in a stream after the first 200.

Tags and the groups that gates name are never among them. Each line of a stream may bring new criteria.
"""
MAX_SHOWN_KEYS = 20
_NO_METADATA: JsonObject = {}


def no_group_message(kind: str, keys: Iterable[str], *, noun: str = "result") -> str:
    """Return the message that no result, or another `noun`, has a group of this kind; `keys` are the metadata keys."""
    if kind == "tag":
        return no_tags_message(noun)
    known = ", ".join(sorted(keys)[:MAX_SHOWN_KEYS])
    has = f"the metadata has the keys: {known}" if known else "there is no metadata"
    return f"no {noun} has {kind!r} to group by; {has}"


def no_tags_message(noun: str) -> str:
    """Return the message that nothing has a tag; `noun` is the word for the things without tags."""
    return f"no {noun} has a tag to group by; set `tags` of the cases in the eval file"


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
        by: Iterable[str] = DEFAULT_KINDS,
        named: Collection[tuple[str, str]] = (),
        *,
        has_given_answers: bool = False,
        spill: Spill | None = None,
    ) -> None:
        self._named = named
        self._has_given_answers = has_given_answers
        self._spill = spill
        self._max_groups = MAX_STREAM_GROUPS if has_given_answers else MAX_GROUPS
        self._tallies: dict[str, dict[str, Tally]] = {kind: {} for kind in by}

    def add(
        self,
        row_kind: RowKind,
        rows: int = 1,
        case: int | None = None,
        *,
        metadata: JsonObject = _NO_METADATA,
        time: datetime | None = None,
    ) -> None:
        """Count rows of one kind in every group that they belong to. `rows` and `case` are as for Tally.add.

        `metadata` is that of their cases, `time` their finishing time; both are needed only to group by them.
        """
        for by, tallies in self._tallies.items():
            if self._has_given_answers and by == "criterion":
                self._list_criteria(row_kind)
            parts = parts_of(row_kind, by, metadata=metadata, time=time)
            if by in _PARTS and case is None and _has_duplicate_names(parts):
                self._add_cases(by, parts, rows)
                continue
            for group, state, score in parts:
                tally = tallies.get(group) or self._tally_for(by, group)
                tally.add(state, score, rows, case)

    def _list_criteria(self, row_kind: RowKind) -> None:
        """Add a tally for every criterion, including those on a scale that cannot be averaged, which stay at 0."""
        for name, _, _ in row_kind.criteria:
            if name not in self._tallies["criterion"]:
                self._tally_for("criterion", name)

    def _add_cases(self, by: str, parts: Iterable[ScoredPart], cases: int) -> None:
        """Count the parts of `cases` equal rows, each the only row of its case; parts of one name form a cluster."""
        by_name: dict[str, list[tuple[RowState, float | None]]] = {}
        for name, state, score in parts:
            by_name.setdefault(name, []).append((state, score))
        for name, named_parts in by_name.items():
            tally = self._tallies[by].get(name) or self._tally_for(by, name)
            tally.add_cases(named_parts, cases)

    def _tally_for(self, by: str, group: str) -> Tally:
        """Return a new tally for a group, or the tally of OTHERS if there are too many groups."""
        tallies = self._tallies[by]
        has_own_tally = by == "tag" or len(tallies) < self._max_groups or (by, group) in self._named
        return tallies.setdefault(group if has_own_tally else OTHERS, Tally(self._spill))

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


def parts_of(row_kind: RowKind, by: str, *, metadata: JsonObject, time: datetime | None) -> list[ScoredPart]:
    """Return the groups of kind `by` that a row belongs to, each with the state and the score that count there.

    State and score are those of the row; for evaluators and criteria, those of their results. `metadata` is that of the
    row's case, `time` the time when it finished.
    """
    if by in _PARTS:
        return _PARTS[by](row_kind)
    return [(group, row_kind.state, row_kind.score) for group in _group_names_of_row(row_kind, by, metadata, time)]


def _has_duplicate_names(parts: Sequence[ScoredPart]) -> bool:
    """Return True if two parts have the same name, such as a criterion that two evaluators judge."""
    return len(parts) > 1 and len({name for name, _, _ in parts}) < len(parts)


def _scored_evaluators(row_kind: RowKind) -> list[ScoredPart]:
    return [(name, state, score) for name, _, state, score in row_kind.scored_evaluators()]


_PARTS: dict[str, Callable[[RowKind], list[ScoredPart]]] = {
    "evaluator": _scored_evaluators,
    "criterion": RowKind.scored_criteria,
}
"""Kinds of groups that count parts of a row; all other kinds count rows."""


def _group_names_of_row(row_kind: RowKind, by: str, metadata: JsonObject, time: datetime | None) -> tuple[str, ...]:
    if by == "tag":
        return row_kind.tags
    if by == "week":
        return () if time is None else (week_of(time),)
    if by == "dataset":
        return (row_kind.dataset,)
    if by == "target":
        return (row_kind.target,)
    if by == "suite":
        return (row_kind.suite,)
    if by == "prompt":
        return () if row_kind.prompt is None else (row_kind.prompt,)
    return tuple(dict.fromkeys(_metadata_names(metadata.get(by.removeprefix(METADATA)))))


def week_of(time: datetime) -> str:
    """Return the ISO week of a time in UTC, such as `2026-W47`."""
    year, week, _ = to_utc(time).isocalendar()
    return f"{year}-W{week:02}"


def _metadata_names(value: JsonValue) -> Iterator[str]:
    """Yield the names of groups for a metadata value: its text, or those of its items; none for an object or null."""
    if isinstance(value, bool):
        yield "true" if value else "false"
    elif isinstance(value, str | int | float):
        yield f"{value}"
    elif isinstance(value, list):
        for each in value:
            yield from _metadata_names(each)


def count_groups(rows: Iterable[CaseResult], words: Sequence[str]) -> tuple[GroupSummary, ...]:
    """Return the summaries of results grouped by each of `words`; targets and prompts are counted separately.

    `words` are kinds or metadata keys. Raises ConfigError for a word without any group.
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
    rank = {name: (kinds.index(name[0]), number) for number, name in enumerate(names)}
    summaries = tuple(sorted(counted, key=lambda group: rank[group.by, group.name]))
    missing = [kind for kind in kinds if kind not in {group.by for group in summaries}]
    if missing:
        others = ", ".join(kind for kind in KINDS if kind != missing[0])
        raise ConfigError(f"{no_group_message(missing[0], keys)}; or use one of {others}")
    return summaries
