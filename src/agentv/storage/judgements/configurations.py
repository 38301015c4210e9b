"""Configurations of judgements, each stored once: a stored judgement refers to its configuration by hash."""

from collections.abc import Mapping

from msgspec import Struct

from agentv.scoring.keys.identity import digest
from agentv.types.json_value import JsonObject, JsonValue

_SNAPSHOT, _CONFIG, CONFIG_SHA256 = "evaluationConfigSnapshot", "config", "configSha256"


class Referring(Struct, frozen=True):
    """A judgement as JSON that names its configuration by hash, and that configuration, if it has one."""

    record: dict[str, JsonValue]
    sha256: str = ""
    config: JsonObject | None = None


def by_reference(record: dict[str, JsonValue]) -> Referring:
    """Return a judgement with the hash of its configuration in place of the configuration."""
    snapshot = record.get(_SNAPSHOT)
    config = snapshot.get(_CONFIG) if isinstance(snapshot, Mapping) else None
    if not isinstance(snapshot, Mapping) or not isinstance(config, Mapping):
        return Referring(record)
    sha256 = digest(config)
    short = {key: value for key, value in snapshot.items() if key != _CONFIG}
    return Referring({**record, _SNAPSHOT: {**short, CONFIG_SHA256: sha256}}, sha256, config)


def with_configuration(record: JsonObject, configs: Mapping[str, JsonObject]) -> JsonObject:
    """Return a stored judgement with its configuration instead of the hash; without a hash, return it unchanged.

    Raises KeyError for a hash that is not in `configs`.
    """
    snapshot = record.get(_SNAPSHOT)
    sha256 = snapshot.get(CONFIG_SHA256) if isinstance(snapshot, Mapping) else None
    if not isinstance(snapshot, Mapping) or not isinstance(sha256, str):
        return record
    whole = {key: value for key, value in snapshot.items() if key != CONFIG_SHA256}
    return {**record, _SNAPSHOT: {**whole, _CONFIG: configs[sha256]}}
