import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.rows import make_row

from agentv.scoring.counting.summary import Summary
from agentv.scoring.gates.gates import METRICS, NOT_WORSE, OPERATORS, GateError, parse_gate
from agentv.types.errors import ConfigError
from agentv.types.evaluation import EvaluationResult


def measured(*scores: float) -> Summary:
    summary = Summary()
    for number, score in enumerate(scores):
        tags = ("refund",) if number == 0 else ()
        row = make_row(f"c{number}", score=score, tags=tags, cost_usd=0.25)
        polite = EvaluationResult("polite", None, 1.0 if number == 0 else 0.5)
        judged = tuple(replace(each, results=(polite,)) for each in row.evaluator_results)
        summary.add(replace(row, evaluator_results=judged, duration_ms=1000.0 * (number + 1)))
    return summary


@pytest.mark.parametrize(
    ("expression", "passed", "sentence"),
    [
        ("pass_rate >= 50%", True, "pass_rate is 50 % (point estimate), as required (>= 50 %)"),
        ("pass_rate >= 0.9", False, "pass_rate is 50 % (point estimate), not >= 90 %"),
        ("mean>=0.5", True, "mean is 0.5, as required (>= 0.5)"),
        ("mean < 0.5", False, "mean is 0.5, not < 0.5"),
        ("errors <= 0", True, "errors is 0, as required (<= 0)"),
        (
            "tag(refund).pass_rate == 100%",
            True,
            "tag(refund).pass_rate is 100 % (point estimate), as required (== 100 %)",
        ),
        ("target(t).mean >= 0.6", False, "target(t).mean is 0.5, not >= 0.6"),
        ("evaluator(tone).mean > 0.4", True, "evaluator(tone).mean is 0.5, as required (> 0.4)"),
        ("p95(duration_s) <= 1", False, "p95(duration_s) is 1.95, not <= 1"),
        ("p50(duration_ms) <= 1500", True, "p50(duration_ms) is 1500, as required (<= 1500)"),
        ("cost_usd <= 5", True, "cost_usd is 0.5, as required (<= 5)"),
        ("criterion(polite).mean >= 0.7", True, "criterion(polite).mean is 0.75, as required (>= 0.7)"),
        ("dataset(s).mean >= 0.6", False, "dataset(s).mean is 0.5, not >= 0.6"),
        ('tag("refund").mean >= 100%', True, "tag(refund).mean is 1, as required (>= 1)"),
        ("pass_at(1) >= 40%", True, "pass_at(1) is 50 % (point estimate), as required (>= 40 %)"),
        ("pass_hat ( 1 )>=0.8", False, "pass_hat(1) is 50 % (point estimate), not >= 80 %"),
        ("error_rate < 1%", True, "error_rate is 0 %, as required (< 1 %)"),
    ],
)
def test_a_gate_says_what_it_measured_and_what_it_wanted(expression: str, passed: bool, sentence: str) -> None:
    result = parse_gate(expression).check(measured(1.0, 0.0))
    assert (result.passed, result.sentence) == (passed, sentence)


@pytest.mark.parametrize("expression", ["tag(unknown).mean >= 0", "evaluator(unknown).mean >= 0", "mean >= 0"])
def test_a_gate_with_nothing_to_measure_never_passes(expression: str) -> None:
    result = parse_gate(expression).check(Summary())
    assert not result.passed
    assert "could not be measured" in result.sentence


def test_a_gate_on_an_unknown_cost_never_passes() -> None:
    summary = measured(1.0)
    summary.add(make_row("cli"))
    result = parse_gate("cost_usd <= 5").check(summary)
    assert (result.passed, result.sentence) == (
        False,
        "cost_usd could not be measured (1 result has no known cost), so 'cost_usd <= 5' is undecided",
    )


