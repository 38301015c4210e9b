"""Read scores, states and amounts of a stored run for comparisons, without decoding other fields."""

import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct

from agentv.scoring.comparison.case_numbers import CaseNumbers
from agentv.scoring.comparison.grouping import GroupedRow, GroupedSide, RowFilter
from agentv.scoring.comparison.sides import (
    COST,
    INCOMPLETE,
    LATENCY,
    SCORE,
    TOKENS,
    RowPosition,
    ScoredRow,
    Side,
    evaluator_measure,
    judged_measures,
)
from agentv.scoring.counting.row_kinds import RowKind
from agentv.storage.files.run_file import whole_lines
from agentv.storage.records.amounts import with_known_amounts
from agentv.storage.records.decode import check_schema
from agentv.storage.records.encode import to_record
from agentv.storage.records.json_line import decode as decode_line
from agentv.storage.records.json_line import reason
from agentv.storage.records.narrow import Subset
from agentv.storage.run.find import LOG_SUFFIX, find_run, find_tagged, runs_folder, with_tag_advice
from agentv.storage.run.likeness import Likeness, find_like, is_relative_reference
from agentv.storage.run.score_file import load_score_file
from agentv.storage.run.stored import StoredRun, open_run
from agentv.storage.run.stored_check import check_stored_run
from agentv.types.errors import ConfigError, StorageError
from agentv.types.evaluation import EvaluatorResult, EvaluatorStatus, Verdict
from agentv.types.json_value import JsonObject
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult, UsageBy
from agentv.types.records.run import CaseRecord
from agentv.types.results import RowState
from agentv.types.stored import RESULT_SCHEMA, StoredScore, known_duration
from agentv.types.usage import StoredCost

ALL_ROWS = RowFilter()

_RESULTS = "results.jsonl"
_CASES = "cases.jsonl"


class _Evaluator(Subset, frozen=True):
    WHOLE = EvaluatorResult

    name: str
    type: str = ""
    status: str = "scored"
    score: StoredScore | None = None
    verdict: Verdict | None = None


class _Row(Subset, frozen=True):
    """The measured fields of a result."""

    WHOLE = CaseResult

    slot: ResultKey
    status: str
    schema: str | None = None
    conversation_id: str | None = None
    session_id: str | None = None
    verdict: Verdict | None = None
    score: StoredScore | None = None
    evaluator_results: tuple[_Evaluator, ...] = ()
    usage_by: UsageBy | None = None
    cost_usd: StoredCost | None = None
    duration_ms: object = None  # another program may have written any number


class _GroupableRow(_Row, frozen=True, kw_only=True):
    """The measured fields of a result, and the fields by which results can be grouped."""

    timestamp: datetime
    dataset: str
    tags: tuple[str, ...] = ()
    metadata: JsonObject = msgspec.field(default_factory=dict)


class _Case(Subset, frozen=True):
    WHOLE = CaseRecord

    suite: str
    eval_id: str
    prompt: str | None = None
    case_key: str = ""


_decode_row: Callable[[bytes], _Row] = msgspec.json.Decoder(_Row).decode
_decode_groupable_row: Callable[[bytes], _Row] = msgspec.json.Decoder(_GroupableRow).decode
_decode_case = msgspec.json.Decoder(_Case).decode


def load_side(
    stored: StoredRun, chosen: RowFilter = ALL_ROWS, *, by: str | None = None, numbers: CaseNumbers | None = None
) -> GroupedSide:
    """Return the chosen current results of a run as one side of a comparison, grouped as with `--by` if `by` is given.

    Raises StorageError, with the number of the line, for a line that cannot be read, and ConfigError for too many
    groups.
    """
    checked = check_stored_run(stored)
    run_json, state = to_record(stored.run), stored.state()
    side = Side(chosen.label(stored.run_id), run_json, state=state, edits=checked.edits, numbers=numbers)
    grouped = GroupedSide(side, by)
    try:
        stored_results = _add_rows(grouped, stored, chosen)
    except StorageError as error:
        raise checked.explained(error) from None
    if state == "finished" and stored_results < (stored.planned() or 0):
        for each in (side, *grouped.groups.values()):
            each.state = INCOMPLETE
    return grouped


def _add_rows(grouped: GroupedSide, stored: StoredRun, chosen: RowFilter) -> int:
    """Add the chosen results and all cases; return the number of results that count, chosen or not."""
    side, by = grouped.whole, grouped.by
    results = 0
    decode = _decode_row if by is None else _decode_groupable_row
    for number, offset, line in stored.current_lines(_RESULTS):
        results += 1
        try:
            row = _decode_any(line, decode, _Row if by is None else _GroupableRow)
            if row.schema != RESULT_SCHEMA:
                check_schema(row.schema, RESULT_SCHEMA)
        except (ValueError, RecursionError, StorageError) as error:
            raise StorageError(f"{stored.folder / _RESULTS}:{number}: {reason(error)}") from error
        if not chosen.matches(row.slot):
            continue
        scored = _scored_row(row, RowPosition(number, offset, len(line)))
        if isinstance(row, _GroupableRow):
            grouped.add(GroupedRow(scored, _kind(row, scored), row.metadata, row.timestamp))
        else:
            side.add(scored)
    for number, line in enumerate(whole_lines(stored.folder / _CASES), start=1):
        try:
            case = _decode_case(line)
        except (ValueError, RecursionError) as error:
            raise StorageError(f"{stored.folder / _CASES}:{number}: {reason(error)}") from error
        side.add_case(case.suite, case.eval_id, case.case_key, prompt=case.prompt)
    return results


