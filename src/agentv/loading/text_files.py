"""Bytes of a file → text: UTF-8 only, a bad byte is told with its place."""

import os
from pathlib import Path

from agentv.loading.documents import Mark
from agentv.types.errors import EvalFileError
from agentv.types.problems import Problem

_WIDE_STARTS = (b"\xff\xfe", b"\xfe\xff")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def shown(path: Path) -> str:
    """Return how messages call a file: relative to the working directory when it lies in there."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links, and people know the link
    try:
        return absolute.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(absolute)


def read_bytes(path: Path) -> bytes:
    """Return a regular file's bytes. Raises EvalFileError when it is not there, no file, or unreadable."""
    try:
        if path.exists() and not path.is_file():
            raise EvalFileError(shown(path), (Problem(shown(path), "is not a regular file"),))
        return path.read_bytes()
    except FileNotFoundError:
        raise EvalFileError(shown(path), (Problem(shown(path), "there is no such file"),)) from None
    except OSError as error:
        raise EvalFileError(shown(path), (Problem(shown(path), f"cannot be read: {error.strerror}"),)) from None


def read_text(path: Path) -> str:
    """Return a file's text. Raises EvalFileError when it cannot be read or is not UTF-8."""
    return decode(read_bytes(path), shown(path))


def decode(data: bytes, path: str, *, first_line: int = 1) -> str:
    """Return UTF-8 bytes as text, without a byte order mark. Raises EvalFileError with the place of a bad byte."""
    if data.startswith(_WIDE_STARTS):
        raise EvalFileError(path, (Problem(path, "is UTF-16 text", 1, 1, allowed="save it as UTF-8"),))
    data = data.removeprefix(BYTE_ORDER_MARK)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        problem = bad_byte(data, error, path, first_line=first_line)
        raise EvalFileError(path, (problem,)) from None


def bad_byte(data: bytes, error: UnicodeDecodeError, path: str, *, first_line: int = 1) -> Problem:
    """Return the located problem of a byte that is not UTF-8."""
    before = data[: error.start]
    line_start = before.rfind(b"\n") + 1
    place = Mark(before.count(b"\n") + first_line, len(before[line_start:].decode(errors="replace")) + 1)
    message = f"byte 0x{data[error.start]:02x} at offset {error.start} is not UTF-8"
    return Problem(path, message, *place, allowed="save the file as UTF-8")
