"""Gates on a run that is compared with a baseline."""

import random
from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.support.rows import make_row

from agentv.scoring.comparison.compare import compare_sides
from agentv.scoring.comparison.gated import ComparedPairs, ComparedRun
from agentv.scoring.comparison.sides import Side, scored_row
from agentv.scoring.counting.summary import Summary
from agentv.scoring.gates.gates import COMPARE_METRICS, METRICS, Metrics, parse_gate
from agentv.scoring.gates.run_verdict import Ending, ScopedGate, run_verdict
from agentv.types.errors import ConfigError
from agentv.types.records.result import CaseResult


def side_of(rows: Sequence[CaseResult]) -> Side:
    side = Side("run")
    for row in rows:
        side.add(scored_row(row))
    return side


def compared_run(before: Sequence[CaseResult], after: Sequence[CaseResult], suites: Sequence[str] = ()) -> ComparedRun:
    summary = Summary(suites)
    for row in after:
        summary.add(row)
    return ComparedRun(summary, compare_sides(side_of(before), side_of(after), rng=random.Random(0)))


GOOD, BAD = make_row("a"), make_row("a", score=0.0)


@pytest.mark.parametrize(("after", "code"), [(GOOD, 0), (BAD, 1)])
def test_one_function_gives_the_verdict_with_regressions_too(after: CaseResult, code: int) -> None:
    gates = [ScopedGate(parse_gate("regressions <= 0"))]
    assert run_verdict(compared_run([GOOD], [after]), Ending("finished"), gates=gates).exit_code == code


def test_a_suites_own_gate_counts_the_regressions_of_its_rows_alone() -> None:
    run = compared_run([GOOD], [BAD], suites=("evals/s.yaml", "evals/other.yaml"))
    gate = parse_gate("regressions <= 0")
    assert gate.check(run.of_suite("evals/s.yaml")).value == 1
    nothing = gate.check(run.of_suite("evals/other.yaml"))
    assert (nothing.passed, nothing.value) == (False, None)


def test_a_gate_without_a_common_case_is_undecided() -> None:
    checked = parse_gate("regressions <= 0").check(compared_run([make_row("b")], [GOOD]))
    assert (checked.state, checked.sentence) == (
        "undecided",
        "regressions could not be measured (there are no pairs of judged cases), so 'regressions <= 0' is undecided",
    )


def test_other_metrics_are_those_of_the_run_itself() -> None:
    assert compared_run([GOOD], [BAD]).measure("mean", None, None) == 0.0


@pytest.mark.parametrize(
    ("gate", "value"),
    [
        ("regressions <= 0", 1.0),
        ("improvements >= 1", 0.0),
        ("mean_difference >= 0", -0.5),
        ("pass_rate_difference >= -10%", -0.5),
        ("mean >= 0.5", 0.5),
        ("pass_rate >= 50%", 0.5),
        ("evaluator(tone).difference >= 0", -0.5),
        ("evaluator(tone).mean >= 0", 0.5),
        ("evaluator(other).mean >= 0", None),
    ],
)
def test_what_gates_can_ask_of_two_runs(gate: str, value: float | None) -> None:
    rows = [GOOD, make_row("b")], [BAD, make_row("b")]
    comparison = compare_sides(*map(side_of, rows), rng=random.Random(0))
    assert parse_gate(gate, COMPARE_METRICS).check(ComparedPairs(comparison)).value == value


@pytest.mark.parametrize(("gate", "metrics"), [("mean_difference >= 0", None), ("tag(x).mean >= 0", COMPARE_METRICS)])
def test_what_cannot_be_measured_there_is_refused(gate: str, metrics: Metrics | None) -> None:
    with pytest.raises(ConfigError, match="cannot be measured here"):
        parse_gate(gate) if metrics is None else parse_gate(gate, metrics)


