"""The contract of a provider: requests, responses, failures."""

from array import array
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct, field
from msgspec.structs import force_setattr

from agentv.types.errors import AgentvError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject
from agentv.types.messages import ChatMessage, Message, TraceEvent
from agentv.types.messages_json import content_text
from agentv.types.stored import StoredDuration, always
from agentv.types.thinking import split_thinking
from agentv.types.usage import COST_NOTE, MAX_COST_USD, USAGE_NOTE, StoredCost, Usage, known_cost, known_usage

TRACE_NOTE = "its responses have the key 'trace', which is deprecated; return output_messages with tool_calls instead"
"""The note on a response of a program or function with the deprecated key `trace`."""

STRUCTURED_OUTPUT_NOTE = (
    "its server refuses structured output, so judges ask it for JSON in words only; `structured_output: false` says so"
)
"""The note on the response of a server that refused the JSON Schema of a judge's reply."""

GUIDELINES_HEADING = "[[ ## Guidelines ## ]]"
"""The heading of the guidelines in a prompt."""


class ProviderRequest(Struct, frozen=True):
    """One request to a provider."""

    question: str
    """The whole prompt as text, without the guidelines and the system prompt."""
    chat_prompt: tuple[ChatMessage, ...] | None = None
    """The prompt and the guidelines as chat messages; None unless `question` has role markers."""
    system_prompt: str | None = None
    guidelines: str = ""
    """The text of all guideline files."""
    guideline_files: tuple[str, ...] = ()
    """Absolute paths."""
    input_files: tuple[str, ...] = ()
    """Absolute paths."""
    eval_case_id: str = ""
    attempt: int = 0
    """The number of this attempt, from 0; model APIs and web services always get 0."""
    trial: int = 0
    prompt: str | None = None
    """The id of the suite's prompt that is sent; None without one."""
    metadata: JsonObject = field(default_factory=dict)
    workspace: str | None = None
    """The agent's own folder; None without one."""
    eval_dir: str | None = None
    """The folder of the eval file, from which relative working folders start."""
    timeout_s: float | None = None
    """The time limit of this attempt."""
    model: str | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    response_schema: JsonObject | None = None
    """Requests structured output if the API supports it."""
    on_log_line: Callable[[str], None] | None = None
    """Displays a line of the call's log, with secrets redacted; None if logs are not displayed."""
    turn: int | None = None
    """The number of the turn of a conversation, from 1; None for a case without turns."""


