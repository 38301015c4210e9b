"""What makes a request the same one as before: the key that an answer is cached under."""

import re
from collections.abc import Mapping, Sequence

from agentv.scoring.keys.identity import canonical_json, digest
from agentv.types.json_value import JsonValue
from agentv.types.provider import ProviderRequest
from agentv.types.targets import ResolvedTarget

KEY_VERSION = "v1"
NONCE = "nonce"
"""Where a judge's request says which one-time text stands in its prompts."""

SAYS_NOTHING_OF_ANSWERS = frozenset(
    {
        "judge_target",
        "workers",
        "provider_batching",
        "batch_api",
        "batch_size",
        "retry",
        "timeout_seconds",
        "requests_per_minute",
        "tokens_per_minute",
        "price",
        *("max_retries", "initial_delay_ms", "max_delay_ms", "backoff_factor", "status_codes"),
        *("retry_initial_delay_ms", "retry_max_delay_ms", "retry_backoff_factor", "retry_status_codes"),
    }
)
"""Settings of a target that change how it is asked and paid, never what it answers."""

_SHORTEST_NONCE = 8
_CAPITAL = re.compile("(?<=[a-z0-9])([A-Z])")


def nonce_of(request: ProviderRequest) -> str | None:
    """Return the one-time text of a judge's request, None when it has none that could be told from other text."""
    nonce = request.metadata.get(NONCE)
    is_one = isinstance(nonce, str) and len(nonce) >= _SHORTEST_NONCE and nonce.isascii() and nonce.isalnum()
    return nonce if is_one and isinstance(nonce, str) else None


def request_key(
    target: ResolvedTarget, request: ProviderRequest, *, files: Sequence[str], nonce: str | None, sees_all: bool
) -> str:
    """Return the key of a request to a target; equal requests have equal keys, in this run and in every other.

    `files` are the digests of the contents of its files. `nonce` is blanked wherever it stands. A provider that
    `sees_all` may send the case's id, metadata and paths as well; a model is shown none of these.
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
    if sees_all:
        fields["case"] = [request.eval_case_id, request.eval_dir, dict(request.metadata)]
        fields["paths"] = [*request.guideline_files, *request.input_files]
    text = canonical_json(fields)
    settings = answering_settings(target.public_settings)
    return digest([KEY_VERSION, target.provider, settings, text if nonce is None else text.replace(nonce, "")])


def answering_settings(settings: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the settings of a target, secrets struck, that its answers depend on."""
    return {
        key: value
        for key, value in settings.items()
        if _CAPITAL.sub(r"_\1", key).lower() not in SAYS_NOTHING_OF_ANSWERS
    }


def repeated_key(key: str, times: int) -> str:
    """Return the key of a request that a run makes once more: samples of a judge, trials, cases with one question.

    Each keeps an answer of its own, so that a cache never makes a run's answers more alike than they were.
    """
    return key if times == 0 else digest([key, times])
