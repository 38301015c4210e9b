"""`--log-file`: every event of a run, as it happens."""

from pathlib import Path

from agentv.reports.json_lines import JsonLines, ToRecord
from agentv.types.errors import ConfigError


class LogFile(JsonLines):
    """An observer that appends every event to a file. Raises ConfigError when that cannot be opened."""

    def __init__(self, path: Path, *, to_record: ToRecord) -> None:
        try:
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"--log-file {path}: cannot be written: {error.strerror}") from error
        super().__init__(self._file, to_record=to_record)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
