"""Gates: thresholds of a run, as small expressions (scoring.gates.syntax) on its metrics."""

import math
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from agentv.scoring.gates.metrics import COMPARE_METRICS, DURATIONS, METRICS, STREAM_METRICS, Metric, Metrics, range_of
from agentv.scoring.gates.syntax import GateError, Part, WrittenGate, read_gate
from agentv.types.errors import nearest
from agentv.types.results import GateResult
from agentv.types.summaries import Interval

COST = "cost_usd"
_SHOWN = 5
_LONGEST = 60
_WHY_UNMEASURED = {
    "regressions": "no case was judged in both runs",
    "improvements": "no case was judged in both runs",
    "p50": "nothing was timed",
    "p95": "nothing was timed",
    "p99": "nothing was timed",
}
_CASES_FOR = {"p50": 6, "p95": 72, "p99": 368}
"""The number of cases that an interval of order statistics needs (docs/explanation/numbers.md)."""


def why_unmeasured(name: str, argument: str | None, names: Collection[str], *, left_out: int = 0) -> str:
    """Return why nothing was measured. `names` are those that the metric can take, `left_out` as in Measurements."""
    if name == COST:
        return f"{left_out:,} {'result has' if left_out == 1 else 'results have'} no known cost"
    if name in ("pass_at", "pass_hat"):
        return f"no case has {argument} judged trials"
    if argument is None or name in _WHY_UNMEASURED:
        return _WHY_UNMEASURED.get(name, "nothing was judged")
    if argument in names:
        return f"nothing was judged for {name} {argument!r}"
    near = nearest(argument, names)
    if near is not None:
        return f"there is no {name} {argument!r}; did you mean {near!r}?"
    # A criterion's name may come from a model and have any length.
    known = [each if len(each) <= _LONGEST else f"{each[:_LONGEST]}…" for each in sorted(names)[:_SHOWN]]
    more = ", …" if len(names) > _SHOWN else ""
    return f"there is no {name} {argument!r}; known: {', '.join(known) or 'none'}{more}"


def why_no_interval(name: str) -> str:
    """Return why a measured value has no interval."""
    return f"it takes {_CASES_FOR.get(name, 2)} cases or more"


_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_ROUNDING = 1e-9
"""The tolerance for rounding in sums of scores, and for a score of 1.0."""
_DIGITS = (4, 6, 9)


class Measurements(Protocol):
    """The measurements of a run for gates; None means that nothing could be measured."""

    def measure(self, name: str, argument: str | None, field: str | None) -> float | None:
        """Return the value of a metric."""

    def interval(self, name: str, argument: str | None, field: str | None) -> Interval | None:
        """Return the 95 % interval of what `measure` returns."""

    def names(self, kind: str) -> Collection[str]:
        """Return the names of this kind that were seen in rows."""

    def left_out(self, kind: str, name: str) -> int:
        """Return the number of results under that name with an error, which enter no metric; of COST, without one."""

    def is_estimated(self, name: str) -> bool:
        """Return True if the metric of that name is a sum with estimated parts."""


