"""Arize Phoenix as a destination: annotations of its spans and traces.

https://arize.com/docs/phoenix/sdk-api-reference/rest-api
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from agentv.telemetry.sending.destination import Delivered, Omitted
from agentv.telemetry.sending.endpoint import Endpoint, checked_url, parse_headers, shown_url
from agentv.telemetry.sending.evaluations import RunContent
from agentv.telemetry.sending.post import Refused, post
from agentv.telemetry.sending.scores import Judge, Score, scores_of
from agentv.types.errors import ConfigError
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord

DEFAULT_URL = "http://localhost:6006"
_TIMEOUT_S = 10.0
_URLS = ("PHOENIX_ENDPOINT", "PHOENIX_COLLECTOR_ENDPOINT")
_KINDS: Mapping[Judge, str] = {"model": "LLM", "code": "CODE", "person": "HUMAN"}
_ID_OF: Mapping[str, Callable[[Score], str]] = {
    "span": lambda score: score.span_id,
    "trace": lambda score: score.trace_id,
}
_NOT_FOUND = 404
_RESERVED = "note"
"""The name of Phoenix's own notes, which refuses a whole request."""


class PhoenixDestination:
    """Sends each judgement as an annotation of the span, or of the trace if no span is known.

    Requests are answered when they are fulfilled: Phoenix drops annotations of unknown spans in silence otherwise.
    """

    name = "phoenix"
    title = "Phoenix"
    record = "score"
    max_results = 50
    wants_cases = False

    def __init__(self, env: Mapping[str, str], *, with_reasons: bool = False) -> None:
        self._variable, base = _address(env)
        headers = _headers(env)
        self.shown = shown_url(base)
        self.option = "--export phoenix --export-reasons" if with_reasons else "--export phoenix"
        self.channels: Mapping[str, str] = {"scores": f"phoenix {self.shown}{'+reasons' if with_reasons else ''}"}
        self.secrets: tuple[str, ...] = (*headers.values(), env.get("PHOENIX_API_KEY", "").strip())
        self._with_reasons = with_reasons
        self._endpoints = {
            kind: Endpoint(
                url=f"{base}/v1/{kind}_annotations?sync=true",
                headers=headers,
                timeout_s=_TIMEOUT_S,
                is_compressed=False,
            )
            for kind in ("span", "trace")
        }

    def prepare(self, row: CaseResult, run_name: str | None, _case: CaseRecord | None) -> tuple[Score, ...] | Omitted:
        """Return the scores of a result."""
        return scores_of(row, RunContent(run_name, self._with_reasons))

    def send(self, _channel: str, items: Sequence[tuple[Score, ...]]) -> Delivered | Refused:
        """Send scores of spans in one request, and those of traces in another one."""
        unknown: set[str] = set()
        for kind, id_of in _ID_OF.items():
            scores = [score for each in items for score in each if bool(score.span_id) == (kind == "span")]
            while scores:
                refused = self._annotate(kind, id_of, scores)
                if refused is None:
                    break
                named = _named_ids(refused, map(id_of, scores))
                if not named:
                    return refused.with_advice(keys="PHOENIX_API_KEY", url=self._variable)
                unknown |= named
                scores = [score for score in scores if id_of(score) not in named]
        dropped = [each for each in items if (each[0].span_id or each[0].trace_id) in unknown]
        return Delivered(sum(map(len, dropped)), len(dropped), _unknown_text(unknown) if unknown else None)

    def _annotate(self, kind: str, id_of: Callable[[Score], str], scores: Sequence[Score]) -> Refused | None:
        annotations = [{f"{kind}_id": id_of(score), **_annotation(score)} for score in scores]
        body = msgspec.json.encode({"data": annotations})
        outcome = post(self._endpoints[kind], body, content_type="application/json")
        if isinstance(outcome, Refused):
            return outcome
        try:
            msgspec.json.decode(outcome.body, type=dict[str, list[Any]])["data"]
        except (ValueError, KeyError):
            return Refused(f"the response is not from Phoenix; check {self._variable}", status=200)
        return None


def _annotation(score: Score) -> dict[str, Any]:
    result = {"score": score.value, "label": score.label, "explanation": score.reasons}
    return {
        "name": score.name if score.name != _RESERVED else f"agentv {_RESERVED}",
        "annotator_kind": _KINDS[score.judge],
        "result": {key: value for key, value in result.items() if value is not None},
        "metadata": score.about,
        "identifier": f"agentv:{score.id}",
    }


def _named_ids(refused: Refused, ids: Iterable[str]) -> set[str]:
    """Return the ids that Phoenix says it does not have."""
    if refused.status != _NOT_FOUND:
        return set()
    said = refused.body.decode("utf-8", errors="replace")
    return {each for each in ids if each in said}


def _unknown_text(unknown: Collection[str]) -> str:
    more = f" and {len(unknown) - 1:,} more" if len(unknown) > 1 else ""
    return f"it has no trace or span {min(unknown)}{more}"


def _address(env: Mapping[str, str]) -> tuple[str, str]:
    """Return the variable of the address of Phoenix, of those that its own client reads in that order, and the URL."""
    name = next((each for each in _URLS if env.get(each, "").strip()), "")
    if name:
        url = env[name].strip().rstrip("/").removesuffix("/v1/traces").rstrip("/")
        return name, checked_url(url, f"{name} must be the URL of Phoenix, such as {DEFAULT_URL}")
    host = env.get("PHOENIX_HOST", "").strip().rstrip("/")
    if not host:
        return _URLS[0], DEFAULT_URL
    if "://" not in host:  # the address that the server listens at
        host = "127.0.0.1" if host == "0.0.0.0" else host  # noqa: S104 - it is read, not bound
        host = f"http://{host}" if ":" in host else f"http://{host}:{env.get('PHOENIX_PORT', '').strip() or 6006}"
    return "PHOENIX_HOST", checked_url(
        host, f"PHOENIX_HOST must be the host or the URL of Phoenix, such as {DEFAULT_URL}"
    )


def _headers(env: Mapping[str, str]) -> dict[str, str]:
    headers = dict(parse_headers(env.get("PHOENIX_CLIENT_HEADERS", ""), name="PHOENIX_CLIENT_HEADERS"))
    key = env.get("PHOENIX_API_KEY", "").strip()
    if key and "authorization" not in map(str.lower, headers):
        if any(not " " < each <= "~" for each in key):
            raise ConfigError("PHOENIX_API_KEY has a character that a key cannot have (its value is not shown)")
        headers["Authorization"] = f"Bearer {key}"
    return headers
