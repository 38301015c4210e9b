"""Embedding models given from Python: a function, or an object of a library with a method that makes vectors."""

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from inspect import isawaitable
from typing import Any, TypeAlias

from agentv.execution.threads import AbandonedError, call_in_thread
from agentv.execution.user_code import described
from agentv.types.failures import Failure
from agentv.types.provider import EmbeddingRequest, EmbeddingResponse, ProviderError, ProviderRequest, ProviderResponse

EmbedTexts: TypeAlias = Callable[[Sequence[str]], Any]
"""Returns one vector for each text."""

TEXTS_AT_ONCE = 128
_OF_TEXTS = ("embed_documents", "encode", "embed_many")
"""Methods that take a list of texts: of LangChain, of sentence-transformers, and of the AI SDK's function."""
_OF_ONE_TEXT = ("embed_query", "embed")


def embed_texts(given: object) -> EmbedTexts | None:
    """Return a function that embeds texts with a given model; None if it is neither a function nor has a known method.

    A function, and a method `embed` or `embed_query`, gets one text and returns its vector; the other methods get a
    list of texts and return a list of vectors.
    """
    if isinstance(given, type):
        return None
    of_texts = _method(given, _OF_TEXTS)
    if of_texts is not None:
        return of_texts
    of_one = _method(given, _OF_ONE_TEXT) or (given if callable(given) else None)
    return None if of_one is None else partial(_each, of_one)


def _method(given: object, names: Iterable[str]) -> Callable[..., Any] | None:
    """Return the first method with one of these names; None if there is none."""
    found = (getattr(given, name, None) for name in names)
    return next((method for method in found if callable(method)), None)


def _each(embed: Callable[[str], object], texts: Sequence[str]) -> list[object]:
    return [embed(text) for text in texts]


class EmbeddingFunctionProvider:
    """Makes embeddings by a function given from Python. Its vectors are cached in this process only."""

    kind = "given embedding model"
    texts_at_once = TEXTS_AT_ONCE
    embedding_space = ""  # the function of another process may make other vectors

    def __init__(self, embed: EmbedTexts) -> None:
        self._embed = embed

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:  # noqa: ARG002 - it is never read
        """Raise ProviderError: there is no chat model."""
        raise ProviderError(Failure("config_error", "an embedding model cannot answer a prompt"))

    async def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:
        """Return one vector per text. Raises ProviderError if the function raises, or returns anything else."""
        try:
            returned = await call_in_thread(self._embed, list(request.texts), timeout_s=request.timeout_s)
            if isawaitable(returned):
                returned = await returned
            vectors = [await each if isawaitable(each) else each for each in returned]
            found = tuple(array("d", map(float, vector)) for vector in vectors)
        except AbandonedError:
            message = f"no vectors from the embedding model within {request.timeout_s:g} s"
            raise ProviderError(Failure("deadline", message)) from None
        except Exception as error:  # the user's code
            raise ProviderError(
                Failure("evaluator_error", f"the embedding model failed: {described(error)}")
            ) from error
        if len(found) != len(request.texts) or not all(found):
            message = f"the embedding model returned {len(found)} vectors for {len(request.texts)} texts"
            raise ProviderError(Failure("unexpected_shape", message))
        return EmbeddingResponse(found)
