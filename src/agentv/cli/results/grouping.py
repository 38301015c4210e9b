"""Results of a stored run by group, for `--by`."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from agentv.scoring.counting.case_sums import cluster_of
from agentv.scoring.counting.groups import KINDS, Groups, kind_named, nothing_grouped
from agentv.scoring.counting.row_kinds import kind_of
from agentv.scoring.results.aggregation import row_state
from agentv.types.errors import ConfigError
from agentv.types.records.result import CaseResult
from agentv.types.summaries import GroupSummary


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
        raise ConfigError(f"{nothing_grouped(missing[0], keys)}; or use one of {', '.join(KINDS)}")
    return found
