"""The lines that a run has scored, compared with those of its log when it is resumed."""

import stat
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct, field

from agentv.engine.criteria.log_stream import LogStream
from agentv.execution.processes.line_stream import Line, ReadLine
from agentv.loading.suites.recorded import MAX_LINE_BYTES
from agentv.scoring.keys.identity import DigestMap
from agentv.types.errors import ConfigError
from agentv.types.records.answer import source_of

_DIGEST_BYTES = 8


def content_digest(line: ReadLine) -> str:
    """Return the digest of a line's content, 16 hexadecimal digits; empty for a line that could not be read."""
    return blake2b(line.data, digest_size=_DIGEST_BYTES).hexdigest() if isinstance(line, Line) else ""


class ScoredLines(Struct):
    """The digests of the lines that a run has scored, by their places, and the last of these lines of each file."""

    run_id: str
    lines: int = 0
    _digests: DigestMap = field(default_factory=DigestMap)
    _last: dict[str, int] = field(default_factory=dict)

    def add(self, file: str, number: int, part: int, digest: str) -> None:
        """Add a line of a row or an answer. One without a digest is not compared."""
        self.lines += 1
        if digest:
            self._digests.put(source_of(file, number, part), int(digest, 16))
            self._last[file] = max(number, self._last.get(file, 0))

    @property
    def are_known(self) -> bool:
        """False if no line has a digest, as in a run of an older version."""
        return bool(self._last) or not self.lines

    async def refuse_changes(self, files: Sequence[str]) -> None:
        """Raise ConfigError for the first scored line that is not in its file any more, or has another content."""
        for file in files:
            last = self._last.get(file)
            if last is None:
                continue
            if not _is_regular(file):
                raise ConfigError(f"{file}: not a regular file, so it cannot be read again; {_ADVICE}")
            stream, number = LogStream([file], max_bytes=MAX_LINE_BYTES), 0
            batches = stream.batches()
            async for batch in batches:
                for line in batch:
                    number = line.number
                    self._compare(line)
                if number > last:
                    break
            await batches.aclose()
            if number < last:
                raise ConfigError(f"{file}: has no line {last} any more, which run {self.run_id} has scored; {_ADVICE}")

    def _compare(self, line: ReadLine) -> None:
        place = source_of(line.file, line.number, line.part)
        known, digest = self._digests.get(place), content_digest(line)
        if known is not None and (not digest or int(digest, 16) != known):
            raise ConfigError(f"{place}: has changed since run {self.run_id} scored it; {_ADVICE}")


def _is_regular(file: str) -> bool:
    return stat.S_ISREG(Path(file).stat().st_mode)


_ADVICE = "restore the file, or score what it has now as a run of its own with agentv score"
