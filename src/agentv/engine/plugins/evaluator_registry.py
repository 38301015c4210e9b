"""The registry of evaluator objects by kind, for callers that choose an evaluator themselves (seed REQ-EVAL-006)."""

from collections.abc import Mapping

from msgspec import Struct

from agentv.evaluators import EVALUATORS
from agentv.evaluators.judges.llm_judge import LlmJudgeEvaluator, ResolveJudge
from agentv.evaluators.registry import DEFAULT_KIND, RUBRIC_KIND, EvaluatorRegistry
from agentv.loading.models.settings import read_settings
from agentv.registry import Spec
from agentv.scoring.results.completion import to_score
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationScore, Evaluator


class ContextRule(Struct, frozen=True):
    """A deterministic evaluator of one kind, with the settings of the context's own evaluator."""

    spec: Spec

    @property
    def kind(self) -> str:
        """The kind of the evaluator."""
        return self.spec.name

    def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        """Score an answer. Raises EvaluatorError without `context.evaluator`, EvalFileError for wrong settings."""
        config, kind = context.evaluator, self.kind
        if config is None or EVALUATORS.canonical(config.type) != kind:
            raise EvaluatorError(
                f"the settings of {kind!r} are missing; give the context an evaluator=EvaluatorConfig(name, {kind!r}, "
                "settings), or call run_evaluators_for_case"
            )
        settings = read_settings(self.spec, config.settings, where=f"evaluator {config.name!r}")
        made = self.spec.load_factory()(config, settings, None)  # a deterministic evaluator needs no tools
        name = config.criterion or config.name
        return to_score(made.evaluate(context), name=name, kind=kind, criteria=context.criteria, negate=config.negate)


def _rule_of(kind: str) -> Evaluator | None:
    spec = EVALUATORS.get(kind) if EVALUATORS.canonical(kind) is not None else None
    return ContextRule(spec) if spec is not None and spec.cost == "free" and spec.is_deterministic else None


def build_evaluator_registry(
    overrides: Mapping[str, Evaluator] | None = None, resolve_judge_provider: ResolveJudge | None = None
) -> EvaluatorRegistry:
    """Return a registry with `llm_judge` and `rubric`, extended or replaced by `overrides`.

    Deterministic kinds are found as well, with the settings of each context's `evaluator`; any other kind is the judge.
    `resolve_judge_provider` finds the judge's model for a context; without it the context's own judge is called.

    >>> registry = build_evaluator_registry()
    >>> registry["unheard_of"] is registry.llm_judge
    True
    >>> registry["contains"].kind
    'contains'
    """
    judge = LlmJudgeEvaluator(resolve_judge_provider=resolve_judge_provider)
    return EvaluatorRegistry({DEFAULT_KIND: judge, RUBRIC_KIND: judge, **(overrides or {})}, rule_of=_rule_of)
