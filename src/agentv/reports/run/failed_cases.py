"""The cases that did not pass, and those that made a gate fail, as every report of a run shows them."""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from agentv.reports.document.blocks import (
    Block,
    Excerpt,
    Item,
    Items,
    Phrase,
    Quote,
    Section,
    Sentence,
    Tone,
    Verdict,
    plain,
)
from agentv.reports.run.row_text import RowLabels, row_reason, row_reasons, row_score, workflow_command
from agentv.reports.text.amounts import count_text, score_text
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import STATES_OF_GATES, UNICODE, Signs
from agentv.reports.text.width import clip, display_width, pad
from agentv.scoring.results.aggregation import row_state
from agentv.types.results import CaseOutcome, GateResult, GateState, RunReport

_TONES: Mapping[GateState, Tone] = {
    "passed": "good",
    "failed": "bad",
    "undecided": "unsure",
    "not_evaluated": "unsure",
}
_MAX_COMMAND_CHARS = 500
_MAX_ANSWER_LINES = 3
_MAX_REASON_LINES = 4


def gate_outcomes(report: RunReport) -> Iterator[Verdict]:
    """Yield the outcome of each gate, if there are several."""
    gates = report.verdict.gates
    if len(gates) > 1:
        yield Verdict(
            tuple(Sentence(Quote(each.sentence), _TONES[each.state], STATES_OF_GATES[each.state]) for each in gates)
        )


class CaseList(Struct, frozen=True):
    """Some of the cases that did not pass, under a heading that says what they have in common."""

    heading: Phrase
    cases: tuple[CaseOutcome, ...]
    rest: int = 0
    """The number of cases that are not listed."""
    command: str = ""
    """The command that lists them."""


def case_lists(report: RunReport) -> Iterator[CaseList]:
    """Yield the cases that made each gate fail, then the others that did not pass; no case is in two lists.

    A gate on all results of the run has no list of its own: the last one has its cases. If another gate fails, the last
    list has only cases with an error.
    """
    gates = [gate for gate in report.verdict.gates_with_cases if not gate.is_whole_run]
    named: dict[object, CaseOutcome] = {}
    missing = _missing_answers(report)
    for gate in gates:
        cases = tuple(each for each in gate.cases if each.name not in named)
        above = len(gate.cases) - len(cases)
        heading = (*gate_heading(gate), f", {above:,} of them listed above" if above else "", *missing)
        missing = ()
        named.update((each.name, each) for each in cases)
        yield CaseList(heading, cases, gate.cases_total - len(gate.cases), _command_of(gate, report))
    others = tuple(each for each in report.cases if each.name not in named)
    if gates:
        others = tuple(each for each in others if row_state(each.result) == "error")
    not_passed = sum(row_state(each.result) not in ("pass", "skipped") for each in named.values())
    rest = max(0, report.cases_total - not_passed - len(others))
    if others or rest:
        total = _count(report.cases_total, report.cases_distinct, report.cases)
        yield CaseList(f"did not pass: {total}", others, rest, f"agentv show {report.run_id} --failed")


def _missing_answers(report: RunReport) -> tuple[str | Quote, ...]:
    """Return that the baseline has no answers, as a file of scores and a run that was deleted since; else nothing."""
    before = [each.before for gate in report.verdict.gates_with_cases for each in gate.cases if each.before is not None]
    if report.baseline is None or not before or any(each.answer is not None for each in before):
        return ()
    return (" (", Quote(report.baseline.baseline), " has no answers)")


def gate_heading(gate: GateResult) -> tuple[str | Quote, ...]:
    """Return which gate failed, and on how many cases."""
    return (
        "gate ",
        Quote(repr(gate.expression)),
        f" failed on {_count(gate.cases_total, gate.cases_distinct, gate.cases)}",
    )


def _count(total: int, distinct: int, cases: Sequence[CaseOutcome]) -> str:
    """Return `3 cases`, or for cases with several prompts or targets `3 cases (12 counted by prompt and target)`."""
    if not 0 < distinct < total:
        return count_text(total, "case")
    by = "prompt and target" if any(case.name.prompt for case in cases) else "target"
    return f"{count_text(distinct, 'case')} ({total:,} counted by {by})"


def _command_of(gate: GateResult, report: RunReport) -> str:
    """Return the command that lists all cases of a gate."""
    if report.baseline is not None and gate.cases[0].before is not None:
        return f"agentv compare {shlex.quote(one_line(report.baseline.baseline))} {report.run_id}"
    return f"agentv show {report.run_id} --failed"


