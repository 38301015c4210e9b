"""Opening the files of a run: regular files, whatever somebody put in their place."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_CHUNK = 1 << 20


def open_own(path: Path, flags: int) -> int:
    """Open a file of a run to write it, for its owner alone. Raises OSError for a link, a pipe, and the like.

    A link would let a file elsewhere be written and cut.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "this is a symbolic link, and a run's files are its own", str(path)) from error
        raise
    return _checked(descriptor, path)


def open_lines(path: Path) -> BinaryIO:
    """Open a file of a run to read it. Raises OSError for a pipe, which would be waited for without an end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    return os.fdopen(_checked(descriptor, path), "rb", buffering=_CHUNK)


def _checked(descriptor: int, path: Path) -> int:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "this is no regular file", str(path))
