"""Protocols between packages: the store, the tools of plug-ins, the clock, and a quota that several processes share.

An account has limits on requests and tokens in every 60 seconds, a budget has a limit on its total dollars. A process
leases a part of these, uses it before the lease expires, and reports the use; the rest becomes free again. A lease
without a report counts as used.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from msgspec import Struct

from agentv.types.cases import EvaluatorLike
from agentv.types.evaluation import EvaluationContext, EvaluatorResult
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.provider import Embedder, Provider
from agentv.types.records.answer import Answer
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord, RunRecord
from agentv.types.records.segment import UploadedSegment

T = TypeVar("T")

Clock: TypeAlias = Callable[[], datetime]
"""Returns the current time, always with a time zone."""

OpenShared: TypeAlias = Callable[[], AbstractAsyncContextManager[T]]
"""Opens a shared resource, which is closed when its context ends."""


class SharedParts(Protocol):
    """Resources that are opened once per process and closed at its end: HTTP sessions, worker processes."""

    async def get(self, key: str, opener: "OpenShared[T]") -> T:
        """Return the resource called `key`, opening it the first time."""


class ProviderTools(Protocol):
    """The tools of a provider, besides its settings."""

    @property
    def shared(self) -> SharedParts:
        """Resources shared by all providers of the process."""

    @property
    def home(self) -> str:
        """The `.agentv` folder of this run, for logs."""

    def find_run(self, reference: str) -> str:
        """Return the folder of a stored run by id, name, path or `latest`. Raises ConfigError that lists the runs."""

    @property
    def note(self) -> Callable[[str], None]:
        """Adds a note to the run."""

    def recorded_rows(self, path: str) -> Iterator[tuple[int, JsonObject]] | None:
        """Yield the records of a table, a JSON document or OTLP exports, each with its line; None for JSON Lines.

        Raises AgentvError for a file or row that cannot be read.
        """

    def counted_lines(self, path: str) -> Iterator[tuple[int, int, bytes]] | None:
        """Return number, offset and bytes of the lines that count in a file of a stored run; None for other files.

        Raises StorageError when the run cannot be read.
        """


class EvaluatorTools(Protocol):
    """The tools of an evaluator, besides its settings."""

    @property
    def shared(self) -> SharedParts:
        """Resources shared by all evaluators of the process."""

    def judge(self, target_name: str) -> Provider:
        """Return the named target as a judge, with its retries, limits and deadline."""

    def embedder(self, model: str | JsonObject) -> Embedder:
        """Return an embedder: a target by name, or one defined inline (`{provider: …, model: …}`)."""

    async def recorded_answer(self, run: str, context: EvaluationContext, *, base_dir: str) -> str:
        """Return the answer of a stored run to the case, target and trial of a context.

        `run` is an id, a name, `latest` or a path, which is relative to `base_dir`. Raises EvaluatorError, or
        ConfigError when there is no such run.
        """

    async def score(
        self, context: EvaluationContext, evaluators: tuple[EvaluatorLike, ...]
    ) -> tuple[EvaluatorResult, ...]:
        """Run other evaluators on the same context, one after another, each isolated (for composites)."""


class ResultStore(Protocol):
    """A store of one run. A write returns only after the row is safe from a crash of the process."""

    @property
    def run_id(self) -> str:
        """The id of the run."""

    @property
    def folder(self) -> str | None:
        """The run's folder on disk, if it has one."""

    def begin(self, run: RunRecord) -> None:
        """Write the record of the run before it starts."""

    def note(self, type_: str, fields: Mapping[str, JsonValue]) -> None:
        """Write one event of the run."""

    def append_case(self, case: CaseRecord) -> None:
        """Write a planned case; a repeated write of the same case is ignored."""

    def append_answer(self, answer: Answer) -> Answer:
        """Write a target's answer; return it with its `seq`.

        The store takes ownership of an answer without a `seq` and may set it in place; any other answer is not changed.
        """

    def append(self, result: CaseResult) -> CaseResult:
        """Write a judged row; return it with its `seq`, as for an answer."""

    def close(self, state: str) -> None:
        """Write the end of the run and release its lock."""


@runtime_checkable
class EncodedCaseStore(Protocol):
    """A store that accepts a case encoded by another process of the run, without decoding it."""

    def append_encoded_case(self, line: bytes) -> None:
        """Write the line of a case whose attachments are stored; a repeated write of the same case is ignored."""


@runtime_checkable
class SegmentStore(Protocol):
    """A store with a list of segments: files of lines that other processes of the run wrote into a common folder."""

    @property
    def segments_place(self) -> str | None:
        """The folder of the segments, an absolute path or a URL; None for a run without segments."""

    async def list_segment(self, uploaded: UploadedSegment) -> int | None:
        """Add a segment to the list, which makes its lines part of the run; return the number of its first line.

        If this store itself has lines that are in no segment yet, it first uploads them as a segment. If that fails, it
        lists nothing and returns None. Raises StorageError if the list cannot be written.
        """


