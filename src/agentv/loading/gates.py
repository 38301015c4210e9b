"""Gate expressions in files are parsed when they are read, so that a bad one is refused before the first call."""

from typing import Annotated, TypeAlias

from pydantic import AfterValidator

from agentv.scoring.gates import parse_gate
from agentv.types.errors import ConfigError


def _check(expression: str) -> str:
    try:
        parse_gate(expression)
    except ConfigError as error:
        raise ValueError(str(error).splitlines()[0]) from None
    return expression


Gates: TypeAlias = list[Annotated[str, AfterValidator(_check)]]
"""Expressions that a run must hold."""
