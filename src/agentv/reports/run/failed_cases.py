"""The cases that did not pass, and those that made a gate fail, as every report of a run shows them."""

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, zip_longest

from msgspec import Struct
from msgspec.structs import replace

from agentv.reports.document.blocks import (
    Block,
    Excerpt,
    Item,
    Items,
    Lines,
    Phrase,
    Quote,
    Section,
    Sentence,
    Tone,
    Verdict,
    joined,
    plain,
)
from agentv.reports.run.row_text import (
    RowLabels,
    case_key,
    cell_text,
    origin_text,
    row_reason,
    row_reasons,
    row_score,
    workflow_command,
)
from agentv.reports.text.amounts import count_text, score_text
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import STATES_OF_GATES
from agentv.scoring.gates.case_units import cases_text
from agentv.scoring.gates.failing_cases import shown_first
from agentv.scoring.results.aggregation import row_state
from agentv.types.results import CaseId, CaseName, CaseOutcome, GateResult, GateState, RunReport

_TONES: Mapping[GateState, Tone] = {
    "passed": "good",
    "failed": "bad",
    "undecided": "unsure",
    "not_evaluated": "unsure",
}
_MAX_COMMAND_CHARS = 500
_MAX_ANSWER_LINES = 3
_MAX_REASON_LINES = 4
_MAX_ORIGIN_LINES = 3
_MAX_CASES = 10
_MAX_PARTS = 12
"""The number of prompts and targets that are shown of one case."""
_MAX_NAMES_CHARS = 380
"""About five lines of a terminal."""
_MAX_VARIANTS_CHARS = 40
_SHARED = frozenset({"question", "expected"})
"""The texts of a case that do not depend on its target."""
_FROM = "from"
NOT_IN_FILE = "its answer is not in the file"
"""The answer of a case in a baseline that is a file of scores, or a run that was deleted since."""


def gate_outcomes(report: RunReport) -> Iterator[Verdict]:
    """Yield the outcomes of the gates that the verdict does not name."""
    gates = report.verdict.gates
    left = [each for each in gates if each.sentence not in report.verdict.sentence] if len(gates) > 1 else []
    if left:
        yield Verdict(
            tuple(Sentence(Quote(each.sentence), _TONES[each.state], STATES_OF_GATES[each.state]) for each in left)
        )


class FailedCase(Struct, frozen=True):
    """A case that did not pass, or that made a gate fail."""

    outcomes: tuple[CaseOutcome, ...]
    """Its prompts and targets that did not pass, or that count against the gate."""
    also: tuple[str, ...] = ()
    """The other failed gates that list it."""

    @property
    def id(self) -> CaseId:
        """The suite and the id of the case."""
        return self.outcomes[0].id

    @property
    def worst(self) -> CaseOutcome:
        """The first of the outcomes with the worst state."""
        return min(self.outcomes, key=lambda each: shown_first(each.result)[0])

    @property
    def shared_texts(self) -> frozenset[str]:
        """The names of the texts that all prompts and targets share; a logged answer has a place of its own."""
        origins = {each.result.origin for each in self.outcomes}
        return _SHARED if len(origins) > 1 else _SHARED | {_FROM}

    def groups(self) -> Iterator[tuple[CaseOutcome, ...]]:
        """Yield its prompts and targets, those with the same answer and reason together."""
        same: dict[object, list[CaseOutcome]] = {}
        for each in self.outcomes:
            texts = tuple(
                (text.name, text.text) for text in _cell_texts(each, self.shared_texts) if text.name != "before"
            )
            same.setdefault(texts, []).append(each)
        yield from map(tuple, same.values())


class CaseList(Struct, frozen=True):
    """Some of the cases that did not pass, under a heading that says what they have in common."""

    heading: Phrase
    cases: tuple[FailedCase, ...]


