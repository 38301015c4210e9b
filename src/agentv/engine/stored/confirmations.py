"""The re-runs of a stored run that confirm regressions."""

from itertools import chain

import msgspec

from agentv.scoring.comparison.confirmations import Confirmations, Suspect
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import StorageError

SUSPECTED = "regressions_suspected"
"""The event with the suspected regressions of a run, and how often each is called again."""


def stored_confirmations(run: StoredRun) -> Confirmations:
    """Return the suspects of a stored run with their re-runs. Raises StorageError for an event that cannot be read."""
    suspects: tuple[Suspect, ...] | None = None
    for event in run.events():
        if event.type == SUSPECTED:
            try:
                suspects = msgspec.convert(event.fields.get("cases"), tuple[Suspect, ...])
            except msgspec.ValidationError as error:
                raise StorageError(f"{run.folder}: event {SUSPECTED!r}: {error}") from error
    confirmations = Confirmations(suspects)
    for row in chain(run.results() if suspects else (), run.reruns()):
        confirmations.add(row)
    return confirmations
