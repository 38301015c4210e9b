"""The report of a run: its state, its counts and its verdict."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from agentv.types.records.result import CaseResult
from agentv.types.struct_fields import repr_without
from agentv.types.summaries import (
    BaselineSummary,
    CorrectedRate,
    EvaluatorSummary,
    GroupSummary,
    MatrixSummary,
    TargetSummary,
)

RowState: TypeAlias = Literal["pass", "borderline", "fail", "error", "skipped"]
"""The five disjoint states of a row: a verdict, or the reason why there is none."""


class GateResult(Struct, frozen=True):
    """One gate expression with its result.

    `value` was compared with the bound: the metric, or for `with 95%` an end of its interval; None if nothing was
    measured.
    """

    expression: str
    passed: bool
    value: float | None
    sentence: str


class RunVerdict(Struct, frozen=True):
    """The verdict of a run: exit code and sentence, printed the same everywhere (docs/reference/gates.md)."""

    exit_code: int
    sentence: str
    gates: tuple[GateResult, ...] = ()


RunState: TypeAlias = Literal["finished", "stopped", "interrupted", "failed", "running"]
"""How a run ended; `running` if another process is still writing it."""


class RunReport(Struct, frozen=True):
    """The report of a run: counts, means, rows that did not pass, notes, and the verdict.

    `failing` holds the first rows that did not pass, up to a limit, in the order they finished; `failing_total` counts
    all. Of these, `worst` holds the lowest scores and `errors` the first errors. `needs` lists what is required to
    resume the run. `corrected` are the pass rates of judges with a calibration. `results` holds every row when the run
    was only in memory, else it is empty. Only a stream of given answers has `read`, the number of lines that were
    read, and the percentiles of the time to judge one. `by` are the kinds of the `groups` to show as tables.
    """

    run_id: str
    state: RunState
    planned: int | None
    targets: tuple[TargetSummary, ...]
    evaluators: tuple[EvaluatorSummary, ...]
    histogram: tuple[int, ...]
    verdict: RunVerdict
    failing: tuple[CaseResult, ...] = ()
    failing_total: int = 0
    worst: tuple[CaseResult, ...] = ()
    errors: tuple[CaseResult, ...] = ()
    flaky: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    duration_s: float = 0.0
    folder: str | None = None
    needs: str = ""
    baseline: BaselineSummary | None = None
    groups: tuple[GroupSummary, ...] = ()
    matrix: MatrixSummary | None = None
    corrected: tuple[CorrectedRate, ...] = ()
    results: tuple[CaseResult, ...] = ()
    read: int | None = None
    judging_median_s: float | None = None
    judging_p95_s: float | None = None
    by: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return the usual text without `results`: asyncio logs the repr of what its main task returned."""
        return repr_without(self, "results")

    @property
    def shown_groups(self) -> tuple[GroupSummary, ...]:
        """The groups to show as tables."""
        return tuple(group for group in self.groups if group.by in self.by)

    @property
    def exit_code(self) -> int:
        """The exit code of `agentv run`."""
        return self.verdict.exit_code

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows by state over all targets."""
        total: dict[str, int] = {}
        for target in self.targets:
            for state, count in target.counts.items():
                total[state] = total.get(state, 0) + count
        return total
