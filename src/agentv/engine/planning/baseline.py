"""The comparison of a run with its baseline: loaded before the first call, compared as rows finish."""

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from agentv.scoring.comparison.compare import Comparison, compare_sides, summarize_baseline
from agentv.scoring.comparison.confirmations import Confirmations, suspected_cases
from agentv.scoring.comparison.gated import ComparedRun
from agentv.scoring.comparison.not_in_baseline import not_in_baseline
from agentv.scoring.comparison.sides import INCOMPLETE, RowPosition, Side, scored_row
from agentv.scoring.comparison.suites import renamed_suites, renamed_text
from agentv.scoring.counting.summary import Summary
from agentv.storage.run.scores import FoundScores, find_scores
from agentv.types.errors import ConfigError
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord
from agentv.types.results import CaseName
from agentv.types.run_options import RunOptions
from agentv.types.summaries import BaselineSummary

_SEED = 0


def baseline_warnings(baseline: FoundScores, suites: Iterable[str]) -> Iterator[str]:
    """Yield a warning if the baseline is incomplete, since regressions may be missed, and one for each edit.

    A further one names the suites of the run, `suites`, that have another path in the baseline.
    """
    renamed = renamed_text(renamed_suites(baseline.side.suites, suites))
    if renamed:
        yield f"eval files of the baseline {baseline.side.label}: {renamed}"
    if baseline.side.state != "finished":
        what = "lacks planned results" if baseline.side.state == INCOMPLETE else "did not finish"
        yield f"the baseline {baseline.side.label} {what}: its missing results are not compared"
    if baseline.stored is not None:
        yield from (f"the baseline, run {baseline.stored.run_id}: {edit}" for edit in baseline.side.edits)


def without_lost_baseline(options: RunOptions, home: Path) -> tuple[RunOptions, tuple[str, ...]]:
    """Return the options of a stored run, without a baseline that was deleted since, and a warning about that."""
    try:
        if options.baseline is not None:
            find_scores(home, options.baseline)
    except ConfigError as error:
        lost = f"the run is no longer compared with its baseline {options.baseline}: {error}"
        return replace(options, baseline=None), (lost,)
    return options, ()


class BaselineComparison:
    """Collects the rows of a run, to compare them with the baseline's at any time.

    `latest` is the latest comparison. Its rows of the run have only the numbers of their lines as positions.
    """

    def __init__(self, baseline: Side) -> None:
        self._baseline = baseline
        self._run = Side("this run")
        self.latest: Comparison | None = None

    def add(self, result: CaseResult) -> None:
        """Add a finished row."""
        position = None if result.seq is None else RowPosition(result.seq + 1, 0, 0)
        self._run.add(scored_row(result, position))

    def add_case(self, case: CaseRecord) -> None:
        """Record the key of a case's content."""
        self._run.add_case(case.suite, case.eval_id, case.case_key, prompt=case.prompt)

    def suspected_cases(self) -> tuple[CaseName, ...]:
        """Return the cases that passed in every trial of the baseline and fail now."""
        return tuple(suspected_cases(self._baseline, self._run))

    def compared(
        self, summary: Summary, confirmations: Confirmations | None = None
    ) -> tuple[ComparedRun, BaselineSummary]:
        """Return the comparison of the rows so far, for gates, and as a summary."""
        rng = random.Random(_SEED)  # noqa: S311 - draws sign patterns, keeps no secret
        comparison = self.latest = compare_sides(self._baseline, self._run, rng=rng)
        added = not_in_baseline(comparison)
        compared = ComparedRun(summary, comparison, confirmations, added)
        return compared, replace(summarize_baseline(comparison), added=added)
