"""Named criteria and the scales they are judged on."""

import math
from collections.abc import Iterable, Iterator
from typing import Annotated, Self, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from agentv.types.bounds import Name, Weight
from agentv.types.errors import nearest
from agentv.types.json_value import JsonValue
from agentv.types.readers import read_criterion

EvaluationScale: TypeAlias = str
"""One of NAMED_SCALES, or the name of a custom one; ordered labels are in `EvaluationCriteria.labels`."""

NAMED_SCALES: tuple[EvaluationScale, ...] = ("binary", "pass/fail", "likert5", "numeric", "percent")

LABELS: EvaluationScale = "labels"
"""The scale of a criterion whose ordered labels were given instead of a scale's name."""

MIN_LABELS = 2
_Labels: TypeAlias = Annotated[tuple[Name, ...], Meta(min_length=MIN_LABELS)]


class EvaluationCriteria(Struct, frozen=True):
    """A criterion: what is judged, and the scale on which it is judged."""

    name: Annotated[Name, Meta(extra={"aliases": ("criterion_name",)})]
    """Unique among the criteria of a case or an answer."""
    description: str = ""
    scale: Annotated[EvaluationScale, Meta(extra={"written": Name | _Labels})] = "binary"
    """The name of a scale; a list that is given as the scale becomes `labels`."""
    weight: Weight = 1.0
    """The weight inside one evaluator, finite and at least 0."""
    min: float | None = None
    """The lower bound of the scale `numeric`; None is 0."""
    max: float | None = None
    """The upper bound of the scale `numeric`; None is 1."""
    labels: tuple[Name, ...] = ()
    """The labels of a scale of one's own, ordered from worst to best."""

    def __post_init__(self) -> None:
        """Accept labels as a list, also as the scale, or as another iterable."""
        scale: object = self.scale
        labels: object = self.labels
        if isinstance(scale, list | tuple):
            force_setattr(self, "scale", LABELS)
            force_setattr(self, "labels", tuple(scale))
        elif isinstance(labels, Iterable) and not isinstance(labels, str):
            force_setattr(self, "labels", tuple(labels))

    @classmethod
    def from_dict(cls, raw: object) -> Self:
        """Read a criterion from JSON, keys in snake_case or camelCase. Raises EvalFileError with every problem."""
        criterion: Self = read_criterion(raw, where=cls.__name__)
        return criterion

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the criterion as JSON; labels that were given as the scale are written as a list in `scale`."""
        known: dict[str, JsonValue] = {
            "name": self.name,
            "description": self.description,
            "scale": list(self.labels) if self.scale == LABELS else self.scale,
            "weight": self.weight,
            "min": self.min,
            "max": self.max,
            "labels": list(self.labels) if self.labels and self.scale != LABELS else None,
        }
        return {key: value for key, value in known.items() if value is not None}

    def faults(self) -> Iterator[str]:
        """Yield the problems that make the criterion unusable, each a sentence that begins with the field."""
        type_faults = tuple(self._type_faults())
        if type_faults:
            yield from type_faults
            return
        if not self.name.strip():
            yield "`name` must not be empty"
        if not self.scale.strip():
            yield "`scale` must not be empty"
        if not all(map(str.strip, self.labels)):
            yield f"`{_labels_field(self.scale)}` must not have an empty label"
        if not (math.isfinite(self.weight) and self.weight >= 0):
            yield f"`weight` must be a finite number of at least 0, not {self.weight:g}"
        near = None if self.scale in NAMED_SCALES or self.labels else nearest(self.scale, NAMED_SCALES)
        if near is not None:
            yield f"`scale` {self.scale!r} is unknown; did you mean {near!r}? A scale of your own may list `labels`"
        are_distinct = len(set(map(str.casefold, self.labels))) == len(self.labels)
        needs_labels = bool(self.labels) or self.scale == LABELS
        if needs_labels and (len(self.labels) < MIN_LABELS or not are_distinct):
            yield f"`{_labels_field(self.scale)}` must list at least two labels, all different, from worst to best"
        low, high = 0.0 if self.min is None else self.min, 1.0 if self.max is None else self.max
        if (self.min is not None or self.max is not None) and not -math.inf < low < high < math.inf:
            yield f"`min` must be less than `max`; {low:g} to {high:g} is not a range"

    def _type_faults(self) -> Iterator[str]:
        for name in ("name", "description", "scale"):
            if not isinstance(getattr(self, name), str):
                yield f"`{name}` must be a string, not {getattr(self, name)!r}"
        for name in ("weight", "min", "max"):
            value = getattr(self, name)
            is_absent = value is None and name != "weight"
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_absent and not is_number:
                yield f"`{name}` must be a number, not {value!r}"
        if not all(isinstance(label, str) for label in self.labels):
            yield f"`{_labels_field(self.scale)}` must list labels that are strings"


def _labels_field(scale: EvaluationScale) -> str:
    """Return the name of the field in which the labels were given."""
    return "scale" if scale == LABELS else "labels"
