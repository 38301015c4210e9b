"""The cache of answers to earlier requests: `agentv run --cache read|on`."""

import hashlib
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path

from msgspec import Struct, field

from agentv.engine.calling.uncached import is_uncached
from agentv.execution.retry import answered_at
from agentv.execution.threads import call_in_thread
from agentv.registry import ProviderSpec
from agentv.scoring.keys.identity import DigestSet
from agentv.scoring.keys.request_key import REPLACED, nonce_of, repeated_key, request_key
from agentv.storage.cache.answers import AnswerCache, CachedAnswer
from agentv.types.protocols import Clock
from agentv.types.provider import CachedFrom, ProviderRequest, ProviderResponse
from agentv.types.stored import to_ms
from agentv.types.targets import ResolvedTarget

Clean = Callable[[ProviderResponse], ProviderResponse]


class RunCache(Struct):
    """The cache of answers as one run uses it.

    A repeated request has a cache key of its own, so that trials do not share an answer: the run counts requests.
    """

    cache: AnswerCache
    is_writable: bool
    run_id: str
    clock: Clock
    clean: Clean
    """Redacts secrets before an answer is saved."""
    _requested: DigestSet = field(default_factory=DigestSet)
    _repeated: dict[str, int] = field(default_factory=dict)

    def for_target(self, target: ResolvedTarget, spec: ProviderSpec) -> "TargetAnswerCache | None":
        """Return the cache of one target's answers, or None if they are not cached."""
        if why_not_cached(target, spec):
            return None
        return TargetAnswerCache(self, target, sends_case_details=spec.is_web_service)

    def count_request(self, key: str) -> int:
        """Count a request and return how often this run has made it before."""
        if self._requested.add(key):
            return 0
        self._repeated[key] = self._repeated.get(key, 0) + 1
        return self._repeated[key]

    def uncount_request(self, key: str) -> None:
        """Undo the count of a request that got no answer, so that a later call has the same key."""
        self._repeated[key] = self._repeated.get(key, 0) - 1


def why_not_cached(target: ResolvedTarget, spec: ProviderSpec) -> str | None:
    """Return the reason why a target's answers are not cached, or None if they are."""
    if spec.is_canned:
        return "its answers cost nothing"
    if not (spec.is_model_api or spec.is_web_service):
        return "a request does not show which code answers it, nor what that code reads and changes"
    responses = getattr(target.settings, "tool_responses", None)
    if isinstance(responses, str):
        return "its tools call a function, which a request does not show"
    return None


class TargetAnswerCache(Struct, frozen=True):
    """The cache of one target's answers."""

    run_cache: RunCache
    target: ResolvedTarget
    sends_case_details: bool
    """True if requests may have a case's id and paths."""

    async def recall(
        self, request: ProviderRequest, call: Callable[[], Awaitable[ProviderResponse]], *, is_judge: bool
    ) -> ProviderResponse:
        """Return the cached response to a request, else the response of `call`, which is saved if it succeeds.

        The one-time text (nonce) in a judge's request is not part of the cache key. An uncached call is only made. The
        response to a judge's request that names the key of a cached response (REPLACED) is saved under that key.
        """
        if is_uncached():
            return await call()
        nonce = nonce_of(request) if is_judge else None
        replaced = request.metadata.get(REPLACED) if is_judge else None
        key = replaced if isinstance(replaced, str) else await self.key_of(request, nonce)
        if key is None:
            return await call()
        if replaced is None:
            key = repeated_key(key, self.run_cache.count_request(key))
            cached = await self.find(key)
            if cached is not None:
                return cached
        sent_at = self.run_cache.clock()
        response = await call()
        await self.save(key, response, response.calls[0].started_at if response.calls else sent_at, nonce=nonce)
        return response

    async def find(self, key: str) -> ProviderResponse | None:
        """Return the response saved under a key, or None."""
        found = await call_in_thread(_load, self.run_cache.cache, key, self.run_cache.is_writable, timeout_s=None)
        return found if isinstance(found, ProviderResponse) else None

    async def save(self, key: str, response: ProviderResponse, sent_at: datetime, *, nonce: str | None = None) -> None:
        """Save the response to a request sent at `sent_at`, if it is well-formed and the cache is writable."""
        if not (self.run_cache.is_writable and _is_well_formed(response)):
            return
        now = answered_at(response, sent_at, self.run_cache.clock())
        source = CachedFrom(
            key=key,
            at=now,
            run_id=self.run_cache.run_id,
            duration_ms=to_ms((now - sent_at).total_seconds()),
            nonce=nonce,
        )
        answer = CachedAnswer(self.target.name, self.target.provider, source, self.run_cache.clean(response))
        await call_in_thread(self.run_cache.cache.save, answer, timeout_s=None)

    async def key_of(self, request: ProviderRequest, nonce: str | None = None) -> str | None:
        """Return the cache key of a request, or None if it has none: a file is missing, or it has a workspace."""
        if request.workspace is not None:
            return None
        paths = (*request.guideline_files, *request.input_files)
        files = await call_in_thread(_digests, paths, timeout_s=None) if paths else ()
        if files is None:
            return None
        return request_key(self.target, request, files=files, nonce=nonce, sends_case_details=self.sends_case_details)


def _load(cache: AnswerCache, key: str, touch: bool) -> ProviderResponse | None:  # noqa: FBT001 - called in a thread
    return cache.load(key, touch=touch)


def _digests(paths: tuple[str, ...]) -> tuple[str, ...] | None:
    try:
        return tuple(hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths)
    except OSError:
        return None


def _is_well_formed(response: object) -> bool:
    if not isinstance(response, ProviderResponse) or not isinstance(response.text, str):
        return False
    # Without all its spans, tool calls may be missing, which the next run would not report.
    return response.spans is None or response.spans.is_complete
