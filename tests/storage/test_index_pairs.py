"""Pairs of two runs are those of `agentv compare`, page by page."""

from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.test_index import Row, keep, rows
from tests.storage.test_index_pages import index_run
from tests.support.stored import make_result

from agentv.scoring.comparison.case_differences import CaseDifferences
from agentv.scoring.comparison.pairs import align
from agentv.scoring.results.aggregation import row_state
from agentv.storage.index.file import pages_file
from agentv.storage.index.pages import RunPages
from agentv.storage.index.pairs import PAIR_FILTERS, CasePair, PairFilter, RunPairs
from agentv.storage.run.scores import load_side
from agentv.storage.run.stored import StoredRun
from agentv.types.records.answer import ResultKey

Name = tuple[str, str, str, str | None]
CHANGES = {"regressed": "lost", "improved": "won", "same": "same"}
MATCHING: dict[PairFilter | None, set[str]] = {
    None: {"lost", "won", "same", "unjudged", "only_before", "only_after"},
    "changed": {"lost", "won"},
    "only_in_one": {"only_before", "only_after"},
}


def open_pairs(stack: ExitStack, home: Path, runs: tuple[StoredRun, StoredRun]) -> RunPairs:
    before, after = (stack.enter_context(closing(RunPages(pages_file(home, run.run_id), run.folder))) for run in runs)
    return RunPairs(before, after)


def all_pairs(pairs: RunPairs, *, only: PairFilter | None, page_size: int) -> list[CasePair]:
    page = pairs.page(only=only, page_size=page_size)
    found = [*page.pairs]
    while page.after is not None:
        assert len(page.pairs) == page_size
        page = pairs.page(only=only, after=page.after, page_size=page_size)
        found += page.pairs
    return found


def name_of(pair: CasePair) -> Name:
    side = pair.after or pair.before
    assert side is not None
    return side.suite, pair.eval_id, side.target, side.prompt


def expected_changes(before: StoredRun, after: StoredRun) -> Counter[tuple[str, Name]]:
    """Return the change and name of each pair of `agentv compare`."""
    alignment = align(load_side(before).whole, load_side(after).whole)

    def named(name: object) -> Name:
        return name.suite, name.eval_id, name.target, name.prompt  # type: ignore[attr-defined]

    judged = {named(each.pair.after): CHANGES[each.change] for each in CaseDifferences(alignment.pairs)}
    return Counter(
        [
            *((judged.get(named(pair.after), "unjudged"), named(pair.after)) for pair in alignment.pairs),
            *(("only_before", named(name)) for name in alignment.only_before),
            *(("only_after", named(name)) for name in alignment.only_after),
        ]
    )


few_rows = st.lists(rows(), max_size=10)


@given(few_rows, few_rows, st.sampled_from([1, 2, 100]))
def test_pairs_are_those_of_compare_for_every_filter(first: list[Row], second: list[Row], page_size: int) -> None:
    with TemporaryDirectory() as folder, ExitStack() as stack:
        home = Path(folder) / ".agentv"
        runs = keep(home, first, run_id="20260201T0-0"), keep(home, second, run_id="20260202T0-0")
        for run in runs:
            index_run(home, run)
        pairs = open_pairs(stack, home, runs)
        expected = expected_changes(*runs)
        for only in (None, *PAIR_FILTERS):
            found = all_pairs(pairs, only=only, page_size=page_size)
            wanted = MATCHING.get(only, {str(only)})
            assert Counter((pair.change, name_of(pair)) for pair in found) == Counter(
                {each: count for each, count in expected.items() if each[0] in wanted}
            )
            assert [pair.eval_id for pair in found] == sorted(pair.eval_id for pair in found)
        assert pairs.count() == Counter(change for change, _ in expected.elements())


def make_row(eval_id: str, score: float | None, *, target: str = "t", trial: int = 0) -> Row:
    state = "error" if score is None else "pass" if score == 1.0 else "fail"
    slot = ResultKey("a.yaml", eval_id, target, trial=trial)
    return make_result(slot=slot, status=state, verdict=None if score is None else state, score=score)


def test_a_pair_has_the_mean_score_and_the_worst_state_of_trials(tmp_path: Path) -> None:
    home = tmp_path / ".agentv"
    before = keep(home, [make_row("x", 1.0), make_row("x", 0.5, trial=1)], run_id="20260201T0-0")
    after = keep(home, [make_row("x", None), make_row("x", 0.25, trial=1)], run_id="20260202T0-0")
    for run in (before, after):
        index_run(home, run)
    with ExitStack() as stack:
        (pair,) = open_pairs(stack, home, (before, after)).page().pairs
    assert pair.change == "lost"
    assert [(side.state, side.score, side.lines) for side in (pair.before, pair.after) if side] == [
        ("fail", 0.75, (1, 2)),
        ("error", 0.25, (1, 2)),
    ]
    assert [row_state(row) for row in after.results()] == ["error", "fail"]


def test_single_targets_with_different_names_are_paired(tmp_path: Path) -> None:
    home = tmp_path / ".agentv"
    before = keep(home, [make_row("x", 0.0, target="old")], run_id="20260201T0-0")
    after = keep(home, [make_row("x", 1.0, target="new")], run_id="20260202T0-0")
    with ExitStack() as stack:
        pairs = open_pairs(stack, home, (before, after))
        assert pairs.page().pairs == ()
        for run in (before, after):
            index_run(home, run)
        page = pairs.page(only="won")
        assert page.is_complete
        (pair,) = page.pairs
        assert [side.target for side in (pair.before, pair.after) if side] == ["old", "new"]
        with pytest.raises(ValueError, match="begin at the first page"):
            pairs.page(after="x")