@pytest.mark.parametrize(
    ("expression", "passed", "sentence"),
    [
        (
            "pass_rate >= 5%",
            True,
            "pass_rate is 50 % and the low end of its 95 % interval is 9.453 %, as required (>= 5 %)",
        ),
        ("pass_rate >= 50%", False, "pass_rate is 50 % and the low end of its 95 % interval is 9.453 %, not >= 50 %"),
        ("pass_rate < 50%", False, "pass_rate is 50 % and the high end of its 95 % interval is 90.55 %, not < 50 %"),
        ("mean >= 0.5", False, "mean is 0.5 and the low end of its 95 % interval is 0.09453, not >= 0.5"),
        ("tag(refund).mean > 0.5", False, "so 'tag(refund).mean > 0.5 with 95%' is undecided"),
        ("p95(duration_s) <= 9", False, "is 1.95, but its 95 % interval is not known (it needs 72 cases or more)"),
    ],
)
def test_with_95_percent_the_unfavourable_end_of_the_interval_must_hold(
    expression: str, passed: bool, sentence: str
) -> None:
    result = parse_gate(f"{expression} with 95%").check(measured(1.0, 0.0))
    assert result.passed is passed
    assert sentence in result.sentence
    assert (result.value is None) is ("not known" in result.sentence)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("tag(refnd).mean >= 0", "there is no tag 'refnd'; did you mean 'refund'?"),
        ("evaluator(x).mean >= 0", "there is no evaluator 'x'; known: tone"),
        ("target(x).mean >= 0", "there is no target 'x'; known: t"),
        ("criterion(x).mean >= 0", "nothing scored the criterion 'x'; scored: polite"),
        ("dataset(x).mean >= 0", "there is no dataset 'x'; known: s"),
        ("pass_hat(2) >= 0", "no case has 2 judged trials"),
    ],
)
def test_a_gate_that_nothing_was_measured_for_says_why(expression: str, why: str) -> None:
    result = parse_gate(expression).check(measured(1.0, 0.0))
    assert (result.passed, result.value) == (False, None)
    assert f"({why})" in result.sentence


def test_errors_of_a_weightless_judge_are_reported_by_its_gate() -> None:
    summary = measured(1.0, 0.0)
    row = make_row("c", score=1.0)
    broken = tuple(replace(each, status="error", weight=0.0) for each in row.evaluator_results)
    summary.add(replace(row, evaluator_results=broken))
    sentences = [
        parse_gate(gate).check(summary).sentence
        for gate in (
            "evaluator(tone).mean >= 0.5",
            "evaluator(tone).pass_rate >= 5% with 95%",
            "target(t).pass_rate > 0",
        )
    ]
    assert sentences == [
        "evaluator(tone).mean is 0.5 (1 error left out), as required (>= 0.5)",
        (
            "evaluator(tone).pass_rate is 50 % (1 error left out) and the low end of its 95 % interval is "
            "9.453 %, as required (>= 5 %)"
        ),
        "target(t).pass_rate is 66.67 % (point estimate), as required (> 0 %)",
    ]


@given(st.lists(st.integers(0, 10), min_size=1))
def test_a_mean_that_is_the_bound_but_for_rounding_holds(tenths: list[int]) -> None:
    bound = Fraction(sum(tenths), 10 * len(tenths))
    result = parse_gate(f"mean >= {float(bound):.17f}").check(measured(*(each / 10 for each in tenths)))
    assert result.passed, result.sentence