def _decode_any(line: bytes, decode: Callable[[bytes], _Row], kind: type[_Row]) -> _Row:
    """Return the fields of a line; amounts that cannot be one, which an older version may have stored, are unknown."""
    try:
        return decode(line)
    except msgspec.ValidationError:
        return msgspec.convert(with_known_amounts(decode_line(line)), kind)


def _scored_row(row: _Row, position: RowPosition) -> ScoredRow:
    is_judged = row.status not in ("error", "skipped")
    state = (row.verdict or "fail") if is_judged else cast(RowState, row.status)
    measures = judged_measures(state, row.score)
    for each in row.evaluator_results:
        if each.score is not None and each.status not in ("error", "skipped"):
            measures[evaluator_measure(each.name)] = each.score
    if is_judged:
        measures.update(_amounts(row))
    key = row.slot
    prompt = None if key.prompt is None else sys.intern(key.prompt)
    slot = ResultKey(sys.intern(key.suite), key.eval_id, sys.intern(key.target), trial=key.trial, prompt=prompt)
    return ScoredRow(
        slot,
        state,
        measures,
        position,
        session=row.session_id or row.conversation_id,
        evaluator_types={sys.intern(each.name): sys.intern(each.type) for each in row.evaluator_results if each.type},
    )


def _kind(row: _GroupableRow, scored: ScoredRow) -> RowKind:
    return RowKind(
        state=scored.state,
        score=scored.measures.get(SCORE),
        suite=scored.slot.suite,
        target=scored.slot.target,
        dataset=row.dataset,
        tags=row.tags,
        evaluators=tuple(  # without the types of the evaluators
            (each.name, "", cast(EvaluatorStatus, each.status), each.verdict, each.score or 0.0)
            for each in row.evaluator_results
        ),
        criteria=(),
        prompt=scored.slot.prompt,
    )


def _amounts(row: _Row) -> Iterator[tuple[str, float]]:
    if row.cost_usd is not None:
        yield COST, row.cost_usd
    duration_ms = known_duration(row.duration_ms)
    if duration_ms is not None:
        yield LATENCY, duration_ms / 1000
    used = () if row.usage_by is None else (row.usage_by.target, row.usage_by.judge)
    known = [
        each.total or each.input + (each.output or 0) for each in used if each is not None and each.input is not None
    ]
    if known:
        yield TOKENS, float(sum(known))


class FoundScores(Struct, frozen=True):
    """One side of a comparison, with its groups if there are any."""

    grouped: GroupedSide
    reference: str
    """The name of the side in later commands."""
    stored: StoredRun | None = None
    """None for a file of scores."""

    @property
    def side(self) -> Side:
        """All rows of the side."""
        return self.grouped.whole


def find_scores(
    home: Path,
    reference: str,
    chosen: RowFilter = ALL_ROWS,
    *,
    by: str | None = None,
    like: Likeness | None = None,
    numbers: CaseNumbers | None = None,
) -> FoundScores:
    """Return the chosen scores of the run or file that `reference` names, grouped as with `--by` if `by` is given.

    Two sides with the same `numbers` need less memory.

    `reference` is a file (a baseline or exported results), the path of a run folder, or the id, name or tag of a run
    of `home`, or `latest`. `latest~1` is the newest earlier run like the latest, and with `like`, `latest` is the
    newest run like that (likeness.py). Raises ConfigError when nothing matches, the file has another format, or the
    chosen target or prompt has no result; StorageError when a run cannot be read.
    """
    path = Path(reference)
    # A log of inspect is left to `find_run`, whose error says how to convert it.
    if path.is_file() and path.suffix != LOG_SUFFIX:
        found = FoundScores(load_score_file(path, chosen, by=by, numbers=numbers), reference)
    else:
        stored = open_run(_find_run_folder(home, reference, like))
        is_ours = stored.folder.resolve().parent == runs_folder(home).resolve()
        found = FoundScores(
            load_side(stored, chosen, by=by, numbers=numbers), stored.run_id if is_ours else reference, stored
        )
    if not found.side.case_count and chosen != ALL_ROWS:
        whole = find_scores(home, reference).side
        for kind, name, known in (("target", chosen.target, whole.targets), ("prompt", chosen.prompt, whole.prompts)):
            names = [each for each in known if each is not None]
            if name is not None and name not in names:
                shown = ", ".join(names) or "none"
                raise ConfigError(f"{reference} has no result of {kind} {name!r}; its {kind}s: {shown}")
        raise ConfigError(f"{reference} has no result of target {chosen.target!r} with prompt {chosen.prompt!r}")
    return found


def _find_run_folder(home: Path, reference: str, like: Likeness | None) -> Path:
    if is_relative_reference(reference, has_anchor=like is not None):
        return find_like(home, reference, like)
    try:
        return find_run(home, reference)
    except ConfigError as error:
        tagged = find_tagged(home, reference)
        if tagged is None:
            raise with_tag_advice(error) from None
        return tagged
