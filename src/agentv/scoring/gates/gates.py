"""Gates: thresholds of a run, as small expressions on its metrics. docs/reference/gates.md lists the metrics.

    gate     = metric operator number ["%"] ["with 95%"] | "not worse"
    metric   = name ["(" argument ")"] ["." name]
    argument = '"' characters other than quotes '"' | characters other than brackets

Errors of syntax point at the column and say what is allowed there.
"""

import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from agentv.types.errors import ConfigError, nearest
from agentv.types.results import GateResult
from agentv.types.summaries import Interval

Unit: TypeAlias = Literal["share", "score", "difference", "number"]
"""`share`: 0..1, shown in percent; `score`: 0..1; `difference`: -1..1; `number`: a count, cost or duration."""

ArgumentKind: TypeAlias = Literal["nothing", "name", "duration", "trials"]
"""The kind of argument that a metric takes in brackets."""

DURATIONS = ("duration_s", "duration_ms")
_UNIT_OF_FIELD: Mapping[str, Unit] = {"mean": "score", "pass_rate": "share", "difference": "difference"}
_RANGES: Mapping[Unit, tuple[float, float]] = {"share": (0, 1), "score": (0, 1), "difference": (-1, 1)}


class Metric(Struct, frozen=True):
    """A metric of gates."""

    unit: Unit = "number"
    """Not used if there are fields, which have their own units."""
    takes: ArgumentKind = "nothing"
    """The kind of its argument."""
    fields: tuple[str, ...] = ()
    """Names such as `mean`; only a metric that takes a name has fields."""
    has_interval: bool = False
    """True if `with 95%` is allowed."""

    def unit_of(self, field: str | None) -> Unit:
        """Return the unit of a field of the metric; of the metric itself if `field` is None."""
        return self.unit if field is None else _UNIT_OF_FIELD[field]

    def forms(self, name: str) -> tuple[str, ...]:
        """Return the forms in which the metric can be written under this name."""
        match self.takes:
            case "name":
                return tuple(f"{name}(NAME).{field}" for field in self.fields)
            case "duration":
                return tuple(f"{name}({each})" for each in DURATIONS)
            case "trials":
                return (f"{name}(K)",)
            case "nothing":
                return (name,)


def range_of(unit: Unit) -> tuple[float, float] | None:
    """Return the lowest and highest value of a unit, None for an unbounded unit."""
    return _RANGES.get(unit)


Metrics: TypeAlias = Mapping[str, Metric]
"""The metrics of a command, by name."""

_MEAN = Metric("score", has_interval=True)
_SHARE = Metric("share", has_interval=True)
_GROUP = Metric(takes="name", fields=("mean", "pass_rate"), has_interval=True)
_PERCENTILE = Metric(takes="duration", has_interval=True)
_TRIALS = Metric("share", takes="trials", has_interval=True)
_NUMBER = Metric()

_COMMON_METRICS: Metrics = {
    "mean": _MEAN,
    "pass_rate": _SHARE,
    "error_rate": Metric("share"),
    "errors": _NUMBER,
    "cost_usd": _NUMBER,
}
METRICS: Metrics = {
    **_COMMON_METRICS,
    **dict.fromkeys(("evaluator", "criterion", "tag", "dataset", "target", "prompt"), _GROUP),
    **dict.fromkeys(("p50", "p95", "p99"), _PERCENTILE),
    **dict.fromkeys(("pass_at", "pass_hat"), _TRIALS),
    "not worse": _NUMBER,
    "regressions": _NUMBER,
    "confirmed_regressions": _NUMBER,
}
"""Metrics of a run; those of BASELINE_METRICS only with a baseline."""

NOT_WORSE = "not worse"
"""The gate without an operator: it fails if the mean score is significantly lower than before."""

CONFIRMED = "confirmed_regressions"
BASELINE_METRICS = frozenset({NOT_WORSE, "regressions", CONFIRMED})
"""The metrics of a run that compare it with a baseline."""

