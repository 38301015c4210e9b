"""The answers of stored runs, for evaluators that compare an answer with them."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agentv.engine.planning.judges import ANSWERS, run_folder
from agentv.execution.threads import call_in_thread
from agentv.storage.run.stored import counted_lines
from agentv.types.errors import EvaluatorError, StorageError
from agentv.types.evaluation import EvaluationContext
from agentv.types.provider import ProviderError

if TYPE_CHECKING:
    from agentv.providers.local.recordings import Recording


class RecordedAnswers:
    """The answers of stored runs. A file is read once per target; only the offsets of its answers stay in memory."""

    def __init__(self, find_run: Callable[[str], str]) -> None:
        self._find_run = find_run
        self._lock = asyncio.Lock()
        self._recordings: dict[tuple[Path, str], Recording] = {}

    def folder(self, run: str, base_dir: str) -> Path:
        """Return the folder of a run. Raises ConfigError if no run or several runs match."""
        return run_folder(run, base_dir, self._find_run)

    async def text(self, run: str, context: EvaluationContext, *, base_dir: str) -> str:
        """Return the answer of a stored run to the context's case, for its target and trial.

        The answers of a run with a single target serve every target. Raises EvaluatorError if there is no such answer
        or it cannot be read, and ConfigError if no run or several runs match.
        """
        from agentv.providers.local.recordings import parse_recorded  # noqa: PLC0415 - few runs compare with another

        path = self.folder(run, base_dir) / ANSWERS
        try:
            case, recording = context.eval_case, await self._recording(path, context.target.name)
            return parse_recorded(recording.find(case.id, context.trial, case.prompt)).text
        except ProviderError as error:
            raise EvaluatorError(f"run {run!r} has no answer to compare with: {error.failure.message}") from error
        except (OSError, StorageError) as error:
            raise EvaluatorError(f"the answers of run {run!r} cannot be read: {error}") from error

    async def _recording(self, path: Path, target: str) -> "Recording":
        from agentv.providers.local.recordings import index_recording  # noqa: PLC0415 - as above

        async with self._lock:
            if (path, target) not in self._recordings:
                self._recordings[path, target] = await call_in_thread(
                    lambda: index_recording(path, target, counted=counted_lines(path)), timeout_s=None
                )
            return self._recordings[path, target]
