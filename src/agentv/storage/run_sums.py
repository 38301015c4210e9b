"""What each suite and target of a stored run came to: counted from its rows, and as the index keeps it."""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from agentv.scoring.run_sums import RunSums
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.scoring.summary import Summary
from agentv.storage.stored_run import StoredRun
from agentv.types.intervals import Interval, IntervalMethod

SumsByPlace: TypeAlias = Mapping[tuple[str, str], RunSums]
"""The sums of a run by suite and target."""

_Moments: TypeAlias = tuple[int, int, float, float, float, float, tuple[float, float, float, float]]
_Bounds: TypeAlias = tuple[float, float, IntervalMethod, float]


class _KeptSums(msgspec.Struct, frozen=True, array_like=True):
    counts: dict[str, int]
    scores: _Moments
    passes: _Moments
    cost_usd: float | None
    evaluators: dict[str, tuple[_Moments, _Moments]]
    latencies: dict[str, tuple[float, _Bounds | None]]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_KeptSums).decode


def load_sums(stored: StoredRun) -> SumsByPlace:
    """Count a run's current rows by suite and target. Raises OSError when one of them cannot be read."""
    is_repeated = stored.may_repeat_cases()
    summaries: dict[tuple[str, str], Summary] = {}
    for row in stored.results():
        place = (row.slot.suite, row.slot.target)
        summary = summaries.get(place)
        if summary is None:
            summary = summaries[place] = Summary(by=(), has_targets=False)
        summary.add(row, has_trials=is_repeated)
    return {place: RunSums.of(summary) for place, summary in summaries.items()}


def encode_sums(sums: RunSums) -> bytes:
    """Return sums as the index keeps them."""
    return _encode(
        _KeptSums(
            dict(sums.counts),
            msgspec.structs.astuple(sums.scores),
            msgspec.structs.astuple(sums.passes),
            sums.cost_usd,
            {
                name: (msgspec.structs.astuple(scores), msgspec.structs.astuple(passes))
                for name, (scores, passes) in sums.evaluators.items()
            },
            {
                name: (value, None if found is None else msgspec.structs.astuple(found))
                for name, (value, found) in sums.latencies.items()
            },
        )
    )


def decode_sums(kept: bytes) -> RunSums:
    """Return what `encode_sums` kept."""
    found = _decode(kept)
    return RunSums(
        found.counts,
        ClusterMoments(*found.scores),
        ClusterMoments(*found.passes),
        found.cost_usd,
        {
            name: (ClusterMoments(*scores), ClusterMoments(*passes))
            for name, (scores, passes) in found.evaluators.items()
        },
        {
            name: (value, None if bounds is None else Interval(*bounds))
            for name, (value, bounds) in found.latencies.items()
        },
    )
