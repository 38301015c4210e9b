"""The index of stored runs, for as long as a command needs it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from agentv.storage.index.index import RunIndex


@contextmanager
def run_index(home: Path, *, verbose: bool) -> Iterator[RunIndex]:
    """Yield the index of the runs in `home`; only with `verbose` it says that it cannot be used."""

    def note(message: str) -> None:
        if verbose:
            click.echo(message, err=True)

    index = RunIndex(home, note=note)
    try:
        yield index
    finally:
        index.close()
