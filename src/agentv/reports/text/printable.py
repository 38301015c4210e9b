"""Text of strangers, made safe to print: no terminal sequence, no hidden order, no invisible letters."""

import re

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
UNSAFE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but newline and tab
    "\u00ad\u061c\u180e\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible, reordering
    "\ufffe\uffff"  # no letters at all; neither XML nor YAML may hold them
    "\ud800-\udfff"  # halves of a character, which no terminal can be given
    "\U000e0000-\U000e007f"  # tags: letters that no one sees
    "]"
)
"""A letter that no terminal and no page is given as it is."""


def printable(text: str) -> str:
    r"""Return `text` with its colours dropped and every other control character written out, `\x1b` for instance.

    Newlines and tabs stay; the joiner that emoji are made with stays too.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _COLOUR.sub("", text).replace("\r\n", "\n")
    return UNSAFE.sub(_written_out, text)


def one_line(text: str) -> str:
    """Return `text` printable and on one line, runs of white space as one blank."""
    return " ".join(printable(text).split())


def printable_json(text: str) -> str:
    """Return JSON text that means the same, with what a terminal must not be sent as JSON escapes.

    `##[`, which GitHub's log takes for a command wherever it stands, is written with an escape as well.
    """
    if "##[" in text:
        text = text.replace("##[", r"##\u005b")
    return text if text.isascii() and "\x7f" not in text else UNSAFE.sub(_json_escape, text)


def _json_escape(match: re.Match[str]) -> str:
    return "".join(f"\\u{unit:04x}" for unit in memoryview(match[0].encode("utf-16-le", "surrogatepass")).cast("H"))


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004 - the widths of Python's own escapes