def case_blocks(report: RunReport, labels: RowLabels) -> Iterator[Block]:
    """Yield a section for each list of cases."""
    for each in case_lists(report):
        items = tuple(case_item(case, labels) for case in each.cases)
        more: Phrase = (f"and {each.rest:,} more: ", Quote(each.command)) if each.rest else ""
        yield Section(each.heading, (Items(items, more),))


def case_item(case: CaseOutcome, labels: RowLabels) -> Item:
    """Return a case with its target, score and trials, and below its question, answers, expectation and reasons."""
    row = case.result
    target = (" on ", Quote(row.slot.target)) if labels.with_target else ()
    place = (("at ", Quote(f"{row.file}:{row.line}")),) if labels.with_place and row.file else ()
    return Item(
        (Quote(labels.case(row)), *target),
        facts=(*case_facts(case), *place),
        mark=row_state(row),
        excerpts=tuple(case_texts(case)),
    )


def case_facts(case: CaseOutcome) -> tuple[str, ...]:
    """Return how many trials of a case passed, its score, its score in the baseline, and how its re-runs ended."""
    before = "" if case.before is None else f" (was {score_text(case.before.score)})"
    facts = (
        trials_text(case),
        f"{row_score(case.result)}{before}",
        f"failed again in {count_text(case.reruns, 're-run')}" if case.reruns else "",
    )
    return tuple(filter(None, facts))


def trials_text(case: CaseOutcome) -> str:
    """Return `0 of 3 passed`; empty for a case with one trial, and for one that passed."""
    if case.results == 1 or row_state(case.result) == "pass":
        return ""
    return f"{case.results - case.failed} of {case.results} passed"


def case_texts(case: CaseOutcome) -> Iterator[Excerpt]:
    """Yield question, answers in the baseline and in the run, expectation and reasons of a case."""
    row = case.result
    if case.question:
        yield Excerpt("question", case.question)
    if case.before is not None and case.before.answer is not None:
        yield Excerpt("before", case.before.answer or "(empty)", _MAX_ANSWER_LINES)
    if row.error is None or row.candidate_answer:
        yield Excerpt("answer", row.candidate_answer or "(empty)", _MAX_ANSWER_LINES)
        if case.expected:
            yield Excerpt("expected", case.expected)
    elif row.partial is not None and row.partial.text:
        yield Excerpt("partial", row.partial.text, _MAX_ANSWER_LINES)
    yield Excerpt("reason", "\n".join(row_reasons(row)), _MAX_REASON_LINES)


_CASE_WIDTH = 10
_MIN_REASON_WIDTH = 24


def case_line(
    mark: str, case: CaseOutcome, labels: RowLabels, *, signs: Signs = UNICODE, width: int | None = None
) -> str:
    """Return the line of a case that did not pass: its name, target, trials, score and reason.

    With `width`, the reason is cut to that number of cells, and left out if less than 24 are left for it. What tells
    cases apart is not cut.
    """
    row = case.result
    target = pad(signs.escape_unsupported(one_line(row.slot.target)), _CASE_WIDTH) if labels.with_target else ""
    name = pad(signs.escape_unsupported(labels.label(row) if case.results == 1 else labels.case(row)), _CASE_WIDTH)
    score = row_score(row) if case.results == 1 else trials_text(case)
    head = " ".join(filter(None, (mark, name, target, score))).rstrip()
    reason = signs.escape_unsupported(row_reason(row))
    if width is None:
        return f"{head}  {reason}"
    room = width - display_width(head) - 2
    if room < min(_MIN_REASON_WIDTH, display_width(reason)):
        return head
    return f"{head}  {clip(reason, room, mark=signs.ellipsis)}"


def annotations(report: RunReport, labels: RowLabels) -> Iterator[str]:
    """Yield a command of GitHub Actions for each listed case: an error, or a warning for a borderline case.

    A case with several prompts or targets has one command: the first of them, with the names of the others.
    """
    variants: dict[tuple[str, str], list[CaseOutcome]] = {}
    for each in case_lists(report):
        for case in each.cases:
            variants.setdefault((case.name.suite, case.name.eval_id), []).append(case)
    for case, *others in variants.values():
        texts = (f"{text.name}: {one_line(text.text[:_MAX_COMMAND_CHARS])}" for text in case_texts(case))
        also = (f"also {plain(case_item(other, labels).head)}: {', '.join(case_facts(other))}" for other in others)
        message = "\n".join(filter(None, (", ".join(case_facts(case)), *texts, *also)))
        is_borderline = row_state(case.result) == "borderline"
        yield workflow_command("warning" if is_borderline else "error", case.result, labels, message)