@pytest.mark.parametrize(
    ("gate", "sentence"),
    [
        (
            "mean_difference >= 0",
            "mean_difference is 0.75 and the low end of its 95 % interval is 0.468, as required (>= 0)",
        ),
        ("pass_rate_difference <= 20%", "pass_rate_difference is 0.75 and the high end"),
        ("evaluator(tone).difference > 0.9", "not > 0.9"),
        ("mean >= 0.5", "mean is 0.75 and the low end of its 95 % interval is 0.5313, as required (>= 0.5)"),
        ("pass_rate >= 70%", "pass_rate is 75 % and the low end of its 95 % interval is 53.13 %, not >= 70 %"),
    ],
)
def test_with_95_percent_the_interval_over_cases_decides(gate: str, sentence: str) -> None:
    before = [make_row(f"c{number}", score=0.0) for number in range(20)]
    after = [make_row(f"c{number}", score=0.0 if number < 5 else 1.0) for number in range(20)]
    comparison = compare_sides(side_of(before), side_of(after), rng=random.Random(0))
    checked = parse_gate(f"{gate} with 95%", COMPARE_METRICS).check(ComparedPairs(comparison))
    assert sentence in checked.sentence


def test_an_unknown_evaluator_in_a_gate_gets_a_suggestion() -> None:
    comparison = compare_sides(side_of([GOOD]), side_of([BAD]), rng=random.Random(0))
    checked = parse_gate("evaluator(tome).difference >= 0", COMPARE_METRICS).check(ComparedPairs(comparison))
    assert (checked.passed, "there is no evaluator 'tome'; did you mean 'tone'?" in checked.sentence) == (False, True)


@pytest.mark.parametrize("metric", ["mean", "pass_rate", "evaluator(tone).mean"])
def test_the_interval_of_the_later_run_is_that_of_the_run_by_itself(metric: str) -> None:
    rows = [
        make_row(f"c{number}", target=target, score=float(number % 4 > 0 and (number % 3 > 0 or target == "b")))
        for number in range(24)
        for target in ("a", "b")
    ]
    alone = Summary()
    for row in rows:
        alone.add(row)
    checked = [
        parse_gate(f"{metric} >= 0.5 with 95%", metrics).check(measured)
        for metrics, measured in (
            (METRICS, alone),
            (COMPARE_METRICS, ComparedPairs(compare_sides(side_of(rows), side_of(rows), rng=random.Random(0)))),
        )
    ]
    assert checked[0].sentence == checked[1].sentence


def test_a_run_beside_a_baseline_has_the_intervals_and_names_of_its_own() -> None:
    run = compared_run([GOOD], [BAD, make_row("b")], suites=("evals/s.yaml",))
    for measured in (run, run.of_suite("evals/s.yaml")):
        assert measured.interval("mean", None, None) == run.counted.interval("mean", None, None) is not None
        assert list(measured.names("target")) == ["t"]


def passes(target: str, failing: int, cases: int = 40) -> list[CaseResult]:
    return [make_row(f"c{number}", score=float(number >= failing), target=target) for number in range(cases)]


def not_worse(before: Sequence[CaseResult], after: Sequence[CaseResult]) -> tuple[str, str]:
    checked = parse_gate("not worse").check(compared_run(before, after))
    return checked.state, checked.sentence


def test_of_several_targets_each_is_tested_with_a_corrected_p() -> None:
    """Four cases that fell have a p of 0.046, which Holm's method doubles for two targets; of six, 0.029."""
    before = [*passes("small", 0), *passes("large", 0)]
    assert not_worse(before, [*passes("small", 4), *passes("large", 0)])[0] == "passed"
    state, sentence = not_worse(before, [*passes("small", 6), *passes("large", 0)])
    assert state == "failed"
    assert sentence.startswith("target small: 6 cases fell, none rose: worse; target large: no case changed: no sig")


def test_a_gate_on_a_suite_compares_its_cases_only() -> None:
    def in_suite(rows: list[CaseResult], suite: str) -> list[CaseResult]:
        return [replace(row, slot=replace(row.slot, suite=suite)) for row in rows]

    before = [*in_suite(passes("t", 0), "s"), *in_suite(passes("t", 0), "other")]
    after = [*in_suite(passes("t", 5), "s"), *in_suite(passes("t", 0), "other")]
    run = compared_run(before, after, ["s", "other"])
    gate = parse_gate("not worse")
    assert [gate.check(run.of_suite(suite)).state for suite in ("s", "other")] == ["failed", "passed"]


def test_a_run_that_is_better_is_not_worse() -> None:
    assert not_worse(passes("t", 8), passes("t", 0)) == (
        "passed",
        "8 cases rose, none fell: better, as required (not worse)",
    )
    assert not_worse(passes("t", 8), [make_row("elsewhere")])[0] == "undecided"
