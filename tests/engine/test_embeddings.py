"""Embeddings for evaluators: requested together, once, cached, and paid by the first caller."""

import asyncio
import random
from array import array
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.support.virtual_time import let_pass, run_virtually

from agentv.engine.calling.embeddings import CHARACTERS_AT_ONCE, VECTORS_IN_MEMORY, PendingText, SharedEmbedder
from agentv.engine.calling.resilience import ResilientProvider
from agentv.engine.running.clock import make_clock
from agentv.execution.user_code import DeadlineError, call_user_code
from agentv.storage.cache.embeddings import EmbeddingCache
from agentv.types.errors import TargetError
from agentv.types.failures import Failure
from agentv.types.provider import (
    Embedding,
    EmbeddingRequest,
    EmbeddingResponse,
    ProviderError,
    ProviderRequest,
    ProviderResponse,
)
from agentv.types.targets import ResolvedTarget, RetryPolicy
from agentv.types.usage import Price, Usage

T = TypeVar("T")


@dataclass
class Lengths:
    """Makes a text's length its vector. `refuse` says which texts are refused, `wait` is awaited before each answer."""

    refuse: Callable[[str], Failure | None] = lambda _text: None
    wait: Callable[[], Coroutine[Any, Any, object]] | None = None
    texts_at_once: int = 4
    kind: str = "lengths"
    embedding_space: str = "length"
    requests: list[tuple[str, ...]] = field(default_factory=list)

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        raise AssertionError(request)

    async def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:
        self.requests.append(request.texts)
        if self.wait is not None:
            await self.wait()
        for failure in map(self.refuse, request.texts):
            if failure is not None:
                raise ProviderError(failure)
        tokens = sum(map(len, request.texts))
        usage = Usage(input=tokens, total=tokens, requests=1)
        return EmbeddingResponse(tuple(array("f", [len(text), 1.0]) for text in request.texts), usage=usage)


def make_embedder(provider: object, folder: Path) -> SharedEmbedder:
    target = ResolvedTarget("embedder", "lengths", None, retry=RetryPolicy(max_retries=0), price=Price(1e6, 0.0))
    resilient = ResilientProvider(
        provider,  # type: ignore[arg-type] # a provider of the test's own, or none on purpose
        target,
        counts_attempts=False,
        clock=make_clock(),
        rng=random.Random(0),
        prices={},
    )
    return SharedEmbedder(resilient, EmbeddingCache(folder))


def run(work: Coroutine[Any, Any, T]) -> T:
    async def within() -> T:
        async with asyncio.timeout(30):
            return await work

    return asyncio.run(within())


async def together(embedder: SharedEmbedder, *groups: Sequence[str]) -> list[Any]:
    return await asyncio.gather(*(embedder.embed(group) for group in groups), return_exceptions=True)


def bad(text: str) -> Failure | None:
    return Failure("bad_request", f"{text} is too long", http_status=400) if text.startswith("bad") else None


def test_texts_of_cases_that_run_together_go_out_in_one_request(tmp_path: Path) -> None:
    provider = Lengths()
    first, second = run(together(make_embedder(provider, tmp_path), ["a", "bb"], ["ccc", "a"]))
    assert provider.requests == [("a", "bb", "ccc")]
    assert [each.vector[0] for each in (*first, *second)] == [1, 2, 3, 1]


def test_a_request_holds_no_more_texts_than_its_api_takes(tmp_path: Path) -> None:
    provider = Lengths()
    texts = [f"text {number}" for number in range(10)]
    run(make_embedder(provider, tmp_path).embed(texts))
    assert sorted(map(len, provider.requests)) == [2, 4, 4]
    assert sorted(text for request in provider.requests for text in request) == sorted(texts)


