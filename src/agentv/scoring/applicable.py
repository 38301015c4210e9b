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
    listed = case.evaluators or None
    if listed is None:
        single = case.evaluator or case.grader
        if single is None:
            listed, single = suite.evaluators or None, suite.evaluator
        if listed is None and single is not None:
            return _with_rubrics(case, _single(single, suite.base_dir), single_form=True)
    if listed is None:
        alone = () if case.rubrics else _single(DEFAULT_EVALUATOR, suite.base_dir)
        return _with_rubrics(case, alone, single_form=True)
    return _with_rubrics(case, listed, single_form=False)


@lru_cache(maxsize=256)
def _single(kind: str, base_dir: str) -> tuple[EvaluatorConfig]:
    """Return the one evaluator of that name: the same object for all cases, since much is kept by it."""
    return (EvaluatorConfig(name=kind, type=kind, base_dir=base_dir),)


def _with_rubrics(
    case: EvalCase, listed: tuple[EvaluatorLike, ...], *, single_form: bool
) -> tuple[tuple[EvaluatorLike, ...], bool]:
    if not case.rubrics:
        return listed, single_form
    items: list[JsonValue] = [_item_to_json(item) for item in case.rubrics]
    rubric = EvaluatorConfig(name=RUBRIC_EVALUATOR, type=RUBRIC_EVALUATOR, settings={"rubrics": items})
    return (rubric, *listed), False


def _item_to_json(item: RubricItem) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = {
        "id": item.id,
        "description": item.description,
        "weight": item.weight,
        "required": item.required,
    }
    return fields if item.scale is None else {**fields, "scale": item.scale}
