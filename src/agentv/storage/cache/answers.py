"""Answers on disk, by what was asked: so that no run pays for what another one has got already.

A file holds two lines of JSON: where the answer comes from, then the answer. One that is torn, foreign, of another key
or of a newer version is taken for absent and written again.
"""

from datetime import datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agentv.storage.cache.folder import MOST_BYTES, CacheFile, CacheFolder, CacheRoom
from agentv.storage.records.json_line import decode, encode, time_text
from agentv.storage.records.narrow import (
    optional_number,
    optional_object,
    optional_text,
    optional_usage,
    read_number,
    read_text,
    read_time,
    usage_to_record,
)
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import messages_from_json, messages_to_json, trace_from_json, trace_to_json
from agentv.types.provider import CachedFrom, ProviderResponse
from agentv.types.records.fields import milliseconds

CACHED_SCHEMA = "agentv-cached-answer-1"
ANSWERS_FOLDER = "cache/answers"
ANSWER_SUFFIX = ".json"


class CachedAnswer(Struct, frozen=True):
    """An answer as it is kept: what it was asked from (a target's name and provider), and when, and itself."""

    target: str
    provider: str
    source: CachedFrom
    response: ProviderResponse


class AnswerCache:
    """The cache in one folder, which is made when something is first kept. It may be called from several threads.

    Answers older than `oldest` are not found. When there are more than `most_bytes`, those go first that nobody has
    used for longest.
    """

    def __init__(self, folder: Path, *, oldest: datetime | None = None, most_bytes: int = MOST_BYTES) -> None:
        self._files = CacheFolder(folder, ANSWER_SUFFIX)
        self._oldest = oldest
        self._room = CacheRoom(self._files, most_bytes)

    def load(self, key: str, *, touch: bool = True) -> ProviderResponse | None:
        """Return the answer under a key, or None. `touch` notes that it was used now."""
        content = self._files.read(key)
        if content is None:
            return None
        try:
            kept = _read(content)
            is_older = self._oldest is not None and kept.source.at < self._oldest
        except (ValueError, TypeError):  # a foreign time may bear no zone, and compares with none that does
            return None
        if kept.source.key != key or is_older:
            return None
        if touch:
            self._files.touch(key)
        return kept.response

    def save(self, kept: CachedAnswer) -> None:
        """Keep an answer. One that cannot be written is asked again another time."""
        content = encode(_head(kept)) + b"\n" + encode(_body(kept.response)) + b"\n"
        if len(content) <= self._room.most_bytes and self._files.write(kept.source.key, content):
            self._room.take(len(content))


def read_head(file: CacheFile) -> JsonObject | None:
    """Return what the first line of a file of the cache says, None when it is none of ours."""
    try:
        with file.path.open("rb") as lines:
            head = decode(lines.readline())
            read_time(head, "at")
    except (OSError, ValueError):
        return None
    return head if head.get("schema") == CACHED_SCHEMA else None


def _head(kept: CachedAnswer) -> dict[str, JsonValue]:
    source = kept.source
    return {
        "schema": CACHED_SCHEMA,
        "key": source.key,
        "at": time_text(source.at),
        "run_id": source.run_id,
        "target": kept.target,
        "provider": kept.provider,
        "duration_ms": milliseconds(source.duration_ms),
        "nonce": source.nonce,
    }


def _body(response: ProviderResponse) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = {
        "text": response.text,
        "output_messages": messages_to_json(response.output_messages),
        "trace": trace_to_json(response.trace),
        "usage": None if response.usage is None else usage_to_record(response.usage),
        "cost_usd": response.cost_usd,
        "finish_reason": response.finish_reason,
        "session": response.session,
        "model": response.model,
        "first_token_ms": milliseconds(response.first_token_ms),
        "request": response.request,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _read(content: bytes) -> CachedAnswer:
    """Return what a file holds. Raises ValueError for anything but a whole file of ours."""
    head_line, body_line, rest = content.split(b"\n")
    head, body = decode(head_line), decode(body_line)
    if head.get("schema") != CACHED_SCHEMA or rest:
        raise ValueError("no file of this cache")
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
    )
    answer = replace(response, cached=source)
    return CachedAnswer(read_text(head, "target", ""), read_text(head, "provider", ""), source, answer)
