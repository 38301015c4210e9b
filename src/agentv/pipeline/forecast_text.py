"""A forecast as people and programs read it."""

from agentv.reports.amounts import clock_text, count_text, money_text, seconds_text, tokens_text
from agentv.scoring.forecast import Forecast, Part
from agentv.types.json_value import JsonObject, JsonValue

_SHORT_S = 60


def forecast_lines(forecast: Forecast, *, budget_usd: float | None = None) -> list[str]:
    """Return the lines that a dry run prints: what is to be expected, and what it is drawn from."""
    lines: list[str] = []
    if forecast.measured_rows:
        lines.append(f"to be expected: {_expected(forecast)}")
        basis = f"{count_text(forecast.measured_rows, 'row')} of {count_text(len(forecast.runs), 'stored run')}"
        lines.append(f"  drawn from {basis}, the latest {forecast.runs[-1]}")
        lines += [f"  settings of target {name!r} were others then" for name in forecast.changed]
    lines += [f"  unknown: {_named(part)}, of which no stored run has an answer" for part in forecast.unknown]
    if not forecast.measured_rows:
        lines = ["to be expected: unknown, no stored run of this is there; --sample 5 makes one to draw from"]
    if budget_usd is not None and forecast.cost_usd is not None and forecast.cost_usd > budget_usd:
        lines.append(f"  more than the budget of ${budget_usd:g}: the run will probably stop before its end")
    return lines


def forecast_to_json(forecast: Forecast) -> JsonObject:
    """Return a forecast as JSON; what is not known is null."""
    parts: list[JsonValue] = [
        {
            "suite": part.suite,
            "target": part.target,
            "rows": part.rows,
            "measured_rows": part.measured.rows if part.measured else 0,
            "cost_usd": part.share(part.measured.cost_usd if part.measured else None),
            "tokens": part.share(part.measured.tokens if part.measured else None),
        }
        for part in forecast.parts
    ]
    return {
        "basis": "history" if forecast.measured_rows else "unknown",
        "runs": list(forecast.runs),
        "judge_calls": forecast.judge_calls,
        "tokens": forecast.tokens,
        "cost_usd": forecast.cost_usd,
        "duration_s": forecast.seconds,
        "changed_targets": list(forecast.changed),
        "parts": parts,
    }


def _expected(forecast: Forecast) -> str:
    calls, tokens, seconds = forecast.judge_calls, forecast.tokens, forecast.seconds
    told = [
        "cost unknown" if forecast.cost_usd is None else f"about {money_text(forecast.cost_usd)}",
        "tokens unknown" if tokens is None else f"{tokens_text(round(tokens))} tokens",
        f"{count_text(round(calls), 'call')} of judges" if calls else "",
        "time unknown" if seconds is None else f"{_time_text(seconds)} at the present number of workers",
    ]
    return ", ".join(filter(None, told))


def _time_text(seconds: float) -> str:
    return seconds_text(seconds) if seconds < _SHORT_S else clock_text(seconds)


def _named(part: Part) -> str:
    return f"{part.suite} against {part.target}"