STREAM_METRICS: Metrics = {
    **_COMMON_METRICS,
    "criterion": _GROUP,
    **dict.fromkeys(("p50", "p95", "p99"), Metric(takes="duration")),
}
"""Metrics of a stream of existing answers, for which no target is called."""

COMPARE_METRICS: Metrics = {
    "not worse": _NUMBER,
    "regressions": _NUMBER,
    "improvements": _NUMBER,
    "mean": _MEAN,
    "pass_rate": _SHARE,
    "mean_difference": Metric("difference", has_interval=True),
    "pass_rate_difference": Metric("difference", has_interval=True),
    "evaluator": Metric(takes="name", fields=("mean", "difference"), has_interval=True),
}
"""Metrics of a comparison of two runs: their differences, and the results of the later one."""

TREND_METRICS: Metrics = {
    "mean": _MEAN,
    "pass_rate": _SHARE,
    "cost_usd": _NUMBER,
    **dict.fromkeys(("p50", "p95", "p99"), _PERCENTILE),
    "evaluator": _GROUP,
}
"""Metrics of a trend: those stored for every run."""


# `>=` stands before `>`, because a pattern of alternatives matches the first one that fits.
OPERATORS = (">=", "<=", "==", "!=", ">", "<")
EXAMPLES = "'pass_rate >= 90%', 'mean >= 0.8' or 'not worse'"

_NAME_PATTERN = r"[A-Za-z_][A-Za-z_0-9]*"
_NUMBER_PATTERN = r"-?(?:\d+(?:\.\d*)?|\.\d+)"
_SIMILAR_OPERATORS = {"=>": ">=", "=<": "<=", "=": "==", "≥": ">=", "≤": "<="}
_WORD = re.compile(r"[=<>!≥≤]+|[^\s()=<>!≥≤]+|\S")
_SPACE = re.compile(r"\s*")


class GateError(ConfigError):
    """An unusable gate. `column` counts from 1; `what` says what is wrong there."""

    def __init__(self, expression: str, column: int, what: str) -> None:
        self.expression = expression
        self.column = column
        self.what = what
        shown = "".join(each if each.isprintable() else " " for each in expression)
        super().__init__(f"gate {expression!r}, column {column}: {what}\n    {shown}\n    {' ' * (column - 1)}^")

    @property
    def line(self) -> str:
        """The first line of the message, for callers that show the expression themselves."""
        return str(self).splitlines()[0]


class Part(Struct, frozen=True):
    """A part of an expression and the column where it begins, from 1."""

    text: str
    column: int


class WrittenGate(Struct, frozen=True):
    """The parts of a gate, before its metric is looked up."""

    name: Part
    argument: Part | None
    field: Part | None
    operator: Part
    number: Part
    is_percent: bool
    """True if `%` follows the number."""
    level: Part | None
    """The `95%` after `with`."""


def read_gate(expression: str) -> WrittenGate:
    """Return the parts of an expression. Raises GateError at the first unexpected character."""
    reader = _Reader(expression)
    name = reader.need(_NAME_PATTERN, f"a metric, for instance {EXAMPLES}")
    argument = reader.argument()
    field = reader.need(_NAME_PATTERN, "a field, as in evaluator(tone).mean") if reader.take(r"\.") else None
    operator = reader.need("|".join(OPERATORS), f"one of {' '.join(OPERATORS)}")
    number = reader.need(_NUMBER_PATTERN, "a number, as in 0.8 or 90%")
    is_percent = reader.take("%") is not None
    level = reader.need(r"95\s*%", "95%, the only level of intervals") if reader.take(r"with\b") else None
    reader.end("the end" if level else "the end, or 'with 95%'")
    return WrittenGate(
        name=name, argument=argument, field=field, operator=operator, number=number, is_percent=is_percent, level=level
    )


