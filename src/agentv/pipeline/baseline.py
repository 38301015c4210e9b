"""A run beside the one that it is held against: found before the first call, compared as rows finish."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from agentv.pipeline.options import RunOptions
from agentv.scoring.comparison.compare import Comparison, compare_sides
from agentv.scoring.comparison.rows import scored_row
from agentv.scoring.comparison.sides import Side
from agentv.scoring.run_verdict import AskedGate
from agentv.storage.find_scores import find_scores
from agentv.types.errors import ConfigError
from agentv.types.results import CaseRecord, CaseResult

_SEED = 0


def baseline_problems(options: RunOptions, gates: Sequence[AskedGate]) -> Iterator[str]:
    """Yield the gates that need a baseline where there is none."""
    for asked in gates if options.baseline is None else ():
        if asked.gate.name == "regressions":
            yield f"gate {asked.gate.expression!r}: regressions from what? Name the earlier run with --baseline RUN"


def baseline_warnings(baseline: Side | None) -> Iterator[str]:
    """Yield why regressions may be missed: a run that did not come to its end lacks cases."""
    if baseline is not None and baseline.state != "finished":
        yield f"the baseline {baseline.label} did not finish: what it has no row of is held against nothing"


def load_baseline(options: RunOptions, home: str) -> tuple[RunOptions, Side | None]:
    """Return the scores of the baseline, and the options with its id: `latest` is another run tomorrow.

    Raises ConfigError when there is none, StorageError when it cannot be read.
    """
    if options.baseline is None:
        return options, None
    found = find_scores(Path(home), options.baseline)
    return replace(options, baseline=found.reference), found.side


def without_lost_baseline(options: RunOptions, home: Path) -> tuple[RunOptions, tuple[str, ...]]:
    """Return the options of a stored run, without a baseline that was deleted since, and a warning of that."""
    try:
        load_baseline(options, str(home))
    except ConfigError as error:
        lost = f"the run is no longer held against its baseline {options.baseline}: {error}"
        return replace(options, baseline=None), (lost,)
    return options, ()


class BesideBaseline:
    """Gathers the rows of a run, to compare them with the baseline's at any time."""

    def __init__(self, baseline: Side) -> None:
        self._baseline = baseline
        self._run = Side("this run")

    def add(self, result: CaseResult) -> None:
        """Take one finished row."""
        self._run.add(scored_row(result))

    def add_case(self, case: CaseRecord) -> None:
        """Remember a case's content."""
        self._run.add_case(case.suite, case.eval_id, case.case_key)

    def compare(self) -> Comparison:
        """Return the comparison of what has finished so far."""
        rng = random.Random(_SEED)  # noqa: S311 - draws sign patterns, keeps no secret
        return compare_sides(self._baseline, self._run, rng=rng)