class CallRecord(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One attempt of a call."""

    kind: str
    """`ok` or a failure kind."""
    status: int | None = None
    started_at: datetime
    wait_ms: StoredDuration = always(0.0)
    """The pause before the attempt."""
    duration_ms: StoredDuration = always(0.0)
    request_id: str | None = None
    usage: Usage | None = None
    cost_usd: StoredCost | None = None
    """The cost of a failed attempt; None if it is not known. That of a successful one is in the answer."""
    estimated: bool = False
    """True if tokens of a failed attempt were estimated from its texts."""
    error: str | None = None


class Quota(Struct, frozen=True):
    """The quota that a server reports, and what remains of it: requests and tokens, each per minute."""

    limit_requests: float | None = None
    remaining_requests: float | None = None
    limit_tokens: float | None = None
    remaining_tokens: float | None = None


class CachedFrom(Struct, frozen=True):
    """The origin of a cached response."""

    key: str
    """The key of the response in the cache."""
    at: datetime
    """The time when the original call ended."""
    run_id: str
    """The run of the original call."""
    duration_ms: float
    """The duration of the original call."""
    nonce: str | None = None
    """The one-time text of a judge's original request; the cached response repeats this nonce, not that of the present
    request.
    """


class ReceivedSpans(Struct, frozen=True, gc=False):
    """What is known of the spans that a target sent while it was called (`otel: true`)."""

    trace_id: str = ""
    """`trace_id` and `span_id` are those of the span that gave the answer; empty without such a span."""
    span_id: str = ""
    waited_s: float = 0.0
    """The seconds after the answer that were spent waiting for spans: they are not time of the target."""
    is_complete: bool = False
    """False if spans may be missing."""


class ProviderResponse(Struct, frozen=True, gc=False):
    """A provider's response."""

    text: str
    """If empty, the answer is the content of the last message of the assistant with content in `output_messages`."""
    output_messages: tuple[Message, ...] | None = None
    trace: tuple[TraceEvent, ...] | None = None
    """The older form of an agent's steps."""
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
    """The request to be stored."""
    calls: tuple[CallRecord, ...] = ()
    notes: tuple[str, ...] = ()
    quota: Quota | None = None
    metadata: JsonObject = field(default_factory=dict)
    cached: CachedFrom | None = None
    reasoning: str | None = None
    """The model's reasoning, if the API returns it apart from the answer."""
    estimated: bool = False
    """True if a part of `usage` was estimated from texts, because the vendor did not report it."""
    origin: JsonObject | None = None
    """Where a recorded answer was read from: `file`, `line`, `trace_id` and `span_id`."""
    spans: ReceivedSpans | None = None
    """None unless the spans of the target were received."""

    def __post_init__(self) -> None:
        """Set an empty text to that of the last message of the assistant with content, without a model's thoughts.

        A cost or a usage that cannot be one becomes unknown, with a note.
        """
        if self.output_messages and self.text == "":
            text = last_answer(self.output_messages) or ""
            if "<think" in text:
                text, _ = split_thinking(text)
            force_setattr(self, "text", text)
        _keep_known_amounts(self)


def last_answer(messages: Sequence[object]) -> str | None:
    """Return the content of the last assistant message with content; None if there is none.

    Only Message objects are read; a framework's messages become such objects later.
    """
    answers = (each for each in reversed(messages) if isinstance(each, Message) and each.role == "assistant")
    return next((text for each in answers if (text := content_text(each.content))), None)


class ProviderError(AgentvError, RuntimeError):
    """A target did not answer. `failure` is the reason, `calls` are the attempts made.

    `partial` is the target's output before it failed, None if there is none; a batch has `partials`, by case id.
    """

    def __init__(
        self,
        failure: Failure,
        *,
        calls: tuple[CallRecord, ...] = (),
        partial: ProviderResponse | None = None,
        partials: Mapping[str, ProviderResponse] | None = None,
    ) -> None:
        self.failure = failure
        self.calls = calls
        self.partial = partial
        self.partials = partials or {}
        super().__init__(failure.message)


@runtime_checkable
class Provider(Protocol):
    """Answers requests. Raises ProviderError when it cannot; every other exception is a bug of the plug-in.

    A provider may also implement the other protocols of this file, such as BatchProvider or CheckedProvider.
    """

    @property
    def kind(self) -> str:
        """The canonical provider name."""

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Answer one request, or raise ProviderError."""


@runtime_checkable
class BatchProvider(Provider, Protocol):
    """A provider that can answer many requests with one call.

    A provider whose attribute `only_batches` is True never gets single requests: what a batch leaves unanswered fails.
    """

    @property
    def supports_batch(self) -> bool:
        """True if this target's settings allow batches."""

    async def invoke_batch(self, requests: Sequence[ProviderRequest]) -> "Mapping[str, ProviderResponse | Failure]":
        """Return responses and failures by eval case id; a request without either is left out.

        Raises ProviderError when the batch as a whole failed.
        """


class BatchTicket(Struct, frozen=True):
    """A batch in progress on a server: its id there, and our keys of its requests, in the order they were sent.

    With a stored ticket, a later process can find the batch again.
    """

    id: str
    keys: tuple[str, ...]


class BatchState(Struct, frozen=True):
    """The progress of a batch."""

    is_over: bool
    status: str
    """The provider's own status."""
    done: int
    """The number of finished requests."""
    total: int
    """The number of requests."""


@runtime_checkable
class BatchApiProvider(Provider, Protocol):
    """A provider with an endpoint that takes many requests at once and answers within a day, at half the price."""

    @property
    def uses_batch_api(self) -> bool:
        """True if this target's settings select the batch endpoint."""

    async def submit_batch(self, requests: Mapping[str, ProviderRequest]) -> BatchTicket:
        """Submit requests by our keys, without waiting for answers. Raises ProviderError when they are rejected."""

    async def poll_batch(self, ticket: BatchTicket) -> BatchState:
        """Return the progress of a batch. Raises ProviderError when it failed as a whole or no longer exists."""

    async def fetch_batch(self, ticket: BatchTicket) -> "Mapping[str, ProviderResponse | Failure]":
        """Return the outcome of every request of a finished batch, by key.

        Raises ProviderError as `poll_batch` does.
        """


@runtime_checkable
class CheckedProvider(Provider, Protocol):
    """A provider that can check before the first request whether the target is usable."""

    async def healthcheck(self) -> None:
        """Raise ProviderError with kind `healthcheck` when the target is not usable."""


@runtime_checkable
class PlacedCheckProvider(CheckedProvider, Protocol):
    """A CheckedProvider whose check may depend on the folder of the eval file. A run calls only `healthcheck_in`."""

    async def healthcheck_in(self, eval_dirs: Sequence[str]) -> None:
        """Check the target for eval files in these folders. Raises as `healthcheck` does."""


@runtime_checkable
class ClosingProvider(Provider, Protocol):
    """A provider with resources to close."""

    async def aclose(self) -> None:
        """Close the resources."""


# Before Python 3.12 an array has no type parameter at run time.
if TYPE_CHECKING:
    Vector: TypeAlias = array[float]
else:
    Vector = array
"""32-bit floats (typecode "f"), all finite."""


class EmbeddingRequest(Struct, frozen=True):
    """Texts to embed."""

    texts: tuple[str, ...]
    timeout_s: float | None = None
    """The time limit of this attempt."""


class EmbeddingResponse(Struct, frozen=True, gc=False):
    """One vector per text, in the order of the texts."""

    vectors: tuple[Vector, ...]
    cut: frozenset[int] = frozenset()
    """The indexes of texts that were truncated."""
    usage: Usage | None = None
    cost_usd: float | None = None
    model: str | None = None
    request_id: str | None = None
    quota: Quota | None = None
    calls: tuple[CallRecord, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Make a cost or a usage that cannot be one unknown, with a note."""
        _keep_known_amounts(self)


def _keep_known_amounts(response: ProviderResponse | EmbeddingResponse) -> None:
    cost_usd, usage = response.cost_usd, response.usage
    if cost_usd is not None and (type(cost_usd) is not float or not 0 <= cost_usd <= MAX_COST_USD):
        known = known_cost(cost_usd)
        force_setattr(response, "cost_usd", known)
        if known is None:
            force_setattr(response, "notes", (*response.notes, COST_NOTE))
    if isinstance(usage, Usage) and (known_counts := known_usage(usage)) is not usage:
        force_setattr(response, "usage", known_counts)
        if known_counts is None:
            force_setattr(response, "notes", (*response.notes, USAGE_NOTE))


@runtime_checkable
class EmbeddingProvider(Provider, Protocol):
    """A provider that embeds texts. Raises ProviderError when it cannot."""

    @property
    def embedding_space(self) -> str:
        """The identity of comparable vectors, also for caching: the model, its endpoint, and all relevant settings.

        Vectors of the space "" are not cached on disk.
        """

    @property
    def texts_at_once(self) -> int:
        """The maximum number of texts in one request."""

    async def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:
        """Return one vector per text."""


class Embedding(Struct, frozen=True):
    """The vector of one text."""

    vector: Vector
    is_cut: bool = False
    """True if the text was truncated."""
    usage: Usage | None = None
    """The text's share of the usage of the request; None when `cached`."""
    cost_usd: float | None = None
    """The text's share of the cost of the request; None when `cached`."""
    cached: bool = False


class Embedder(Protocol):
    """Embeds texts for evaluators. Equal texts share one request, and texts of several cases share batches."""

    @property
    def name(self) -> str:
        """The name of the target that makes the vectors."""

    async def embed(self, texts: Sequence[str]) -> tuple[Embedding, ...]:
        """Return one embedding per text. Raises ProviderError if one of them fails."""
