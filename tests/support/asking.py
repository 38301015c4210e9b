"""Call of a provider with one request, like the pipeline but without its retries."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from agentv.execution.sharing import SharedResources
from agentv.loading.datasets.log_rows import has_whole_rows, whole_rows
from agentv.providers import PROVIDERS
from agentv.storage.run.find import find_run
from agentv.storage.run.stored import counted_lines
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject
from agentv.types.protocols import SharedParts
from agentv.types.provider import ClosingProvider, Provider, ProviderError, ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget

T = TypeVar("T")
PATIENCE_S = 30.0


@dataclass(frozen=True)
class Tools:
    """The tools of a provider in these tests."""

    shared: SharedParts
    home: str
    notes: list[str] = field(default_factory=list)

    def find_run(self, reference: str) -> str:
        return str(find_run(Path(self.home), reference))

    def note(self, message: str) -> None:
        self.notes.append(message)

    def recorded_rows(self, path: str) -> Iterator[tuple[int, JsonObject]] | None:
        return whole_rows(Path(path)) if has_whole_rows(Path(path)) else None

    def counted_lines(self, path: str) -> Iterator[tuple[int, int, bytes]] | None:
        return counted_lines(Path(path))


def make_target(provider: str, settings: object, *, base_dir: Path | str = ".") -> ResolvedTarget:
    return ResolvedTarget(
        name="support", provider=provider, settings=settings, base_dir=str(base_dir), timeout_s=PATIENCE_S
    )


def make_request(question: str = "Where is my order?", **fields: object) -> ProviderRequest:
    return ProviderRequest(question, **{"eval_case_id": "case-1", **fields})  # type: ignore[arg-type] # a test's own


def with_provider(
    target: ResolvedTarget,
    use: Callable[[Provider], Awaitable[T]],
    *,
    home: Path | str = ".",
    notes: list[str] | None = None,
) -> T:
    """Make the target's provider, use it, and close what it opened. `notes` gets its notes on the run."""
    said = [] if notes is None else notes

    async def run() -> T:
        async with asyncio.timeout(2 * PATIENCE_S), SharedResources() as shared:
            provider = PROVIDERS.get(target.provider).load_factory()(target, Tools(shared, str(home), said))
            try:
                return await use(provider)
            finally:
                if isinstance(provider, ClosingProvider):
                    await provider.aclose()

    return asyncio.run(run())


def ask(target: ResolvedTarget, request: ProviderRequest | None = None, *, home: Path | str = ".") -> ProviderResponse:
    """Return the target's response."""
    return with_provider(target, lambda provider: provider.invoke(request or make_request()), home=home)


def failure_of(target: ResolvedTarget, request: ProviderRequest | None = None, *, home: Path | str = ".") -> Failure:
    """Return the failure of a target that does not answer."""
    with pytest.raises(ProviderError) as raised:
        ask(target, request, home=home)
    return raised.value.failure
