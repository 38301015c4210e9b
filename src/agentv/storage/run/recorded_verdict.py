"""The verdict that a run recorded at its end, for lists of runs: read from the end of its events, not recomputed."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct, field

from agentv.storage.files.run_file import open_file
from agentv.storage.run.find import ListedRun

_EVENTS = "events.jsonl"
_MAX_TAIL = 256 * 1024
"""The number of bytes at the end of the events in which the last verdict is searched."""


class _Reported(Struct, frozen=True):
    """The fields of an event that a list of runs needs."""

    type: str
    sentence: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)


_decode = msgspec.json.Decoder(_Reported).decode


def shown_state(run: ListedRun) -> str:
    """Return the recorded verdict of a finished run, else the state of the run."""
    if run.state != "finished" or run.problem is not None:
        return run.state
    return recorded_verdict(run.folder, run.counts) or run.state


def recorded_verdict(folder: Path, counts: Mapping[str, int]) -> str | None:
    """Return the first word of the verdict that the run in `folder` recorded, such as `PASS`.

    None if it recorded none, or for other results than `counts`, by state.
    """
    sentence = recorded_sentence(folder, counts)
    return None if sentence is None else sentence.partition(":")[0]


def recorded_sentence(folder: Path, counts: Mapping[str, int]) -> str | None:
    """Return the sentence of the verdict that the run in `folder` recorded; None as for `recorded_verdict`."""
    try:
        with open_file(folder / _EVENTS) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _MAX_TAIL))
            lines = file.read(_MAX_TAIL).splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        with suppress(msgspec.DecodeError):
            event = _decode(line)
            if event.type == "reported":
                return event.sentence if _known(event.counts) == _known(counts) else None
    return None


def _known(counts: Mapping[str, int]) -> dict[str, int]:
    return {state: number for state, number in counts.items() if number}
