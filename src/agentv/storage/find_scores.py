"""The scores that somebody means: of a stored run, of the newest run with a tag, or in a file."""

from pathlib import Path

from msgspec import Struct

from agentv.scoring.comparison.sides import Side
from agentv.storage.find_run import find_run, find_tagged, runs_folder
from agentv.storage.run_scores import load_side
from agentv.storage.score_file import load_score_file
from agentv.storage.stored_run import StoredRun, open_run
from agentv.types.errors import ConfigError


class FoundScores(Struct, frozen=True):
    """Scores as one side of a comparison. `reference` finds the same ones later; a file of scores has no run."""

    side: Side
    reference: str
    stored: StoredRun | None = None


def find_scores(home: Path, reference: str, *, target: str | None = None) -> FoundScores:
    """Return the scores that `reference` means, those of one target when it is named.

    A file is a baseline, or rows that were exported; else it is looked for among the runs of `home`: by id, path, name,
    `latest`, or by tag. Raises ConfigError when nothing fits, the file is no such file, or the target
    has no row; StorageError when a run cannot be read.
    """
    path = Path(reference)
    if path.is_file():
        label = None if target is None else f"{reference} {target}"
        found = FoundScores(load_score_file(path, target=target, label=label), reference)
    else:
        stored = open_run(_find(home, reference))
        label = None if target is None else f"{stored.run_id} {target}"
        is_ours = stored.folder.resolve().parent == runs_folder(home).resolve()
        side = load_side(stored, target=target, label=label)
        found = FoundScores(side, stored.run_id if is_ours else reference, stored)
    if target is not None and not found.side.cases:
        known = ", ".join(find_scores(home, reference).side.targets) or "none"
        raise ConfigError(f"{reference} has no row of a target {target!r}; its targets are {known}")
    return found


def _find(home: Path, reference: str) -> Path:
    try:
        return find_run(home, reference)
    except ConfigError:
        tagged = find_tagged(home, reference)
        if tagged is None:
            raise
        return tagged
