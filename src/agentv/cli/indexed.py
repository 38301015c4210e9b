"""The index of stored runs, open for the duration of a command."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from agentv.storage.index.index import RunIndex


@contextmanager
def run_index(home: Path, *, verbose: bool) -> Iterator[RunIndex]:
    """Yield the index of the runs in `home`. With `verbose`, print the reason if the index cannot be used."""

    def note(message: str) -> None:
        if verbose:
            click.echo(message, err=True)

    index = RunIndex(home, note=note)
    try:
        yield index
    finally:
        index.close()
