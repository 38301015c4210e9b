"""Evaluator objects by kind (seed REQ-EVAL-006), and an adapter for the signature `evaluate(input, criteria)`."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from inspect import Parameter, iscoroutinefunction, signature

from agentv.types.aggregated_result import CriteriaEvaluator
from agentv.types.errors import MissingExtraError, UnknownNameError
from agentv.types.evaluation import EvaluationContext, EvaluationResult, Evaluator

DEFAULT_KIND = "llm_judge"
RUBRIC_KIND = "rubric"


class EvaluatorRegistry(Mapping[str, Evaluator]):
    """A mapping from kinds to evaluators.

    A kind that is not registered gets the evaluator that `rule_of` makes for it; if that returns None, it gets the
    registered `llm_judge`. UnknownNameError is raised if there is none.
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
        """Return the registered evaluator of a kind, else that of `rule_of`, else the default judge."""
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


class AdaptedCriteriaEvaluator:
    """An Evaluator that calls `evaluate(input, criteria)` of the evaluator that it wraps."""

    names_its_criteria = True  # each result of the wrapped evaluator has the name of its criterion
    reads_workspace = False  # an EvaluationInput has none

    def __init__(self, wrapped: CriteriaEvaluator, config: object = None) -> None:
        self.kind = wrapped.type
        self.name = getattr(wrapped, "name", wrapped.type)
        self.weight = getattr(wrapped, "weight", 1.0)
        # Calling a coroutine function only makes the coroutine, so it needs no thread.
        self.inline = iscoroutinefunction(wrapped.evaluate)
        self._wrapped = wrapped
        # A third parameter without a default is the config, as in AgentDock's documentation.
        self._more = (
            ({} if config is None else config,) if _required_arguments(wrapped.evaluate) > _INPUT_AND_CRITERIA else ()
        )

    def evaluate(
        self, context: EvaluationContext
    ) -> Sequence[EvaluationResult] | Awaitable[Sequence[EvaluationResult]]:
        """Return the evaluator's own results, one for each criterion that it judges."""
        return self._wrapped.evaluate(context.to_input(), context.criteria, *self._more)


_INPUT_AND_CRITERIA = 2


def _required_arguments(function: Callable[..., object]) -> int:
    """Return the number of positional parameters without a default; 0 if the signature cannot be read."""
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in positional and each.default is Parameter.empty for each in parameters)


def configured(entry: Mapping[str, object]) -> object:
    """Return the evaluator of an entry whose `type` is a class or an object; None for other entries.

    The class is called without arguments. The entry's `config` is passed to `evaluate(input, criteria, config)`.
    """
    given, others = entry.get("type"), entry.keys() - {"type", "config"}
    made = given() if isinstance(given, type) and callable(getattr(given, "evaluate", None)) else given
    if others or isinstance(made, Evaluator) or not isinstance(made, CriteriaEvaluator):
        return None
    return AdaptedCriteriaEvaluator(made, entry.get("config"))


def adapted(given: object) -> object:
    """Wrap an evaluator with the signature `evaluate(input, criteria)`; return anything else unchanged."""
    if isinstance(given, Evaluator | type) or not isinstance(given, CriteriaEvaluator):
        return given
    return AdaptedCriteriaEvaluator(given)
