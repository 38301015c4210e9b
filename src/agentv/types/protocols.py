"""Protocols between packages: the store, the tools of plug-ins, the clock."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from agentv.types.cases import EvaluatorLike
from agentv.types.evaluation import EvaluationContext, EvaluatorResult
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.provider import Embedder, Provider
from agentv.types.records.answer import Answer
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord, RunRecord

T = TypeVar("T")

Clock: TypeAlias = Callable[[], datetime]
"""Returns the current time, always with a time zone."""

OpenShared: TypeAlias = Callable[[], AbstractAsyncContextManager[T]]


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

    def recorded_rows(self, path: str) -> Iterator[tuple[int, JsonObject]] | None:
        """Yield the records of a table, a JSON document or OTLP exports, each with its line; None for JSON Lines.

        Raises AgentvError for a file or row that cannot be read.
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
    """Stores a run. A write returns only after the row is safe from a crash of the process."""

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
        """Write what a target returned; return the answer with its `seq`.

        The store takes ownership of an answer without a `seq` and may set it in place; any other answer is not changed.
        """

    def append(self, result: CaseResult) -> CaseResult:
        """Write a judged row; return it with its `seq`, as for an answer."""

    def close(self, state: str) -> None:
        """Write the end of the run and release its lock."""


@runtime_checkable
class ReportingStore(Protocol):
    """A store that reports messages while it works: a remote copy fell behind, or caught up."""

    def report_to(self, report: Callable[[str], None]) -> None:
        """Pass each message to `report`, in the thread that writes the run."""
