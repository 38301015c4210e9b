"""Costs, token counts and durations of stored lines: a stored number that cannot be one is unknown."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from agentv.types.json_value import JsonObject
from agentv.types.stored import known_duration
from agentv.types.usage import MAX_TOKENS, Usage, known_cost, read_count

_COSTS = ("cost_usd", "billed_usd")
_DURATIONS = ("duration_ms", "wait_ms", "first_token_ms")
_COUNTS = Usage.__struct_fields__
_SIDES = ("target", "judge")
_PARTS = ("usage_by", *_SIDES, "partial", "calls", "judge_calls", "turns", "evaluator_results")
"""The keys of objects, or of lists of objects, whose amounts are part of those of the object that has the key."""


class _Read(NamedTuple):
    """A record with known amounts only, and which kinds of its amounts turned out to be unknown."""

    record: JsonObject
    lost_cost: bool
    lost_usage: bool


def with_known_amounts(record: JsonObject) -> JsonObject:
    """Return the record of an answer or a result without amounts and durations that cannot be one, and their sums."""
    return _with_known_durations(_read(record).record)


def _with_known_durations(record: JsonObject) -> JsonObject:
    wrong = {
        key for key in _DURATIONS if isinstance(value := record.get(key), int | float) and known_duration(value) is None
    }
    kept = {key: value for key, value in record.items() if key not in wrong}
    for key in _PARTS:
        part = kept.get(key)
        if isinstance(part, list):
            kept[key] = [_with_known_durations(item) if isinstance(item, Mapping) else item for item in part]
        elif isinstance(part, Mapping):
            kept[key] = _with_known_durations(part)
    return kept


def _read(record: JsonObject, *, is_side: bool = False) -> _Read:
    """Read a record; `is_side` is True for the target's or the judges' part of `usage_by`, which has its own counts."""
    lost_cost = any(record.get(key) is not None and known_cost(record[key]) is None for key in _COSTS)
    lost_usage = _has_wrong_count(record if is_side else record.get("usage"))
    changed: dict[str, Any] = {}
    for key in _PARTS:
        part = record.get(key)
        items = part if isinstance(part, list) else [part]
        read = [_read(item, is_side=key in _SIDES) if isinstance(item, Mapping) else None for item in items]
        found = [each for each in read if each is not None and (each.lost_cost or each.lost_usage)]
        if found:
            lost_cost = lost_cost or any(each.lost_cost for each in found)
            lost_usage = lost_usage or any(each.lost_usage for each in found)
            known = [item if each is None else each.record for item, each in zip(items, read, strict=True)]
            changed[key] = known if isinstance(part, list) else known[0]
    unknown = {*(_COSTS if lost_cost else ()), *(() if not lost_usage else _COUNTS if is_side else ("usage",))}
    if not unknown:
        return _Read(record, lost_cost=False, lost_usage=False)
    kept = {key: value for key, value in {**record, **changed}.items() if key not in unknown}
    return _Read(kept, lost_cost, lost_usage)


def _has_wrong_count(usage: object) -> bool:
    return isinstance(usage, Mapping) and any(read_count(usage.get(name)) > MAX_TOKENS for name in _COUNTS)
