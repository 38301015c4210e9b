"""Which evaluators judge a case (decisions.md, "Which evaluators apply")."""

from functools import lru_cache

from agentv.types.cases import EvalCase, EvalSuite, EvaluatorConfig, EvaluatorLike, RubricItem
from agentv.types.json_value import JsonValue

DEFAULT_EVALUATOR = "llm_judge"
"""Judges a case for which neither the case nor its suite names anyone (seed: default evaluator)."""

RUBRIC_EVALUATOR = "rubric"
"""What the shorthand `rubrics:` stands for."""


def applicable_evaluators(case: EvalCase, suite: EvalSuite) -> tuple[tuple[EvaluatorLike, ...], bool]:
    """Return a case's evaluators in order, and whether they came in the older single form.

    An empty list names nobody, as an absent one does.
    """
    listed = case.evaluators
    if not listed:
        single = case.evaluator or case.grader or None
        if single is None:
            listed, single = suite.evaluators, suite.evaluator
        if not listed:
            return _alone(case, single, suite.base_dir)
    return ((_rubric(case), *listed) if case.rubrics else listed), False


def _alone(case: EvalCase, single: str | None, base_dir: str) -> tuple[tuple[EvaluatorLike, ...], bool]:
    """Return the one evaluator of a case that has no list; none beside its rubrics."""
    if not case.rubrics:
        return _single(DEFAULT_EVALUATOR if single is None else single, base_dir), True
    return (_rubric(case), *(() if single is None else _single(single, base_dir))), False


@lru_cache(maxsize=256)
def _single(kind: str, base_dir: str) -> tuple[EvaluatorConfig]:
    """Return the one evaluator of that name: the same object for all cases, since much is kept by it."""
    return (EvaluatorConfig(name=kind, type=kind, base_dir=base_dir),)


def _rubric(case: EvalCase) -> EvaluatorConfig:
    """Return what the items of a case's `rubrics` stand for."""
    items: list[JsonValue] = [_item_to_json(item) for item in case.rubrics]
    return EvaluatorConfig(name=RUBRIC_EVALUATOR, type=RUBRIC_EVALUATOR, settings={"rubrics": items})


def _item_to_json(item: RubricItem) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = {
        "id": item.id,
        "description": item.description,
        "weight": item.weight,
        "required": item.required,
    }
    return fields if item.scale is None else {**fields, "scale": item.scale}
