"""Types of gate expressions in files, which are parsed on reading, so that a bad one is refused before the run."""

from functools import partial
from typing import Annotated, Literal, TypeAlias

from agentv.loading.models.file_model import Checked
from agentv.scoring.gates.gates import METRICS, STREAM_METRICS, GateError, Metrics, parse_gate


def _check(expression: str, metrics: Metrics = METRICS) -> str:
    try:
        parse_gate(expression, metrics)
    except GateError as error:
        raise ValueError(error.line) from None
    return expression


Gates: TypeAlias = list[Annotated[str, Checked(_check)]]
"""Gate expressions that a run must satisfy."""

StreamGates: TypeAlias = Literal["none"] | list[Annotated[str, Checked(partial(_check, metrics=STREAM_METRICS))]]
"""Gate expressions that a stream of given answers must satisfy; "none": no gate, not even the default one."""
