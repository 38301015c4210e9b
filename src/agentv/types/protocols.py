"""Protocols between rooms: the store, the tools that plug-ins are given, the clock."""

from collections.abc import Callable, Mapping
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
"""Returns the present moment, always with a time zone."""

OpenShared: TypeAlias = Callable[[], AbstractAsyncContextManager[T]]


class SharedParts(Protocol):
    """Things that are opened once per process and closed at its end: HTTP sessions, worker processes."""

    async def get(self, key: str, opener: "OpenShared[T]") -> T:
        """Return the part called `key`, opening it the first time."""


class ProviderTools(Protocol):
    """What a provider may use besides its settings."""

    @property
    def shared(self) -> SharedParts:
        """Parts shared by all providers of the process."""

    @property
    def home(self) -> str:
        """The `.agentv` folder of this run, for logs."""

    def find_run(self, reference: str) -> str:
        """Return the folder of a stored run by id, name, path or `latest`. Raises ConfigError that lists the runs."""


class EvaluatorTools(Protocol):
    """What an evaluator may use besides its settings."""

    @property
    def shared(self) -> SharedParts:
        """Parts shared by all evaluators of the process."""

    def judge(self, target_name: str) -> Provider:
        """Return the named target as a judge, with its retries, limits and deadline."""

    def embedder(self, model: str | JsonObject) -> Embedder:
        """Return who makes vectors: a target by name, or one written like a target (`{provider: …, model: …}`)."""

    async def recorded_answer(self, run: str, context: EvaluationContext, *, base_dir: str) -> str:
        """Return the answer of a stored run to the case, target and trial of a context.

        `run` is an id, a name, `latest` or a path, which is relative to `base_dir`. Raises EvaluatorError, or
        ConfigError when there is no such run.
        """

    async def score(
        self, context: EvaluationContext, evaluators: tuple[EvaluatorLike, ...]
    ) -> tuple[EvaluatorResult, ...]:
        """Run other evaluators on the same context, one after another, each isolated (composites)."""


class ResultStore(Protocol):
    """Keeps a run. Every write returns only when the row is acknowledged (survives the process)."""

    @property
    def run_id(self) -> str:
        """The run that is written."""

    @property
    def folder(self) -> str | None:
        """Where it lies on disk, if it does."""

    def begin(self, run: RunRecord) -> None:
        """Write what is known of the run before it starts."""

    def note(self, type_: str, fields: Mapping[str, JsonValue]) -> None:
        """Write one event of the run."""

    def append_case(self, case: CaseRecord) -> None:
        """Write a planned case; a second write of the same case is dropped."""

    def append_answer(self, answer: Answer) -> Answer:
        """Write what a target returned; the answer comes back with its `seq`.

        One that has no `seq` yet is the store's from now on, and may get it itself; one that has is left as it is.
        """

    def append(self, result: CaseResult) -> CaseResult:
        """Write a judged row; the row comes back with its `seq`, as an answer does."""

    def close(self, state: str) -> None:
        """Write the end of the run and let go of its lock."""


@runtime_checkable
class TellingStore(Protocol):
    """A store that may have to tell people something while it works: a copy elsewhere fell behind, or is back."""

    def tell_by(self, tell: Callable[[str], None]) -> None:
        """Give each message to `tell`, in the thread that writes the run."""
