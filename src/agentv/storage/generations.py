"""Which of a slot's rows and answers count: those of the highest generation."""

from agentv.scoring.digests import DigestMap
from agentv.types.records.answer import Slot


def case_name(suite: str, eval_id: str, case_key: str) -> str:
    """Return what identifies a line of cases.jsonl: where the case stands, and the key of its content."""
    return f"{suite}\0{eval_id}\0{case_key}"


def slot_name(slot: Slot) -> str:
    """Return a slot as one key, for sets and maps of digests."""
    return f"{slot.suite}\0{slot.eval_id}\0{slot.target}\0{slot.trial}"


class Generations:
    """Remembers the highest generation of each slot that has one above 0, in 13 bytes; most runs have none."""

    def __init__(self) -> None:
        self._highest = DigestMap("I")
        self.are_all_first = True

    def of(self, slot: Slot) -> int:
        """Return the highest generation of a slot so far."""
        return 0 if self.are_all_first else self._highest.get(slot_name(slot)) or 0

    def add(self, slot: Slot, generation: int) -> bool:
        """Take note of a row; return whether it takes the place of those before it."""
        if generation < self.of(slot):
            return False
        if generation:
            self._highest.put(slot_name(slot), generation)
            self.are_all_first = False
        return True
