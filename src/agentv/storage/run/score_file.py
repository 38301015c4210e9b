"""Files of scores: a baseline, which is meant to be committed, or exported results of a run.

A baseline is JSON Lines: a header that describes its run, then one line per case, sorted for readable diffs.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from agentv.scoring.comparison.case_numbers import CaseNumbers
from agentv.scoring.comparison.grouping import GroupedRow, GroupedSide, RowFilter
from agentv.scoring.comparison.sides import (
    PASSED,
    SCORE,
    SPENDING,
    ScoredRow,
    Side,
    judged_measures,
    scored_row,
)
from agentv.scoring.counting.row_kinds import RowKind, kind_of
from agentv.storage.records.decode import RESULTS, check_schema
from agentv.storage.records.json_line import decode, encode
from agentv.types.errors import ConfigError, StorageError
from agentv.types.evaluation import verdict_of
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.records.answer import ResultKey
from agentv.types.results import CaseName, RowState
from agentv.types.stored import RESULT_SCHEMA

BASELINE_SCHEMA = "agentv-baseline-1"

_RUN_KEYS = ("run_id", "name", "created_at", "agentv_version", "git")
_PLAN_KEYS = ("suites", "targets", "scripts", "options", "seed", "price_table_date", "python")
_EXPECTED_FORMAT = "JSON Lines: a file of `agentv baseline save`, or results that `agentv run -o results.jsonl` wrote"
_MAX_REPEATS = 1_000_000
_GROUPS_OF_BASELINES = (None, "target", "prompt", "suite")
_OLDER_ID_KEYS = ("eval_id", "evalId", "test_id", "testId")


def baseline_lines(side: Side) -> Iterator[bytes]:
    """Yield the lines of a baseline: scores, pass rates, amounts and keys, without prompts and answers."""
    plan = side.run_json.get("plan")
    about = {key: plan[key] for key in _PLAN_KEYS if key in plan} if isinstance(plan, Mapping) else {}
    run = {key: side.run_json[key] for key in _RUN_KEYS if key in side.run_json}
    head: dict[str, JsonValue] = {"schema": BASELINE_SCHEMA, "run": {**run, "plan": about}, "cases": side.case_count}
    yield encode(head if side.state == "finished" else {**head, "state": side.state}) + b"\n"
    for name in sorted(side.cases):
        yield encode(_case_record(side, name)) + b"\n"


def _case_record(side: Side, name: CaseName) -> dict[str, JsonValue]:
    measures = {measure: side.mean(measure, name) for measure in sorted(side.measures)}
    record: dict[str, JsonValue] = {
        "suite": name.suite,
        "eval_id": name.eval_id,
        **({} if name.prompt is None else {"prompt": name.prompt}),
        "target": name.target,
        "conversation_id": side.session(name),
        "case_key": side.case_key(name),
        "rows": side.row_count(name),
        "without_result": side.error_count(name) or None,
        "measures": {measure: value for measure, value in measures.items() if value is not None},
    }
    return {key: value for key, value in record.items() if value is not None}


def load_score_file(
    path: Path, chosen: RowFilter, *, by: str | None = None, numbers: CaseNumbers | None = None
) -> GroupedSide:
    """Read a baseline, or results that `agentv run -o results.jsonl` wrote, as one side of a comparison.

    The side has the chosen rows, grouped as with `--by` if `by` is given; re-runs are left out. Raises ConfigError,
    with file and line, for a line that cannot be read, and for a baseline if `by` is a field that only results have.
    """
    side = Side(chosen.label(str(path)), numbers=numbers)
    grouped = GroupedSide(side, by)
    baseline: _BaselineFile | None = None
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                record = decode(line)
                if number == 1 and str(record.get("schema", "")).startswith("agentv-baseline"):
                    baseline = _BaselineFile(side, record)
                    _check_grouping(path, by)
                    continue
                if record.get("rerun"):
                    continue
                rows = (_exported_row(record),) if baseline is None else map(_ungrouped, baseline.rows(record))
                for row in rows:
                    if chosen.matches(row.row.slot):
                        grouped.add(row)
            except ConfigError:
                raise
            except StorageError as error:
                raise ConfigError(f"{path}:{number}: {error}") from error
            except ValueError as error:
                raise ConfigError(f"{path}:{number}: {error}; expected {_EXPECTED_FORMAT}") from error
    if baseline is not None and baseline.problem is not None:
        raise ConfigError(f"{path}: {baseline.problem}; write it again with: agentv baseline save")
    return grouped


def _check_grouping(path: Path, by: str | None) -> None:
    if by not in _GROUPS_OF_BASELINES:
        raise ConfigError(f"{path} is a baseline, which has no {by} to group by; name the run instead")


class _BaselineFile:
    """Reads the lines of a baseline into a side, and counts them: a truncated file would hide regressions."""

    def __init__(self, side: Side, head: JsonObject) -> None:
        check_schema(head.get("schema"), BASELINE_SCHEMA)
        run, state, cases = head.get("run"), head.get("state"), head.get("cases")
        side.run_json = run if isinstance(run, Mapping) else {}
        side.state = state if isinstance(state, str) else side.state
        self._side = side
        self._expected = cases if isinstance(cases, int) else None  # absent in files of older versions
        self._seen: set[ResultKey] = set()

    @property
    def problem(self) -> str | None:
        """The problem with the file as a whole, or None."""
        if self._expected is None or self._expected == len(self._seen):
            return None
        return f"the first line announces {self._expected:,} cases, but {len(self._seen):,} follow"

    def rows(self, record: JsonObject) -> Iterator[ScoredRow]:
        """Yield one row for all scored results of a case, and one for all of its results without a score."""
        suite, eval_id, target = (str(record.get(key, "")) for key in ("suite", "eval_id", "target"))
        prompt = record.get("prompt")
        key = ResultKey(suite, eval_id, target, prompt=str(prompt) if prompt is not None else None)
        if key in self._seen:
            raise StorageError(f"case {eval_id!r} of {suite}, target {target!r}, is listed twice")
        self._seen.add(key)
        case_key, measures = record.get("case_key"), record.get("measures")
        unscored = _repeats(record, "without_result", default=0)
        scored = max(1, _repeats(record, "rows", default=1) - unscored)
        if isinstance(case_key, str):
            self._side.add_case(suite, eval_id, case_key, prompt=key.prompt)
        session = record.get("conversation_id")
        known = measures if isinstance(measures, Mapping) else {}
        numbers = {name: _measured(name, value) for name, value in known.items() if isinstance(value, int | float)}
        if SCORE in numbers:
            state: RowState = "pass" if numbers.get(PASSED) == 1 else "fail"
            own_session = session if isinstance(session, str) else None
            yield ScoredRow(key, state, numbers, session=own_session, repeats=scored)
        if unscored:
            yield ScoredRow(key, "error", repeats=unscored)


def _repeats(record: JsonObject, key: str, *, default: int) -> int:
    """Return a number of results of a case. Raises StorageError for a number outside 0 to 1,000,000."""
    number = record.get(key, default)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= _MAX_REPEATS:
        raise StorageError(f"{key!r} is {number!r}, not a whole number of 0 to {_MAX_REPEATS:,}")
    return number


def _measured(name: str, value: float) -> float:
    """Return a measure as a float. Raises StorageError for a score outside 0..1."""
    if name not in SPENDING and not 0 <= value <= 1:
        raise StorageError(f"the measure {name!r} is {value:g}, not within 0 to 1")
    return float(value)


def _ungrouped(row: ScoredRow) -> GroupedRow:
    """Return a row with the groups that follow from its key: suite, target and prompt."""
    slot, score = row.slot, row.measures.get(SCORE)
    kind = RowKind(
        row.state,
        score,
        suite=slot.suite,
        target=slot.target,
        dataset="",
        tags=(),
        evaluators=(),
        criteria=(),
        prompt=slot.prompt,
    )
    return GroupedRow(row, kind, {}, None)


def _exported_row(record: JsonObject) -> GroupedRow:
    if record.get("schema") == RESULT_SCHEMA or "status" in record:
        result = RESULTS.of_record(record)
        row = scored_row(result)
        return GroupedRow(row, kind_of(result, row.state), result.metadata, result.timestamp)
    eval_id = next((record[key] for key in _OLDER_ID_KEYS if key in record), None)
    score = record.get("score")
    if not (isinstance(eval_id, str) and isinstance(score, int | float) and 0 <= score <= 1):
        raise StorageError(
            "expected a result with `eval_id` and a `score` of 0..1, as `agentv run -o results.jsonl` writes it"
        )
    key = ResultKey(str(record.get("suite", "")), eval_id, str(record.get("target", "")))
    state = verdict_of(score)
    return _ungrouped(ScoredRow(key, state, judged_measures(state, float(score))))
