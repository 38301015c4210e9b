"""How often files were opened, for tests that a file is not read again and again."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_counters: list[Counter[str]] = []


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if _counters and event == "open" and isinstance(arguments[0], str | Path):
        name = Path(arguments[0]).name
        for counter in _counters:
            counter[name] += 1


@contextmanager
def counted_opens() -> Iterator[Counter[str]]:
    """Count the files that this process opens, by name. The hook stays: Python cannot remove it."""
    if _note not in _installed:
        sys.addaudithook(_note)
        _installed.append(_note)
    counter: Counter[str] = Counter()
    _counters.append(counter)
    try:
        yield counter
    finally:
        _counters.remove(counter)


_installed: list[object] = []
