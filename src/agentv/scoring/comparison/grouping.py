"""Groups of a side's rows by tag, evaluator, metadata or others, separately for each target and prompt."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.scoring.comparison.pairs import counterpart_suites
from agentv.scoring.comparison.sides import ScoredRow, Side, judged_measures
from agentv.scoring.counting.groups import METADATA, parts_of
from agentv.scoring.counting.row_kinds import RowKind
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject
from agentv.types.records.answer import ResultKey

MAX_GROUPS = 1000
"""The maximum number of groups of one side."""

GROUPINGS = ("tag", "prompt", "target", "evaluator", "suite", "dataset", "week")
"""The names that `--by` accepts, besides any key of the cases' metadata."""


class GroupKey(NamedTuple):
    """The name of a group, and the target and prompt of its rows."""

    name: str
    target: str = ""
    """In the key of paired groups, "" if each side has a single target or the groups are targets."""
    prompt: str | None = None
    """In the key of paired groups, None if each side has a single prompt or the groups are prompts."""


class RowFilter(Struct, frozen=True):
    """Selects the rows of a side: those of one target, of one prompt, or all."""

    target: str | None = None
    prompt: str | None = None

    def matches(self, slot: ResultKey) -> bool:
        """Return True if a row is selected."""
        return self.target in (None, slot.target) and self.prompt in (None, slot.prompt)

    def label(self, run_label: str) -> str:
        """Return the label of a side that has only these rows of a run."""
        return " ".join(each for each in (run_label, self.prompt, self.target) if each is not None)


def grouping_named(word: str) -> str:
    """Return what `--by WORD` groups by: one of GROUPINGS, else a metadata key. Raises ConfigError for `criterion`."""
    if word in GROUPINGS or word.startswith(METADATA):
        return word
    if word == "criterion":
        raise ConfigError(f"a comparison cannot be grouped by criterion; use {', '.join(GROUPINGS)} or a metadata key")
    return METADATA + word


class GroupedRow(Struct, frozen=True):
    """A row with the values to group it by: its kind, the metadata of its case, and its finishing time."""

    row: ScoredRow
    kind: RowKind
    metadata: JsonObject
    time: datetime | None


class GroupedSide(Struct, frozen=True):
    """A side, and its groups by `by`, in order of first appearance; without `by` there are no groups."""

    whole: Side
    by: str | None = None
    groups: dict[GroupKey, Side] = field(default_factory=dict)
    metadata_keys: set[str] = field(default_factory=set)
    """The keys of the metadata of all grouped rows."""

    def add(self, grouped: GroupedRow) -> None:
        """Add a row to the whole side and to its groups. Raises ConfigError for more than 1,000 groups."""
        self.whole.add(grouped.row)
        if self.by is None or grouped.row.state == "skipped":
            return
        self.metadata_keys.update(grouped.metadata)
        for key, row in _rows_by_group(grouped, self.by):
            group = self.groups.get(key)
            if group is None:
                if len(self.groups) >= MAX_GROUPS:
                    raise ConfigError(f"--by {self.by} makes more than {MAX_GROUPS:,} groups; use another key")
                group = self.groups[key] = self.whole.empty_copy()
            group.add(row)


def _rows_by_group(grouped: GroupedRow, by: str) -> Iterator[tuple[GroupKey, ScoredRow]]:
    row, slot = grouped.row, grouped.row.slot
    parts = parts_of(grouped.kind, by, metadata=grouped.metadata, time=grouped.time)
    if by != "evaluator":
        parts = list(dict.fromkeys(parts))  # a tag given twice
    for name, state, score in parts:
        counted_row = row if by != "evaluator" else replace(row, state=state, measures=judged_measures(state, score))
        yield GroupKey(name, slot.target, slot.prompt), counted_row


class GroupPair(NamedTuple):
    """The same group on both sides."""

    key: GroupKey
    before: Side
    after: Side


class PairedGroups(NamedTuple):
    """The groups that both sides have, and the others."""

    pairs: tuple[GroupPair, ...]
    only_before: tuple[GroupKey, ...]
    only_after: tuple[GroupKey, ...]


def pair_groups(before: GroupedSide, after: GroupedSide) -> PairedGroups:
    """Pair the groups of two sides. A single target or prompt on each side is paired whatever its name is."""
    old, new = _by_pairing_key(before, after, before.groups), _by_pairing_key(before, after, after.groups)
    if before.by == "suite":
        suites = counterpart_suites(before.whole, after.whole)
        old = {key._replace(name=suites.get(key.name, key.name)): side for key, side in old.items()}
    return PairedGroups(
        tuple(GroupPair(key, side, new[key]) for key, side in old.items() if key in new),
        tuple(key for key in old if key not in new),
        tuple(key for key in new if key not in old),
    )


def _by_pairing_key(before: GroupedSide, after: GroupedSide, groups: Mapping[GroupKey, Side]) -> dict[GroupKey, Side]:
    wholes = (before.whole, after.whole)
    has_targets = before.by != "target" and any(len(side.targets) > 1 for side in wholes)
    has_prompts = before.by != "prompt" and any(len(side.prompts) > 1 for side in wholes)
    return {
        GroupKey(key.name, key.target if has_targets else "", key.prompt if has_prompts else None): side
        for key, side in groups.items()
    }
