"""Rules that count or compare: `numeric` and `length`."""

import re
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from math import isfinite
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from agentv.evaluators.rules.base import Check, Finding, RuleEvaluator, quoted
from agentv.types.cases import EvaluatorConfig
from agentv.types.protocols import EvaluatorTools

Unit: TypeAlias = Literal["characters", "words", "tokens"]

# Digits with all commas between them; whether these separate thousands is decided later. A pattern that decides it
# backtracks at every comma, and takes minutes on a megabyte of them.
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+(?:,\d+)*(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,4})?", re.ASCII)
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?![\d,])", re.ASCII)
_WIDE = Context(Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Arithmetic for numbers of any size; an answer may contain one with a million digits."""
_TOKEN = re.compile(r"\w+|[^\w\s]")


def check_range(least: int | None, most: int | None, what: str, names: tuple[str, str] = ("min", "max")) -> None:
    """Raise ValueError for bounds of `what` that are missing or that nothing can meet; `names` are the settings'."""
    low, high = names
    if least is None and most is None:
        raise ValueError(f"`{what}` needs `{low}`, `{high}` or both")
    for name, bound in ((low, least), (high, most)):
        if bound is not None and bound < 0:
            raise ValueError(f"`{name}` must be at least 0")
    if least is not None and most is not None and least > most:
        raise ValueError(f"`{low}` {least} is larger than `{high}` {most}")


class NumericSettings(Struct, frozen=True):
    """Settings of `numeric`."""

    value: Annotated[
        float | tuple[float, ...], Meta(description="the expected number, or a list of which one must match")
    ]
    tolerance: Annotated[float, Meta(description="the allowed absolute difference")] = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError for bounds that no number can meet."""
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        if not values or not all(map(isfinite, values)):
            raise ValueError("`value` must be a finite number, or a list of them")
        if not (isfinite(self.tolerance) and self.tolerance >= 0):
            raise ValueError("`tolerance` must be a finite number of at least 0")


class LengthSettings(Struct, frozen=True):
    """Settings of `length`."""

    min: Annotated[int | None, Meta(description="the minimum number of units")] = None
    max: Annotated[int | None, Meta(description="the maximum number of units")] = None
    unit: Annotated[
        Unit, Meta(description="`characters` (code points), `words`, or `tokens` (words and punctuation marks)")
    ] = "characters"

    def __post_init__(self) -> None:
        """Raise ValueError for a range without bounds or that no text can meet."""
        check_range(self.min, self.max, "length")


def make_numeric(config: EvaluatorConfig, settings: NumericSettings, _tools: EvaluatorTools) -> RuleEvaluator:
    """Return a `numeric` evaluator."""
    return RuleEvaluator("numeric", numeric_check(settings), source=config.source)


def make_length(config: EvaluatorConfig, settings: LengthSettings, _tools: EvaluatorTools) -> RuleEvaluator:
    """Return a `length` evaluator."""
    return RuleEvaluator("length", length_check(settings), source=config.source)


def numeric_check(settings: NumericSettings) -> Check:
    """Return a check of the last number in a text, in decimal arithmetic; commas may separate thousands."""
    values = settings.value if isinstance(settings.value, tuple) else (settings.value,)
    expected_values = [Decimal(repr(value)) for value in values]
    tolerance = Decimal(repr(settings.tolerance))
    expected = " or ".join(f"{value:.15g}" for value in values)
    if settings.tolerance:
        expected += f" ± {settings.tolerance:.15g}"

    def check(text: str) -> Finding:
        number = last_number(text)
        if number is None:
            return Finding(passed=False, misses=(f"expected {expected}, found no number in {quoted(text)}",))
        if any(_WIDE.subtract(number, each).copy_abs() <= tolerance for each in expected_values):
            return Finding(passed=True, hits=(f"is {_shown(number)}",))
        return Finding(passed=False, misses=(f"expected {expected}, got {_shown(number)}",))

    return check


def last_number(text: str) -> Decimal | None:
    """Return the last number in a text, or None. `1,234.5`, `-3` and `1e3` are numbers, `v2` contains none.

    Commas separate thousands only if three digits follow each: `1,2,3` ends with 3.
    """
    last = None
    for last in _NUMBER.finditer(text.replace("\N{MINUS SIGN}", "-")):  # noqa: B007 - only the last match is used
        pass
    if last is None:
        return None
    written = last[0]
    return Decimal(written.replace(",", "") if _THOUSANDS.match(written) else written.rpartition(",")[2])


def _shown(number: Decimal) -> str:
    text = str(number)
    return text if len(text) <= 40 else f"{number:.10g}"  # noqa: PLR2004 - a line, not a page, of digits


def length_check(settings: LengthSettings) -> Check:
    """Return a check of a text's length."""

    def check(text: str) -> Finding:
        count = count_units(text, settings.unit)
        got = f"{count} {settings.unit if count != 1 else settings.unit.removesuffix('s')}"
        if settings.min is not None and count < settings.min:
            return Finding(passed=False, misses=(f"expected at least {settings.min} {settings.unit}, got {count}",))
        if settings.max is not None and count > settings.max:
            return Finding(passed=False, misses=(f"expected at most {settings.max} {settings.unit}, got {count}",))
        return Finding(passed=True, hits=(f"has {got}",))

    return check


def count_units(text: str, unit: Unit) -> int:
    """Return the number of characters, words or tokens in a text."""
    match unit:
        case "characters":
            return len(text)
        case "words":
            return len(text.split())
        case "tokens":
            return sum(1 for _ in _TOKEN.finditer(text))
