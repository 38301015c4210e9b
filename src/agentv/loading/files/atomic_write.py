"""Atomic writes: a file is written to a temporary file in the same folder, then renamed."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from agentv.types.errors import StorageError


@contextmanager
def open_atomically(path: Path) -> Iterator[TextIO]:
    """Open a temporary text file that replaces `path` on success only. Raises StorageError."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from None
    temporary = Path(name)
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


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with open_atomically(path) as file:
        file.write(text)


def replace_content(path: Path, data: bytes, *, before: bytes) -> None:
    """Replace the content of a file atomically; links, permissions and owner are preserved.

    Raises StorageError when the content is no longer `before`, so that a concurrent change is never overwritten.
    """
    real = path.resolve()
    try:
        status = real.stat()
        handle, name = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from None
    temporary = Path(name)
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