class _Reader:
    """A scanner that reads an expression from left to right and ignores white space between parts."""

    def __init__(self, expression: str) -> None:
        self._text = expression
        self._position = 0

    def take(self, pattern: str) -> Part | None:
        """Return the match at this position and move past it; None without a match."""
        self._skip_space()
        match = re.compile(pattern).match(self._text, self._position)
        if match is None:
            return None
        self._position = match.end()
        return Part(match[0], match.start() + 1)

    def need(self, pattern: str, wanted: str) -> Part:
        """Return the match at this position and move past it. Raises GateError without a match.

        `wanted` describes what may stand here, for the message.
        """
        found = self.take(pattern)
        if found is None:
            raise self._error_here(wanted)
        return found

    def argument(self) -> Part | None:
        """Return the argument without brackets and quotes; None if no bracket opens here.

        Raises GateError if the bracket is not closed after the argument.
        """
        if self.take(r"\(") is None:
            return None
        quoted = self.take(r'"[^"]*"')
        found = quoted or self.need(r"[^()]*", "a name")
        self.need(r"\)", "the closing bracket; a name that contains brackets must be in double quotes")
        return Part(found.text[1:-1] if quoted else found.text.rstrip(), found.column)

    def end(self, wanted: str) -> None:
        """Raise GateError if any text follows; `wanted` is as for `need`."""
        self._skip_space()
        if self._position < len(self._text):
            raise self._error_here(wanted)

    def _skip_space(self) -> None:
        space = _SPACE.match(self._text, self._position)
        self._position = space.end() if space else self._position

    def _error_here(self, wanted: str) -> GateError:
        self._skip_space()
        word = _WORD.match(self._text, self._position)
        found = repr(word[0]) if word else "the end"
        meant = _SIMILAR_OPERATORS.get(word[0]) if word else None
        hint = f". Did you mean {meant!r}?" if meant else ""
        return GateError(self._text, self._position + 1, f"expected {wanted}; found {found}{hint}")


COST = "cost_usd"
_MAX_NAMES = 5
_MAX_NAME_LENGTH = 60
NO_PAIRS = "there are no pairs of judged cases"
"""Why a gate for change has nothing to measure."""

_WHY_UNMEASURED = {
    NOT_WORSE: NO_PAIRS,
    "regressions": NO_PAIRS,
    CONFIRMED: "suspected cases are called again at the end of a run",
    "improvements": NO_PAIRS,
    "p50": "nothing was timed",
    "p95": "nothing was timed",
    "p99": "nothing was timed",
}
_MIN_CASES = {"p50": 6, "p95": 72, "p99": 368}
"""The number of cases that an interval of order statistics needs (docs/explanation/numbers.md)."""


def why_unmeasured(name: str, argument: str | None, names: Collection[str], *, left_out: int = 0) -> str:
    """Return why a metric has no value, for messages.

    `names` has the names that `argument` may be, such as those of the evaluators in the run. `left_out`, for COST, is
    the number of rows without a cost.
    """
    if name == COST:
        return f"{left_out:,} {'result has' if left_out == 1 else 'results have'} no known cost"
    if name in ("pass_at", "pass_hat"):
        return f"no case has {argument} judged trials"
    if argument is None or name in _WHY_UNMEASURED:
        return _WHY_UNMEASURED.get(name, "nothing was judged")
    if argument in names:
        return f"nothing was judged for {name} {argument!r}"
    near = nearest(argument, names)
    # The eval file may have a criterion that no evaluator scores: `names` has only those that were scored.
    is_criterion = name == "criterion"
    missing = f"nothing scored the criterion {argument!r}" if is_criterion else f"there is no {name} {argument!r}"
    if near is not None:
        return f"{missing}; did you mean {near!r}?"
    # A criterion's name may come from a model and have any length.
    known = [
        each if len(each) <= _MAX_NAME_LENGTH else f"{each[:_MAX_NAME_LENGTH]}…" for each in sorted(names)[:_MAX_NAMES]
    ]
    more = ", …" if len(names) > _MAX_NAMES else ""
    return f"{missing}; {'scored' if is_criterion else 'known'}: {', '.join(known) or 'none'}{more}"


