"""Memory of the process that is free again."""

import ctypes
from contextlib import suppress


def return_free_memory() -> None:
    """Return free memory to the system, which glibc does not do by itself; without glibc, do nothing."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
