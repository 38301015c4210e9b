"""The contract of a provider: what it is asked, what it answers, how it fails."""

from array import array
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct, field

from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject
from agentv.types.messages import ChatMessage, Message, TraceEvent
from agentv.types.records.fields import always
from agentv.types.usage import Usage

GUIDELINES_HEADING = "[[ ## Guidelines ## ]]"
"""What stands above the guidelines in a system message."""


class ProviderRequest(Struct, frozen=True):
    """One question for a provider.

    `question` is the whole prompt as text, `chat_prompt` the same as chat messages when role markers are used.
    `guidelines` is the text of all guideline files; `guideline_files` and `input_files` are absolute paths.
    `attempt` starts at 0 and counts repeats of the whole call. `response_schema` asks for structured output where the
    API has it. `eval_dir` is the folder of the eval file, where commands run. `timeout_s` is the deadline of this
    attempt.
    """

    question: str
    chat_prompt: tuple[ChatMessage, ...] | None = None
    system_prompt: str | None = None
    guidelines: str = ""
    guideline_files: tuple[str, ...] = ()
    input_files: tuple[str, ...] = ()
    eval_case_id: str = ""
    attempt: int = 0
    trial: int = 0
    metadata: JsonObject = field(default_factory=dict)
    workspace: str | None = None
    eval_dir: str | None = None
    timeout_s: float | None = None
    model: str | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    response_schema: JsonObject | None = None


class CallRecord(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One attempt of a call: `kind` is `ok` or a failure kind; `wait_ms` is the pause before it."""

    kind: str
    status: int | None = None
    started_at: datetime
    wait_ms: float = always(0.0)
    duration_ms: float = always(0.0)
    request_id: str | None = None
    usage: Usage | None = None
    error: str | None = None


class Quota(Struct, frozen=True):
    """What a server says is left of an account: of requests and of tokens, each per minute."""

    limit_requests: float | None = None
    remaining_requests: float | None = None
    limit_tokens: float | None = None
    remaining_tokens: float | None = None


class CachedFrom(Struct, frozen=True):
    """Where an answer comes from that was not asked for again: its key, when and in which run it was asked.

    `duration_ms` is how long it took then. `nonce` is the one-time text that the request of a judge bore then, and
    that its reply bears.
    """

    key: str
    at: datetime
    run_id: str
    duration_ms: float
    nonce: str | None = None


class ProviderResponse(Struct, frozen=True):
    """What a provider answered. `trace` is given only by providers that have one; `request` is kept with the row."""

    text: str
    output_messages: tuple[Message, ...] | None = None
    trace: tuple[TraceEvent, ...] | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    finish_reason: str | None = None
    request_id: str | None = None
    session: str | None = None
    model: str | None = None
    first_token_ms: float | None = None
    exit_code: int | None = None
    log_paths: tuple[str, ...] = ()
    request: JsonObject | None = None
    calls: tuple[CallRecord, ...] = ()
    notes: tuple[str, ...] = ()
    quota: Quota | None = None
    metadata: JsonObject = field(default_factory=dict)
    cached: CachedFrom | None = None


@runtime_checkable
class Provider(Protocol):
    """Answers requests. Raises ProviderError when it cannot; every other exception is a fault of the plug-in.

    A provider may also be a BatchProvider, a CheckedProvider or a ClosingProvider.
    """

    @property
    def kind(self) -> str:
        """The canonical provider name."""

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Answer one request, or raise ProviderError."""


@runtime_checkable
class BatchProvider(Provider, Protocol):
    """A provider that can answer many requests with one call."""

    @property
    def supports_batch(self) -> bool:
        """Whether this target can batch as it is configured."""

    async def invoke_batch(self, requests: Sequence[ProviderRequest]) -> "Mapping[str, ProviderResponse | Failure]":
        """Answer all requests, by eval case id; raise ProviderError when the batch as a whole failed."""


class BatchTicket(Struct, frozen=True):
    """A batch that is worked on elsewhere: its id there, and what its requests are called here, as they were sent.

    With a stored ticket a later process finds the batch again.
    """

    id: str
    keys: tuple[str, ...]


class BatchState(Struct, frozen=True):
    """How far a batch is: `done` of `total` requests, and `status` in the provider's own word."""

    is_over: bool
    status: str
    done: int
    total: int


@runtime_checkable
class BatchApiProvider(Provider, Protocol):
    """A provider with an endpoint that takes many requests at once and answers within a day, at half the price."""

    @property
    def uses_batch_api(self) -> bool:
        """Whether this target is configured to be asked so."""

    async def submit_batch(self, requests: Mapping[str, ProviderRequest]) -> BatchTicket:
        """Hand in requests, each under a key of ours, and return at once; raise ProviderError when it is refused."""

    async def poll_batch(self, ticket: BatchTicket) -> BatchState:
        """Tell how far a batch is; raise ProviderError when it failed as a whole or is not there any more."""

    async def fetch_batch(self, ticket: BatchTicket) -> "Mapping[str, ProviderResponse | Failure]":
        """Return what became of every request of a batch that is over, by key; none is missing."""


@runtime_checkable
class CheckedProvider(Provider, Protocol):
    """A provider that can tell before the first request whether it is usable."""

    async def healthcheck(self) -> None:
        """Raise ProviderError with kind `healthcheck` when the target is not usable."""


@runtime_checkable
class ClosingProvider(Provider, Protocol):
    """A provider that holds something open."""

    async def aclose(self) -> None:
        """Let go of it."""


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
