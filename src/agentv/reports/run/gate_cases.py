"""The outcomes of gates, and the cases that made one fail, as every report of a run names them."""

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeAlias

from agentv.reports.document.blocks import Quote, Sentence, Tone, Verdict
from agentv.reports.run.row_text import PLAIN_LABELS, RowLabels, error_command, row_reason, row_score
from agentv.reports.text.amounts import count_text, score_text
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import STATES_OF_GATES
from agentv.scoring.gates.failing_cases import case_name
from agentv.scoring.results.aggregation import row_state
from agentv.types.records.result import CaseResult
from agentv.types.results import CaseName, GateCase, GateResult, GateState, RunReport

_TONES: Mapping[GateState, Tone] = {
    "passed": "good",
    "failed": "bad",
    "undecided": "unsure",
    "not_evaluated": "unsure",
}
_MAX_COMMAND_CHARS = 500
NOT_IN_FILE = "its answer is not in the file"
"""The answer of a case in a baseline that is a file of scores, or a run that was deleted since."""


def gate_outcomes(report: RunReport) -> Iterator[Verdict]:
    """Yield the outcome of each gate, if there are several."""
    gates = report.verdict.gates
    if len(gates) > 1:
        yield Verdict(
            tuple(Sentence(Quote(each.sentence), _TONES[each.state], STATES_OF_GATES[each.state]) for each in gates)
        )


def gate_heading(gate: GateResult) -> str:
    """Return which gate failed, and on how many cases, or results if a case has several of them."""
    return f"gate {gate.expression!r} failed on {count_text(gate.cases_total, noun_of(gate))}"


def noun_of(gate: GateResult) -> str:
    """Return what a failed gate lists: a case with several targets or prompts has a result with each."""
    return "result" if gate.has_shared_cases else "case"


def case_facts(case: GateCase) -> str:
    """Return the score of a case, its score in the baseline, and how many of its trials and re-runs failed."""
    score = row_score(case.result)
    before = "" if case.before is None else f"was {score_text(case.before.score)}"
    trials = "" if case.results == 1 or not case.failed else f"{case.failed} of {case.results} trials"
    reruns = f"failed again in {count_text(case.reruns, 're-run')}" if case.reruns else ""
    brackets = ", ".join(filter(None, (before, trials, reruns)))
    return " ".join(filter(None, (score, f"({brackets})" if brackets else "")))


def named_before(gate: GateResult, report: RunReport) -> frozenset[CaseName]:
    """Return the cases that an earlier failed gate of the report names, with their texts."""
    gates = report.verdict.gates_with_cases
    return frozenset(case_name(case.result) for each in gates[: gates.index(gate)] for case in each.cases)


def case_texts(case: GateCase, named: Collection[CaseName] = ()) -> Iterator[tuple[str, str]]:
    """Yield the labelled texts of a case: question, answer in the baseline, answer, reasons; each as it is stored.

    Yield nothing for a case in `named`, whose texts are shown already.
    """
    if case_name(case.result) in named:
        return
    if case.question:
        yield "question", case.question
    if case.before is not None:
        yield "before", NOT_IN_FILE if case.before.answer is None else case.before.answer or "(empty)"
    if case.result.error is None:
        yield "answer", case.result.candidate_answer or "(empty)"
    yield "reason", row_reason(case.result)


def rest_command(gate: GateResult, report: RunReport) -> str:
    """Return the command that lists all cases of a gate."""
    if report.baseline is not None and gate.cases[0].before is not None:
        return f"agentv compare {shlex.quote(one_line(report.baseline.baseline))} {report.run_id}"
    return f"agentv show {report.run_id} --failed"


def rest_text(gate: GateResult, report: RunReport) -> str:
    """Return how many cases of a gate are not listed, and the command that lists them; empty if all are listed."""
    rest = gate.cases_total - len(gate.cases)
    return f"and {rest:,} more: {rest_command(gate, report)}" if rest > 0 else ""


def other_failing(report: RunReport) -> tuple[tuple[CaseResult, ...], int]:
    """Return the results to list besides the cases of failed gates, and how many did not pass and are not listed.

    If a failed gate names its cases, only errors are listed.
    """
    named: dict[CaseName, GateCase] = {}
    for gate in report.verdict.gates_with_cases:
        for case in gate.cases:
            named.setdefault(case_name(case.result), case)
    rows = report.failing
    if named:
        rows = tuple(row for row in rows if row_state(row) == "error" and case_name(row) not in named)
    not_passed = sum(case.failed for case in named.values() if row_state(case.result) not in ("pass", "skipped"))
    return rows, max(0, report.failing_total - not_passed - len(rows))


Annotation: TypeAlias = tuple[CaseName, str]
"""The case of a result, and the command of GitHub Actions that shows the result as an error."""


def annotation_of(result: CaseResult, labels: RowLabels = PLAIN_LABELS) -> Annotation:
    """Return the annotation of a result that did not pass."""
    return case_name(result), error_command(result, labels)


def annotations(report: RunReport, failed: Iterable[Annotation], labels: RowLabels = PLAIN_LABELS) -> Iterator[str]:
    """Yield the commands of GitHub Actions that show failures as errors at the file and line of their case.

    The cases that made a gate fail come first, then the other results, which are given as `failed`.
    """
    named = set()
    for gate in report.verdict.gates_with_cases:
        for case in gate.cases:
            named.add(case_name(case.result))
            texts = (f"{name}: {one_line(text[:_MAX_COMMAND_CHARS])}" for name, text in case_texts(case))
            yield error_command(case.result, labels, text="\n".join((gate_heading(gate), *texts)))
    yield from (command for name, command in failed if name not in named)
