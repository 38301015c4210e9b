"""Protection of CI logs: untrusted text must not be a command to the runner that reads the log."""

import re
from collections.abc import Mapping

_INLINE = re.compile(r"##(?=\w*\[)")
_AT_START = re.compile(r"((?:\A|[\r\n])[^\S\r\n]*)(?=::)")
_LONGEST_TAIL = 40


def reads_commands(env: Mapping[str, str]) -> bool:
    """Return True if a runner reads commands from the log: GitHub Actions, Azure Pipelines or TeamCity."""
    flags = (env.get("GITHUB_ACTIONS", ""), env.get("TF_BUILD", ""))
    return any(flag.lower() == "true" for flag in flags) or "TEAMCITY_VERSION" in env


def harmless(line: str) -> str:
    """Return a line in which no runner finds a command: `::name::`, `##[name]` or `##vso[name]`."""
    if "##" in line:
        line = _INLINE.sub("## ", line)
    return f".{line}" if line.lstrip().startswith("::") else line


class CommandGuard:
    """Makes a stream of text harmless, also where a command is split over several writes."""

    def __init__(self) -> None:
        self._tail = ""

    def escape(self, text: str) -> str:
        """Return the next text of the stream, in which no runner finds a command."""
        if not text:
            return text
        safe = _safe(self._tail + text)
        if not safe.startswith(self._tail):
            # An earlier write began a command: a character between them breaks it.
            safe = _safe(f"{self._tail}.{text}")
        out = safe[len(self._tail) :]
        self._tail = _open_line(safe)
        return out


def _safe(text: str) -> str:
    return _AT_START.sub(r"\1.", _INLINE.sub("## ", text))


def _open_line(text: str) -> str:
    """Return what decides whether the next text completes a command: the line that has not ended yet, shortened."""
    line = re.split(r"[\r\n]", text)[-1]
    if len(line) <= _LONGEST_TAIL:
        return line
    return " " if line.isspace() else f"x{line[-_LONGEST_TAIL:]}"
