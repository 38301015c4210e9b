"""Gate expressions in files are parsed when they are read, so that a bad one is refused before the first call."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, TypeAlias

from pydantic import AfterValidator

from agentv.scoring.gates import METRICS, STREAM_METRICS, parse_gate
from agentv.types.errors import ConfigError


def _check(expression: str, metrics: Sequence[str] = METRICS) -> str:
    try:
        parse_gate(expression, metrics)
    except ConfigError as error:
        raise ValueError(str(error).splitlines()[0]) from None
    return expression


Gates: TypeAlias = list[Annotated[str, AfterValidator(_check)]]
"""Expressions that a run must hold."""

StreamGates: TypeAlias = list[Annotated[str, AfterValidator(partial(_check, metrics=STREAM_METRICS))]]
"""Expressions that a stream of given answers must hold."""
