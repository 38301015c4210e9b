"""The files that a command on logs reads: those that were named, and the logs in folders that were named.

A folder of transcripts of coding agents stays a folder: LogStream knows which of its files are transcripts.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from agentv.execution.processes.line_stream import STDIN
from agentv.loading.datasets.transcripts import find_transcripts
from agentv.telemetry.binary import BINARY_SUFFIXES
from agentv.types.errors import ConfigError

_SUFFIXES = (".json", ".jsonl", ".ndjson", *BINARY_SUFFIXES)


def log_files(files: Sequence[str]) -> list[str]:
    """Return the files, with the logs in a folder without transcripts, in the order of their paths, in its place.

    Raises ConfigError for a folder with neither.
    """
    found: list[str] = []
    for file in files:
        if file == STDIN or not Path(file).is_dir() or find_transcripts(Path(file)).transcripts:
            found.append(file)
            continue
        inside = sorted(_logs_in(Path(file)))
        if not inside:
            raise ConfigError(
                f"{file}: is a folder without transcripts of coding agents and without logs, which end in "
                f"{', '.join(_SUFFIXES)}"
            )
        found += inside
    return found


def _logs_in(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.name.removesuffix(".gz").endswith(_SUFFIXES) and not is_hidden and path.is_file():
            yield str(path)
