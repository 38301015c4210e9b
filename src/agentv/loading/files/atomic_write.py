"""Files are written beside their place and renamed into it: nobody ever sees half of one."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from agentv.types.errors import StorageError


@contextmanager
def written_whole(path: Path) -> Iterator[TextIO]:
    """Open a text file that takes the place of `path` only when all went well. Raises StorageError."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from None
    temporary = Path(name)
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:  # noqa: PTH123 - a handle, no path
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
    """Write a text file whole, or not at all."""
    with written_whole(path) as file:
        file.write(text)


def replace_content(path: Path, data: bytes, *, before: bytes) -> None:
    """Put other bytes into a file, whole or not at all; a link stays one, permissions and owner stay.

    Raises StorageError when the file no longer holds `before`: somebody else's work is never overwritten.
    """
    real = path.resolve()
    try:
        status = real.stat()
        handle, name = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from None
    temporary = Path(name)
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - a handle, no path
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with suppress(OSError):  # only root may give files away; others keep them
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
        raise StorageError(f"{path} was changed meanwhile; it was left as it is now")
