"""Cases whose trials disagree, found while rows come in any order and at ten bytes a case."""

from collections.abc import Mapping

from agentv.scoring.digests import DigestMap
from agentv.types.records.answer import Slot
from agentv.types.results import RowState

_CODES: Mapping[RowState, int] = {"pass": 0, "borderline": 1, "fail": 2}


class TrialVerdicts:
    """Remembers the first verdict of each case, and which cases have another as well."""

    def __init__(self) -> None:
        self._first = DigestMap("B")
        self._flaky: dict[tuple[str, str, str], None] = {}

    def add(self, slot: Slot, state: RowState) -> None:
        """Take the verdict of one trial; a row without one says nothing."""
        code = _CODES.get(state)
        if code is None:
            return
        key = (slot.suite, slot.eval_id, slot.target)
        if self._first.setdefault("\0".join(key), code) != code:
            self._flaky[key] = None

    @property
    def flaky(self) -> tuple[str, ...]:
        """The cases with different verdicts, as `id (target)`, in the order in which that came out."""
        return tuple(f"{case} ({target})" for _, case, target in self._flaky)
