"""Selection of the evaluators that judge a case (docs/reference/evaluators.md)."""

from collections.abc import Sequence
from functools import lru_cache

from agentv.scoring.keys.identity import rubric_to_json
from agentv.types.cases import CaseTurn, EvalCase, EvalSuite, EvaluatorConfig, EvaluatorLike
from agentv.types.json_value import JsonValue
from agentv.types.scales import EvaluationCriteria

DEFAULT_EVALUATOR = "llm_judge"
"""The evaluator of a case for which neither the case nor its suite names one (seed: default evaluator)."""

RUBRIC_EVALUATOR = "rubric"
"""The type of evaluator for the shorthand `rubrics:`."""

WITHOUT_WEIGHT = "every evaluator, or its criterion, has weight 0, so every answer scores 0"
ADVICE_ON_WEIGHT = "give at least one of them a weight above 0"


def applicable_evaluators(case: EvalCase, suite: EvalSuite) -> tuple[tuple[EvaluatorLike, ...], bool]:
    """Return a case's evaluators in order, and whether they are given by `evaluator`, the older form for a single one.

    An empty list counts as absent. The evaluators of a case with turns judge the whole conversation; the default judge
    is not among them, since turns have evaluators of their own.
    """
    listed = case.evaluators
    if not listed:
        single = case.evaluator or case.grader or None
        if single is None:
            listed, single = suite.evaluators, suite.evaluator
        if not listed and single is None and not case.rubrics and case.is_conversation:
            return (), False
        if not listed:
            return _from_single_form(case, single, suite.base_dir)
    return ((_rubric(case), *listed) if case.rubrics else listed), False


def evaluators_of_suite(suite: EvalSuite) -> tuple[EvaluatorLike, ...]:
    """Return the evaluators that a suite names for its cases."""
    if suite.evaluators:
        return suite.evaluators
    return () if suite.evaluator is None else _single(suite.evaluator, suite.base_dir)


def evaluators_of_turn(turn: CaseTurn) -> tuple[EvaluatorLike, ...]:
    """Return the evaluators of a turn; the default judge for a turn with an expected outcome only."""
    own = (_rubric(turn), *turn.evaluators) if turn.rubrics else turn.evaluators
    if own or not (turn.expected_messages or turn.expected_outcome):
        return own
    return _single(DEFAULT_EVALUATOR, ".")


def all_evaluators(case: EvalCase, suite: EvalSuite) -> tuple[EvaluatorLike, ...]:
    """Return the evaluators of a case, and of its turns."""
    own, _ = applicable_evaluators(case, suite)
    if not case.turns:
        return own
    return (*own, *(each for turn in case.turns for each in evaluators_of_turn(turn)))


def lack_weight(evaluators: Sequence[EvaluatorLike], criteria: Sequence[EvaluationCriteria] = ()) -> bool:
    """Return True for evaluators that all have, or score a criterion of, weight 0; False without any evaluator."""
    without = {criterion.name for criterion in criteria if criterion.weight == 0}
    return bool(evaluators) and all(
        getattr(each, "weight", 1.0) == 0 or getattr(each, "criterion", None) in without for each in evaluators
    )


def _from_single_form(case: EvalCase, single: str | None, base_dir: str) -> tuple[tuple[EvaluatorLike, ...], bool]:
    """Return the evaluators of a case without a list: that of its rubric, then `single`, as far as it has them.

    A case with neither has the default judge.
    """
    if not case.rubrics:
        return _single(DEFAULT_EVALUATOR if single is None else single, base_dir), True
    return (_rubric(case), *(() if single is None else _single(single, base_dir))), False


@lru_cache(maxsize=256)
def _single(kind: str, base_dir: str) -> tuple[EvaluatorConfig]:
    """Return the single evaluator of that name: the same object for all cases, because caches use it as a key."""
    return (EvaluatorConfig(name=kind, type=kind, base_dir=base_dir),)


def _rubric(case: EvalCase | CaseTurn) -> EvaluatorConfig:
    """Return the evaluator for the `rubrics` of a case or a turn."""
    items: list[JsonValue] = [rubric_to_json(item, always=_WRITTEN) for item in case.rubrics]
    return EvaluatorConfig(name=RUBRIC_EVALUATOR, type=RUBRIC_EVALUATOR, settings={"rubrics": items})


_WRITTEN = ("id", "description", "weight", "required")
"""The fields of a rubric item that its evaluator's settings have even when they are the default."""


def criteria_of(case: EvalCase, suite: EvalSuite) -> tuple[EvaluationCriteria, ...]:
    """Return the suite's criteria and the case's own; a case's criterion replaces the suite's of the same name."""
    if not case.criteria:
        return suite.criteria
    merged = {criterion.name: criterion for criterion in (*suite.criteria, *case.criteria)}
    return tuple(merged.values())


def tags_of(case: EvalCase, suite: EvalSuite) -> tuple[str, ...]:
    """Return the suite's tags and the case's own, each once."""
    return tuple(dict.fromkeys((*suite.tags, *case.tags))) if suite.tags or case.tags else ()
