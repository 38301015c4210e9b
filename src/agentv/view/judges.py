"""What is known of judges: their calibrations, the runs with labels, and which evaluators of a run have a page."""

from collections.abc import Iterator, Sequence

from agentv.evaluators import EVALUATORS
from agentv.storage.judgements.calibrations import load_calibrations
from agentv.storage.run.labels import LABELS_FILE
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import StorageError
from agentv.types.records.label import OVERALL
from agentv.types.summaries import Calibration
from agentv.view.address import path_to
from agentv.view.library import Library
from agentv.view.pages.page import Link

_MAX_RUNS = 20


def judge_links(library: Library, stored: StoredRun, evaluators: Sequence[tuple[str, str]]) -> tuple[Link, ...]:
    """Return links to the judges among a run's evaluators (name, type) that people can be compared with."""
    calibrated = {each.evaluator for each in saved_calibrations(library, None)[0]}
    criteria = {label.criterion for label in stored.labels()} - {OVERALL}
    return tuple(
        Link(name, path_to("judge", name) + (f"?run={stored.run_id}" if criteria else ""))
        for name, kind in evaluators
        if name in calibrated or (criteria and (name in criteria or _is_judge(kind)))
    )


def _is_judge(kind: str) -> bool:
    """Return True for evaluators that may ask a model, whose criteria may have other names than the evaluator."""
    return kind in EVALUATORS and EVALUATORS.get(kind).cost == "paid"


def saved_calibrations(library: Library, name: str | None) -> tuple[list[Calibration], str]:
    """Return the calibrations of a judge, or of all, newest first; with what is wrong with a file, if anything is."""
    try:
        found = [each for each in load_calibrations(library.home) if name in (None, each.evaluator)]
    except StorageError as error:
        return [], str(error)
    return sorted(found, key=lambda each: each.labelled_at, reverse=True), ""


def labelled_runs(library: Library) -> Iterator[StoredRun]:
    """Yield the newest runs with labels."""
    found = 0
    for each in library.runs():
        if each.problem is None and (each.folder / LABELS_FILE).is_file():
            yield library.open(each.run_id)
            found += 1
        if found == _MAX_RUNS:
            return
