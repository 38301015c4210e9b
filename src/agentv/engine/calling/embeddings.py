"""Vectors for evaluators: texts of several cases go out together, each is asked once, and all are kept on disk."""

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
from agentv.types.errors import ProviderError, TargetError
from agentv.types.failures import Failure
from agentv.types.provider import Embedding, EmbeddingProvider, EmbeddingResponse
from agentv.types.usage import Usage

WINDOW_S = 0.005
"""How long the first text waits for others; later ones gather while a request is under way."""

REQUESTS_AT_ONCE = 4
"""How many requests one embedder makes at once; the second and later ones only when enough texts wait to fill them."""

CHARACTERS_AT_ONCE = 200_000
"""How many characters one request holds, unless a single text has more: OpenAI takes 300,000 tokens."""

KEPT = 1024
"""How many vectors stay in memory: 12 MB of the longest ones."""

BLAMES_A_TEXT = frozenset({"bad_request", "content_filter", "too_large"})
"""Failures of a request that a single one of its texts may have caused."""

Outcome: TypeAlias = Embedding | ProviderError


class Wanted(Struct, eq=False):
    """A text that somebody waits for. A failure is a value of `outcome`, so that one nobody waits for is no alarm."""

    text: str
    began: asyncio.Event = field(default_factory=asyncio.Event)
    outcome: "asyncio.Future[Outcome]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    async def wait(self) -> Embedding:
        """Return the embedding. Only the request itself is on the clock, not the waiting for its turn."""
        with off_the_clock():
            await self.began.wait()
        outcome = await asyncio.shield(self.outcome)  # others may wait for it, too
        if isinstance(outcome, ProviderError):
            note_refusal(outcome.failure)
            raise ProviderError(outcome.failure, calls=outcome.calls)
        return outcome

    def settle(self, outcome: Outcome) -> None:
        """Give everybody who waits what became of the text."""
        self.began.set()
        self.outcome.set_result(outcome)


