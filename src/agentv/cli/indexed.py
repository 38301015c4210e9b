"""The index of stored runs, open for the duration of a command."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from agentv.storage.index.index import RunIndex


@contextmanager
def run_index(home: Path, *, verbose: bool) -> Iterator[RunIndex]:
    """Yield the index of the runs in `home`. With `verbose`, print why it cannot be used when that happens."""

    def note(message: str) -> None:
        if verbose:
            click.echo(message, err=True)

    index = RunIndex(home, note=note)
    try:
        yield index
    finally:
        index.close()
