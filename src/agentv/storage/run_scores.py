"""The rows of a stored run as comparisons need them: scores, states and amounts, read past everything else."""

import sys
from collections.abc import Iterator
from typing import cast

import msgspec

from agentv.scoring.comparison.rows import (
    COST,
    LATENCY,
    TOKENS,
    Place,
    ScoredRow,
    evaluator_measure,
    judged_measures,
)
from agentv.scoring.comparison.sides import Side
from agentv.storage.line_file import whole_lines
from agentv.storage.records.encode import to_record
from agentv.storage.records.schema import check_schema
from agentv.storage.records.subset import Subset
from agentv.storage.stored_run import StoredRun
from agentv.types.errors import StorageError
from agentv.types.evaluation import EvaluatorResult, Verdict
from agentv.types.records.answer import Slot
from agentv.types.records.fields import RESULT_SCHEMA, StoredScore
from agentv.types.records.result import CaseResult, UsageBy
from agentv.types.records.run import CaseRecord
from agentv.types.results import RowState

_RESULTS = "results.jsonl"
_CASES = "cases.jsonl"


class _Evaluator(Subset, frozen=True):
    WHOLE = EvaluatorResult

    name: str
    status: str = "scored"
    score: StoredScore | None = None


class _Row(Subset, frozen=True):
    """As much of a row as was measured."""

    WHOLE = CaseResult

    slot: Slot
    status: str
    schema: str | None = None
    verdict: Verdict | None = None
    score: StoredScore | None = None
    evaluator_results: tuple[_Evaluator, ...] = ()
    usage_by: UsageBy | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None


class _Case(Subset, frozen=True):
    WHOLE = CaseRecord

    suite: str
    eval_id: str
    case_key: str = ""


_decode_row = msgspec.json.Decoder(_Row).decode
_decode_case = msgspec.json.Decoder(_Case).decode


def load_side(stored: StoredRun, *, target: str | None = None, label: str | None = None) -> Side:
    """Return a run's current rows as one side of a comparison, those of one target only when it is named.

    Raises StorageError for a line that cannot be read, with its number.
    """
    side = Side(label or stored.run_id, to_record(stored.run), state=stored.state())
    for number, offset, line in stored.current_lines(_RESULTS):
        try:
            row = _decode_row(line)
            if row.schema != RESULT_SCHEMA:
                check_schema(row.schema, RESULT_SCHEMA)
        except (ValueError, RecursionError, StorageError) as error:
            raise StorageError(f"{stored.folder / _RESULTS}:{number}: {error}") from error
        if target is None or row.slot.target == target:
            side.add(_scored_row(row, Place(number, offset, len(line))))
    for number, line in enumerate(whole_lines(stored.folder / _CASES), start=1):
        try:
            case = _decode_case(line)
        except (ValueError, RecursionError) as error:
            raise StorageError(f"{stored.folder / _CASES}:{number}: {error}") from error
        side.add_case(case.suite, case.eval_id, case.case_key)
    return side


def _scored_row(row: _Row, place: Place) -> ScoredRow:
    is_judged = row.status not in ("error", "skipped")
    state = row.verdict or "fail" if is_judged else cast(RowState, row.status)
    measures = judged_measures(state, row.score)
    for each in row.evaluator_results:
        if each.score is not None and each.status not in ("error", "skipped"):
            measures[evaluator_measure(each.name)] = each.score
    if is_judged:
        measures.update(_amounts(row))
    slot = Slot(sys.intern(row.slot.suite), row.slot.eval_id, sys.intern(row.slot.target), row.slot.trial)
    return ScoredRow(slot, state, measures, place)


def _amounts(row: _Row) -> Iterator[tuple[str, float]]:
    if row.cost_usd is not None:
        yield COST, row.cost_usd
    if row.duration_ms is not None:
        yield LATENCY, row.duration_ms / 1000
    used = () if row.usage_by is None else (row.usage_by.target, row.usage_by.judge)
    known = [
        each.total or each.input + (each.output or 0) for each in used if each is not None and each.input is not None
    ]
    if known:
        yield TOKENS, float(sum(known))
