"""Evaluator objects by kind, with the default judge for every kind that is not registered (seed REQ-EVAL-006)."""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec

from agentv.evaluators.judges.llm_judge import LlmJudgeEvaluator, ResolveJudge
from agentv.types.errors import MissingExtraError, UnknownNameError
from agentv.types.evaluation import Evaluator

DEFAULT_KIND = "llm_judge"
RUBRIC_KIND = "rubric"


class EvaluatorRegistry(Mapping[str, Evaluator]):
    """Evaluators by kind. Looking up an unknown kind returns `llm_judge`, or raises UnknownNameError without one."""

    def __init__(self, evaluators: Mapping[str, Evaluator]) -> None:
        self._evaluators = dict(evaluators)

    @property
    def llm_judge(self) -> Evaluator:
        """The default judge."""
        return self[DEFAULT_KIND]

    def __getitem__(self, kind: str) -> Evaluator:
        """Return the evaluator of that kind, else the default judge."""
        found = self._evaluators.get(kind) or self._evaluators.get(DEFAULT_KIND)
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


def build_evaluator_registry(
    overrides: Mapping[str, Evaluator] | None = None, resolve_judge_provider: ResolveJudge | None = None
) -> EvaluatorRegistry:
    """Return a registry with `llm_judge` and `rubric`, extended or replaced by `overrides`.

    `resolve_judge_provider` finds the judge's model for a context; without it the context's own judge is called.

    >>> registry = build_evaluator_registry()
    >>> registry["unheard_of"] is registry.llm_judge
    True
    """
    judge = LlmJudgeEvaluator(resolve_judge_provider=resolve_judge_provider)
    return EvaluatorRegistry({DEFAULT_KIND: judge, RUBRIC_KIND: judge, **(overrides or {})})


def require_extra(package: str, feature: str, extra: str) -> None:
    """Raise ValueError with the install command when the package of an extra is missing; import nothing."""
    if find_spec(package) is None:
        raise ValueError(str(MissingExtraError(feature, extra)))