class SharedEmbedder:
    """The embedder of one target in one process.

    A text that is under way is waited for by all who want it; whoever wanted it first pays. A request that is refused
    is asked again in halves, so that only the text to blame fails. Without a cache the process alone remembers.
    """

    def __init__(self, provider: ResilientProvider, cache: EmbeddingCache | None) -> None:
        source = provider.provider
        self.name = provider.target.name
        if not isinstance(source, EmbeddingProvider):
            raise TargetError(f"target {self.name!r} ({provider.target.provider}) makes no embeddings")
        self._provider = provider
        self._space = f"{source.kind} {source.embedding_space}"
        self._texts_at_once = source.texts_at_once
        self._cache = cache
        self._kept: OrderedDict[str, Embedding] = OrderedDict()
        self._under_way: dict[str, Wanted] = {}
        self._queue: list[Wanted] = []
        self._workers: set[asyncio.Task[None]] = set()
        self._has_answered = False

    async def embed(self, texts: Sequence[str]) -> tuple[Embedding, ...]:
        """Return one embedding per text. Raises ProviderError when one of them cannot be had."""
        distinct = dict.fromkeys(texts)
        known = {text: self._kept[text] for text in distinct if text in self._kept}
        joined = {text: self._under_way[text] for text in distinct if text in self._under_way}
        asked = {text: self._want(text) for text in distinct if text not in known and text not in joined}
        found = {text: await wanted.wait() for text, wanted in asked.items()}
        known.update({text: as_cached(await wanted.wait()) for text, wanted in joined.items()})
        known.update({text: as_cached(embedding) for text, embedding in found.items()})
        # The first of several equal texts carries what they cost.
        return tuple(found.pop(text, known[text]) for text in texts)

    async def aclose(self) -> None:
        """Give up what is under way: nobody waits for it any more."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    def _want(self, text: str) -> Wanted:
        wanted = self._under_way[text] = Wanted(text)
        self._queue.append(wanted)
        is_full = len(self._queue) >= self._texts_at_once
        if not self._workers or (is_full and len(self._workers) < REQUESTS_AT_ONCE):
            # In a context of its own: it works for everybody, and on nobody's clock.
            self._workers.add(asyncio.create_task(self._work(), context=Context()))
        return wanted

    async def _work(self) -> None:
        """Ask for what waits, request by request, until nothing does."""
        task = asyncio.current_task()
        try:
            await asyncio.sleep(WINDOW_S)
            while batch := self._next_batch():
                await self._settle(batch)
        finally:
            # Before any other task runs: a text that comes now must start a worker of its own.
            self._workers = {worker for worker in self._workers if worker is not task}

    def _next_batch(self) -> list[Wanted]:
        sizes = accumulate(len(wanted.text) for wanted in self._queue[: self._texts_at_once])
        fitting = sum(1 for size in sizes if size <= CHARACTERS_AT_ONCE)
        batch, self._queue = self._queue[: fitting or 1], self._queue[fitting or 1 :]
        return batch

    async def _settle(self, batch: Sequence[Wanted]) -> None:
        """Find or ask a batch, and give everybody what became of his texts."""
        by_text = {wanted.text: wanted for wanted in batch}
        stored = await call_in_thread(self._load, self._cache, tuple(by_text), timeout_s=None) if self._cache else {}
        unknown = [text for text in by_text if text not in stored]

        def began() -> None:
            for text in unknown:
                by_text[text].began.set()

        made = await self._ask(unknown, began) if unknown else {}
        if self._cache:
            await call_in_thread(self._save, self._cache, made, timeout_s=None)
        for text, outcome in {**stored, **made}.items():
            del self._under_way[text]
            if isinstance(outcome, Embedding):
                self._keep(text, as_cached(outcome))
            by_text[text].settle(outcome)

    def _load(self, cache: EmbeddingCache, texts: Sequence[str]) -> dict[str, Outcome]:
        loaded = {text: cache.load(self._space, text) for text in texts}
        return {text: embedding for text, embedding in loaded.items() if embedding is not None}

    def _save(self, cache: EmbeddingCache, made: Mapping[str, Outcome]) -> None:
        for text, outcome in made.items():
            if isinstance(outcome, Embedding):
                cache.save(self._space, text, outcome)

    def _keep(self, text: str, embedding: Embedding) -> None:
        self._kept[text] = embedding
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    async def _ask(self, texts: Sequence[str], began: Callable[[], None]) -> dict[str, Outcome]:
        """Return what becomes of every text."""
        try:
            response = await self._provider.embed(tuple(texts), began=began)
        except ProviderError as error:
            if error.failure.kind in BLAMES_A_TEXT and len(texts) > 1:
                return await self._ask_apart(texts, began)
            return dict.fromkeys(texts, error)
        except Exception as error:  # noqa: BLE001 - plug-in code: its fault is a failure of these texts
            failure = Failure("plugin_error", f"target {self.name!r}: {type(error).__name__}: {error}")
            return dict.fromkeys(texts, ProviderError(failure))
        self._has_answered = True
        return dict(zip(texts, embeddings_of(response, texts), strict=True))

    async def _ask_apart(self, texts: Sequence[str], began: Callable[[], None]) -> dict[str, Outcome]:
        """Ask the halves of a refused request.

        As long as nothing was ever answered the shortest text goes ahead: when that is refused as well, it is not the
        texts that are wrong.
        """
        ordered = sorted(texts, key=len)
        half = len(ordered) // 2 if self._has_answered else 1
        first = await self._ask(ordered[:half], began)
        refused = first[ordered[0]]
        if not self._has_answered and isinstance(refused, ProviderError):
            return dict.fromkeys(texts, refused)
        return {**first, **await self._ask(ordered[half:], began)}


def as_cached(embedding: Embedding) -> Embedding:
    """Return an embedding that cost nothing this time."""
    return replace(embedding, usage=None, cost_usd=None, cached=True)


def embeddings_of(response: EmbeddingResponse, texts: Sequence[str]) -> Iterator[Embedding]:
    """Yield each text's embedding with its share, by length, of what the request used; the shares add up to it."""
    ends = [0, *accumulate(max(1, len(text)) for text in texts)]
    used, cost_usd = response.usage, response.cost_usd
    for number, (start, end) in enumerate(pairwise(ends)):
        tokens = 0 if used is None else used.input * end // ends[-1] - used.input * start // ends[-1]
        yield Embedding(
            response.vectors[number],
            is_cut=number in response.cut,
            usage=None if used is None else Usage(input=tokens, total=tokens, requests=used.requests * (number == 0)),
            cost_usd=None if cost_usd is None else cost_usd * (end - start) / ends[-1],
        )
