"""Which metric a trend is of, as people write it."""

from agentv.scoring.gate_metrics import TREND_METRICS
from agentv.scoring.gate_syntax import GateError
from agentv.scoring.gates import parse_gate
from agentv.scoring.run_sums import MetricKey
from agentv.types.errors import ConfigError, nearest

_ANY_BOUND = " >= 0"


def parse_metric(text: str) -> MetricKey:
    """Return a metric that trends can show, written as in a gate. Raises ConfigError that lists those there are."""
    try:
        gate = parse_gate(text + _ANY_BOUND, TREND_METRICS)
    except GateError as error:
        forms = ", ".join(form for name, metric in TREND_METRICS.items() for form in metric.forms(name))
        near = nearest(text, TREND_METRICS)
        hint = f" Did you mean {near!r}?" if near else ""
        raise ConfigError(f"cannot show {text!r} as a trend; write one of {forms}.{hint}") from error
    return gate.name, gate.argument, gate.field
