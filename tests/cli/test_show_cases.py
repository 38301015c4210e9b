"""The cases that `agentv show RUN` lists: which, in which order, and with which results."""

from msgspec.structs import replace
from tests.support.stored import SLOT

from agentv.cli.results.show_cases import CaseEntries, make_cases
from agentv.scoring.counting.matrix import PlanOrder
from agentv.storage.index.row_query import RowEntry

ORDER = PlanOrder(("small", "large"), ("plain", "polite"))


def entry(case: str, state: str, *, target: str = "small", prompt: str = "plain", trial: int = 0) -> RowEntry:
    slot = replace(SLOT, eval_id=case, target=target, prompt=prompt, trial=trial)
    score = {"pass": 1.0, "borderline": 0.6, "fail": 0.2}.get(state)
    return RowEntry(1, 0, 1, slot, 0, state, score, None, None)


def names(cases: list[CaseEntries]) -> list[str]:
    return [case.cells[0].shown.slot.eval_id for case in cases]


def test_cases_that_did_not_pass_come_first() -> None:
    rows = [entry(*each) for each in (("a", "pass"), ("b", "error"), ("c", "fail"), ("d", "borderline"))]
    assert names(make_cases(rows, (), ORDER, is_sorted=False)) == ["c", "d", "b", "a"]
    assert names(make_cases(rows, (), ORDER, is_sorted=True)) == ["a", "b", "c", "d"]


def test_a_state_selects_prompts_and_targets_and_all_trials_are_counted() -> None:
    rows = [
        entry("a", "pass", target="large"),
        entry("a", "pass", trial=0),
        entry("a", "fail", trial=2),
        entry("a", "error", trial=1),
        entry("b", "pass"),
    ]
    (case,) = make_cases(rows, ("fail", "error"), ORDER, is_sorted=False)
    assert (case.passed, case.results) == (2, 4)
    (cell,) = case.cells
    assert (cell.shown.slot.target, cell.shown.state, cell.passed, cell.results) == ("small", "fail", 1, 3)


def test_prompts_and_targets_are_in_the_order_of_the_plan() -> None:
    rows = [
        entry("a", "fail", target=target, prompt=prompt)
        for prompt in ("polite", "plain")
        for target in ("large", "small")
    ]
    (case,) = make_cases(rows, (), ORDER, is_sorted=False)
    shown = [(each.shown.slot.prompt, each.shown.slot.target) for each in case.cells]
    assert shown == [("plain", "small"), ("plain", "large"), ("polite", "small"), ("polite", "large")]
