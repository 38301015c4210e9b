"""The search for garbage while a run makes millions of objects that are in no circle."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def spared_from_search() -> Iterator[None]:
    """Look for no garbage among the objects that are there already; afterwards all is as it was.

    A run leaves more and more rows behind, for which Python looks through the whole process ever again: 50 ms where
    10,000 cases are at hand, seconds in one that has large libraries loaded. Where somebody has frozen objects already,
    nothing is done: what is frozen beside them could not be told from them, and would stay for ever.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
