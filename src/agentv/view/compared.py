"""Two compared runs: their cases by what became of them, and the results that show it."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, Self, TypeAlias, get_args

from msgspec import Struct

from agentv.engine.stored.comparison import compare_given
from agentv.reports.compare.document import comparison_summary
from agentv.reports.document.blocks import Document
from agentv.scoring.comparison.case_differences import ROUNDING, CaseDifference, CaseDifferences, outcome_of
from agentv.scoring.comparison.circumstances import Circumstance, find_circumstances
from agentv.scoring.comparison.compare import Comparison
from agentv.scoring.comparison.pairs import Pair
from agentv.scoring.comparison.sides import RowPosition, Side
from agentv.storage.index.pairs import CasePair
from agentv.storage.run.stored import StoredRun
from agentv.types.results import CaseName

Kind: TypeAlias = Literal["changed", "lost", "won", "same", "errors"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""What became of a case with its target and prompt: `changed` has those that were lost or won and those whose score
changed by less; `errors` those without a result in one of the runs, or in one of their trials.
"""


class ComparedCase(Struct, frozen=True):
    """A case in both runs; `difference` is None if it is listed for its errors."""

    pair: Pair
    difference: CaseDifference | None = None

    @classmethod
    def of(cls, pair: CasePair, *, is_content_changed: bool) -> Self:
        """Return a case as the index has it."""
        before, after = pair.before, pair.after
        names = Pair(before.name, after.name)
        difference = CaseDifference(
            pair=names,
            before=before.score,
            after=after.score,
            passed_before=before.passed / before.judged,
            passed_after=after.passed / after.judged,
            outcome=outcome_of(pair.difference),
            is_content_changed=is_content_changed,
        )
        return cls(names, difference)


class ComparedRuns(Struct, frozen=True):
    """A comparison with its cases by kind, those that got worse first."""

    comparison: Comparison
    by_target: str
    """The finding of each target, with p corrected for their number; empty for one target."""
    listed: Mapping[Kind, Sequence[CaseDifferences]]
    summary: Document
    """The finding, the measures, and what could not be compared."""
    circumstances: Sequence[Circumstance]
    """The settings that differ."""

    def count(self, kind: Kind) -> int:
        """Return the number of cases of a kind."""
        if kind == "errors":
            return len(self.comparison.pairs_with_errors)
        return sum(map(len, self.listed[kind]))

    def select(
        self, kind: Kind, accepts: Callable[[CaseName], bool] | None, *, start: int, size: int
    ) -> tuple[int, list[ComparedCase]]:
        """Return how many cases of a kind are accepted by their names, and `size` of them from `start` on."""
        lists: Sequence[Sequence[Pair]] = (
            [self.comparison.pairs_with_errors] if kind == "errors" else [each.pairs for each in self.listed[kind]]
        )
        places = (
            (number, place)
            for number, pairs in enumerate(lists)
            for place in range(len(pairs))
            if accepts is None or accepts(pairs[place].after)
        )
        chosen = list(islice(places, start, start + size))
        total = self.count(kind) if accepts is None else start + len(chosen) + sum(1 for _ in places)
        if kind == "errors":
            return total, [ComparedCase(lists[number][place]) for number, place in chosen]
        found = [self.listed[kind][number][place] for number, place in chosen]
        return total, [ComparedCase(each.pair, each) for each in found]

    def shown_rows(self, case: ComparedCase) -> tuple[RowPosition | None, RowPosition | None]:
        """Return the results of a case before and after that show its change best: of a lost case, best and worst."""
        before, after = self.comparison.before, self.comparison.after
        old, new = case.pair.before, case.pair.after
        if case.difference is None:
            return _row_with_error(before, old), _row_with_error(after, new)
        if case.difference.change == "regressed" or case.difference.difference < 0:
            return before.best_row(old), after.worst_row(new)
        return before.worst_row(old), after.best_row(new)


def compare_runs(before: StoredRun, after: StoredRun, home: Path) -> ComparedRuns:
    """Compare two stored runs as `agentv compare` does. Raises ConfigError if no case can be compared."""
    comparison = compare_given(before.folder, after.folder, home=home)
    cases = comparison.cases
    same = (
        place
        for place, (change, difference) in enumerate(zip(cases.changes, cases.differences, strict=True))
        if change == "same" and abs(difference) <= ROUNDING
    )
    change = comparison.score_change() if len(comparison.after.targets) > 1 else None
    return ComparedRuns(
        comparison,
        "" if change is None else change.text,
        {
            "changed": (comparison.fell(), comparison.rose()),
            "lost": (comparison.changed("regressed"),),
            "won": (comparison.changed("improved"),),
            "same": (cases.select(same),),
        },
        comparison_summary(comparison),
        find_circumstances(comparison.before, comparison.after),
    )


def _row_with_error(side: Side, name: CaseName) -> RowPosition | None:
    """Return a result of a case that has an error, else its best one."""
    return side.worst_row(name) if side.error_count(name) else side.best_row(name)
