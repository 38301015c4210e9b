"""The digest of an eval file without the settings that change no score."""

from collections.abc import Mapping

from agentv.loading.models.eval_files import SuiteModel
from agentv.scoring.keys.identity import digest
from agentv.types.json_value import JsonObject, JsonValue

_CHANGE_NO_SCORE = frozenset({"gates", "confirm_reruns", "workers", "budget_usd"})
_EXECUTION = "execution"


def scored_sha256(content: JsonValue) -> str:
    """Return the SHA-256 of the content of an eval file without its settings that change no score.

    They may be at the top or under `execution`. Comments and layout do not count.
    """
    if not isinstance(content, Mapping):
        return digest(content)
    scored = _without_settings(content)
    execution = scored.get(_EXECUTION)
    if isinstance(execution, Mapping):
        rest = _without_settings(execution)
        scored = {key: value for key, value in scored.items() if key != _EXECUTION} | (
            {_EXECUTION: rest} if rest else {}
        )
    return digest(scored)


def _without_settings(settings: JsonObject) -> dict[str, JsonValue]:
    of = SuiteModel.names().of
    return {key: value for key, value in settings.items() if of(key) not in _CHANGE_NO_SCORE}
