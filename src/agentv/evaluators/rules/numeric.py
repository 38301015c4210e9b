"""`numeric`: a number in a text, compared with the expected one in decimal arithmetic."""

import re
from collections.abc import Iterable
from decimal import Decimal
from math import isfinite
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from agentv.evaluators.rules.base import Check, Finding, RuleEvaluator, quoted
from agentv.scoring.text.numbers import UNLIMITED, NoNumber, Number, numbers_in
from agentv.types.cases import EvaluatorConfig
from agentv.types.protocols import EvaluatorTools

Pick: TypeAlias = Literal["first", "last", "only"]

_SHOWN_CHARS = 40
_SHOWN_NUMBERS = 5


class NumericSettings(Struct, frozen=True):
    """Settings of `numeric`."""

    value: Annotated[
        float | tuple[float, ...],
        Meta(
            description="the expected number, or a list of them; one must match",
            extra={"instead": dict.fromkeys(("expected", "number", "values", "answer"), "write `value`")},
        ),
    ]
    tolerance: Annotated[
        float,
        Meta(
            description="the allowed absolute difference",
            extra={"instead": dict.fromkeys(("epsilon", "abs_tol", "abs_tolerance"), "write `tolerance`")},
        ),
    ] = 0.0
    pick: Annotated[
        Pick,
        Meta(
            description="the number that counts if there are several; `only`: all must be the same",
            extra={"instead": dict.fromkeys(("which", "take", "location"), "write `pick: first`, `last` or `only`")},
        ),
    ] = "last"
    percent: Annotated[bool, Meta(description="read `60%` as 0.6 instead of 60")] = False

    def __post_init__(self) -> None:
        """Raise ValueError for a value or tolerance that is not finite, or a negative tolerance."""
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        if not values or not all(map(isfinite, values)):
            raise ValueError("`value` must be a finite number, or a list of them")
        if not (isfinite(self.tolerance) and self.tolerance >= 0):
            raise ValueError("`tolerance` must be a finite number of at least 0")


def make_numeric(config: EvaluatorConfig, settings: NumericSettings, _tools: EvaluatorTools) -> RuleEvaluator:
    """Return a `numeric` evaluator."""
    return RuleEvaluator("numeric", numeric_check(settings), source=config.source)


def numeric_check(settings: NumericSettings) -> Check:
    """Return a check of one number in a text, in decimal arithmetic."""
    values = settings.value if isinstance(settings.value, tuple) else (settings.value,)
    expected_values = [Decimal(repr(value)) for value in values]
    tolerance = Decimal(repr(settings.tolerance))
    expected = " or ".join(f"{value:.15g}" for value in values)
    if settings.tolerance:
        expected += f" ± {settings.tolerance:.15g}"

    def is_expected(number: Decimal) -> bool:
        return any(UNLIMITED.subtract(number, each).copy_abs() <= tolerance for each in expected_values)

    def check(text: str) -> Finding:
        found = NumbersFound.of(numbers_in(text, percent=settings.percent), compare=settings.pick == "only")
        if not found.shown:
            return _failed(f"expected {expected}, found no number in {quoted(text)}{found.others_line()}")
        number = found.shown[0] if settings.pick == "first" else found.shown[-1]
        among = "" if found.count == 1 else f", {_PLACES[settings.pick]} {found.line()}"
        if found.differ:
            return _failed(f"expected {expected} as the only number, found {found.line()}")
        if is_expected(number.value):
            return Finding(passed=True, hits=(f"is {_written(number)}{among}",))
        picks = {"first": found.shown[0], "last": found.shown[-1]}
        near = next((name for name, each in picks.items() if is_expected(each.value)), None)
        verb = "got" if found.count == 1 else "took"
        hint = f"; pick: {near} takes {_shown(picks[near].value)}" if near else found.others_line()
        return _failed(f"expected {expected}, {verb} {_written(number)}{among}{hint}")

    return check


_PLACES = {"first": "the first of", "last": "the last of", "only": "the value of each of"}


def _failed(miss: str) -> Finding:
    return Finding(passed=False, misses=(miss,))


class NumbersFound(Struct, frozen=True):
    """The numbers of a text, of which only a few are held in memory: the first ones, and the last."""

    shown: tuple[Number, ...]
    count: int
    others: tuple[str, ...]
    """The first dates, times and versions, as written."""
    differ: bool
    """True if not all numbers are the same; found only on request."""

    @classmethod
    def of(cls, found: Iterable[Number | NoNumber], *, compare: bool = False) -> "NumbersFound":
        """Count the numbers of a text and, with `compare`, find out if they differ."""
        shown: list[Number] = []
        others: list[str] = []
        last: Number | None = None
        count, differ = 0, False
        for each in found:
            if isinstance(each, NoNumber):
                others.append(each.written)
                continue
            if compare and last is not None:
                differ = differ or each.value != last.value
            count += 1
            last = each
            if count <= _SHOWN_NUMBERS:
                shown.append(each)
        if last is not None and count > _SHOWN_NUMBERS:
            shown[-1] = last
        return cls(tuple(shown), count, tuple(others[:_SHOWN_NUMBERS]), differ)

    def line(self) -> str:
        """Return the number of numbers, and the numbers: `3 numbers: 12, 3, 36`."""
        listed = [_shown(each.value) for each in self.shown]
        if self.count > len(listed):
            listed.insert(-1, "…")
        return f"{self.count:,} numbers: {', '.join(listed)}"

    def others_line(self) -> str:
        """Return a clause on what was not read as numbers; "" if there is nothing."""
        if not self.others:
            return ""
        return f"; not read as numbers: {', '.join(each[:_SHOWN_CHARS] for each in self.others)}"


def _shown(number: Decimal) -> str:
    text = str(number)
    return text if len(text) <= _SHOWN_CHARS else f"{number:.10g}"


def _written(number: Number) -> str:
    """Return a number, with how it is written unless that is plain: `1.5 (written 1½)`."""
    shown = _shown(number.value)
    is_plain = _PLAIN.fullmatch(number.written) is not None
    return shown if is_plain else f"{shown} (written {number.written[:_SHOWN_CHARS]})"


_PLAIN = re.compile(r"[-+\d.,eE]+", re.ASCII)
