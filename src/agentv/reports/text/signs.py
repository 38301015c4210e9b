"""The symbols of reports, in Unicode and in ASCII."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from agentv.types.results import RowState


class Signs(Struct, frozen=True):
    """A set of symbols. `bars` rise from left to right; `box` is a frame's corners and edges, left first."""

    marks: Mapping[RowState, str]
    bars: str
    full: str
    head: str
    box: tuple[str, str, str, str, str]
    rule: str
    times: str
    dot: str
    ellipsis: str
    gutter: str
    is_ascii: bool = False

    def escape_unsupported(self, text: str) -> str:
        """Return `text`; if these signs are ASCII, with other characters escaped."""
        return text.encode("ascii", "backslashreplace").decode() if self.is_ascii else text


UNICODE = Signs(
    marks={"pass": "✓", "borderline": "~", "fail": "✗", "error": "!", "skipped": "-"},
    bars="▁▂▃▄▅▆▇█",
    full="━",
    head="╸",
    box=("╭", "╮", "│", "╰", "╯"),
    rule="─",
    times="×",  # noqa: RUF001 - the sign of multiplication is meant
    dot="·",
    ellipsis="…",
    gutter="│",
)
ASCII = Signs(
    marks={"pass": "+", "borderline": "~", "fail": "x", "error": "!", "skipped": "-"},
    bars=".:-=+*%#",
    full="=",
    head=">",
    box=("+", "+", "|", "+", "+"),
    rule="-",
    times="x",
    dot="|",
    ellipsis="...",
    gutter="|",
    is_ascii=True,
)


def signs_for(encoding: str | None) -> Signs:
    """Return the Unicode signs if the encoding can represent them, else the ASCII ones."""
    try:
        "".join((*UNICODE.marks.values(), *UNICODE.box, UNICODE.bars)).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


GAP = "·"
_ASCII_GAP = "_"


def sparkline(values: Sequence[float | None], signs: Signs) -> str:
    """Return a bar for each value, scaled from the lowest to the highest; None is shown as a gap."""
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    gap = _ASCII_GAP if signs.is_ascii else GAP
    return "".join(gap if value is None else _bar(value, low, high, signs.bars) for value in values)


def _bar(value: float, low: float, high: float, bars: str) -> str:
    if high - low <= abs(high) * 1e-9:
        return bars[len(bars) // 2]
    return bars[round((value - low) / (high - low) * (len(bars) - 1))]
