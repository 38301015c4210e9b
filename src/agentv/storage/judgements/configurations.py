"""Configurations of judgements, each stored once: a stored judgement refers to its configuration by hash."""

from collections.abc import Mapping

from msgspec import Struct

from agentv.scoring.keys.identity import digest
from agentv.types.json_value import JsonObject, JsonValue

_SNAPSHOT, _CONFIG, CONFIG_SHA256 = "evaluationConfigSnapshot", "config", "configSha256"


class SplitJudgement(Struct, frozen=True):
    """A judgement as JSON, its configuration, and the hash by which the JSON names the configuration, if it has one."""

    record: dict[str, JsonValue]
    sha256: str = ""
    config: JsonObject | None = None


def split_configuration(record: dict[str, JsonValue]) -> SplitJudgement:
    """Return a judgement with the hash of its configuration in place of the configuration."""
    snapshot = record.get(_SNAPSHOT)
    config = snapshot.get(_CONFIG) if isinstance(snapshot, Mapping) else None
    if not isinstance(snapshot, Mapping) or not isinstance(config, Mapping):
        return SplitJudgement(record)
    sha256 = digest(config)
    rest = {key: value for key, value in snapshot.items() if key != _CONFIG}
    return SplitJudgement({**record, _SNAPSHOT: {**rest, CONFIG_SHA256: sha256}}, sha256, config)


def with_configuration(record: JsonObject, configs: Mapping[str, JsonObject]) -> JsonObject:
    """Return a stored judgement with its configuration instead of the hash; without a hash, return it unchanged.

    Raises KeyError for a hash that is not in `configs`.
    """
    snapshot = record.get(_SNAPSHOT)
    sha256 = snapshot.get(CONFIG_SHA256) if isinstance(snapshot, Mapping) else None
    if not isinstance(snapshot, Mapping) or not isinstance(sha256, str):
        return record
    rest = {key: value for key, value in snapshot.items() if key != CONFIG_SHA256}
    return {**record, _SNAPSHOT: {**rest, _CONFIG: configs[sha256]}}
