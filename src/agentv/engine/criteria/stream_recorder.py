"""The recorder of a stream of given answers: its rows are counted together, whatever target they name."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import field
from msgspec.structs import replace

from agentv.engine.calling.given_answer import GIVEN_ANSWER
from agentv.engine.planning.plan import RunPlan
from agentv.engine.running.recorder import RunRecorder
from agentv.registry import Specs
from agentv.scoring.counting.case_sums import Spill, cluster_of
from agentv.scoring.counting.groups import Groups, kind_named, no_group_message
from agentv.scoring.counting.row_kinds import kind_of
from agentv.scoring.gates.run_verdict import GATE_FAILED, Ending, ScopedGate, stream_summary_for
from agentv.scoring.results.aggregation import row_state
from agentv.storage.run.spill import TemporarySpill
from agentv.storage.run.stored import open_run
from agentv.types.aggregated_result import AggregatedEvaluationResult
from agentv.types.records.result import CaseResult
from agentv.types.results import RunReport
from agentv.types.run_options import RunOptions


class AnswerSource(Protocol):
    """Where a stream's answers come from, as far as its report says."""

    @property
    def read(self) -> int:
        """The number of lines read so far."""

    @property
    def repeats_cases(self) -> bool:
        """True if a case has several rows: repeats, or answers of several targets."""

    def why_no_rows(self) -> str:
        """Return why there is no row."""

    def notes(self) -> Iterator[str]:
        """Yield what the user should know of the lines that were read."""


def stream_plan(specs: Specs, gates: Sequence[ScopedGate] | None, *, home: Path, options: RunOptions) -> RunPlan:
    """Return the plan of a stream of given answers: it has no suite, since its cases come with the answers."""
    return RunPlan((), specs, options, None if gates is None else tuple(gates), str(home))


class StreamRecorder(RunRecorder):
    """The recorder of given answers. Its memory does not grow with the stream."""

    source: AnswerSource | None = None
    """None until the run of answers begins."""
    by: Sequence[str] = ()
    """The kinds of groups to count."""
    is_saved: bool = True
    """True if the results are kept: in a run, a file or a store of judgements."""
    groups: Groups | None = None
    spill: Spill = field(default_factory=TemporarySpill)
    metadata_keys: set[str] = field(default_factory=set)
    lost_judgements: int = 0
    """The number of judgements that the configuration's storage did not save."""
    unchanged: int = 0
    """The number of stored rows that were not judged again."""
    warnings: Sequence[str] = ()
    """The warnings of the configuration."""

    def __post_init__(self) -> None:
        """Set up the counts for gates and groups."""
        super().__post_init__()
        self.planned = None
        self._reset_counts()

    def _reset_counts(self) -> None:
        self.summary = stream_summary_for(self.plan.gates, self.spill)
        self.groups = Groups(tuple(map(kind_named, self.by)), spill=self.spill) if self.by else None

    def count_stored(self, result: CaseResult) -> None:
        """Count a stored row that stays as it is."""
        super().count_stored(result)
        self.unchanged += 1

    def count_judgement(self, result: AggregatedEvaluationResult) -> None:
        """Note what a store of judgements did not save."""
        lost = [error.message for error in result.run_errors if error.kind == "store_error"]
        self.lost_judgements += bool(lost)
        for message in lost:
            self.note(message)

    def _count(self, result: CaseResult) -> None:
        """Count a row; the summary counts all rows under one target, whatever target they name.

        Empty answers of traces are counted by their reader, whose notes name the instrumentation.
        """
        is_empty = result.empty_answer and not result.trace_id
        row = replace(result, slot=replace(result.slot, target=GIVEN_ANSWER), empty_answer=is_empty)
        self.summary.add(row, has_trials=self.has_trials)
        if self.groups is not None:
            self.metadata_keys.update(result.metadata)
            self.groups.add(
                kind_of(result, row_state(result)),
                case=cluster_of(result, has_trials=self.has_trials),
                metadata=result.metadata,
                time=result.timestamp,
            )

    def _recount(self) -> None:
        """Count the stored rows again if cases were repeated: the rows of a case are then one cluster in intervals."""
        folder = self.store.folder
        if self.source is None or not self.source.repeats_cases or folder is None or self.lost_files is not None:
            return
        self._reset_counts()
        self.has_trials = True
        for row in open_run(Path(folder)).results():
            self._count(row)

    def report(self, duration_s: float) -> RunReport:
        """Return the report of all answers so far, with the verdict."""
        self._recount()
        for note in self._notes_at_end():
            self.note(note)
        report = super().report(duration_s)
        read = 0 if self.source is None else self.source.read
        return replace(report, read=max(read, self.summary.all.rows))

    def check_files(self) -> None:
        """End the stream as failed if files of the run, or judgements, were lost."""
        super().check_files()
        if self.lost_judgements and self.stop.state == "finished":
            self.stop.fail(f"storage lost {self.lost_judgements:,} of {self.summary.all.rows:,} judgements")

    def ending(self) -> Ending:
        """Return how the stream ended, for its verdict."""
        reason = self.stop.reason
        if reason is None and not self.summary.all.rows:
            reason = "there are no lines" if self.source is None else self.source.why_no_rows()
        return Ending(
            state=self.stop.state,
            reason=reason,
            signal_number=self.stop.signal_number,
            is_stored=self.is_saved,
            noun="line",
            is_judge_stop=self.stop.is_judge_stop,
            incomplete=self.lost_files,
        )

    def _with_cases(self, report: RunReport) -> RunReport:
        """Return the report; it names no cases, but the default gate that failed."""
        if self.plan.gates is None and report.exit_code == GATE_FAILED:
            self.note(_DEFAULT_GATE)
        return report

    def _notes_at_end(self) -> Iterator[str]:
        yield from self.warnings
        if self.source is not None:
            yield from self.source.notes()
        if self.groups is not None and self.summary.all.rows:
            for kind in (kind for kind in map(kind_named, self.by) if not self.groups.names(kind)):
                yield no_group_message(kind, self.metadata_keys, noun="line")
        if self.unchanged:
            yield f"{self.unchanged:,} result{'s' if self.unchanged > 1 else ''} unchanged"


_DEFAULT_GATE = "by default every line must pass; off with --gate none or `gates: none`"
