"""Two runs, files or lists of results compared from Python."""

import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias, cast

from msgspec.structs import replace

from agentv.engine.stored.explanations import (
    ComparedSide,
    Explainer,
    GivenSource,
    ShownComparison,
    StoredSource,
)
from agentv.engine.stored.report_tools import CaseKey, case_key_of
from agentv.loading.files.places import is_folder_path
from agentv.scoring.comparison.case_differences import THRESHOLD
from agentv.scoring.comparison.compare import (
    Comparison,
    are_matched,
    compare_sides,
    compare_unpaired,
)
from agentv.scoring.comparison.sides import RowPosition, Side, scored_row
from agentv.scoring.comparison.unmatched import why_unmatched
from agentv.storage.run.scores import find_scores
from agentv.types.errors import ConfigError
from agentv.types.records.result import CaseResult
from agentv.types.results import CaseTexts, RunReport

Compared: TypeAlias = RunReport | str | os.PathLike[str] | Iterable[CaseResult]
"""A report, a run (id, name, tag, path, `latest`), a file of results or a baseline, or results."""

_SEED = 0


def compare_given(
    before: Compared, after: Compared, *, home: Path, threshold: float = THRESHOLD, unpaired: bool = False
) -> Comparison:
    """Compare two sides case by case, or as independent samples if their cases differ, as `agentv compare` does.

    `home` is the `.agentv` folder with the stored runs. Raises ConfigError for a run that is not found, and if no case
    can be compared.
    """
    found = compared_side(before, home, "before"), compared_side(after, home, "after")
    sides = found[0].side, found[1].side
    if unpaired or not are_matched(*sides):
        comparison = compare_unpaired(*sides, threshold=threshold)
    else:
        rng = random.Random(_SEED)  # noqa: S311 - draws sign patterns, keeps no secret
        comparison = compare_sides(*sides, rng=rng, threshold=threshold)
    if comparison.score is None:
        described = " and ".join(f"{each.label} ({_cases_text(each)})" for each in sides)
        raise ConfigError(f"no case has a score in both {described}: {why_unmatched(*sides)}")
    return replace(comparison, outputs=ShownComparison(Explainer(*found)))


def compared_side(given: Compared, home: Path, label: str) -> ComparedSide:
    """Return a side of a comparison. `label` is the name of results that are of no run."""
    if isinstance(given, str | os.PathLike):
        return _found_side(home, os.fspath(given))
    texts: dict[CaseKey, CaseTexts] = {}
    if isinstance(given, RunReport):
        if given.folder is not None and (is_folder_path(Path(given.folder)) or not given.results):
            return _found_side(home, given.folder)
        label, results = given.run_id, given.results
        if given.outputs is not None:
            texts = dict(zip(map(case_key_of, results), given.outputs.texts(given, results), strict=True))
    else:
        results = _checked_results(given)
        label = results[0].run_id if results else label
    side = Side(label)
    for number, result in enumerate(results, start=1):
        if result.rerun is None:  # first answers count
            side.add(scored_row(result, RowPosition(number, 0, 0)))
    return ComparedSide(side, GivenSource(results, texts))


def _found_side(home: Path, reference: str) -> ComparedSide:
    found = find_scores(home, reference)
    return ComparedSide(found.side, None if found.stored is None else StoredSource(found.stored))


def _checked_results(given: object) -> tuple[CaseResult, ...]:
    results = tuple(given) if isinstance(given, Iterable) else (given,)
    for each in results:
        if not isinstance(each, CaseResult):
            raise ConfigError(f"compare() takes reports, runs, files of results, or results; got {type(each).__name__}")
    return cast(tuple[CaseResult, ...], results)


def _cases_text(side: Side) -> str:
    targets = ", ".join(side.targets) or "none"
    return f"{len(side.cases):,} cases, targets {targets}"
