"""The measures of a comparison as table cells, for terminal and Markdown."""

from agentv.reports.text.amounts import money_text, percent_text, score_text, seconds_text, tokens_text
from agentv.scoring.comparison.compare import Comparison
from agentv.scoring.comparison.measured import MeasureDifference
from agentv.scoring.comparison.rows import COST, LATENCY, PASSED, SCORE, TOKENS, evaluator_of

HEAD = ("", "before", "after", "difference", "95 % CI", "p", "cases")

_LEAST_P = 0.0001
_NAMES = {SCORE: "mean score", PASSED: "pass rate", COST: "cost per case", LATENCY: "latency", TOKENS: "tokens"}


def measure_name(measured: MeasureDifference) -> str:
    """Return the display name of a measure."""
    return evaluator_of(measured.measure) or _NAMES[measured.measure]


def measure_cells(comparison: Comparison) -> list[list[str]]:
    """Return one row per measure, in the order of `HEAD`; the first cell may contain untrusted text."""
    first = [each for each in (comparison.score, comparison.passed) if each is not None]
    return [_cells(each) for each in (*first, *comparison.evaluators, *comparison.spending)]


def _cells(measured: MeasureDifference) -> list[str]:
    found = measured.interval
    bounds = "-"
    if found is not None:
        bounds = f"{_signed(measured, found.low).removesuffix(' pp')} to {_signed(measured, found.high)}"
    return [
        measure_name(measured),
        _value(measured, measured.before),
        _value(measured, measured.after),
        _signed(measured, measured.difference),
        bounds,
        p_value_text(measured.p),
        cases_text(measured),
    ]


def cases_text(measured: MeasureDifference) -> str:
    """Return the number of pairs, `12`, or those of independent samples, `12 / 15`."""
    if measured.independent is None:
        return f"{measured.cases:,}"
    return " / ".join(f"{size:,}" for size in measured.sizes)


def _value(measured: MeasureDifference, value: float) -> str:
    match measured.measure:
        case "pass":
            return percent_text(value)
        case "cost_usd":
            return money_text(value)
        case "latency_s":
            return seconds_text(value)
        case "tokens":
            return tokens_text(round(value))
        case _:
            return score_text(value)


def _signed(measured: MeasureDifference, value: float) -> str:
    match measured.measure:
        case "pass":
            return f"{difference_text(100 * value, decimals=1)} pp"
        case "cost_usd" | "latency_s" | "tokens":
            shown = _value(measured, abs(value))
            is_zero = shown == _value(measured, 0.0)  # at the displayed precision
            return shown if is_zero else f"{'+' if value > 0 else '-'}{shown}"
        case _:
            return difference_text(value)


def difference_text(difference: float, *, decimals: int = 2) -> str:
    """Return `+0.12`, `-0.03`; `0.00` only for no difference, never for a small one."""
    if abs(difference) < 10**-9:
        return f"{0:.{decimals}f}"
    return f"{difference:+.{decimals}f}" if abs(difference) >= 10**-decimals / 2 else f"{difference:+.1g}"


def p_value_text(p: float | None) -> str:
    """Return a p value: `0.023`, `<0.0001`; `-` for None."""
    if p is None:
        return "-"
    return f"<{_LEAST_P}" if p < _LEAST_P else f"{p:.2g}"
