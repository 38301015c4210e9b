"""The benchmarks run, and their table names each measurement. No test asserts how fast anything is."""

import pytest
from tests.support.browser import HAS_DRIVEN_BROWSER
from tests.support.nightly import sample

from agentv.evaluators import EVALUATORS
from bench.__main__ import README, main, measured, with_table
from bench.benchmarks import BENCHMARKS
from bench.measuring import QUICK, Effort, seconds_per_call
from bench.rows import AtLeast, AtMost, AtMostTimes, Row, duration, megabytes, percent, row_of, table

ABSENT = ({"toxicity"} - {spec.name for spec in EVALUATORS}) | (set() if HAS_DRIVEN_BROWSER else {"viewer"})


@pytest.mark.parametrize("name", sample(sorted(BENCHMARKS.keys() - ABSENT), 3))
def test_each_benchmark_runs(name: str) -> None:
    rows = list(BENCHMARKS[name](QUICK))
    assert rows
    assert all(row.work for row in rows)


def test_each_benchmark_is_explained() -> None:
    page = README.read_text("utf-8")
    assert [name for name in BENCHMARKS if f"| `{name}` |" not in page] == []


def test_works_take_turns_after_one_call_of_each_that_is_not_measured() -> None:
    called: list[str] = []
    ticks = iter(range(100))
    numbers = seconds_per_call(
        lambda: called.append("a"),
        lambda: called.append("b"),
        calls=2,
        effort=Effort(rounds=2),
        clock=lambda: float(next(ticks)),
    )
    assert "".join(called) == "ab" + "aabb" * 2
    assert numbers == ((0.5, 0.5), (0.5, 0.5))


def test_a_row_is_made_of_medians() -> None:
    row = row_of("work", (1.0, 9.0, 2.0), beside="other", theirs=(1.0, 1.0, 7.0), target=AtMostTimes(2.0))
    assert (row.ours, row.theirs, row.ratio) == (2.0, 1.0, 2.0)
    assert row.target is not None
    assert row.target.is_met(row)


def test_a_target_is_met_up_to_its_bound() -> None:
    assert AtMost(80e-6).is_met(Row(work="w", ours=80e-6))
    assert not AtMost(80e-6).is_met(Row(work="w", ours=81e-6))
    assert not AtMostTimes(1.5).is_met(Row(work="w", ours=1.6, theirs=1.0))


def test_a_share_has_to_reach_its_bound() -> None:
    assert AtLeast(0.97).is_met(Row(work="w", ours=0.97))
    assert not AtLeast(0.97).is_met(Row(work="w", ours=0.9699))


def test_a_ratio_without_the_peer_is_neither_met_nor_missed() -> None:
    assert Row(work="w", ours=1.0, target=AtMostTimes(1.5)).verdict == "not compared"
    assert Row(work="w", ours=1.0, theirs=1.0, target=AtMostTimes(1.5)).verdict == "yes"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(1.234, "1.23 s"), (0.0005, "500 µs"), (0.00805, "8.05 ms"), (2e-8, "0.02 µs"), (-3e-6, "-3 µs")],
)
def test_durations_are_shown_in_three_digits(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_shares_and_megabytes_are_shown_as_such_target_included() -> None:
    rows = [
        Row(work="a", ours=0.974, theirs=0.81, beside="peer", target=AtLeast(0.97), shown=percent),
        Row(work="b", ours=120.4, target=AtMost(110), shown=megabytes),
    ]
    text = table([("x", row) for row in rows])
    assert [[cell.strip() for cell in line.split("|")[2:-1]] for line in text.splitlines()[2:]] == [
        ["a", "97.4 %", "peer", "81 %", "1.20", "≥ 97 %", "yes"],
        ["b", "120 MB", "", "", "", "≤ 110 MB", "NO"],
    ]


def test_a_table_says_which_target_is_missed() -> None:
    text = table([("quick", Row(work="a", ours=1e-6, target=AtMost(2e-6))), ("slow", Row(work="b", ours=1.0))])
    assert [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]] == [
        ["quick", "a", "1 µs", "", "", "", "≤ 2 µs", "yes"],
        ["slow", "b", "1 s", "", "", "", "", ""],
    ]
    assert table([("slow", Row(work="b", ours=3e-6, target=AtMost(2e-6)))]).endswith("| NO  |")


def test_the_page_gets_the_new_table_in_the_place_of_the_old() -> None:
    page = "a\n<!-- table -->\nold\n<!-- end -->\nb\n"
    assert with_table(page, "new") == "a\n<!-- table -->\n\nnew\n\n<!-- end -->\nb\n"
    assert with_table(with_table(page, "other"), "new") == with_table(page, "new")


def test_a_table_says_what_it_was_measured_on() -> None:
    text = measured(["tool_trajectory"], QUICK)
    assert "rapidfuzz" in text
    assert "CPython" in text or "PyPy" in text


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run_evalution"])
    assert "no benchmark named 'run_evalution'; known: run_evaluation" in capsys.readouterr().err
