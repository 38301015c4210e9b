"""What people say of answers: as they write it down, and as a run keeps it."""

from datetime import datetime

from msgspec import Struct, field

from agentv.types.cases import Location
from agentv.types.records.answer import Slot
from agentv.types.records.label import HumanScore


class Feedback(Struct, frozen=True):
    """What one annotator says of one criterion of an answer to the case `eval_id`.

    `suite`, `target` and `trial` say to which answer it belongs; what is None does not matter. `annotator` is empty
    when nobody signed it. `location` is the line that it was read from.
    """

    eval_id: str
    criterion: str
    score: HumanScore
    annotator: str = ""
    reasoning: str | None = None
    time: datetime | None = None
    suite: str | None = None
    target: str | None = None
    trial: int | None = None
    location: Location = field(default_factory=lambda: Location(""))

    @property
    def place(self) -> str:
        """Where it was read, as `file:line`."""
        return f"{self.location.path}:{self.location.line}"

    def is_about(self, slot: Slot) -> bool:
        """Whether it may be meant for the answer in `slot`: whatever it says of suite, target and trial fits."""
        said = ((self.suite, slot.suite), (self.target, slot.target), (self.trial, slot.trial))
        return self.eval_id == slot.eval_id and all(mine is None or mine == its for mine, its in said)
