"""Warnings that need all cases of a suite: labels for none of them, and criteria that no evaluator scores."""

from collections.abc import Iterator, Sequence

from agentv.loading.files.documents import JsonPath
from agentv.loading.models.judges import settings_with_members
from agentv.loading.models.reader import Reader
from agentv.loading.models.settings import criteria_named_by, unmatched_labels
from agentv.registry import Specs
from agentv.scoring.results.applicable import all_evaluators, evaluators_of_suite
from agentv.types.cases import EvalCase, EvalSuite, EvaluatorConfig, EvaluatorLike
from agentv.types.problems import Problem


def suite_warnings(reader: Reader, suite: EvalSuite, specs: Specs) -> Iterator[Problem]:
    """Yield the warnings of a valid suite.

    The cases of a stream are not held in memory (`cases.count` is None): then only the criteria are compared, with the
    evaluators that the suite names.
    """
    cases = [] if suite.cases.count is None else [each for each in suite.cases if isinstance(each, EvalCase)]
    used = (each for case in cases for each in all_evaluators(case, suite) if case.skip is None)
    listed: Sequence[EvaluatorLike] = evaluators_of_suite(suite) if suite.cases.count is None else tuple(used)
    evaluators = tuple({id(each): each for each in listed}.values())  # cases share the evaluators of the file
    if suite.criteria:
        yield from _unscored_criteria(Reader(reader.document), suite, evaluators, specs)
    if cases:
        names = {name for case in cases for name in (case.id, case.conversation_id) if name is not None}
        for evaluator in evaluators:
            if isinstance(evaluator, EvaluatorConfig):
                for settings in settings_with_members(evaluator, specs):
                    yield from unmatched_labels(settings, evaluator.base_dir, names, suite=suite.path)


def _unscored_criteria(
    reader: Reader, suite: EvalSuite, evaluators: Sequence[EvaluatorLike], specs: Specs
) -> Iterator[Problem]:
    """Yield a warning for each criterion of the suite that no evaluator scores; none if that is not known."""
    scored: set[str] = set()
    for evaluator in evaluators:
        if (names := _scored_by(evaluator, specs)) is None:
            return
        scored |= names
    for criterion in suite.criteria if evaluators else ():
        if criterion.name not in scored:
            reader.warn(
                _place_of(reader, criterion.name),
                f"no evaluator scores the criterion {criterion.name!r}",
                allowed=f"write `criterion: {criterion.name}` in an evaluator",
            )
    yield from reader.problems


def _scored_by(evaluator: EvaluatorLike, specs: Specs) -> set[str] | None:
    """Return the criteria that an evaluator scores; None if they are known only from its results."""
    found = list(settings_with_members(evaluator, specs))
    if not isinstance(evaluator, EvaluatorConfig) or len(found) != 1:  # wrong settings, or members
        return None
    named = criteria_named_by(found[0])
    is_open = evaluator.criterion is None and getattr(found[0], "criteria_from_results", False)
    if named is None or is_open or specs.evaluators.get(evaluator.type).criteria_from_results:
        return None
    return {evaluator.criterion or evaluator.name, *(name for name in named if name is not None)}


def _place_of(reader: Reader, name: str) -> JsonPath:
    raw = reader.document.at(("criteria",))
    for index, entry in enumerate(raw if isinstance(raw, list | tuple) else ()):
        if name in (entry, reader.document.at(("criteria", index, "name"))):
            return ("criteria", index)
    return ("criteria",)