def why_no_interval(name: str) -> str:
    """Return why a measured value has no interval, for messages."""
    return f"it needs {_MIN_CASES.get(name, 2)} cases or more"


_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_ROUNDING = 1e-9
"""A value this close to the bound counts as equal to it, because sums of scores have rounding errors."""
_DIGITS = (4, 6, 9)


class ScoreChange(Struct, frozen=True):
    """The result of comparing the mean score with that of an earlier run."""

    worse: int
    """The number of targets whose mean score is significantly lower."""
    text: str
    """The result in words, as in the report of a comparison."""
    worse_targets: tuple[str, ...] = ()
    """The names of these targets, empty if the run has one target."""


class Measurements(Protocol):
    """The measurements of a run for gates; None means that nothing could be measured."""

    def score_change(self) -> ScoreChange | None:
        """Return what the comparison with an earlier run found; None without one, or without pairs of judged cases."""

    def why_not_compared(self) -> str | None:
        """Return why a gate for change cannot measure all targets and prompts of the run; None if it can."""

    def measure(self, name: str, argument: str | None, field: str | None) -> float | None:
        """Return the value of a metric."""

    def interval(self, name: str, argument: str | None, field: str | None) -> Interval | None:
        """Return the 95 % interval of the value that `measure` returns."""

    def names(self, kind: str) -> Collection[str]:
        """Return the names that occur in the rows for a kind, such as those of evaluators for `evaluator`."""

    def left_out(self, kind: str, name: str) -> int:
        """Return the number of results with an error; `kind` and `name` select an evaluator, a target or a group.

        For COST, return how many rows have no known cost.
        """

    def is_estimated(self, name: str) -> bool:
        """Return True if a metric is a sum with estimated parts."""