def test_a_value_near_its_bound_is_shown_with_enough_digits() -> None:
    sentences = [parse_gate("mean >= 0.9").check(measured(value)).sentence for value in (0.89999, 0.8, 0.9, 1 / 3)]
    assert [each.split(",")[0] for each in sentences] == [
        "mean is 0.89999",
        "mean is 0.8",
        "mean is 0.9",
        "mean is 0.3333",
    ]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("pass_rat >= 90%", "Did you mean 'pass_rate'?"),
        ("PASS_RATE >= 90%", "Did you mean 'pass_rate'?"),
        ("none", "column 1: 'none' is not a gate; `agentv run --gate none`, without another --gate, turns gates off"),
        ("pass_rate => 90%", "column 11: expected one of >= <= == != > <; found '=>'. Did you mean '>='?"),
        ("pass_rate >= 90", "write 90% for percent"),
        ("evaluator.mean >= 0.5", "write evaluator(NAME).mean"),
        ("tag(x).median >= 0.5", "write tag(NAME).mean"),
        ("p95(latency) <= 3", "write p95(duration_s)"),
        ("mean(x) >= 0.5", "takes no argument"),
        ("mean >= many", "column 9"),
        ("", "column 1"),
        ("mean >= 0.8 with", "column 17: expected 95%, the only level of intervals; found the end"),
        ("mean >= 0.8 with 90%", "column 18: expected 95%"),
        ("errors <= 5 with 95%", "column 18: errors has no interval"),
        ("mean == 0.8 with 95%", "column 6: 'with 95%' needs one of the operators"),
        ("errors <= 5%", "column 11: errors is not a share"),
        ("mean >= 80", "column 9: a score must be between 0 and 1; write 80% for percent"),
        ("mean >= 180%", "column 9: a score must be between 0 and 1"),
        ("pass_hat(0) >= 0.8", "column 10: write pass_hat(K)"),
        ("pass_at >= 0.8", "write pass_at(K)"),
        ("mean >= 0.8 or errors <= 1", "column 13: expected the end, or 'with 95%'; found 'or'"),
        ("mean >= 0.8 with 95% x", "column 22: expected the end; found 'x'"),
        (
            "tag(a(b)).mean >= 0.5",
            "column 6: expected the closing bracket; a name that contains brackets must be in double",
        ),
        ("evaluator(tone.mean >= 0.5", "expected the closing bracket"),
        ("Mean >= 0.5", "Did you mean 'mean'?"),
    ],
)
def test_an_invalid_gate_is_rejected_with_its_column_and_a_hint(expression: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_gate(expression)
    assert message in str(caught.value)


def test_the_place_is_pointed_at() -> None:
    with pytest.raises(GateError) as caught:
        parse_gate("tag(x).median >= 0.5")
    assert str(caught.value).splitlines() == [
        "gate 'tag(x).median >= 0.5', column 8: write tag(NAME).mean or tag(NAME).pass_rate",
        "    tag(x).median >= 0.5",
        "           ^",
    ]


def wrong_column(expression: str) -> int | None:
    try:
        parse_gate(expression)
    except GateError as error:
        return error.column
    return None


def test_nothing_unprintable_reaches_the_screen() -> None:
    with pytest.raises(GateError) as caught:
        parse_gate("mean\x1b[31m >= 0.5")
    assert str(caught.value).replace("\n", "").isprintable()


@given(st.text())
def test_whatever_is_written_is_read_or_refused_with_a_place_in_it(expression: str) -> None:
    column = wrong_column(expression)
    assert column is None or 1 <= column <= len(expression) + 1


@given(
    st.sampled_from([form for name, metric in METRICS.items() if name != NOT_WORSE for form in metric.forms(name)]),
    st.sampled_from(OPERATORS),
    st.integers(0, 100),
)
def test_space_between_the_parts_means_nothing(form: str, operator: str, percent: int) -> None:
    form = form.replace("(K)", "(2)")
    spaced = re.sub(r"([().])", r" \1 ", form)
    tight, loose = (
        parse_gate(f"{metric}{sep}{operator}{sep}{percent / 100}") for metric, sep in [(form, ""), (spaced, " ")]
    )
    assert replace(tight, expression="", argument_column=1) == replace(loose, expression="", argument_column=1)


@given(
    st.lists(st.sampled_from([0.0, 0.3, 0.7, 0.8, 1.0]), min_size=1, max_size=30),
    st.sampled_from(["mean", "pass_rate", "evaluator(tone).mean", "target(t).pass_rate", "pass_hat(1)"]),
    st.sampled_from([">=", ">", "<=", "<"]),
    st.integers(0, 100),
)
def test_what_holds_with_95_percent_holds_without(
    scores: list[float], metric: str, operator: str, percent: int
) -> None:
    summary, gate = measured(*scores), f"{metric} {operator} {percent}%"
    assert parse_gate(gate).check(summary).passed or not parse_gate(f"{gate} with 95%").check(summary).passed


@pytest.mark.parametrize(
    ("expression", "column", "wanted"),
    [
        ("not bad", 5, "expected 'worse', as in 'not worse'; found 'bad'"),
        ("not", 4, "found the end"),
        ("not worse >= 1", 11, "'not worse' has no operator and no number"),
    ],
)
def test_not_worse_has_no_operator(expression: str, column: int, wanted: str) -> None:
    assert parse_gate(" not  worse ").expression == NOT_WORSE
    with pytest.raises(GateError, match=re.escape(wanted)) as refused:
        parse_gate(expression)
    assert refused.value.column == column
