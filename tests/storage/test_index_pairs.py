"""Changed pairs of two runs are those of `agentv compare`, in its order."""

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.test_index import Row, keep, rows
from tests.storage.test_index_pages import index_run
from tests.support.stored import make_result

from agentv.scoring.comparison.case_differences import ROUNDING, CaseDifference
from agentv.scoring.comparison.compare import Comparison, are_matched, compare_sides
from agentv.scoring.comparison.sides import RowPosition
from agentv.storage.index.file import pages_file
from agentv.storage.index.pages import RunPages
from agentv.storage.index.pairs import CasePair, ChangedKind, ChangedPairs, RunPairs
from agentv.storage.run.scores import load_side
from agentv.storage.run.stored import StoredRun
from agentv.types.records.answer import ResultKey
from agentv.types.results import CaseName

ALL = 1_000


def changed_pairs(
    home: Path,
    runs: Sequence[StoredRun],
    kind: ChangedKind = "changed",
    accepts: Callable[[CaseName], bool] | None = None,
    *,
    most: int = ALL,
) -> ChangedPairs | None:
    with ExitStack() as stack:
        pages = (stack.enter_context(closing(RunPages(pages_file(home, run.run_id), run.folder))) for run in runs)
        return RunPairs(*pages).changed(kind, accepts, most=most)


def expected_differences(comparison: Comparison, kind: ChangedKind) -> list[CaseDifference]:
    if kind == "changed":
        return [*comparison.fell(), *comparison.rose()]
    return list(comparison.changed("regressed" if kind == "lost" else "improved"))


def values_of(pair: CasePair) -> tuple[object, ...]:
    return pair.before.name, pair.after.name, pair.change, pair.before.score, pair.after.score


def line_of(position: RowPosition | None) -> int:
    return 0 if position is None else position.line


def assert_equal_sides(comparison: Comparison, pair: CasePair) -> None:
    """Assert that both sides have the numbers and the results of the comparison."""
    for side, found in ((comparison.before, pair.before), (comparison.after, pair.after)):
        passed, index = side.column("pass"), side.index_of(found.name)
        assert index is not None
        assert (found.passed, found.judged) == (passed.sums[index], passed.count(index))
        assert (found.worst, found.best) == (line_of(side.worst_row(found.name)), line_of(side.best_row(found.name)))


few_rows = st.lists(rows(), max_size=12)


@given(few_rows, few_rows, st.sampled_from([1, 3, ALL]))
def test_changed_pairs_are_those_of_compare_in_its_order(first: list[Row], second: list[Row], most: int) -> None:
    with TemporaryDirectory() as folder:
        home = Path(folder) / ".agentv"
        runs = keep(home, first, run_id="20260201T0-0"), keep(home, second, run_id="20260202T0-0")
        for run in runs:
            index_run(home, run)
        before, after = (load_side(run).whole for run in runs)
        comparison = compare_sides(before, after, rng=random.Random(0))
        whole = changed_pairs(home, runs)
        if not are_matched(before, after) or comparison.score is None:
            assert whole is None
            return
        assert whole is not None
        for pair in whole.pairs:
            assert_equal_sides(comparison, pair)
        same = sum(change == "same" for change in comparison.cases.changes)
        small = sum(abs(each.difference) > ROUNDING and each.change == "same" for each in comparison.cases)
        assert whole.counts == {
            "lost": len(comparison.changed("regressed")),
            "won": len(comparison.changed("improved")),
            "changed": len(comparison.fell()) + len(comparison.rose()),
            "same": same - small,
            "errors": len(comparison.pairs_with_errors),
        }
        for kind in ("changed", "lost", "won"):
            for accepts in (None, lambda name: name.target == "t"):
                expected = [
                    (each.pair.before, each.pair.after, each.change, each.before, each.after)
                    for each in expected_differences(comparison, kind)
                    if accepts is None or accepts(each.pair.after)
                ]
                found = changed_pairs(home, runs, kind, accepts, most=most)
                assert found is not None
                assert found.total == len(expected)
                assert list(map(values_of, found.pairs)) == expected[:most]


def make_row(eval_id: str, score: float, *, target: str = "t", trial: int = 0) -> Row:
    state = "pass" if score == 1.0 else "fail"
    slot = ResultKey("a.yaml", eval_id, target, trial=trial)
    return make_result(slot=slot, status=state, verdict=state, score=score)


@pytest.mark.parametrize("indexed", [0, 1])
def test_a_run_that_is_not_indexed_has_no_pairs_yet(tmp_path: Path, indexed: int) -> None:
    home = tmp_path / ".agentv"
    runs = [keep(home, [make_row("x", score)], run_id=f"2026020{day}T0-0") for day, score in ((1, 1.0), (2, 0.0))]
    for run in runs[:indexed]:
        index_run(home, run)
    assert changed_pairs(home, runs) is None


def test_single_targets_with_different_names_are_paired(tmp_path: Path) -> None:
    home = tmp_path / ".agentv"
    before = keep(home, [make_row("x", 0.0, target="old")], run_id="20260201T0-0")
    after = keep(home, [make_row("x", 1.0, target="new"), make_row("x", 1.0, target="new", trial=1)], run_id="2026-2")
    for run in (before, after):
        index_run(home, run)
    found = changed_pairs(home, (before, after), "won")
    assert found is not None
    (pair,) = found.pairs
    assert [(side.name.target, side.passed, side.judged) for side in (pair.before, pair.after)] == [
        ("old", 0, 1),
        ("new", 2, 2),
    ]
    assert found.has_several == (False, False, False)
