"""The cases that did not pass or made a gate fail, read back with their questions and answers for its report."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from agentv.scoring.comparison.compare import Comparison
from agentv.scoring.comparison.confirmations import Confirmations
from agentv.scoring.comparison.fallen import fallen_cases
from agentv.scoring.gates.failing_cases import NO_CASES, FailingCases, ListedCase, ListedCases
from agentv.scoring.gates.gates import BASELINE_METRICS
from agentv.scoring.gates.run_verdict import ScopedGate
from agentv.storage.run.memory import MemoryStore
from agentv.storage.run.stored import open_run
from agentv.types.protocols import ResultStore
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord
from agentv.types.results import CaseBefore, CaseOutcome, RunReport

_MAX_ANSWER_CHARS = 20_000


class RunContents(Protocol):
    """The results and cases of a run, to be read back."""

    def results_numbered(self, numbers: Collection[int]) -> Iterable[CaseResult]:
        """Yield the results with these `seq`."""

    def cases_named(self, names: Collection[tuple[str, str]]) -> Iterable[CaseRecord]:
        """Yield the planned cases with these names (suite, id)."""


def contents_of(store: ResultStore) -> RunContents | None:
    """Return the contents of a run that is being written; None if its store cannot be read."""
    if store.folder is not None:
        return open_run(Path(store.folder))
    return store if isinstance(store, MemoryStore) else None


class ListedInRun(Struct, frozen=True):
    """The cases of a run to name in its report."""

    not_passed: ListedCases = NO_CASES
    of_gates: tuple[ListedCases, ...] = ()
    """The cases that count against each gate of the run, then those against its default gates."""


def listed_in_run(
    gates: Sequence[ScopedGate] | None,
    failing: FailingCases,
    comparison: Comparison | None,
    confirmations: Confirmations | None = None,
) -> ListedInRun:
    """Return the cases of a run that did not pass, and those that count against its gates."""
    confirmed = {} if confirmations is None else confirmations.confirmed() or {}
    fallen = {
        index: fallen_cases(comparison, scoped, confirmed)
        for index, scoped in enumerate(gates or ())
        if comparison is not None and scoped.gate.name in BASELINE_METRICS
    }
    of_gates = tuple(fallen.get(index) or failing.of_gate(index) for index in range(len(failing)))
    return ListedInRun(failing.of_run(), of_gates)


def with_cases(
    report: RunReport, listed: ListedInRun, *, run: RunContents, baseline: RunContents | None = None
) -> RunReport:
    """Return a report that names the cases that did not pass, and those that made its gates fail.

    `baseline` is the stored run that is the baseline, None for a file of scores. Raises StorageError if a stored line
    cannot be read.
    """
    verdict = report.verdict
    failed = {
        index: listed.of_gates[index]
        for index, gate in enumerate(verdict.gates)
        if gate.state == "failed" and listed.of_gates[index].cases
    }
    cases = [case for each in (listed.not_passed, *failed.values()) for case in each.cases]
    if not cases:
        return report
    rows = _shown_rows(run, {case.seq for case in cases})
    records = _records(run, cases)
    earlier = {case.seq_before for case in cases if case.seq_before is not None}
    rows_before = {} if baseline is None or not earlier else _shown_rows(baseline, earlier)

    def outcome(case: ListedCase) -> CaseOutcome:
        row_before = None if case.seq_before is None else rows_before.get(case.seq_before)
        answer = None if row_before is None else row_before.candidate_answer
        record = records.get((case.name.suite, case.name.eval_id, case.name.prompt))
        return CaseOutcome(
            result=rows[case.seq],
            question="" if record is None else record.last_question,
            expected="" if record is None else record.reference_answer or record.expected_outcome,
            failed=case.failed,
            results=case.results,
            before=None if case.before is None else CaseBefore(case.before, answer),
            reruns=case.reruns,
        )

    def outcomes(of: ListedCases) -> tuple[CaseOutcome, ...]:
        return tuple(outcome(case) for case in of.cases if case.seq in rows)

    gates = [
        gate
        if (of := failed.get(index)) is None
        else replace(
            gate,
            cases=outcomes(of),
            other_cases=of.others,
            cases_total=of.total,
            cases_distinct=of.total if of.distinct is None else of.distinct,
            is_whole_run=of.is_whole_run,
        )
        for index, gate in enumerate(verdict.gates)
    ]
    return replace(
        report,
        verdict=replace(verdict, gates=tuple(gates)),
        cases=outcomes(listed.not_passed),
        other_cases=listed.not_passed.others,
        cases_total=listed.not_passed.total,
        cases_distinct=listed.not_passed.distinct or 0,
    )


def _shown_rows(run: RunContents, numbers: Collection[int]) -> dict[int, CaseResult]:
    """Return results by `seq`, without what the list of cases does not show, so that long ones take little memory."""
    return {row.seq: _shown_part(row) for row in run.results_numbered(numbers) if row.seq is not None}


def _shown_part(row: CaseResult) -> CaseResult:
    answer = row.candidate_answer
    return replace(
        row,
        candidate_answer=answer if len(answer) <= _MAX_ANSWER_CHARS else f"{answer[:_MAX_ANSWER_CHARS]}…",
        output_messages=None,
        trace=None,
        agent_provider_request=None,
        lm_provider_request=None,
    )


def _records(run: RunContents, cases: Sequence[ListedCase]) -> dict[tuple[str, str, str | None], CaseRecord]:
    """Return the stored cases by suite, id and prompt."""
    names = {(case.name.suite, case.name.eval_id) for case in cases}
    return {(each.suite, each.eval_id, each.prompt): each for each in run.cases_named(names)}
