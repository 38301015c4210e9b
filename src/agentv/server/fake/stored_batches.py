"""What files and batches have in common: numbered names, and a batch that is done after it was looked at n times."""

import json
from collections.abc import Iterator, Sequence
from itertools import count

from msgspec import Struct, field

from agentv.server.fake.api import RefusedError
from agentv.server.fake.faults import OddBatch, choose_fault
from agentv.server.fake.fields import as_text
from agentv.types.json_value import JsonObject


class Shelf(Struct):
    """Things by their number. `polls` is how often a batch is looked at before it is done."""

    polls: int
    files: dict[str, tuple[JsonObject, bytes]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def name(self, kind: str) -> str:
        """Return a name that nothing else has."""
        return f"{kind}-fake-{next(self._numbers)}"


class Wait(Struct):
    """How long a batch takes: `left` more looks, unless it is cancelled."""

    left: int
    cancelled: bool = False

    @property
    def over(self) -> bool:
        """Whether the batch has ended, one way or the other."""
        return self.cancelled or self.left <= 0

    def look(self) -> None:
        """Count one look."""
        self.left -= 1


def batch_fault(body: JsonObject) -> str:
    """Return the name of the fault that strikes a request's place in its batch, "" for none."""
    try:
        chosen = choose_fault(as_text(body.get("model")))
    except RefusedError:
        return ""
    return chosen.name if chosen is not None and isinstance(chosen.fault, OddBatch) else ""


def json_lines(rows: Sequence[JsonObject]) -> bytes:
    """Return one line of JSON for each row, the last row first: real batches keep no order either."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in reversed(rows))