class FailedCases(Struct, frozen=True):
    """The cases of a report that did not pass or made a gate fail; no case is in it twice."""

    heading: Phrase
    lists: tuple[CaseList, ...]
    others: tuple[CaseId, ...] = ()
    """The cases that are not shown, as far as their names are known."""
    new: tuple[CaseId, ...] = ()
    """Those of `others` that the baseline does not have: no gate about it counts them."""
    others_total: int = 0
    """The number of cases that are not shown."""
    command: str = ""
    """The command that shows all."""

    @property
    def shown(self) -> Iterator[FailedCase]:
        """The cases that are shown."""
        return (case for each in self.lists for case in each.cases)


def failed_cases(report: RunReport) -> FailedCases:
    """Return the cases that made each gate fail, those of gates about a baseline first, then the others.

    At most ten cases are shown. A gate on all results of the run has no list of its own: the last one has its cases.
    """
    gates = sorted(_of_files(report.verdict.gates_with_cases), key=lambda gate: gate.cases[0].before is None)
    outcomes: dict[CaseId, dict[CaseName, CaseOutcome]] = {}
    for case in (*(case for gate in gates for case in gate.cases), *report.cases):
        outcomes.setdefault(case.id, {}).setdefault(case.name, case)
    ids = [list(dict.fromkeys(case.id for case in gate.cases)) for gate in gates]
    run_ids = list(dict.fromkeys(case.id for case in report.cases))
    shown = _first_of_each(ids, run_ids)
    lists, missing = [], _missing_answers(report)
    for number, gate in enumerate((*gates, None)):
        listed = tuple(
            FailedCase(
                tuple(sorted(outcomes[each].values(), key=lambda case: (case.name.prompt or "", case.name.target))),
                tuple(repr(other.expression) for other, of in zip(gates, ids, strict=True) if each in of)[1:],
            )
            for each, of in shown.items()
            if of == number
        )
        if listed:
            lists.append(CaseList("" if gate is None else (*gate_heading(gate), *missing), listed))
            missing = ()
    known = dict.fromkeys((*outcomes, *(each for gate in gates for each in gate.other_cases), *report.other_cases))
    new = tuple(each for each in _new_cases(report) if each not in shown)
    not_passed = {each for each in outcomes if _has_failed(outcomes[each].values())} | {*report.other_cases, *new}
    others = tuple(each for each in dict.fromkeys((*known, *new)) if each not in shown)
    unknown = max(0, report.cases_distinct - len(not_passed | set(run_ids)))
    heading = f"did not pass: {_count(report.cases_total, report.cases_distinct, report.cases)}"
    if len(lists) > 1 and not lists[-1].heading:
        lists[-1] = CaseList("others that did not pass", lists[-1].cases)
    return FailedCases(
        heading if report.cases_total else "",
        tuple(lists),
        others,
        new,
        others_total=len(others) + unknown,
        command=_command(report),
    )


def _new_cases(report: RunReport) -> Iterator[CaseId]:
    """Yield the first cases that did not pass and that the baseline does not have."""
    if report.baseline is not None:
        yield from (CaseId(*each) for each in report.baseline.added.failed_cases)


def _of_files(gates: Iterable[GateResult]) -> Iterator[GateResult]:
    """Yield the gates that do not count the whole run; the same gate of several eval files becomes one."""
    by_expression: dict[str, list[GateResult]] = {}
    for gate in gates:
        if not gate.is_whole_run:
            by_expression.setdefault(gate.expression, []).append(gate)
    for first, *others in by_expression.values():
        every = (first, *others)
        in_turn = zip_longest(*([*_by_id(gate.cases).values()] for gate in every), fillvalue=())
        yield replace(
            first,
            cases=tuple(case for turn in in_turn for cases in turn for case in cases),
            other_cases=tuple(each for gate in every for each in gate.other_cases),
            cases_total=sum(gate.cases_total for gate in every),
            cases_distinct=sum(gate.cases_distinct for gate in every),
        )


def _by_id(cases: Iterable[CaseOutcome]) -> dict[CaseId, list[CaseOutcome]]:
    found: dict[CaseId, list[CaseOutcome]] = {}
    for case in cases:
        found.setdefault(case.id, []).append(case)
    return found


