"""A disk that is full, for a while."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """Let writes past `size` bytes of a file fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