def test_a_request_holds_no_more_characters_than_its_api_takes(tmp_path: Path) -> None:
    provider = Lengths()
    long = "x" * (CHARACTERS_AT_ONCE // 2 + 1)
    run(make_embedder(provider, tmp_path).embed([long, long + "y", long * 2, "short"]))
    assert [len(texts) for texts in provider.requests] == [1, 1, 1, 1]


def test_texts_gather_while_a_request_is_under_way(tmp_path: Path) -> None:
    async def scenario() -> None:
        began, go = asyncio.Event(), asyncio.Event()

        async def wait() -> None:
            began.set()
            await go.wait()

        provider.wait = wait
        embedder = make_embedder(provider, tmp_path)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(embedder.embed(["first"]))
            await began.wait()
            for text in ("a", "b", "c"):
                tasks.create_task(embedder.embed([text]))
            await asyncio.sleep(0)
            go.set()

    provider = Lengths()
    run(scenario())
    assert provider.requests == [("first",), ("a", "b", "c")]


def test_a_text_that_is_under_way_is_waited_for_and_paid_once(tmp_path: Path) -> None:
    provider = Lengths()
    (first,), (second,) = run(together(make_embedder(provider, tmp_path), ["same"], ["same"]))
    assert provider.requests == [("same",)]
    assert first.usage == Usage(input=4, total=4, requests=1)
    assert (second.usage, second.cost_usd, second.cached) == (None, None, True)
    assert first.vector == second.vector


def test_equal_texts_of_one_call_are_paid_once(tmp_path: Path) -> None:
    first, second = run(make_embedder(Lengths(), tmp_path).embed(["same", "same"]))
    assert (first.cached, second.cached, second.usage) == (False, True, None)


def test_the_shares_of_a_request_add_up_to_what_it_cost(tmp_path: Path) -> None:
    provider = Lengths(texts_at_once=100)
    texts = ["x" * number for number in range(1, 40)]
    embeddings = run(make_embedder(provider, tmp_path).embed(texts))
    assert sum((each.usage or Usage() for each in embeddings), start=Usage()) == Usage(780, total=780, requests=1)
    assert sum(each.cost_usd or 0.0 for each in embeddings) == pytest.approx(780)
    assert len(provider.requests) == 1


def test_a_later_process_finds_the_vectors_on_disk(tmp_path: Path) -> None:
    run(make_embedder(Lengths(), tmp_path).embed(["kept"]))
    provider = Lengths()
    (found,) = run(make_embedder(provider, tmp_path).embed(["kept"]))
    assert provider.requests == []
    assert (found.vector[0], found.cached, found.usage) == (4, True, None)


def test_vectors_of_another_model_are_not_taken(tmp_path: Path) -> None:
    run(make_embedder(Lengths(), tmp_path).embed(["kept"]))
    provider = Lengths(embedding_space="other")
    run(make_embedder(provider, tmp_path).embed(["kept"]))
    assert provider.requests == [("kept",)]


def test_memory_is_bounded_and_the_disk_remembers(tmp_path: Path) -> None:
    async def scenario() -> int:
        embedder = make_embedder(provider, tmp_path)
        await embedder.embed([f"{number}" for number in range(VECTORS_IN_MEMORY + 5)])
        await embedder.embed(["0"])
        return len(embedder._vectors)

    provider = Lengths(texts_at_once=500)
    assert run(scenario()) == VECTORS_IN_MEMORY
    assert sum(map(len, provider.requests)) == VECTORS_IN_MEMORY + 5


def test_only_the_text_to_blame_fails(tmp_path: Path) -> None:
    async def scenario() -> list[Any]:
        embedder = make_embedder(Lengths(refuse=bad, texts_at_once=100), tmp_path)
        return await together(embedder, *([text] for text in ("a", "bad one", "bb", "ccc", "bad two", "dddd")))

    outcomes = run(scenario())
    failed = [isinstance(outcome, ProviderError) for outcome in outcomes]
    assert failed == [False, True, False, False, True, False]
    assert str(outcomes[1]) == "bad one is too long"


def test_request_that_always_fails_is_not_repeated_for_every_text(tmp_path: Path) -> None:
    provider = Lengths(refuse=lambda _text: Failure("bad_request", "no such model"), texts_at_once=100)
    outcomes = run(together(make_embedder(provider, tmp_path), *([f"text {number}"] for number in range(50))))
    assert {str(outcome) for outcome in outcomes} == {"no such model"}
    assert [len(texts) for texts in provider.requests] == [50, 1]


def test_a_failure_is_not_kept(tmp_path: Path) -> None:
    async def scenario() -> object:
        embedder = make_embedder(provider, tmp_path)
        (failed,) = await together(embedder, ["text"])
        assert isinstance(failed, ProviderError)
        provider.refuse = lambda _text: None
        return (await embedder.embed(["text"]))[0].vector[0]

    provider = Lengths(refuse=lambda _text: Failure("server_error", "down"))
    assert run(scenario()) == 4


def test_cancelled_caller_does_not_affect_the_others(tmp_path: Path) -> None:
    async def scenario() -> Any:
        began, go = asyncio.Event(), asyncio.Event()

        async def wait() -> None:
            began.set()
            await go.wait()

        embedder = make_embedder(Lengths(wait=wait), tmp_path)
        impatient = asyncio.create_task(embedder.embed(["same", "other"]))
        await asyncio.sleep(0)
        patient = asyncio.create_task(embedder.embed(["same"]))
        await began.wait()
        impatient.cancel()
        await asyncio.gather(impatient, return_exceptions=True)
        go.set()
        return await patient

    assert run(scenario())[0].vector[0] == 4


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ((), "0 vectors for 1 texts"),
        ((array("f", [1.0]), array("f", [1.0])), "2 vectors for 1 texts"),
        ((array("f", [float("nan")]),), "not finite"),
    ],
)
def test_vectors_that_cannot_be_are_a_failure_of_their_kind(vectors: Any, message: str, tmp_path: Path) -> None:
    class Odd(Lengths):
        async def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:  # noqa: ARG002 - never read
            return EmbeddingResponse(vectors)

    with pytest.raises(ProviderError, match=message) as raised:
        run(make_embedder(Odd(), tmp_path).embed(["text"]))
    assert raised.value.failure.kind == "unexpected_shape"


