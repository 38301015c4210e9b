"""Values that take long to make from the files of runs: kept until the files change."""

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from msgspec import Struct, field

V = TypeVar("V")

_REST_PER_WORK = 20
"""A value of a run that is going on is made again after this many times the time that it took."""


class _Kept(Struct, Generic[V]):
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while the value is made, so that several requests at once make it only once."""
    values: list[V] = field(default_factory=list)
    """The value, or nothing before it is made."""
    stamp: Hashable = None
    made_at: float = 0.0
    took_s: float = 0.0


class RecentValues(Generic[V]):
    """The last `size` values, each with the stamp of the files that it was made from. Safe to use from threads."""

    def __init__(self, size: int, clock: Callable[[], float]) -> None:
        self._size = size
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[Hashable, _Kept[V]] = {}

    def has(self, key: Hashable, stamp: Hashable) -> bool:
        """Return True if the value for a key is known, and of the files as they are."""
        with self._lock:
            kept = self._kept.get(key)
        return kept is not None and bool(kept.values) and kept.stamp == stamp

    def get(self, key: Hashable, stamp: Hashable, make: Callable[[], V], *, is_running: bool) -> V:
        """Return the value for a key, made again if the stamp differs; of a run that is going on, of a moment ago."""
        with self._lock:
            kept = self._kept.pop(key, None) or _Kept[V]()
            self._kept[key] = kept  # the newest is the last
            while len(self._kept) > self._size:
                self._kept.pop(next(iter(self._kept)))
        with kept.lock:
            is_recent = self._clock() - kept.made_at < _REST_PER_WORK * kept.took_s
            if kept.values and (kept.stamp == stamp or (is_running and is_recent)):
                return kept.values[0]
            started = self._clock()
            value = make()
            kept.values[:] = [value]
            kept.stamp, kept.made_at = stamp, self._clock()
            kept.took_s = kept.made_at - started
            return value
