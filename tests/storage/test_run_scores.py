"""The scores of a stored run equal those of its results, and a baseline's those of its run."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from msgspec.structs import replace
from tests.support.rows import make_row
from tests.support.stored import SLOT, at_noon, make_case, make_result, make_run
from tests.support.strategies import case_results

from agentv.scoring.comparison.grouping import RowFilter
from agentv.scoring.comparison.sides import RowPosition, Side, scored_row
from agentv.storage.records.decode import RESULTS
from agentv.storage.records.encode import to_record
from agentv.storage.records.json_line import encode
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.score_file import baseline_lines, load_score_file
from agentv.storage.run.scores import _decode_row, _scored_row, load_side
from agentv.storage.run.stored import open_run
from agentv.types.errors import StorageError
from agentv.types.evaluation import EvaluatorResult
from agentv.types.failures import Failure
from agentv.types.records.result import CaseResult, Spent, UsageBy
from agentv.types.usage import Usage

ROWS = (
    make_result(),
    make_result(slot=replace(SLOT, trial=1), score=1.0, status="pass", verdict="pass", cost_usd=None),
    make_result(
        slot=replace(SLOT, eval_id="long"),
        candidate_answer="x" * 300_000,
        usage_by=UsageBy(Spent.of(Usage(total=7), None)),
    ),
    make_row("broken", score=None, error=Failure("server_error", "HTTP 503")),
    replace(make_row("left-out"), status="skipped", verdict=None, score=None),
    replace(
        make_row("judge-broke", score=0.0, error=Failure("judge_error", "no JSON", stage="evaluator")),
        evaluator_results=(
            EvaluatorResult(name="tone", type="llm_judge", score=0.0, status="error"),
            EvaluatorResult(name="ok", type="x", score=0.5),
        ),
    ),
)


def kept(folder: Path, rows: Sequence[CaseResult]) -> Path:
    store = RunFolder(folder, "r1", clock=at_noon)
    store.begin(make_run(run_id="r1"))
    for row in rows:
        store.append_case(make_case(suite=row.slot.suite, eval_id=row.slot.eval_id))
        store.append(row)
    store.close("finished")
    return folder / "r1"


def values_of(side: Side) -> dict[object, object]:
    return {
        name: (
            side.row_count(name),
            side.error_count(name),
            {
                measure: (side.mean(measure, name), side.measured_count(measure, name))
                for measure in sorted(side.measures)
            },
        )
        for name in side.cases
    }


def test_a_row_read_in_part_is_the_row_read_whole(tmp_path: Path) -> None:
    stored = open_run(kept(tmp_path, ROWS))
    whole = Side("whole")
    for row in stored.results():
        whole.add(scored_row(row))
    assert values_of(load_side(stored).whole) == values_of(whole)


@given(case_results())
def test_whatever_is_in_the_row(row: CaseResult) -> None:
    line = encode(to_record(row))
    assert _scored_row(_decode_row(line), RowPosition(1, 0, len(line))) == replace(
        scored_row(RESULTS.of_line(line)), position=RowPosition(1, 0, len(line))
    )


def test_the_lowest_row_of_a_case_can_be_read_again(tmp_path: Path) -> None:
    stored = open_run(kept(tmp_path, ROWS))
    side = load_side(stored).whole
    places = [side.worst_row(name) for name in side.cases]
    found = [next(stored.results_at([position])) for position in places if position is not None]
    assert [(row.eval_id, row.score) for row in found] == [
        ("refund-7", pytest.approx(1 / 3)),
        ("long", pytest.approx(1 / 3)),
        ("broken", None),
        ("judge-broke", 0.0),
    ]


def test_a_baseline_says_of_each_case_what_its_run_says(tmp_path: Path) -> None:
    side = load_side(open_run(kept(tmp_path, ROWS))).whole
    path = tmp_path / "baseline.jsonl"
    path.write_bytes(b"".join(baseline_lines(side)))
    again = load_score_file(path, RowFilter()).whole
    assert set(again.cases) == set(side.cases)
    for name in side.cases:
        assert again.error_count(name) == side.error_count(name)
        assert {each: again.mean(each, name) for each in side.measures} == {
            each: None if side.mean("score", name) is None else side.mean(each, name) for each in side.measures
        }
    assert [again.case_key(name) for name in side.cases] == [side.case_key(name) for name in side.cases]
    assert None not in {side.case_key(name) for name in side.cases}
    assert again.run_json["run_id"] == "r1"


def test_only_the_rows_of_a_target_when_it_is_named(tmp_path: Path) -> None:
    folder = kept(tmp_path, [make_row("a", target="x"), make_row("a", target="y", score=0.0)])
    assert load_side(open_run(folder), RowFilter(target="y")).whole.targets == ("y",)


@pytest.mark.parametrize("name", ["results.jsonl", "cases.jsonl"])
def test_a_line_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    folder = kept(tmp_path, [make_row("a")])
    with (folder / name).open("a") as file:
        file.write("nonsense\n")
    with pytest.raises(StorageError, match=rf"{name}:2: "):
        load_side(open_run(folder))
