"""Responses on disk, by answer key, so that a run reuses answers that an earlier run paid for.

A file holds two lines of JSON: the source of the answer, then the answer. A file that is torn, foreign, of another key
or of a newer version is treated as missing and written again.
"""

from datetime import datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict, replace

from agentv.storage.cache.folder import MOST_BYTES, CacheFile, CacheFolder, CacheLimit
from agentv.storage.records.json_line import decode, encode, time_text
from agentv.storage.records.narrow import (
    optional_number,
    optional_object,
    optional_text,
    optional_usage,
    read_number,
    read_text,
    read_time,
)
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import messages_from_json, messages_to_json, trace_from_json, trace_to_json
from agentv.types.provider import CachedFrom, ProviderResponse, ReceivedSpans
from agentv.types.stored import rounded_ms

CACHED_SCHEMA = "agentv-cached-answer-1"
ANSWERS_FOLDER = "cache/answers"
ANSWER_SUFFIX = ".json"


class CachedAnswer(Struct, frozen=True):
    """A stored response, with the name and provider of its target."""

    target: str
    provider: str
    source: CachedFrom
    """The run and time that the response came from."""
    response: ProviderResponse


class AnswerCache:
    """The answer cache of one folder, which is created by the first `save`. Thread-safe.

    Answers older than `oldest` are ignored. Above `most_bytes`, the least recently used files are deleted.
    """

    def __init__(self, folder: Path, *, oldest: datetime | None = None, most_bytes: int = MOST_BYTES) -> None:
        self._files = CacheFolder(folder, ANSWER_SUFFIX)
        self._oldest = oldest
        self._limit = CacheLimit(self._files, most_bytes)

    def load(self, key: str, *, touch: bool = True) -> ProviderResponse | None:
        """Return the response under a key, or None. `touch` marks it as used now."""
        content = self._files.read(key)
        if content is None:
            return None
        try:
            cached = _read(content)
            is_older = self._oldest is not None and cached.source.at < self._oldest
        except (ValueError, TypeError):  # TypeError: a foreign file may have a time without a zone
            return None
        if cached.source.key != key or is_older:
            return None
        if touch:
            self._files.touch(key)
        return cached.response

    def save(self, answer: CachedAnswer) -> None:
        """Store an answer; ignore one that cannot be written."""
        content = encode(_head(answer)) + b"\n" + encode(_body(answer.response)) + b"\n"
        if len(content) <= self._limit.most_bytes and self._files.write(answer.source.key, content):
            self._limit.add(len(content))


def read_head(file: CacheFile) -> JsonObject | None:
    """Return the first line of a file of the answer cache, None for any other file."""
    try:
        with file.path.open("rb") as lines:
            head = decode(lines.readline())
            read_time(head, "at")
    except (OSError, ValueError):
        return None
    return head if head.get("schema") == CACHED_SCHEMA else None


def _head(answer: CachedAnswer) -> dict[str, JsonValue]:
    source = answer.source
    return {
        "schema": CACHED_SCHEMA,
        "key": source.key,
        "at": time_text(source.at),
        "run_id": source.run_id,
        "target": answer.target,
        "provider": answer.provider,
        "duration_ms": rounded_ms(source.duration_ms),
        "nonce": source.nonce,
    }


def _body(response: ProviderResponse) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = {
        "text": response.text,
        "output_messages": messages_to_json(response.output_messages),
        "trace": trace_to_json(response.trace),
        "usage": None if response.usage is None else asdict(response.usage),
        "cost_usd": response.cost_usd,
        "finish_reason": response.finish_reason,
        "session": response.session,
        "model": response.model,
        "first_token_ms": rounded_ms(response.first_token_ms),
        "request": response.request,
        "reasoning": response.reasoning,
    }
    if response.spans is not None and response.spans.span_id:
        fields |= {"trace_id": response.spans.trace_id, "span_id": response.spans.span_id}
    return {key: value for key, value in fields.items() if value is not None}


def _read(content: bytes) -> CachedAnswer:
    """Return the answer in a file. Raises ValueError unless it is a whole file of this cache."""
    head_line, body_line, rest = content.split(b"\n")
    head, body = decode(head_line), decode(body_line)
    if head.get("schema") != CACHED_SCHEMA or rest:
        raise ValueError("not a file of this cache")
    source = CachedFrom(
        key=read_text(head, "key"),
        at=read_time(head, "at"),
        run_id=read_text(head, "run_id", ""),
        duration_ms=read_number(head, "duration_ms"),
        nonce=optional_text(head, "nonce"),
    )
    response = ProviderResponse(
        text=read_text(body, "text"),
        output_messages=messages_from_json(body.get("output_messages")),
        trace=trace_from_json(body.get("trace")),
        usage=optional_usage(body),
        cost_usd=optional_number(body, "cost_usd"),
        finish_reason=optional_text(body, "finish_reason"),
        session=optional_text(body, "session"),
        model=optional_text(body, "model"),
        first_token_ms=optional_number(body, "first_token_ms"),
        request=optional_object(body, "request"),
        reasoning=optional_text(body, "reasoning"),
        spans=_spans(body),
    )
    answer = replace(response, cached=source)
    return CachedAnswer(read_text(head, "target", ""), read_text(head, "provider", ""), source, answer)


def _spans(body: JsonObject) -> ReceivedSpans | None:
    trace_id, span_id = optional_text(body, "trace_id"), optional_text(body, "span_id")
    return ReceivedSpans(trace_id, span_id, is_complete=True) if trace_id and span_id else None
