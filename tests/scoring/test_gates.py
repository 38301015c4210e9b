import pytest
from tests.rows import make_row

from agentv.scoring.gates import parse_gate
from agentv.scoring.summary import Summary
from agentv.types.errors import ConfigError


def measured(*scores: float) -> Summary:
    summary = Summary()
    for number, score in enumerate(scores):
        tags = ("refund",) if number == 0 else ()
        summary.add(make_row(f"c{number}", score=score, tags=tags, cost_usd=0.25), latency_s=number + 1)
    return summary


@pytest.mark.parametrize(
    ("expression", "passed", "sentence"),
    [
        ("pass_rate >= 50%", True, "pass_rate is 50 %, as >= 50 %"),
        ("pass_rate >= 0.9", False, "pass_rate is 50 %, not >= 90 %"),
        ("mean>=0.5", True, "mean is 0.5, as >= 0.5"),
        ("mean < 0.5", False, "mean is 0.5, not < 0.5"),
        ("errors <= 0", True, "errors is 0, as <= 0"),
        ("tag(refund).pass_rate == 100%", True, "tag(refund).pass_rate is 100 %, as == 100 %"),
        ("target(t).mean >= 0.6", False, "target(t).mean is 0.5, not >= 0.6"),
        ("evaluator(tone).mean > 0.4", True, "evaluator(tone).mean is 0.5, as > 0.4"),
        ("p95(duration_s) <= 1", False, "p95(duration_s) is 1.95, not <= 1"),
        ("p50(duration_ms) <= 1500", True, "p50(duration_ms) is 1500, as <= 1500"),
        ("cost_usd <= 5", True, "cost_usd is 0.5, as <= 5"),
    ],
)
def test_a_gate_says_what_it_measured_and_what_it_wanted(expression: str, passed: bool, sentence: str) -> None:
    result = parse_gate(expression).check(measured(1.0, 0.0))
    assert (result.passed, result.sentence) == (passed, sentence)


@pytest.mark.parametrize("expression", ["tag(unknown).mean >= 0", "evaluator(nobody).mean >= 0", "mean >= 0"])
def test_a_gate_with_nothing_to_measure_never_passes(expression: str) -> None:
    result = parse_gate(expression).check(Summary())
    assert not result.passed
    assert "could not be measured" in result.sentence


def test_a_gate_on_a_cost_that_nobody_knows_never_passes() -> None:
    summary = measured(1.0)
    summary.add(make_row("cli"))
    result = parse_gate("cost_usd <= 5").check(summary)
    assert (result.passed, result.sentence) == (False, "cost_usd could not be measured, so it is not <= 5")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("pass_rat >= 90%", "Did you mean 'pass_rate'?"),
        ("pass_rate => 90%", "column 12"),
        ("pass_rate >= 90", "write 90% for percent"),
        ("evaluator.mean >= 0.5", "write evaluator(NAME).mean"),
        ("tag(x).median >= 0.5", "write tag(NAME).mean"),
        ("p95(latency) <= 3", "write p95(duration_s)"),
        ("mean(x) >= 0.5", "takes no argument"),
        ("mean >= many", "column 9"),
        ("", "column 1"),
    ],
)
def test_a_gate_that_cannot_be_read_is_refused_with_the_place_and_the_way_out(expression: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_gate(expression)
    assert message in str(caught.value)
