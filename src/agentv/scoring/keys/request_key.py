"""The key of a request, under which its answer is cached."""

import re
from collections.abc import Mapping, Sequence

from agentv.scoring.keys.identity import canonical_json, digest
from agentv.types.json_value import JsonValue
from agentv.types.provider import ProviderRequest
from agentv.types.targets import ResolvedTarget

KEY_VERSION = "v1"
NONCE = "nonce"
"""The metadata key under which a judge's request names its nonce, the one-time text in its prompts."""
REPLACED = "replaced"
"""The metadata key under which a repeated request of a judge names the key of the cached response that it replaces."""

CALL_SETTINGS = frozenset(
    {
        *("judge", "judge_target"),
        "workers",
        "provider_batching",
        "batch_api",
        "batch_size",
        "stream",
        "retry",
        "timeout_seconds",
        "requests_per_minute",
        "tokens_per_minute",
        "price",
        *("resources", "node_label"),
        *("max_retries", "initial_delay_ms", "max_delay_ms", "backoff_factor", "status_codes"),
        *("retry_initial_delay_ms", "retry_max_delay_ms", "retry_backoff_factor", "retry_status_codes"),
        "retry_timeouts",
        *("otel_wait_s", "otel_listen", "otel_token"),
    }
)
"""Settings of a target that change how it is called and what it costs, but not its answers."""

_MIN_NONCE_CHARACTERS = 8
_CAPITAL = re.compile("(?<=[a-z0-9])([A-Z])")


def nonce_of(request: ProviderRequest) -> str | None:
    """Return the nonce of a judge's request; None if it has none, or one that could occur in other text by chance."""
    nonce = request.metadata.get(NONCE)
    if not isinstance(nonce, str) or len(nonce) < _MIN_NONCE_CHARACTERS:
        return None
    return nonce if nonce.isascii() and nonce.isalnum() else None


def request_key(
    target: ResolvedTarget,
    request: ProviderRequest,
    *,
    files: Sequence[str],
    nonce: str | None,
    sends_case_details: bool,
) -> str:
    """Return the key of a request to a target; equal requests have equal keys in every run.

    `files` are the digests of the contents of its files. `nonce` is removed wherever it occurs. A provider that
    `sends_case_details` may also send the case's id, metadata and paths; a model gets none of these.
    """
    fields: dict[str, JsonValue] = {
        "question": request.question,
        "chat_prompt": [[turn.role, turn.content] for turn in request.chat_prompt or ()],
        "system_prompt": request.system_prompt,
        "guidelines": request.guidelines,
        "files": list(files),
        "model": request.model,
        "temperature": request.temperature,
        "max_output_tokens": request.max_output_tokens,
        "response_schema": request.response_schema,
        "trial": request.trial,
    }
    if sends_case_details:
        fields["case"] = [request.eval_case_id, request.eval_dir, dict(request.metadata)]
        fields["paths"] = [*request.guideline_files, *request.input_files]
    text = canonical_json(fields)
    settings = answer_settings(target.public_settings)
    return digest([KEY_VERSION, target.provider, settings, text if nonce is None else text.replace(nonce, "")])


def answer_settings(settings: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return those of a target's settings that its answers depend on."""
    return {key: value for key, value in settings.items() if _CAPITAL.sub(r"_\1", key).lower() not in CALL_SETTINGS}


def repeated_key(key: str, times: int) -> str:
    """Return the key of a request that a run makes again, after `times` equal ones: 0 for the first.

    Each repeat has a cached answer of its own: one answer for all would hide the variation of trials and samples.
    """
    return key if times == 0 else digest([key, times])
