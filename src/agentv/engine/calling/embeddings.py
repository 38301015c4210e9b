"""Embeddings for evaluators: texts of several cases share requests, and vectors are cached on disk."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import Context
from itertools import accumulate, pairwise
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.calling.budget import note_refusal
from agentv.engine.calling.resilience import ResilientProvider
from agentv.execution.threads import call_in_thread
from agentv.execution.user_code import off_the_clock
from agentv.storage.cache.embeddings import EmbeddingCache
from agentv.types.errors import TargetError
from agentv.types.failures import Failure
from agentv.types.provider import Embedding, EmbeddingProvider, EmbeddingResponse, ProviderError
from agentv.types.usage import Usage

WINDOW_S = 0.005
"""Time that the first text waits for others; later texts are collected while a request is in flight."""

REQUESTS_AT_ONCE = 4
"""Maximum concurrent requests of one embedder; each but the first starts only when enough texts wait to fill it."""

CHARACTERS_AT_ONCE = 200_000
"""Maximum characters in one request (OpenAI accepts 300,000 tokens); a single longer text is sent alone."""

VECTORS_IN_MEMORY = 1024
"""Cached vectors; at most 12 MB."""

TEXT_FAILURES = frozenset({"bad_request", "content_filter", "too_large"})
"""Kinds of failures that a single text of the request may have caused."""

Outcome: TypeAlias = Embedding | ProviderError


class PendingText(Struct, eq=False):
    """A text whose embedding is awaited."""

    text: str
    sent: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the request of the text is sent, or is not needed."""
    outcome: "asyncio.Future[Outcome]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Holds a failure as a value, so that asyncio does not log it."""

    async def wait(self) -> Embedding:
        """Return the embedding. The wait until the request is sent does not count towards the caller's deadline."""
        with off_the_clock():
            await self.sent.wait()
        outcome = await asyncio.shield(self.outcome)  # other cases may await it as well
        if isinstance(outcome, ProviderError):
            note_refusal(outcome.failure)
            raise ProviderError(outcome.failure, calls=outcome.calls)
        return outcome

    def settle(self, outcome: Outcome) -> None:
        """Pass the outcome to all waiting callers."""
        self.sent.set()
        self.outcome.set_result(outcome)


