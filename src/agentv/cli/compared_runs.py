"""The runs that a comparison is made of: found by what people type, with the rows that give reasons."""

from dataclasses import dataclass
from pathlib import Path

from agentv.reports.comparison_words import FindReasons, Reasons, reason_of
from agentv.scoring.comparison.compare import CaseDifference
from agentv.scoring.comparison.rows import Place
from agentv.scoring.comparison.sides import Side
from agentv.storage.find_run import find_run, find_tagged
from agentv.storage.run_scores import load_side
from agentv.storage.score_file import load_score_file
from agentv.storage.stored_run import StoredRun, open_run
from agentv.types.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One side of a comparison, with the run that its rows can be read again from; None for a file of scores."""

    side: Side
    stored: StoredRun | None = None

    def reason(self, place: Place | None) -> str | None:
        """Return why a row was judged as it was; None where that was not kept."""
        if self.stored is None or place is None:
            return None
        return reason_of(next(self.stored.results_at([place])))


def load_compared(home: Path, reference: str, *, target: str | None = None) -> ComparedRun:
    """Return the side that `reference` means: a file of scores, a run, or the newest run with that tag.

    With `target` it is the rows of that target. Raises ConfigError when nothing fits, or that target has no row.
    """
    path = Path(reference)
    label = None if target is None else f"{reference} {target}"
    if path.is_file():
        found = ComparedRun(load_score_file(path, target=target, label=label))
    else:
        stored = open_run(_find(home, reference))
        label = None if target is None else f"{stored.run_id} {target}"
        found = ComparedRun(load_side(stored, target=target, label=label), stored)
    if target is not None and not found.side.cases:
        raise ConfigError(f"{reference} has no row of a target {target!r}")
    return found


def _find(home: Path, reference: str) -> Path:
    try:
        return find_run(home, reference)
    except ConfigError:
        tagged = find_tagged(home, reference)
        if tagged is None:
            raise
        return tagged


def reasons_of(before: ComparedRun, after: ComparedRun) -> FindReasons:
    """Return what tells the reasons for a case's scores on both sides: those of its lowest-scored row."""

    def find(case: CaseDifference) -> Reasons:
        return Reasons(
            before.reason(before.side.worst_row(case.pair.before)), after.reason(after.side.worst_row(case.pair.after))
        )

    return find
