"""A line of a file with a caret under the place of a problem."""

import unicodedata
from pathlib import Path

from msgspec import Struct, field

from agentv.loading.dotenv import ENV_FILE
from agentv.templating.environment import has_reference
from agentv.templating.secrets import looks_secret
from agentv.types.problems import Problem

_WIDTH = 100
_BEFORE = 60
_BYTES_READ = 4 * 2**20


class CodeFrames(Struct):
    """Makes frames; keeps the lines of the files it has read. Paths are relative to `folder`."""

    folder: Path
    _files: dict[str, list[str]] = field(default_factory=dict)

    def frame(self, problem: Problem) -> list[str]:
        """Return the frame of a problem: two lines, or none when its place or its file is not known.

        Frames end up in logs: nothing of a `.env` file is shown, and no value of a key that looks secret.
        """
        lines = self._lines(problem.path)
        if not 0 < problem.line <= len(lines) or Path(problem.path).name == ENV_FILE:
            return []
        source = lines[problem.line - 1]
        if looks_secret(problem.json_path) and not has_reference(source):
            source = f"{source[: problem.column - 1]}***"
        return frame_lines(source, problem.line, problem.column)

    def _lines(self, path: str) -> list[str]:
        """Return the first lines of a regular file; of a pipe or a device nothing is read."""
        if path not in self._files:
            self._files[path] = _start(self.folder / path).replace("\r\n", "\n").split("\n")
        return self._files[path]


def _start(path: Path) -> str:
    """Return what is looked at of a file: its first mebibytes, without a line that is cut."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            data = file.read(_BYTES_READ)
    except (OSError, ValueError):
        return ""
    whole = data if len(data) < _BYTES_READ else data[: data.rfind(b"\n") + 1]
    return whole.decode("utf-8-sig", "replace")


def frame_lines(source: str, line: int, column: int) -> list[str]:
    """Return a source line and the caret under `column`; of a long line what stands around it."""
    start = max(0, column - 1 - _BEFORE) if len(source) > _WIDTH else 0
    shown = "".join(map(_shown, source[start : start + _WIDTH]))
    before = "".join(map(_shown, source[start : max(start, column - 1)]))
    head, tail = "…" if start else "", "…" if start + _WIDTH < len(source) else ""
    gutter = f"{line:>6} | "
    blanks = " " * (len(gutter) + len(head) + sum(map(_cells, before)))
    return [f"{gutter}{head}{shown}{tail}".rstrip(), f"{blanks}^"]


def _shown(character: str) -> str:
    """Return what stands for a character: blanks for tabs, a sign for what a terminal would act upon."""
    if character == "\t":
        return " "
    return "\ufffd" if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") else character


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