def test_a_plugin_that_raises_fails_its_texts_and_not_the_next(tmp_path: Path) -> None:
    class Broken(Lengths):
        async def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:
            if request.texts == ("text",):
                raise LookupError("no such shelf")
            return await super().embed(request)

    async def scenario() -> Any:
        embedder = make_embedder(Broken(), tmp_path)
        (failed,) = await together(embedder, ["text"])
        assert isinstance(failed, ProviderError)
        assert (failed.failure.kind, "no such shelf" in str(failed)) == ("plugin_error", True)
        return await embedder.embed(["next"])

    assert run(scenario())[0].vector[0] == 4


def test_a_target_without_embeddings_is_refused(tmp_path: Path) -> None:
    class Chat:
        kind = "chat"

        async def invoke(self, request: ProviderRequest) -> ProviderResponse:
            raise AssertionError(request)

    with pytest.raises(TargetError, match="cannot make embeddings"):
        make_embedder(Chat(), tmp_path)


@pytest.mark.parametrize(("takes_s", "is_late"), [(10.0, False), (20.0, True)])
def test_the_request_is_on_the_clock_and_the_wait_for_its_turn_is_not(takes_s: float, *, is_late: bool) -> None:
    """Virtual time: the permit comes after 100 s, and each caller has a deadline of 15 s."""

    async def scenario() -> None:
        wanted = PendingText("text")
        waiting = asyncio.create_task(call_user_code(wanted.wait, timeout_s=15.0))
        await let_pass(100)
        wanted.sent.set()
        await let_pass(takes_s)
        wanted.settle(Embedding(array("f", [1.0])))
        outcomes = await asyncio.gather(waiting, return_exceptions=True)
        assert isinstance(outcomes[0], DeadlineError if is_late else Embedding)

    run_virtually(scenario())


def test_closing_ends_what_is_under_way(tmp_path: Path) -> None:
    async def scenario() -> bool:
        began = asyncio.Event()

        async def wait() -> None:
            began.set()
            await asyncio.Future()

        embedder = make_embedder(Lengths(wait=wait), tmp_path)
        waiting = asyncio.create_task(embedder.embed(["text"]))
        await began.wait()
        await embedder.aclose()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return not embedder._workers

    assert run(scenario())