class Gate(Struct, frozen=True):
    """One parsed gate. `bound` of a share is 0..1; `has_level` (`with 95%`) compares the interval's bound.

    `argument_column` is the column in the expression where the argument begins, from 1.
    """

    expression: str
    name: str
    argument: str | None
    field: str | None
    operator: str
    bound: float
    metric: Metric
    has_level: bool = False
    argument_column: int = 1

    @property
    def is_rate(self) -> bool:
        """True if the metric is a share, shown in percent."""
        return self.metric.unit_of(self.field) == "share"

    def check(self, measured: Measurements) -> GateResult:
        """Compare the metric with the bound; a metric with nothing to measure never passes."""
        metric = self.name, self.argument, self.field
        value = measured.measure(*metric)
        if value is None:
            names = measured.names(self.name) if self.metric.takes == "name" else ()
            why = why_unmeasured(self.name, self.argument, names, left_out=measured.left_out(self.name, ""))
            return self._failed(f"{self._what} could not be measured ({why}), so it is not {self._wanted}")
        left_out = measured.left_out(self.name, self.argument or "") if self.metric.takes == "name" else 0
        notes = [f"{left_out:,} {'error' if left_out == 1 else 'errors'} left out"] if left_out else []
        if measured.is_estimated(self.name):
            notes.append("partly estimated")
        if not self.has_level:
            notes = ["point estimate", *notes] if self.is_rate and self.metric.has_interval else notes
            return self._compared(value, f"{self._what} is {self._shown(value)}{_in_brackets(notes)}")
        interval = measured.interval(*metric)
        point = f"{self._what} is {self._shown(value)}{_in_brackets(notes)}"
        if interval is None:
            why = why_no_interval(self.name)
            return self._failed(f"{point}, but its 95 % interval is not known ({why}), so it is not {self._wanted}")
        is_least = self.operator in (">=", ">")
        bound = interval.low if is_least else interval.high
        end = f"the {'low' if is_least else 'high'} end of its 95 % interval is {self._shown(bound)}"
        return self._compared(bound, f"{point} and {end}")

    def wrong_argument(self, what: str) -> GateError:
        """Return an error that points at the argument in brackets."""
        return GateError(self.expression, self.argument_column, what)

    def _compared(self, value: float, subject: str) -> GateResult:
        near = math.isclose(value, self.bound, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
        passed = _OPERATORS[self.operator](self.bound if near else value, self.bound)
        sentence = f"{subject}, {'as' if passed else 'not'} {self.operator} {self._shown(self.bound)}"
        return GateResult(expression=self.expression, passed=passed, value=value, sentence=sentence)

    def _failed(self, sentence: str) -> GateResult:
        return GateResult(expression=self.expression, passed=False, value=None, sentence=sentence)

    @property
    def _what(self) -> str:
        argument = "" if self.argument is None else f"({self.argument})"
        return f"{self.name}{argument}{'' if self.field is None else f'.{self.field}'}"

    @property
    def _wanted(self) -> str:
        return f"{self.operator} {self._shown(self.bound)}{' with 95%' if self.has_level else ''}"

    def _shown(self, value: float) -> str:
        """Return a value with as many digits as are needed to distinguish it from the bound."""
        shown = [self._in_unit(value, digits) for digits in _DIGITS]
        if value == self.bound:
            return shown[0]
        bounds = [self._in_unit(self.bound, digits) for digits in _DIGITS]
        return next((each for each, bound in zip(shown, bounds, strict=True) if each != bound), shown[0])

    def _in_unit(self, value: float, digits: int) -> str:
        return f"{value * 100:.{digits}g} %" if self.is_rate else f"{value:.{digits}g}"


def _in_brackets(notes: Sequence[str]) -> str:
    return f" ({', '.join(notes)})" if notes else ""


def parse_gate(expression: str, metrics: Metrics = METRICS) -> Gate:
    """Parse one gate on these metrics. Raises GateError that points at the first unusable part."""
    if expression.strip() == "none":
        raise GateError(expression, 1, "'none' is not a gate; `agentv run --gate none`, by itself, turns gates off")
    written = read_gate(expression)
    metric = _metric(expression, written.name, metrics)
    _check_form(expression, written, metric)
    argument, field = written.argument, written.field
    return Gate(
        expression=expression.strip(),
        name=written.name.text,
        argument=None if argument is None else argument.text,
        field=None if field is None else field.text,
        operator=written.operator.text,
        bound=_bound(expression, written, metric),
        metric=metric,
        has_level=_has_level(expression, written, metric),
        argument_column=1 if argument is None else argument.column,
    )


def _metric(expression: str, name: Part, metrics: Metrics) -> Metric:
    found = metrics.get(name.text)
    if found is not None:
        return found
    near = nearest(name.text, metrics)
    hint = f" Did you mean {near!r}?" if near else ""
    is_elsewhere = any(name.text in door for door in (METRICS, STREAM_METRICS, COMPARE_METRICS))
    what = f"{name.text!r} cannot be measured here" if is_elsewhere else f"unknown metric {name.text!r}"
    raise GateError(expression, name.column, f"{what}; known: {', '.join(metrics)}.{hint}")


def _check_form(expression: str, written: WrittenGate, metric: Metric) -> None:
    """Raise GateError for brackets or fields that a metric does not have, or for required ones that are missing."""
    name, argument, field = written.name.text, written.argument, written.field
    ways = " or ".join(metric.forms(name))
    if metric.takes == "nothing":
        wrong = argument or field
        if wrong is not None:
            raise GateError(expression, wrong.column, f"{name} takes no argument and has no fields; write {ways}")
        return
    if argument is None or not _is_argument(argument.text, metric):
        raise GateError(expression, (argument or written.name).column, f"write {ways}")
    if metric.fields and field is None:
        raise GateError(expression, written.operator.column, f"write {ways}")
    if field is not None and field.text not in metric.fields:
        raise GateError(expression, field.column, f"write {ways}")


def _is_argument(text: str, metric: Metric) -> bool:
    match metric.takes:
        case "duration":
            return text in DURATIONS
        case "trials":
            return text.isascii() and text.isdigit() and int(text) > 0
        case _:
            return bool(text)


def _bound(expression: str, written: WrittenGate, metric: Metric) -> float:
    number = written.number
    unit = metric.unit_of(None if written.field is None else written.field.text)
    ends = range_of(unit)
    if ends is None:
        if written.is_percent:
            raise GateError(expression, number.column, f"{written.name.text} is not a share; write a number without %")
        return float(number.text)
    bound = float(number.text) / 100 if written.is_percent else float(number.text)
    low, high = ends
    if not low <= bound <= high:
        percent = "" if written.is_percent else f"; write {number.text}% for percent"
        called = {"share": "a rate", "score": "a score"}.get(unit, "a difference")
        raise GateError(expression, number.column, f"{called} must be between {low} and {high}{percent}")
    return bound


def _has_level(expression: str, written: WrittenGate, metric: Metric) -> bool:
    level, operator_ = written.level, written.operator
    if level is None:
        return False
    if not metric.has_interval:
        raise GateError(expression, level.column, f"{written.name.text} has no interval; leave out 'with 95%'")
    if operator_.text in ("==", "!="):
        raise GateError(expression, operator_.column, "with 95% an interval must lie on one side: >= > <= or <")
    return True
