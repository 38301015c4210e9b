"""What a run does to the search for garbage, which the whole process has but once."""

import gc
import weakref

from tests.own_process import in_own_process

from agentv import EvalCase, EvaluatorConfig, Message, evaluate
from agentv.execution.garbage import spared_from_search


class _Circle:
    """Goes only when it is looked for."""

    def __init__(self) -> None:
        self.itself = self


def _circle() -> weakref.ref[_Circle]:
    return weakref.ref(_Circle())


def what_was_there_is_looked_through_again_afterwards() -> None:
    gc.disable()
    before = _circle()
    with spared_from_search():
        during = _circle()
        gc.collect()
        assert before() is not None
        assert during() is None
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert before() is None


def what_a_program_froze_itself_stays_frozen_and_nothing_beside_it() -> None:
    gc.disable()
    gc.freeze()
    frozen = gc.get_freeze_count()
    before = _circle()
    with spared_from_search():
        during = _circle()
        assert gc.get_freeze_count() == frozen
    gc.collect()
    assert before() is during() is None


def a_run_searches_only_what_it_makes() -> None:
    frozen = []

    def task(_request: object) -> str:
        frozen.append(gc.get_freeze_count())
        return "4"

    rule = EvaluatorConfig("four", "contains", {"value": "4"})
    evaluate([EvalCase("sum", (Message("user", "What is 2 + 2?"),))], task=task, evaluators=[rule])
    assert frozen[0] > 0
    assert gc.get_freeze_count() == 0


def test_what_was_there_is_looked_through_again_afterwards() -> None:
    in_own_process(what_was_there_is_looked_through_again_afterwards)


def test_what_a_program_froze_itself_stays_frozen_and_nothing_beside_it() -> None:
    in_own_process(what_a_program_froze_itself_stays_frozen_and_nothing_beside_it)


def test_a_run_searches_only_what_it_makes() -> None:
    in_own_process(a_run_searches_only_what_it_makes)
