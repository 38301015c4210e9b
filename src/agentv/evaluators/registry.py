"""Evaluator objects by kind, with the default judge for every kind that nobody brought (seed REQ-EVAL-006)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from agentv.evaluators.llm_judge import LlmJudgeEvaluator, LlmJudgeEvaluatorOptions, ResolveJudge
from agentv.types.cases import EvaluatorConfig, RubricItem
from agentv.types.errors import UnknownNameError
from agentv.types.evaluation import EvaluationContext, EvaluationScore, Evaluator

DEFAULT_KIND = "llm_judge"

_SETTABLE = frozenset({"prompt", "model", "max_output_tokens", "temperature", "include_trace", "vote", "samples"})


class EvaluatorRegistry(Mapping[str, Evaluator]):
    """Evaluators by kind. Looking up an unknown kind gives `llm_judge`; without one it is an UnknownNameError."""

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
        """Whether somebody brought an evaluator of exactly that kind."""
        return kind in self._evaluators

    def __iter__(self) -> Iterator[str]:
        """Yield the kinds that were brought."""
        return iter(self._evaluators)

    def __len__(self) -> int:
        """How many were brought."""
        return len(self._evaluators)


class RegistryJudge(LlmJudgeEvaluator):
    """The default judge of a registry: what a case's own config says is laid over its options (seed REQ-EVAL-007)."""

    async def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        """Judge an answer as the config in `context.evaluator` asks: with its prompt, its model, its rubrics."""
        config = context.evaluator
        if config is None:
            return await super().evaluate(context)
        return await LlmJudgeEvaluator(_laid_over(self.options, config)).evaluate(context)


def _laid_over(options: LlmJudgeEvaluatorOptions, config: EvaluatorConfig) -> LlmJudgeEvaluatorOptions:
    """Return options with what a config sets; its judges by name are left to whoever resolves the judge."""
    given: dict[str, Any] = {"source": config.source, "base_dir": config.base_dir}
    given |= {snake: value for key, value in config.settings.items() if (snake := _snake_case(key)) in _SETTABLE}
    rubrics = config.settings.get("rubrics", config.settings.get("items"))
    if isinstance(rubrics, list | tuple):
        given["rubrics"] = tuple(map(_to_item, rubrics))
    return replace(options, **given)


def _to_item(written: Any) -> RubricItem | str:
    return RubricItem(**written) if isinstance(written, Mapping) else written


def _snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def build_evaluator_registry(
    overrides: Mapping[str, Evaluator] | None = None, resolve_judge_provider: ResolveJudge | None = None
) -> EvaluatorRegistry:
    """Return a registry with `llm_judge` in it, and `overrides` beside or in place of it.

    `resolve_judge_provider` finds the judge's model for a context; without it the context's own judge is asked.

    >>> registry = build_evaluator_registry()
    >>> registry["unheard_of"] is registry.llm_judge
    True
    """
    judge = RegistryJudge(resolve_judge_provider=resolve_judge_provider)
    return EvaluatorRegistry({DEFAULT_KIND: judge, **(overrides or {})})
