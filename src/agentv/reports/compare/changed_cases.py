"""The cases of a comparison whose score fell or rose: each with its question, both answers and the reasons."""

from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from agentv.reports.compare.compared import ExplainedComparison
from agentv.reports.compare.words import case_label, has_pairs, pair_members, reason_line
from agentv.reports.document.blocks import Excerpt, Item, Items, Phrase, Quote, Section
from agentv.reports.text.amounts import difference_text, score_text
from agentv.scoring.comparison.case_differences import CaseDifference, CaseDifferences, Change
from agentv.scoring.comparison.compare import Comparison
from agentv.scoring.comparison.explanations import Explanation, SideAnswer
from agentv.scoring.comparison.sides import PASSED
from agentv.types.records.result import CaseResult
from agentv.types.results import RowState

_MAX_LINES = 3
_MARKS: dict[Change, RowState] = {"regressed": "fail", "improved": "pass", "same": "borderline"}

Direction: TypeAlias = Literal["fell", "rose"]
FindFacts: TypeAlias = Callable[[CaseDifference], tuple[Phrase, ...]]


def answer_of_side(result: CaseResult) -> SideAnswer:
    """Return the answer of a result, None if the target failed, and the reason for its score."""
    has_answer = result.error is None or bool(result.candidate_answer)
    answer = result.candidate_answer if has_answer else None
    return SideAnswer(answer, reason_line(result), has_full_score=result.status == "pass")


def changed_sections(
    explained: ExplainedComparison, max_listed: int, find_facts: FindFacts = lambda _case: ()
) -> Iterator[Section]:
    """Yield the cases that fell, then those that rose, at most `max_listed` each, with the facts of `find_facts`."""
    directions: tuple[Direction, ...] = ("fell", "rose")
    for direction in directions:
        if cases := _cases(explained.comparison, direction):
            shown = cases[:max_listed]
            items = (
                _item(case, told, explained.comparison, find_facts(case))
                for case, told in zip(shown, explained.explain(shown), strict=True)
            )
            rest = len(cases) - len(shown)
            more = f"and {rest:,} more: --list {len(cases)}" if rest else ""
            yield Section(_title(direction, cases, explained.comparison), (Items(tuple(items), more),))


def _cases(comparison: Comparison, direction: Direction) -> CaseDifferences:
    return comparison.fell() if direction == "fell" else comparison.rose()


def _title(direction: Direction, cases: CaseDifferences, comparison: Comparison) -> str:
    """Return the title of a list, such as `fell: 13, 3 of them by less than 0.1`."""
    small = cases.changes.count("same")
    title = f"{direction}: {len(cases):,}"
    if has_pairs(comparison):
        title += f" pairs of {pair_members(comparison)}"
    if not small:
        return title
    which = "all" if small == len(cases) else f"{small:,}"
    return f"{title}, {which} of them by less than {comparison.threshold:g}"


def _item(
    case: CaseDifference, explanation: Explanation, comparison: Comparison, more_facts: tuple[Phrase, ...]
) -> Item:
    scores = f"{score_text(case.before)} -> {score_text(case.after)}"
    content = "content changed" if case.is_content_changed else ""
    facts = (scores, difference_text(case.difference), _trials(case, comparison), content, *more_facts)
    return Item(
        Quote(case_label(case.pair.after, comparison)),
        facts=tuple(filter(None, facts)),
        mark=_MARKS[case.change],
        excerpts=tuple(_excerpts(explanation)),
    )


def _trials(case: CaseDifference, comparison: Comparison) -> str:
    """Return `3 of 3 -> 1 of 3 trials passed`; empty if each side has one trial."""
    before = comparison.before.measured_count(PASSED, case.pair.before)
    after = comparison.after.measured_count(PASSED, case.pair.after)
    if before == after == 1:
        return ""
    passed = (
        f"{round(case.passed_before * before):,} of {before:,} -> {round(case.passed_after * after):,} of {after:,}"
    )
    return f"{passed} trials passed"


def _excerpts(explanation: Explanation) -> Iterator[Excerpt]:
    """Yield the texts of a case: its question, both answers, and the reasons of scores below 1."""
    sides = (("before", explanation.before), ("after", explanation.after))
    if explanation.question:
        yield Excerpt("question", explanation.question)
    for name, told in sides:
        if told.answer is not None:
            yield Excerpt(name, told.answer.strip() or "(empty)", _MAX_LINES)
    reasons = [(name, told.reason) for name, told in sides if told.reason and not told.has_full_score]
    for name, reason in reasons:
        yield Excerpt("reason" if len(reasons) == 1 else f"reason {name}", reason, _MAX_LINES)
