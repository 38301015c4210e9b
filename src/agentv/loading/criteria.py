"""Named criteria: lists in eval files, and `.agentv/criteria.yaml` with evaluator profiles."""

from collections.abc import Mapping

from agentv.loading.documents import JsonPath
from agentv.loading.eval_models import CriterionModel
from agentv.loading.reader import Reader
from agentv.types.errors import nearest
from agentv.types.scales import NAMED_SCALES, EvaluationCriteria


def read_criteria(
    reader: Reader, at: JsonPath, named: Mapping[str, EvaluationCriteria]
) -> tuple[EvaluationCriteria, ...]:
    """Return the criteria listed at a path: objects, or names of those in .agentv/criteria.yaml."""
    raw = reader.document.at(at)
    if raw is None:
        return ()
    if not isinstance(raw, list | tuple):
        reader.error(at, "must be a list of criteria", allowed="objects, or names from .agentv/criteria.yaml")
        return ()
    found: dict[str, EvaluationCriteria] = {}
    for index, entry in enumerate(raw):
        place = (*at, index)
        criterion = _named(reader, place, entry, named) if isinstance(entry, str) else _written(reader, place)
        if criterion is not None and criterion.name in found:
            reader.error(place, f"a second criterion named {criterion.name!r}")
        elif criterion is not None:
            found[criterion.name] = criterion
    return tuple(found.values())


def _named(
    reader: Reader, at: JsonPath, name: str, named: Mapping[str, EvaluationCriteria]
) -> EvaluationCriteria | None:
    if name not in named:
        known = ", ".join(named) or "none"
        near = nearest(name, named)
        reader.error(at, f"no criterion {name!r} in .agentv/criteria.yaml", allowed=f"there: {known}", suggestion=near)
    return named.get(name)


def _written(reader: Reader, at: JsonPath) -> EvaluationCriteria | None:
    model = reader.read(CriterionModel, at)
    if model is None:
        return None
    near = nearest(str(model.scale), NAMED_SCALES) if model.is_custom_scale else None
    if near is not None:
        message = f"{model.scale!r} is no known scale and will not be averaged; did you mean {near!r}?"
        reader.warn((*at, "scale"), message)
    if model.min is not None and model.max is not None and model.min >= model.max:
        reader.error((*at, "min"), "`min` must be less than `max`")
    return model.to_criterion()
