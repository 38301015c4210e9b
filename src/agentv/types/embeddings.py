"""The contract of embeddings: texts go in, vectors come out, whoever makes them."""

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from agentv.types.provider import CallRecord, Provider, Quota
from agentv.types.usage import Usage

# Before Python 3.12 an array says at run time not what it holds.
if TYPE_CHECKING:
    Vector: TypeAlias = array[float]
else:
    Vector = array
"""Numbers of 32 bits (typecode "f"), all finite."""


class EmbeddingRequest(Struct, frozen=True):
    """Texts that are to become vectors. `timeout_s` is the deadline of this attempt."""

    texts: tuple[str, ...]
    timeout_s: float | None = None


class EmbeddingResponse(Struct, frozen=True, gc=False):
    """One vector per text, in their order. `cut` are the numbers of texts of which only the beginning was read."""

    vectors: tuple[Vector, ...]
    cut: frozenset[int] = frozenset()
    usage: Usage | None = None
    cost_usd: float | None = None
    model: str | None = None
    request_id: str | None = None
    quota: Quota | None = None
    calls: tuple[CallRecord, ...] = ()


@runtime_checkable
class EmbeddingProvider(Provider, Protocol):
    """A provider that makes vectors of texts. Raises ProviderError when it cannot."""

    @property
    def embedding_space(self) -> str:
        """What makes vectors comparable and worth keeping: the model, where it runs, and every setting that counts."""

    @property
    def texts_at_once(self) -> int:
        """How many texts one request may hold."""

    async def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:
        """Return one vector per text."""


class Embedding(Struct, frozen=True):
    """The vector of one text. `usage` and `cost_usd` are its share of the request that made it; none when `cached`."""

    vector: Vector
    is_cut: bool = False
    usage: Usage | None = None
    cost_usd: float | None = None
    cached: bool = False


class Embedder(Protocol):
    """What evaluators are given: texts are asked once, together with those of other cases."""

    @property
    def name(self) -> str:
        """The target that makes the vectors."""

    async def embed(self, texts: Sequence[str]) -> tuple[Embedding, ...]:
        """Return one embedding per text. Raises ProviderError when one of them cannot be had."""