class SharedEmbedder:
    """The embedder of one target in one process.

    Callers that need the same text share one request, and its cost is recorded for the first of them. A rejected
    request is repeated in halves, so that only the text that caused the rejection fails. Without a disk cache, vectors
    are cached in memory only.
    """

    def __init__(self, provider: ResilientProvider, cache: EmbeddingCache | None) -> None:
        source = provider.provider
        self.name = provider.target.name
        if not isinstance(source, EmbeddingProvider):
            raise TargetError(f"target {self.name!r} ({provider.target.provider}) cannot make embeddings")
        self._provider = provider
        self._embedding_space = f"{source.kind} {source.embedding_space}"
        self._texts_at_once = source.texts_at_once
        self._cache = cache if source.embedding_space else None
        self._vectors: OrderedDict[str, Embedding] = OrderedDict()
        self._pending: dict[str, PendingText] = {}
        self._queue: list[PendingText] = []
        self._workers: set[asyncio.Task[None]] = set()
        self._has_answered = False

    async def embed(self, texts: Sequence[str]) -> tuple[Embedding, ...]:
        """Return one embedding per text. Raises ProviderError if one of them fails."""
        distinct = dict.fromkeys(texts)
        known = {text: self._vectors[text] for text in distinct if text in self._vectors}
        joined = {text: self._pending[text] for text in distinct if text in self._pending}
        new = {text: self._enqueue(text) for text in distinct if text not in known and text not in joined}
        found = {text: await pending.wait() for text, pending in new.items()}
        known.update({text: as_cached(await pending.wait()) for text, pending in joined.items()})
        known.update({text: as_cached(embedding) for text, embedding in found.items()})
        # Of several equal texts, the first one has the cost.
        return tuple(found.pop(text, known[text]) for text in texts)

    async def aclose(self) -> None:
        """Cancel the requests in flight."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    def _enqueue(self, text: str) -> PendingText:
        pending = self._pending[text] = PendingText(text)
        self._queue.append(pending)
        is_full = len(self._queue) >= self._texts_at_once
        if not self._workers or (is_full and len(self._workers) < REQUESTS_AT_ONCE):
            # In a context of its own: a worker serves all callers, and no caller's deadline applies to it.
            self._workers.add(asyncio.create_task(self._work(), context=Context()))
        return pending

    async def _work(self) -> None:
        """Request the embeddings of queued texts until the queue is empty."""
        task = asyncio.current_task()
        try:
            await asyncio.sleep(WINDOW_S)
            while batch := self._next_batch():
                await self._settle(batch)
        finally:
            # Removed here, because a done callback would run later: a text queued until then would have no worker.
            self._workers = {worker for worker in self._workers if worker is not task}

    def _next_batch(self) -> list[PendingText]:
        """Remove the texts of the next request from the queue and return them."""
        sizes = accumulate(len(pending.text) for pending in self._queue[: self._texts_at_once])
        count = sum(size <= CHARACTERS_AT_ONCE for size in sizes) or 1
        batch, self._queue = self._queue[:count], self._queue[count:]
        return batch

    async def _settle(self, batch: Sequence[PendingText]) -> None:
        """Load or request the embeddings of a batch, and pass the outcomes to the waiting callers."""
        by_text = {pending.text: pending for pending in batch}
        stored = await call_in_thread(self._load, self._cache, tuple(by_text), timeout_s=None) if self._cache else {}
        unknown = [text for text in by_text if text not in stored]

        def on_sent() -> None:
            for text in unknown:
                by_text[text].sent.set()

        requested = await self._request(unknown, on_sent) if unknown else {}
        if self._cache:
            await call_in_thread(self._save, self._cache, requested, timeout_s=None)
        for text, outcome in {**stored, **requested}.items():
            del self._pending[text]
            if isinstance(outcome, Embedding):
                self._remember(text, as_cached(outcome))
            by_text[text].settle(outcome)

    def _load(self, cache: EmbeddingCache, texts: Sequence[str]) -> dict[str, Outcome]:
        loaded = {text: cache.load(self._embedding_space, text) for text in texts}
        return {text: embedding for text, embedding in loaded.items() if embedding is not None}

    def _save(self, cache: EmbeddingCache, outcomes: Mapping[str, Outcome]) -> None:
        for text, outcome in outcomes.items():
            if isinstance(outcome, Embedding):
                cache.save(self._embedding_space, text, outcome)

    def _remember(self, text: str, embedding: Embedding) -> None:
        self._vectors[text] = embedding
        if len(self._vectors) > VECTORS_IN_MEMORY:
            self._vectors.popitem(last=False)

    async def _request(self, texts: Sequence[str], on_sent: Callable[[], None]) -> dict[str, Outcome]:
        """Request the embeddings of texts and return the outcome of each; `on_sent` is called before each attempt."""
        try:
            response = await self._provider.embed(tuple(texts), on_sent=on_sent)
        except ProviderError as error:
            if error.failure.kind in TEXT_FAILURES and len(texts) > 1:
                return await self._request_halves(texts, on_sent)
            return dict.fromkeys(texts, error)
        except Exception as error:  # noqa: BLE001 - plug-in code: its error is a failure of these texts
            failure = Failure("plugin_error", f"target {self.name!r}: {type(error).__name__}: {error}")
            return dict.fromkeys(texts, ProviderError(failure))
        self._has_answered = True
        return dict(zip(texts, embeddings_of(response, texts), strict=True))

    async def _request_halves(self, texts: Sequence[str], on_sent: Callable[[], None]) -> dict[str, Outcome]:
        """Repeat a rejected request in two halves.

        Before the first successful request the shortest text is sent alone: if it is rejected as well, the texts are
        not the cause.
        """
        ordered = sorted(texts, key=len)
        half = len(ordered) // 2 if self._has_answered else 1
        first = await self._request(ordered[:half], on_sent)
        outcome = first[ordered[0]]
        if not self._has_answered and isinstance(outcome, ProviderError):
            return dict.fromkeys(texts, outcome)
        return {**first, **await self._request(ordered[half:], on_sent)}


def as_cached(embedding: Embedding) -> Embedding:
    """Return an embedding marked as cached, without usage and cost."""
    return replace(embedding, usage=None, cost_usd=None, cached=True)


def embeddings_of(response: EmbeddingResponse, texts: Sequence[str]) -> Iterator[Embedding]:
    """Yield the embedding of each text, with its share of the request's usage and cost, in proportion to its length.

    The shares of tokens are whole numbers whose sum is the usage of the request.
    """
    ends = [0, *accumulate(max(1, len(text)) for text in texts)]
    length = ends[-1]
    used, cost_usd = response.usage, response.cost_usd
    for number, (start, end) in enumerate(pairwise(ends)):
        tokens = 0 if used is None else used.input * end // length - used.input * start // length
        yield Embedding(
            response.vectors[number],
            is_cut=number in response.cut,
            usage=None if used is None else Usage(input=tokens, total=tokens, requests=used.requests * (number == 0)),
            cost_usd=None if cost_usd is None else cost_usd * (end - start) / length,
        )