class Gate(Struct, frozen=True):
    """A parsed gate."""

    expression: str
    name: str
    argument: str | None
    field: str | None
    operator: str
    bound: float
    """In the unit of the metric: 0..1 for a share."""
    metric: Metric
    uses_interval: bool = False
    """True for a gate `with 95%`, which compares an end of the interval.

    The low end is compared for `>=` and `>`, the high end for `<=` and `<`.
    """
    argument_column: int = 1
    """The column in the expression where the argument begins, from 1."""

    @property
    def is_rate(self) -> bool:
        """True if the metric is a share, shown in percent."""
        return self.metric.unit_of(self.field) == "share"

    def check(self, measured: Measurements) -> GateResult:
        """Compare the metric with the bound. Without a value, or an interval that it needs, the gate is undecided.

        So is a gate for change if a part of the run cannot be compared, unless the rest has more changes than allowed.
        """
        result = self._check(measured)
        why = measured.why_not_compared() if self.name in BASELINE_METRICS else None
        if why is None or (result.state == "failed" and (result.value or 0.0) > self.bound):
            return result
        return self._undecided(f"{self._metric_text} could not be measured ({why})")

    def _check(self, measured: Measurements) -> GateResult:
        if self.name == NOT_WORSE:
            return self._check_change(measured.score_change())
        value = measured.measure(self.name, self.argument, self.field)
        if value is None:
            names = measured.names(self.name) if self.metric.takes == "name" else ()
            why = why_unmeasured(self.name, self.argument, names, left_out=measured.left_out(self.name, ""))
            return self._undecided(f"{self._metric_text} could not be measured ({why})")
        if self.name == CONFIRMED:
            return self._check_confirmed(measured, value)
        notes = []
        if not self.uses_interval and self.is_rate and self.metric.has_interval:
            notes.append("point estimate")
        left_out = measured.left_out(self.name, self.argument or "") if self.metric.takes == "name" else 0
        if left_out:
            notes.append(f"{left_out:,} {'error' if left_out == 1 else 'errors'} left out")
        if measured.is_estimated(self.name):
            notes.append("partly estimated")
        point = f"{self._metric_text} is {self._shown(value)}{_in_brackets(notes)}"
        if not self.uses_interval:
            return self._compared(value, point)
        interval = measured.interval(self.name, self.argument, self.field)
        if interval is None:
            why = why_no_interval(self.name)
            return self._undecided(f"{point}, but its 95 % interval is not known ({why})")
        is_lower_limit = self.operator in (">=", ">")
        end, side = (interval.low, "low") if is_lower_limit else (interval.high, "high")
        return self._compared(end, f"{point} and the {side} end of its 95 % interval is {self._shown(end)}")

    def _check_change(self, change: ScoreChange | None) -> GateResult:
        if change is None:
            return self._undecided(f"{NOT_WORSE} could not be measured ({_WHY_UNMEASURED[NOT_WORSE]})")
        if change.worse:
            return GateResult(
                self.expression, "failed", float(change.worse), f"{change.text}, but {NOT_WORSE!r} is required"
            )
        return GateResult(self.expression, "passed", 0.0, f"{change.text}, as required ({NOT_WORSE})")

    def _check_confirmed(self, measured: Measurements, confirmed: float) -> GateResult:
        """Compare the number of confirmed regressions with the bound; undecided ones may be regressions or not."""
        suspected = measured.measure("suspected_regressions", None, None) or 0.0
        undecided = measured.left_out(CONFIRMED, "")
        cleared = suspected - confirmed - undecided
        cases = measured.measure("confirmed_cases", None, None) or 0.0
        notes = (
            [f"in {cases:,.0f} {'case' if cases == 1 else 'cases'}, counted by prompt and target"]
            if cases < confirmed
            else []
        )
        notes += [
            f"{count:,.0f} of {suspected:,.0f} {what}"
            for count, what in ((cleared, "not confirmed"), (undecided, "undecided"))
            if count
        ]
        point = f"{CONFIRMED} is {confirmed:,.0f}{_in_brackets(notes)}"
        result = self._compared(confirmed, point)
        if result.state == self._compared(confirmed + undecided, point).state:
            return result
        re_runs = "its re-runs have" if undecided == 1 else "their re-runs have"
        return self._undecided(f"{point}: {re_runs} an error (agentv retry --errors) or are missing (agentv resume)")

    def wrong_argument(self, what: str) -> GateError:
        """Return a GateError that points at the argument in brackets; `what` says what is wrong with it."""
        return GateError(self.expression, self.argument_column, what)

    def _compared(self, value: float, subject: str) -> GateResult:
        """Return the result of comparing a value with the bound; `subject` is the clause that states the value."""
        is_equal = math.isclose(value, self.bound, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
        passed = _OPERATORS[self.operator](self.bound if is_equal else value, self.bound)
        condition = f"{self.operator} {self._shown(self.bound)}"
        sentence = f"{subject}, as required ({condition})" if passed else f"{subject}, not {condition}"
        return GateResult(self.expression, "passed" if passed else "failed", value, sentence)

    def _undecided(self, subject: str) -> GateResult:
        """Return the result of a gate that lacks data; `subject` is the clause that says what is missing."""
        sentence = f"{subject}, so {self.expression!r} is undecided"
        return GateResult(self.expression, "undecided", None, sentence)

    @property
    def _metric_text(self) -> str:
        argument = "" if self.argument is None else f"({self.argument})"
        return f"{self.name}{argument}{'' if self.field is None else f'.{self.field}'}"

    def _shown(self, value: float) -> str:
        """Return a value with enough digits (4, 6 or 9) to distinguish it from the bound; with 4 if none are enough."""
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
    """Parse one gate on these metrics. Raises GateError that points at the part that cannot be used."""
    if expression.strip() == "none":
        raise GateError(
            expression, 1, "'none' is not a gate; `agentv run --gate none`, without another --gate, turns gates off"
        )
    if _reads_not(expression):
        return Gate(NOT_WORSE, NOT_WORSE, None, None, "==", 0.0, _metric(expression, Part(NOT_WORSE, 1), metrics))
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
        uses_interval=_uses_interval(expression, written, metric),
        argument_column=1 if argument is None else argument.column,
    )


