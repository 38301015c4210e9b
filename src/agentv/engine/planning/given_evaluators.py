"""Lists of evaluators given from Python: configs, dicts, names of profiles, objects and functions."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

from agentv.engine.plugins.plugins import as_evaluator
from agentv.loading.criteria.run_configs import named_definitions_around, read_given_entries
from agentv.loading.models.reader import raise_errors
from agentv.loading.suites.evaluators import EvaluatorScope
from agentv.registry import Specs
from agentv.types.cases import EvaluatorConfig, EvaluatorLike
from agentv.types.criteria.aggregated_result import CriteriaEvaluator

GivenEvaluator: TypeAlias = Mapping[str, Any] | str | EvaluatorLike | CriteriaEvaluator | Callable[..., Any]
"""A config dict, the name of a profile in `.agentv/criteria.yaml`, a config, an evaluator object, or a function."""


class GivenEvaluators:
    """Converts lists of evaluators given from Python; the names that dicts may use are read once."""

    def __init__(self, folder: Path, specs: Specs) -> None:
        self._folder = folder
        self._specs = specs
        self._scope: EvaluatorScope | None = None

    def converted(self, given: Sequence[object], where: str) -> tuple[EvaluatorLike, ...]:
        """Return configs and evaluator objects. Raises EvalFileError with all problems of dicts and names."""
        read: Mapping[int, EvaluatorConfig] = {}
        if any(isinstance(item, Mapping | str) for item in given):
            entries = [dict(item) if isinstance(item, Mapping) else item for item in given]
            read, problems = read_given_entries(entries, self._known_names(), where=where)
            raise_errors(where, problems)
        return tuple(
            read[place] if place in read else cast(EvaluatorLike, as_evaluator(item, self._specs.evaluators))
            for place, item in enumerate(given)
        )

    def _known_names(self) -> EvaluatorScope:
        if self._scope is None:
            _, self._scope, problems = named_definitions_around(self._folder, self._specs)
            raise_errors(".agentv/criteria.yaml", problems)
        return self._scope
