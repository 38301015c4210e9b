"""Time spans on the command line: `90s`, `45m`, `12h`, `7d`."""

import re

import click

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?) *([smhdw])")


class Span(click.ParamType[float]):
    """A click parameter type for time spans; its value is in seconds."""

    name = "span"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return a time span in seconds. Fails for 0 and for anything that is not a span."""
        if isinstance(value, float):
            return value
        found = _SPAN.fullmatch(str(value).strip().lower())
        seconds = float(found[1]) * _UNITS_S[found[2]] if found else 0.0
        if seconds <= 0:
            self.fail(f"{value!r} is not a time span; write a number with s, m, h, d or w: 45m, 12h, 7d", param, ctx)
        return seconds
