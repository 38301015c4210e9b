"""Make untrusted text safe to print: no terminal sequences, bidirectional overrides or invisible characters.

In CI logs, no text may be a command to the runner that parses the log.
"""

import re
from collections.abc import Mapping

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
UNSAFE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters except newline and tab
    "\u00ad\u061c\u180e\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible, reordering
    "\ufffe\uffff"  # noncharacters, which XML and YAML forbid
    "\ud800-\udfff"  # surrogates, which cannot be encoded
    "\U000e0000-\U000e007f"  # tag characters, which are invisible
    "]"
)
"""A character that must be escaped before it is printed on a terminal or a page."""

_RUNNER_COMMAND = re.compile(r"##(\w*)\[")
_INLINE_COMMAND = re.compile(r"##(?=\w*\[)")
_COMMAND_AT_START = re.compile(r"((?:\A|[\r\n])[^\S\r\n]*)(?=::)")
_MAX_TAIL = 40


def printable(text: str) -> str:
    r"""Return `text` without its colours and with every other unsafe character escaped, such as `\x1b` or `\u202e`.

    Newlines, tabs and the zero-width joiner of emoji stay.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _COLOUR.sub("", text).replace("\r\n", "\n")
    return UNSAFE.sub(_escape, text)


def escaped(text: str) -> str:
    r"""Return `text` with every unsafe character escaped, also in its colours: `\x1b[31m`. Newlines and tabs stay."""
    return text if text.isascii() and text.isprintable() else UNSAFE.sub(_escape, text)


def one_line(text: str) -> str:
    """Return `text` printable and on one line, with each run of white space replaced by a blank."""
    return " ".join(printable(text).split())


def printable_json(text: str) -> str:
    """Return equivalent JSON text with unsafe characters written as JSON escapes.

    `##[` and `##name[`, which runners of CI jobs read as commands, are escaped as well.
    """
    if "##" in text:
        text = _RUNNER_COMMAND.sub(r"##\1\\u005b", text)
    return text if text.isascii() and "\x7f" not in text else UNSAFE.sub(_json_escape, text)


def _json_escape(match: re.Match[str]) -> str:
    return "".join(f"\\u{unit:04x}" for unit in memoryview(match[0].encode("utf-16-le", "surrogatepass")).cast("H"))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    # The widths of Python's own escapes.
    if code < 0x100:  # noqa: PLR2004
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004


def is_github(env: Mapping[str, str]) -> bool:
    """Return True inside a workflow of GitHub Actions."""
    return env.get("GITHUB_ACTIONS") == "true"


def runner_parses_log(env: Mapping[str, str]) -> bool:
    """Return True if a CI runner parses the log for commands: GitHub Actions, Azure Pipelines or TeamCity."""
    flags = (env.get("GITHUB_ACTIONS", ""), env.get("TF_BUILD", ""))
    return any(flag.lower() == "true" for flag in flags) or "TEAMCITY_VERSION" in env


def escape_commands(line: str) -> str:
    """Return a line in which no runner finds a command: `::name::`, `##[name]` or `##vso[name]`."""
    if "##" in line:
        line = _INLINE_COMMAND.sub("## ", line)
    return f".{line}" if line.lstrip().startswith("::") else line


class CommandGuard:
    """Escapes commands in a stream of text, including commands that are split over several writes."""

    def __init__(self) -> None:
        self._tail = ""

    def escape(self, text: str) -> str:
        """Return the next text of the stream, in which no runner finds a command."""
        if not text:
            return text
        safe = _without_commands(self._tail + text)
        if not safe.startswith(self._tail):
            # An earlier write began a command; a dot before the new text breaks it.
            safe = _without_commands(f"{self._tail}.{text}")
        out = safe[len(self._tail) :]
        self._tail = _unfinished_line(safe)
        return out


def _without_commands(text: str) -> str:
    return _COMMAND_AT_START.sub(r"\1.", _INLINE_COMMAND.sub("## ", text))


def _unfinished_line(text: str) -> str:
    """Return the end of the unfinished last line, which the next text may complete to a command."""
    line = re.split(r"[\r\n]", text)[-1]
    if len(line) <= _MAX_TAIL:
        return line
    # `x` stands for the omitted start, so that the tail does not begin a line.
    return " " if line.isspace() else f"x{line[-_MAX_TAIL:]}"
