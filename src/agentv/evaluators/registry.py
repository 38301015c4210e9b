"""Evaluator objects by kind, with the default judge for every kind that is not registered (seed REQ-EVAL-006)."""

from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec

from agentv.types.errors import MissingExtraError, UnknownNameError
from agentv.types.evaluation import Evaluator

DEFAULT_KIND = "llm_judge"
RUBRIC_KIND = "rubric"


class EvaluatorRegistry(Mapping[str, Evaluator]):
    """Evaluators by kind. Looking up an unknown kind returns `llm_judge`, or raises UnknownNameError without one.

    `rule_of` returns the rule of a kind that is not registered, None if there is none.
    """

    def __init__(
        self, evaluators: Mapping[str, Evaluator], *, rule_of: Callable[[str], Evaluator | None] = lambda _kind: None
    ) -> None:
        self._evaluators = dict(evaluators)
        self._rule_of = rule_of

    @property
    def llm_judge(self) -> Evaluator:
        """The default judge."""
        return self[DEFAULT_KIND]

    def __getitem__(self, kind: str) -> Evaluator:
        """Return the evaluator of that kind, else the rule of that kind, else the default judge."""
        found = self._evaluators.get(kind) or self._rule_of(kind) or self._evaluators.get(DEFAULT_KIND)
        if found is None:
            raise UnknownNameError("evaluator kind", kind, known=self._evaluators)
        return found

    def __contains__(self, kind: object) -> bool:
        """Return True if an evaluator of exactly that kind is registered."""
        return kind in self._evaluators

    def __iter__(self) -> Iterator[str]:
        """Yield the registered kinds."""
        return iter(self._evaluators)

    def __len__(self) -> int:
        """Return the number of registered evaluators."""
        return len(self._evaluators)


def require_extra(package: str, feature: str, extra: str) -> None:
    """Raise ValueError with the install command when the package of an extra is missing; import nothing."""
    if find_spec(package) is None:
        raise ValueError(str(MissingExtraError(feature, extra)))
