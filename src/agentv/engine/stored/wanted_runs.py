"""The runs of a store that filters select."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from agentv.engine.stored.trend_runs import WantedPlaces
from agentv.storage.shared_runs import SharedRun
from agentv.types.errors import NothingFoundError, UnknownNameError


class WantedRuns(Struct, frozen=True):
    """Selects runs that have one of the suites, targets and tags, started since a time; of these, the `last` newest."""

    places: WantedPlaces = WantedPlaces()
    tags: tuple[str, ...] = ()
    since: datetime | None = None
    last: int | None = None

    @property
    def has_no_filter(self) -> bool:
        """True if no option selects runs."""
        return self == WantedRuns()

    def of(self, runs: Sequence[SharedRun]) -> Sequence[SharedRun]:
        """Return the selected runs in their order, which is oldest first.

        Raises UnknownNameError for a suite, target or tag that no run has, NothingFoundError if no run matches.
        """
        records = [run.record for run in runs if run.record is not None]
        self.places.refuse_unknown(
            {suite for each in records for suite in each.suites}, {name for each in records for name in each.targets}
        )
        known_tags = {tag for each in records for tag in each.tags}
        for tag in self.tags:
            if tag not in known_tags:
                raise UnknownNameError("tag", tag, known=known_tags)
        found = list(filter(self._has, runs))
        if not found:
            raise NothingFoundError(f"none of the {len(runs):,} runs in the store matches these options")
        return found[-self.last :] if self.last else found

    def _has(self, run: SharedRun) -> bool:
        start = run.started_at or run.created_at
        is_new = self.since is None or (start is not None and start >= self.since)
        if run.record is None or not is_new:
            return False
        has_tag = not self.tags or bool(set(self.tags).intersection(run.record.tags))
        return has_tag and (self.places == WantedPlaces() or self.places.are_in(run.record))