def _has_failed(outcomes: Iterable[CaseOutcome]) -> bool:
    return any(row_state(each.result) not in ("pass", "skipped") for each in outcomes)


def _first_of_each(lists: Sequence[Sequence[CaseId]], rest: Sequence[CaseId]) -> dict[CaseId, int]:
    """Return ten cases, each with the number of its list: from each list in turn, then from `rest`."""
    chosen: dict[CaseId, int] = {}
    turns = (each for turn in zip_longest(*lists) for each in enumerate(turn))
    for number, case in (*turns, *((len(lists), case) for case in rest)):
        if case is not None and len(chosen) < _MAX_CASES:
            chosen.setdefault(case, number)
    order = {case: place for place, case in enumerate(case for each in lists for case in each)}
    return dict(sorted(chosen.items(), key=lambda each: (each[1], order.get(each[0], 0))))


def _command(report: RunReport) -> str:
    if not report.cases_total and report.baseline is not None:
        return f"agentv compare {shlex.quote(one_line(report.baseline.baseline))} {report.run_id}"
    return f"agentv show {report.run_id} --failed"


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
    return cases_text(total, distinct, has_prompts=any(case.name.prompt for case in cases))


def case_blocks(report: RunReport, labels: RowLabels, *, is_short: bool = False, is_whole: bool = False) -> list[Block]:
    """Return the cases that did not pass, then the names of those that are not shown.

    With `is_short`, a case has a line with its first reason. With `is_whole`, all known names are listed.
    """
    found = failed_cases(report)
    make_item = short_item if is_short else case_item
    items = [Items(tuple(make_item(case, labels) for case in each.cases)) for each in found.lists] or [Items(())]
    headings = [each.heading for each in found.lists] or [""]
    names: list[Block] = []
    if found.others_total:
        items[-1] = replace(items[-1], more=(f"and {found.others_total:,} more: ", Quote(found.command)))
        names = _other_names(found, None if is_whole else _MAX_NAMES_CHARS)
    elif not found.lists:
        return []
    sections = (Section(heading, (each,)) for heading, each in zip(headings, items, strict=True))
    return [Section(found.heading, (*sections, *names))]


def _other_names(found: FailedCases, max_chars: int | None) -> list[Block]:
    """Return the names of the cases that are not shown, on a line of its own those that the baseline does not have."""
    new = _names(found.new, max_chars)
    shown = _names([each for each in found.others if each not in found.new], max_chars)
    unnamed = found.others_total - len(new) - len(shown)
    rest = f" and {unnamed:,} others" if unnamed else ""
    lines: list[Phrase] = [("not in the baseline: ", *joined(tuple(map(Quote, new)), ", "))] if new else []
    if shown:
        lines.append((*joined(tuple(map(Quote, shown)), ", "), rest))
    return [Lines(tuple(lines))] if lines else []


def _names(ids: Sequence[CaseId], max_chars: int | None) -> tuple[str, ...]:
    """Return the first names of cases; those that several suites have are followed by their suites."""
    counts = Counter(each.eval_id for each in ids)
    names = [each.eval_id if counts[each.eval_id] == 1 else f"{each.eval_id} ({each.suite})" for each in ids]
    lengths = accumulate(len(name) + 2 for name in names)
    return tuple(name for name, length in zip(names, lengths, strict=True) if max_chars is None or length <= max_chars)


def short_item(case: FailedCase, labels: RowLabels) -> Item:
    """Return a case on one line: the prompts and targets with which it did not pass, and the first reason."""
    first = case.worst
    state, reason = row_state(first.result), row_reason(first.result)
    if len(case.outcomes) == 1:
        return Item(_head(first, labels), case_facts(first), state, brief=reason)
    names = [each.name for each in case.outcomes]
    return Item(Quote(labels.name(first.result)), (variants(names),), state, brief=reason)


