"""The cases that made the gates of a run fail, read back with their questions and answers for its report."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from agentv.scoring.comparison.compare import Comparison
from agentv.scoring.comparison.confirmations import Confirmations
from agentv.scoring.comparison.fallen import fallen_cases
from agentv.scoring.gates.failing_cases import FailingCases, ListedCase, ListedCases
from agentv.scoring.gates.gates import BASELINE_METRICS
from agentv.scoring.gates.run_verdict import ScopedGate
from agentv.storage.run.memory import MemoryStore
from agentv.storage.run.stored import open_run
from agentv.types.protocols import ResultStore
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord
from agentv.types.results import CaseBefore, GateCase, GateResult, RunVerdict


class RunContents(Protocol):
    """The results and cases of a run, to be read back."""

    def results_numbered(self, numbers: Collection[int]) -> Mapping[int, CaseResult]:
        """Return the results with these `seq`."""

    def cases_named(self, names: Collection[tuple[str, str]]) -> Iterable[CaseRecord]:
        """Yield the planned cases with these names (suite, id)."""


def contents_of(store: ResultStore) -> RunContents | None:
    """Return the contents of a run that is being written; None if its store cannot be read."""
    if store.folder is not None:
        return open_run(Path(store.folder))
    return store if isinstance(store, MemoryStore) else None


def listed_cases(
    gates: Sequence[ScopedGate] | None,
    failing: FailingCases,
    comparison: Comparison | None,
    confirmations: Confirmations | None = None,
) -> tuple[ListedCases, ...]:
    """Return the cases that count against each gate of a run, then those against its default gates."""
    confirmed = {} if confirmations is None else confirmations.confirmed() or {}
    fallen = {
        index: fallen_cases(comparison, scoped, confirmed)
        for index, scoped in enumerate(gates or ())
        if comparison is not None and scoped.gate.name in BASELINE_METRICS
    }
    return tuple(fallen.get(index) or failing.of_gate(index) for index in range(len(failing)))


def with_cases(
    verdict: RunVerdict, listed: Sequence[ListedCases], *, run: RunContents, baseline: RunContents | None = None
) -> RunVerdict:
    """Return a verdict whose failed gates name the cases that made them fail.

    `listed` has the cases of each gate. `baseline` is the stored run that is the baseline, None for a file of scores.
    Raises StorageError if a stored line cannot be read.
    """
    failed = {
        index: listed[index]
        for index, gate in enumerate(verdict.gates)
        if gate.state == "failed" and listed[index].cases
    }
    if not failed:
        return verdict
    cases = [case for each in failed.values() for case in each.cases]
    rows = run.results_numbered({case.seq for case in cases})
    questions = _questions(run, cases)
    earlier = {case.seq_before for case in cases if case.seq_before is not None}
    rows_before = {} if baseline is None or not earlier else baseline.results_numbered(earlier)

    def gate_case(case: ListedCase) -> GateCase:
        row_before = None if case.seq_before is None else rows_before.get(case.seq_before)
        answer = None if row_before is None else row_before.candidate_answer
        return GateCase(
            result=rows[case.seq],
            question=questions.get((case.name.suite, case.name.eval_id, case.name.prompt), ""),
            failed=case.failed,
            results=case.results,
            before=None if case.before is None else CaseBefore(case.before, answer),
            reruns=case.reruns,
        )

    def gate_result(index: int, gate: GateResult) -> GateResult:
        found = failed.get(index)
        if found is None:
            return gate
        named = tuple(gate_case(case) for case in found.cases if case.seq in rows)
        is_shared = found.distinct is not None and found.distinct < found.total
        return replace(gate, cases=named, cases_total=found.total, has_shared_cases=is_shared)

    return replace(verdict, gates=tuple(gate_result(index, gate) for index, gate in enumerate(verdict.gates)))


def _questions(run: RunContents, cases: Sequence[ListedCase]) -> dict[tuple[str, str, str | None], str]:
    """Return the questions of cases by suite, id and prompt."""
    names = {(case.name.suite, case.name.eval_id) for case in cases}
    return {(each.suite, each.eval_id, each.prompt): each.question for each in run.cases_named(names)}