def _reads_not(expression: str) -> bool:
    """Return True for `not worse`. Raises GateError for any other word after `not`, and for text that follows."""
    reader = _Reader(expression)
    if reader.take(r"not\b") is None:
        return False
    reader.need(r"worse\b", "'worse', as in 'not worse'")
    reader.end("the end; 'not worse' has no operator and no number")
    return True


def _metric(expression: str, name: Part, metrics: Metrics) -> Metric:
    found = metrics.get(name.text)
    if found is not None:
        return found
    near = nearest(name.text, metrics)
    hint = f" Did you mean {near!r}?" if near else ""
    is_elsewhere = any(name.text in others for others in (METRICS, STREAM_METRICS, COMPARE_METRICS))
    what = f"{name.text!r} cannot be measured here" if is_elsewhere else f"unknown metric {name.text!r}"
    raise GateError(expression, name.column, f"{what}; known: {', '.join(metrics)}.{hint}")


def _check_form(expression: str, written: WrittenGate, metric: Metric) -> None:
    """Raise GateError if an argument or field is missing, or is one that the metric does not have."""
    name, argument, field = written.name.text, written.argument, written.field
    forms = " or ".join(metric.forms(name))
    if metric.takes == "nothing":
        superfluous = argument or field
        if superfluous is not None:
            raise GateError(
                expression, superfluous.column, f"{name} takes no argument and has no fields; write {forms}"
            )
        return
    if argument is None or not _is_argument(argument.text, metric):
        raise GateError(expression, (argument or written.name).column, f"write {forms}")
    if metric.fields and field is None:
        raise GateError(expression, written.operator.column, f"write {forms}")
    if field is not None and field.text not in metric.fields:
        raise GateError(expression, field.column, f"write {forms}")


def _is_argument(text: str, metric: Metric) -> bool:
    match metric.takes:
        case "duration":
            return text in DURATIONS
        case "trials":
            return text.isascii() and text.isdigit() and int(text) > 0
        case _:
            return bool(text)


def _bound(expression: str, written: WrittenGate, metric: Metric) -> float:
    """Return the number of a gate, in the unit of its metric. Raises GateError if the metric cannot have this value."""
    number = written.number
    unit = metric.unit_of(None if written.field is None else written.field.text)
    limits = range_of(unit)
    if limits is None:
        if written.is_percent:
            raise GateError(expression, number.column, f"{written.name.text} is not a share; write a number without %")
        return float(number.text)
    bound = float(number.text) / 100 if written.is_percent else float(number.text)
    low, high = limits
    if not low <= bound <= high:
        percent = "" if written.is_percent else f"; write {number.text}% for percent"
        noun = {"share": "a rate", "score": "a score"}.get(unit, "a difference")
        raise GateError(expression, number.column, f"{noun} must be between {low} and {high}{percent}")
    return bound


def _uses_interval(expression: str, written: WrittenGate, metric: Metric) -> bool:
    """Return True for a gate `with 95%`. Raises GateError if its metric or operator does not allow that."""
    level, operator_ = written.level, written.operator
    if level is None:
        return False
    if not metric.has_interval:
        raise GateError(expression, level.column, f"{written.name.text} has no interval; leave out 'with 95%'")
    if operator_.text in ("==", "!="):
        raise GateError(expression, operator_.column, "'with 95%' needs one of the operators >= > <= <")
    return True