def variants(names: Sequence[CaseName]) -> Phrase:
    """Return prompts and targets as `weak: plain, polite; good: plain`, or if that is long, their number."""
    by_target: dict[str, list[str]] = {}
    for name in names:
        by_target.setdefault(name.target, []).append(name.prompt or "")
    named = (f"{target}: {', '.join(prompts)}".removesuffix(": ") for target, prompts in by_target.items())
    text = "; ".join(named)
    is_short = len(text) <= _MAX_VARIANTS_CHARS or len(names) == 1
    return Quote(text) if is_short else f"{len(names):,} prompts and targets"


def case_item(case: FailedCase, labels: RowLabels) -> Item:
    """Return a case with question and expectation, and its prompts and targets with answers and reasons."""
    first = case.worst
    also: tuple[Phrase, ...] = (("also ", Quote(", ".join(case.also))),) if case.also else ()
    if len(case.outcomes) == 1:
        facts = (*case_facts(first), *also, *_place(first, labels))
        texts = tuple(case_texts(first))
        return Item(
            _head(first, labels),
            facts,
            row_state(first.result),
            excerpts=texts,
            key=case_key(*case.id),
            seq=first.result.seq,
        )
    parts = [part for group in case.groups() for part in _parts(group, labels, case.shared_texts)]
    shown, left = parts[:_MAX_PARTS], len(parts) - _MAX_PARTS
    more = (Item(f"and {left:,} more"),) if left > 0 else ()
    question = tuple(each for each in case_texts(first) if each.name in case.shared_texts)
    head, mark = Quote(labels.name(first.result)), row_state(first.result)
    facts = (*also, *_place(first, labels))
    return Item(
        head, facts, mark, excerpts=question, parts=(*shown, *more), key=case_key(*case.id), seq=first.result.seq
    )


def _parts(group: Sequence[CaseOutcome], labels: RowLabels, shared: Collection[str]) -> Iterator[Item]:
    """Yield a line for each prompt and target; the last one has the answer and the reasons that they share."""
    with_texts = next((each for each in group if each.before is not None), group[0])
    for number, each in enumerate(group, 1):
        texts = tuple(_cell_texts(with_texts, shared)) if number == len(group) else ()
        target = each.name.target if labels.with_target or each.name.prompt is None else None
        head, state = Quote(cell_text(target, each.name.prompt)), row_state(each.result)
        yield Item(head, case_facts(each), state, excerpts=texts, seq=each.result.seq)


def _head(case: CaseOutcome, labels: RowLabels) -> Quote:
    return Quote(labels.case(case.result))


def _place(case: CaseOutcome, labels: RowLabels) -> tuple[Phrase, ...]:
    row = case.result
    is_among_texts = row.origin is not None and row.origin.file == row.file
    is_shown = labels.with_place and row.file and not is_among_texts
    return (("at ", Quote(f"{row.file}:{row.line}")),) if is_shown else ()


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
    if row.origin is not None:  # the trace is enough to find the span, and can be copied as it is not cut
        yield Excerpt(_FROM, origin_text(replace(row.origin, span_id="")), _MAX_ORIGIN_LINES)


def _cell_texts(case: CaseOutcome, shared: Collection[str]) -> Iterator[Excerpt]:
    """Yield the texts that differ by prompt and target."""
    return (each for each in case_texts(case) if each.name not in shared)


def annotations(report: RunReport, labels: RowLabels) -> Iterator[str]:
    """Yield a command of GitHub Actions for each case that is shown: an error, or a warning for a borderline case.

    A case with several prompts or targets has one command: the first of them, with the names of the others.
    """
    for each in failed_cases(report).shown:
        case, *others = each.outcomes
        texts = (f"{text.name}: {one_line(text.text[:_MAX_COMMAND_CHARS])}" for text in case_texts(case))
        also = (f"also {plain(_head(other, labels))}: {', '.join(case_facts(other))}" for other in others)
        message = "\n".join(filter(None, (", ".join(case_facts(case)), *texts, *also)))
        is_borderline = row_state(case.result) == "borderline"
        yield workflow_command("warning" if is_borderline else "error", case.result, labels, message)
