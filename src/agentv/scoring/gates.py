"""Gates: what a run must reach, as small expressions. Parsing says where an expression is wrong.

gate   = metric operator number ["%"]
metric = name [ "(" argument ")" ] [ "." name ]
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentv.types.errors import ConfigError, nearest
from agentv.types.results import GateResult

OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
RATES = ("pass_rate", "error_rate")
GROUP_FIELDS = ("mean", "pass_rate")
METRICS = (
    *("mean", "pass_rate", "error_rate", "errors", "cost_usd", "evaluator", "tag", "target", "p50", "p95", "p99"),
    "regressions",
)
STREAM_METRICS = ("mean", "pass_rate", "error_rate", "errors", "cost_usd", "criterion", "p50", "p95", "p99")
"""What can be asked of a stream of given answers, which come from nobody's target and have no tags."""
COMPARE_METRICS = (
    *("regressions", "improvements"),
    *("mean", "pass_rate", "mean_difference", "pass_rate_difference", "evaluator"),
)
"""What can be asked of two runs side by side: what changed, and how the later one is."""
DURATIONS = ("duration_s", "duration_ms")

_GATE = re.compile(
    r"""\s*(?P<name>[a-z_][a-z_0-9]*)\s*
        (?:\(\s*(?P<argument>[^()]*?)\s*\))?\s*
        (?:\.\s*(?P<field>[a-z_]+))?\s*
        (?P<operator>>=|<=|==|!=|>|<)\s*
        (?P<number>-?\d+(?:\.\d+)?)\s*(?P<percent>%)?\s*""",
    re.VERBOSE,
)


class Measurements(Protocol):
    """What gates can ask about a run; None means that nothing could be measured."""

    def measure(self, name: str, argument: str | None, field: str | None) -> float | None:
        """Return the value of a metric."""


@dataclass(frozen=True, slots=True)
class Gate:
    """One parsed gate. `bound` of a rate is 0..1."""

    expression: str
    name: str
    argument: str | None
    field: str | None
    operator: str
    bound: float

    @property
    def is_rate(self) -> bool:
        """Whether the metric is a share, shown in percent."""
        return (self.field or self.name) in RATES

    def check(self, measured: Measurements) -> GateResult:
        """Compare; a metric with nothing to measure never passes."""
        value = measured.measure(self.name, self.argument, self.field)
        passed = value is not None and OPERATORS[self.operator](value, self.bound)
        metric = self.expression.split(self.operator, maxsplit=1)[0].strip()
        wanted = f"{self.operator} {self._shown(self.bound)}"
        if value is None:
            sentence = f"{metric} could not be measured, so it is not {wanted}"
        else:
            sentence = f"{metric} is {self._shown(value)}, {'as' if passed else 'not'} {wanted}"
        return GateResult(expression=self.expression, passed=passed, value=value, sentence=sentence)

    def _shown(self, value: float) -> str:
        return f"{value * 100:.4g} %" if self.is_rate else f"{value:.4g}"


def parse_gate(expression: str, metrics: Sequence[str] = METRICS) -> Gate:
    """Parse one gate on these metrics. Raises ConfigError that points at the first character it cannot use."""
    match = _GATE.fullmatch(expression)
    if match is None:
        raise _unreadable(expression)
    name, argument, field = match["name"], match["argument"], match["field"]
    if name not in metrics:
        raise _unknown(expression, name, metrics)
    fields = (*GROUP_FIELDS, "difference") if metrics is COMPARE_METRICS else GROUP_FIELDS
    _check_metric(expression, name, argument, field, fields)
    gate = Gate(expression.strip(), name, argument, field, match["operator"], float(match["number"]))
    if match["percent"]:
        gate = Gate(gate.expression, name, argument, field, gate.operator, gate.bound / 100)
    if gate.is_rate and not 0 <= gate.bound <= 1:
        raise ConfigError(f"gate {expression!r}: a rate lies between 0 and 1; write {gate.bound:g}% for percent")
    return gate


def _unreadable(expression: str) -> ConfigError:
    read = max((_prefix_length(expression, size) for size in range(len(expression) + 1)), default=0)
    pointer = " " * read + "^"
    example = "for instance 'pass_rate >= 90%', 'mean >= 0.8' or 'evaluator(tone).mean >= 0.7'"
    return ConfigError(
        f"cannot read the gate at column {read + 1}; write METRIC OPERATOR NUMBER, {example}\n"
        f"    {expression}\n    {pointer}"
    )


def _prefix_length(expression: str, size: int) -> int:
    """Return `size` when that much of the expression could begin a gate."""
    probes = ("", " >= 1", ">= 1", "= 1", " 1", "1", "x >= 1", ") >= 1", "x) >= 1", "mean >= 1")
    return size if any(_GATE.fullmatch(expression[:size] + probe) for probe in probes) else 0


def _unknown(expression: str, name: str, metrics: Sequence[str]) -> ConfigError:
    near = nearest(name, metrics)
    hint = f" Did you mean {near!r}?" if near else ""
    what = (
        f"{name!r} cannot be measured here"
        if name in (*METRICS, *STREAM_METRICS, *COMPARE_METRICS)
        else f"unknown metric {name!r}"
    )
    return ConfigError(f"gate {expression!r}: {what}; known: {', '.join(metrics)}.{hint}")


def _check_metric(expression: str, name: str, argument: str | None, field: str | None, fields: Sequence[str]) -> None:
    if name in ("evaluator", "tag", "target", "criterion"):
        if not argument or field not in fields:
            ways = " or ".join(f"{name}(NAME).{each}" for each in fields)
            raise ConfigError(f"gate {expression!r}: write {ways}")
    elif name in ("p50", "p95", "p99"):
        if argument not in DURATIONS or field:
            raise ConfigError(f"gate {expression!r}: write {name}(duration_s) or {name}(duration_ms)")
    elif argument is not None or field is not None:
        raise ConfigError(f"gate {expression!r}: {name} takes no argument and has no fields")