@runtime_checkable
class FileStore(Protocol):
    """A store in files, which another program may remove or cut while the run goes on."""

    def lost_files(self) -> Sequence[str]:
        """Return what is missing of the written files, one sentence for each; empty if nothing is."""


def why_lost(store: ResultStore) -> str | None:
    """Return the sentence of a verdict for a store that has lost files; None if nothing is missing."""
    lost = store.lost_files() if isinstance(store, FileStore) else ()
    return f"files of the run were lost while it ran: {'; '.join(lost)}" if lost else None


REPORT_WAIT_S = 3.0
"""The seconds of a wait for a remote store after which the wait is reported."""


@runtime_checkable
class ReportingStore(Protocol):
    """A store that reports messages during a run, such as that a remote copy fell behind or caught up."""

    def report_to(self, report: Callable[[str], None]) -> None:
        """Call `report` with each message, in the thread that writes the run."""


LEASE_S = 2.0
"""How long a lease may be used, in seconds. It is short, because a call needs a lease only at the moment it is sent."""
NODE_LEASE_S = 5.0
"""How long the driver of a run on several machines leases rows, permits and money to a node, in seconds."""
WINDOW_S = 60.0
"""How long requests and tokens count against the limits after their lease ended, in seconds."""
BLOCKS_PER_WINDOW = 30
"""A process leases requests in blocks, each a thirtieth of the requests of 60 seconds (`block_of`)."""
LARGEST_BLOCK = 100


class Amounts(Struct, frozen=True):
    """Requests, tokens and dollars."""

    requests: int = 0
    tokens: float = 0.0
    usd: float = 0.0


class QuotaLimits(Struct, frozen=True):
    """The limits of an account: requests and tokens in every 60 seconds, dollars in total. None means no limit."""

    requests: int | None = None
    tokens: float | None = None
    usd: float | None = None


class LeaseUse(Struct, frozen=True):
    """The use of a lease so far, in totals, so a repeated report changes nothing.

    Use that was not granted, beyond the grant or of an unknown lease, counts against the limits too.
    """

    lease: str
    used: Amounts
    is_over: bool = True
    """True if the lease ends and the rest of it becomes free; otherwise it is renewed, with `used` as its amounts."""


class QuotaRequest(Struct, frozen=True, kw_only=True):
    """A request for a lease, or only a report when `least` is empty."""

    account: str
    holder: str
    """The name of the process that sends the request."""
    lease: str
    """The id of a new lease, chosen by the process, or of its existing lease, which the grant extends."""
    limits: QuotaLimits
    least: Amounts = Amounts()
    """The smallest grant; if it is not free, the grant is nothing."""
    wanted: Amounts = Amounts()
    """The largest grant."""
    uses: tuple[LeaseUse, ...] = ()
    """Recorded before anything is granted."""
    hold_s: float = 0.0
    """The account grants nothing to any process for that many seconds, because the server refused a call."""


class QuotaGrant(Struct, frozen=True):
    """The response to a QuotaRequest."""

    granted: Amounts
    """Empty if `least` was not free."""
    expires_in_s: float = LEASE_S
    """The lease expires that many seconds after the request was sent."""
    wait_s: float | None = 0.0
    """How long the process should wait before its next request; None if waiting is useless, because no lease can be
    returned.
    """
    spent_usd: float = 0.0
    """The total that all processes have spent or leased."""


class QuotaService(Protocol):
    """A quota, or a connection to it, which grants leases. It may serve many accounts and concurrent requests."""

    async def exchange(self, request: QuotaRequest) -> QuotaGrant:
        """Report the use of leases and get a lease. Raises QuotaError when the quota cannot be reached."""

    async def aclose(self) -> None:
        """Close connections."""


@runtime_checkable
class StartedQuota(Protocol):
    """A quota with a process (an actor of Ray) for each account; an early start saves the first call the wait."""

    def start(self, account: str) -> None:
        """Start the actor that grants the leases of an account. Raises QuotaError."""


BUDGET_ACCOUNT_PREFIX = "budget "
"""The start of the `account` of a budget, before the budget's name. The `account` of a rate limit is a digest."""


def block_of(requests_per_window: int | None) -> int:
    """Return the number of requests that a process leases at once: two seconds' worth, at least 1, at most 100."""
    if requests_per_window is None:
        return LARGEST_BLOCK
    return max(1, min(LARGEST_BLOCK, requests_per_window // BLOCKS_PER_WINDOW))
