"""`replay`: answers that were recorded before, from a stored run, a results file, a transcript or a log."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, cast

from msgspec import Meta, Struct

from agentv.execution.threads import call_in_thread
from agentv.providers.local.recordings import Recording, index_recording, parse_recorded
from agentv.types.errors import ConfigError, TargetError
from agentv.types.log_shapes.mapping import check_field
from agentv.types.protocols import ProviderTools
from agentv.types.provider import ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget

ANSWERS = "answers.jsonl"


class ReplaySettings(Struct, frozen=True):
    """The source of the recorded answers: exactly one of the two."""

    run: Annotated[
        str | None, Meta(description="Stored run: its folder, its id or the start of its id, or `latest`.")
    ] = None
    file: Annotated[
        str | None,
        Meta(description="JSONL file of answers, results, `{id, text | output_messages, trial?}`, or of any log."),
    ] = None
    map: Annotated[
        Mapping[str, str] | None,
        Meta(description="Paths of the fields of a log with other keys, as in `{id: no, response: data.answer}`."),
    ] = None

    def __post_init__(self) -> None:
        """Raise ValueError unless exactly one source is set, and for an unknown field in `map`."""
        if (self.run is None) == (self.file is None):
            raise ValueError("replay needs exactly one of run and file")
        if self.map and self.run is not None:
            raise ValueError("map is for the file of a log; a stored run needs none")
        for name in self.map or ():
            try:
                check_field(name, "map")
            except ConfigError as error:
                raise ValueError(str(error)) from None


class ReplayProvider:
    """Looks up answers by case id and trial. Only their positions are held in memory."""

    kind = "replay"

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:
        settings = cast(ReplaySettings, target.settings)
        if settings.file is not None:
            self._path = Path(target.base_dir, settings.file)
        else:
            self._path = _run_folder(settings.run or "", Path(target.base_dir), tools) / ANSWERS
        if not self._path.is_file():
            raise TargetError(f"target {target.name!r}: there is no recording {self._path}")
        self._target = target.name
        self._paths = settings.map
        self._opening = asyncio.Lock()
        self._recording: Recording | None = None

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Return the recorded answer; a recorded failure is raised again."""
        async with self._opening:
            if self._recording is None:
                self._recording = await call_in_thread(
                    index_recording, self._path, self._target, self._paths, timeout_s=None
                )
        row = self._recording.find(request.eval_case_id, request.trial)
        return parse_recorded(row, self._paths)


def _run_folder(reference: str, base_dir: Path, tools: ProviderTools) -> Path:
    """Return the folder of a stored run, given by a path relative to the targets file or by any run reference."""
    as_path = base_dir / reference
    return as_path if (as_path / ANSWERS).is_file() else Path(tools.find_run(reference))
