"""Files as UTF-8 text: read, with the position of an invalid byte, and written completely or not at all."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import TextIO

from agentv.loading.files.documents import Mark
from agentv.types.errors import EvalFileError, StorageError
from agentv.types.problems import Problem

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_BYTES = 64 * 2**20
"""The maximum size of a file that is read at once, or of one line of a stream."""

TOO_LARGE = f"is larger than {MAX_BYTES // 2**20} MiB"


def shown(path: Path) -> str:
    """Return a file's name in messages: relative to the working directory if it is inside it."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links, but users know the link
    try:
        return absolute.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(absolute)


def is_file(path: Path) -> bool:
    """Return True for a regular file; `Path.is_file` raises OSError for a name that is too long."""
    try:
        return path.is_file()
    except OSError:
        return False


@contextmanager
def open_file(path: Path) -> Iterator[BufferedReader]:
    """Open a regular file. Raises EvalFileError if it does not exist, is a pipe or device, or is unreadable."""
    name = shown(path)
    try:
        if path.exists() and not path.is_file():
            raise EvalFileError(name, (Problem(name, "is not a regular file"),))
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise EvalFileError(name, (Problem(name, "there is no such file"),)) from None
    except OSError as error:
        raise EvalFileError(name, (Problem(name, f"cannot be read: {error.strerror}"),)) from None


def read_bytes(path: Path) -> bytes:
    """Return a regular file's bytes. Raises EvalFileError when it cannot be read or is larger than MAX_BYTES."""
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size <= MAX_BYTES:
            return file.read()
    advice = "put the cases of a large suite in a JSON Lines file, which is read line by line"
    raise EvalFileError(shown(path), (Problem(shown(path), TOO_LARGE, 1, 1, allowed=advice),))


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield a regular file's lines. Stop after a line longer than MAX_BYTES, of which MAX_BYTES + 1 bytes are yielded.

    Raises EvalFileError when the file cannot be read.
    """
    with open_file(path) as file:
        while line := file.readline(MAX_BYTES + 1):
            yield line
            if len(line) > MAX_BYTES:
                return


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a regular file, however large. Raises EvalFileError when it cannot be read."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_text(path: Path) -> str:
    """Return a file's text. Raises EvalFileError when it cannot be read or is not UTF-8."""
    return decode(read_bytes(path), shown(path))


def decode(data: bytes, path: str, *, first_line: int = 1) -> str:
    """Return UTF-8 bytes as text, without a byte order mark. Raises EvalFileError with the position of a bad byte."""
    if data.startswith(_UTF16_MARKS):
        raise EvalFileError(path, (Problem(path, "is UTF-16 text", 1, 1, allowed="save it as UTF-8"),))
    data = data.removeprefix(BYTE_ORDER_MARK)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        problem = bad_byte(data, error, path, first_line=first_line)
        raise EvalFileError(path, (problem,)) from None


def bad_byte(data: bytes, error: UnicodeDecodeError, path: str, *, first_line: int = 1) -> Problem:
    """Return the problem, with its position, of a byte that is not UTF-8."""
    before = data[: error.start]
    line_start = before.rfind(b"\n") + 1
    place = Mark(before.count(b"\n") + first_line, len(before[line_start:].decode(errors="replace")) + 1)
    message = f"byte 0x{data[error.start]:02x} at offset {error.start} is not UTF-8"
    return Problem(path, message, *place, allowed="save the file as UTF-8")


@contextmanager
def open_atomically(path: Path) -> Iterator[TextIO]:
    """Open a temporary text file that replaces `path` on success only. Raises StorageError."""
    handle, temporary = _create_beside(path)
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:  # noqa: PTH123 - a handle, not a path
            yield file
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(path)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


def _create_beside(path: Path) -> tuple[int, Path]:
    """Create a hidden temporary file beside a file; return its handle and its path. Raises StorageError."""
    from tempfile import mkstemp  # noqa: PLC0415 - also loads three compressors, and many commands write no file

    try:
        handle, name = mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from None
    return handle, Path(name)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with open_atomically(path) as file:
        file.write(text)


def replace_content(path: Path, data: bytes, *, before: bytes) -> None:
    """Replace the content of a file atomically; links, permissions and owner are preserved.

    Raises StorageError, and replaces nothing, if another program has changed the content, so that it is no longer
    `before`; this is checked directly before the replacement.
    """
    real = path.resolve()
    try:
        status = real.stat()
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from None
    handle, temporary = _create_beside(real)
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - a handle, not a path
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with suppress(OSError):  # only root may change the owner
            os.chown(temporary, status.st_uid, status.st_gid)
        temporary.chmod(status.st_mode & 0o7777)
        is_unchanged = real.read_bytes() == before
        if is_unchanged:
            temporary.replace(real)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)
    if not is_unchanged:
        raise StorageError(f"{path} was changed by another program and was not overwritten")
