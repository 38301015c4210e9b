"""Langfuse as a destination: scores of its traces and observations.

The batch endpoint of ingestion takes scores in every version from 2 on, and it takes the time of a score: Langfuse
replaces a score only by one with the same id, name and date. https://api.reference.langfuse.com
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from agentv.telemetry.sending.destination import Delivered, Omitted
from agentv.telemetry.sending.endpoint import Endpoint, checked_url, shown_url
from agentv.telemetry.sending.evaluations import RunContent
from agentv.telemetry.sending.post import Refused, post
from agentv.telemetry.sending.scores import Score, scores_of
from agentv.types.errors import ConfigError
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord

DEFAULT_URL = "https://cloud.langfuse.com"
_PATH = "/api/public/ingestion"
_TIMEOUT_S = 10.0
_BASE_URLS = ("LANGFUSE_BASE_URL", "LANGFUSE_HOST")
_KEYS = ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY")
_LATER = frozenset({408, 429})
_SERVER_ERROR = 500


class _Error(Struct, frozen=True):
    """Why one score of a batch was not taken."""

    id: str
    """That of the event."""
    status: int
    message: Any = None
    error: Any = None


class _Response(Struct, frozen=True):
    """The answer to a batch, whose status is always 207."""

    errors: list[_Error]


_decode = msgspec.json.Decoder(_Response).decode


class LangfuseDestination:
    """Sends each judgement as a score of the trace, and of the observation if it is known."""

    name = "langfuse"
    title = "Langfuse"
    record = "score"
    max_results = 100
    wants_cases = False

    def __init__(self, env: Mapping[str, str], *, with_reasons: bool = False) -> None:
        public_key, secret_key = (env.get(name, "").strip() for name in _KEYS)
        if not public_key or not secret_key:
            raise ConfigError(f"--export langfuse needs {' and '.join(_KEYS)}, in the environment or in .env")
        name = next((each for each in _BASE_URLS if env.get(each)), "")
        base = checked_url(
            env.get(name, DEFAULT_URL).strip().rstrip("/"), f"{name} must be a URL, such as {DEFAULT_URL}"
        )
        self.shown = shown_url(base)
        self.option = "--export langfuse --export-reasons" if with_reasons else "--export langfuse"
        project = sha256(public_key.encode()).hexdigest()[:12]
        self.channels: Mapping[str, str] = {
            "scores": f"langfuse {self.shown} {project}{'+reasons' if with_reasons else ''}"
        }
        credentials = b64encode(f"{public_key}:{secret_key}".encode()).decode()
        self.secrets: tuple[str, ...] = (secret_key, credentials)
        self._with_reasons = with_reasons
        self._environment = env.get("LANGFUSE_TRACING_ENVIRONMENT", "").strip()
        self._endpoint = Endpoint(
            url=f"{base}{_PATH}",
            headers={"Authorization": f"Basic {credentials}"},
            timeout_s=_TIMEOUT_S,
            is_compressed=False,
        )

    def prepare(self, row: CaseResult, run_name: str | None, _case: CaseRecord | None) -> tuple[Score, ...] | Omitted:
        """Return the scores of a result."""
        return scores_of(row, RunContent(run_name, self._with_reasons))

    def send(self, _channel: str, items: Sequence[tuple[Score, ...]]) -> Delivered | Refused:
        """Send scores as one batch."""
        batches = [[self._event(score) for score in scores] for scores in items]
        body = msgspec.json.encode({"batch": [event for batch in batches for event in batch]})
        outcome = post(self._endpoint, body, content_type="application/json")
        if isinstance(outcome, Refused):
            return outcome.with_advice(keys=" and ".join(_KEYS), url="LANGFUSE_BASE_URL")
        try:
            errors = _decode(outcome.body).errors
        except ValueError:
            return Refused("the response is not from Langfuse; check LANGFUSE_BASE_URL", status=200)
        later = next((each.status for each in errors if each.status >= _SERVER_ERROR or each.status in _LATER), None)
        if later is not None:  # the others are taken again, and count once
            return Refused(f"HTTP {later} for a score", status=later)
        if not errors:
            return Delivered()
        failed = {each.id for each in errors}
        lost = sum(all(event["id"] in failed for event in batch) for batch in batches)
        return Delivered(len(errors), lost, " ".join(str(errors[0].error or errors[0].message).split()))

    def _event(self, score: Score) -> dict[str, Any]:
        body = {
            "id": score.id,
            "traceId": score.trace_id,
            "observationId": score.span_id or None,
            "name": score.name,
            "value": score.value,
            "dataType": "NUMERIC",
            "comment": score.reasons,
            "environment": self._environment or None,
            "metadata": {**score.about, "agentv.score.verdict": score.label},
        }
        body = {key: value for key, value in body.items() if value is not None}
        # An event with the id of an earlier one may be ignored, so that a changed score needs another id.
        event_id = sha256(msgspec.json.encode((body, score.judged_at))).hexdigest()[:32]
        return {"id": event_id, "type": "score-create", "timestamp": score.judged_at, "body": body}
