"""Named criteria and the scales they are judged on."""

from dataclasses import dataclass
from typing import TypeAlias

EvaluationScale: TypeAlias = str
"""One of NAMED_SCALES, or the name of a custom one; ordered labels stand in `EvaluationCriteria.labels`."""

NAMED_SCALES: tuple[EvaluationScale, ...] = ("binary", "pass/fail", "likert5", "numeric", "percent")


@dataclass(frozen=True, slots=True)
class EvaluationCriteria:
    """What is judged: a unique name, an explanation for people, a scale, and a weight inside one evaluator.

    `weight` is finite and >= 0. `min` and `max` bound `numeric`; `labels` are ordered from worst to best.
    """

    name: str
    description: str = ""
    scale: EvaluationScale = "binary"
    weight: float = 1.0
    min: float | None = None
    max: float | None = None
    labels: tuple[str, ...] = ()
