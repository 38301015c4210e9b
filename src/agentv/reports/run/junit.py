"""A run as JUnit XML: a testcase per result, in a testsuite per suite."""

from collections.abc import Iterator
from typing import TypeAlias
from xml.sax.saxutils import escape, quoteattr

from msgspec import Struct, field

from agentv.reports.document.blocks import plain
from agentv.reports.run.failed_cases import case_texts, gate_heading
from agentv.reports.run.formats import Format, ReportTools
from agentv.reports.run.row_text import LABELS_WITHOUT_TARGET, PLAIN_LABELS, origin_text, whole_reason
from agentv.reports.text.printable import one_line, printable
from agentv.scoring.results.aggregation import row_state
from agentv.types.events import RunEnded, RunEvent
from agentv.types.records.result import CaseResult
from agentv.types.results import CaseOutcome, GateResult, RunReport

_MAX_MESSAGE_CHARS = 500
_ELEMENTS = {"fail": "failure", "borderline": "failure", "error": "error", "skipped": "skipped"}


def make_junit(tools: ReportTools) -> Format:
    """Return the format that writes JUnit XML at the end of the run."""

    def text_of(event: RunEvent) -> str:
        return junit(event.report, tools) if isinstance(event, RunEnded) else ""

    return Format(text_of, empty=None)


NamedCase: TypeAlias = tuple[GateResult, CaseOutcome]
"""A case that made a gate fail, with its gate."""


class _Suite(Struct):
    """The testcases of one suite so far."""

    first: list[str] = field(default_factory=list)
    """The cases that made a gate fail."""
    cases: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("failure", "error", "skipped"), 0))
    """The number of testcases by kind."""
    seconds: float = 0.0

    def add(self, row: CaseResult, named: NamedCase | None, *, with_target: bool) -> None:
        kind = _ELEMENTS.get(row_state(row))
        if kind is not None:
            self.counts[kind] += 1
        self.seconds += (row.duration_ms or 0.0) / 1000
        cases = self.cases if named is None else self.first
        cases.append(_testcase(row, kind, named, with_target=with_target))

    def render(self, name: str, properties: str) -> str:
        head = _attributes({"name": name, **self._totals()})
        return f"  <testsuite {head}>\n{properties}{''.join((*self.first, *self.cases))}  </testsuite>\n"

    def _totals(self) -> dict[str, str]:
        return {
            "tests": str(len(self.first) + len(self.cases)),
            "failures": str(self.counts["failure"]),
            "errors": str(self.counts["error"]),
            "skipped": str(self.counts["skipped"]),
            "time": f"{self.seconds:.3f}",
        }


def junit(report: RunReport, tools: ReportTools) -> str:
    """Return the report as JUnit XML.

    A result that did not pass is a `failure`; a case that could not be scored is an `error`. The verdict and the exit
    code are properties of each testsuite, as are the failed gates. Cases that made a gate fail are the first of their
    testsuite.
    """
    suites: dict[str, _Suite] = {}
    with_target = len(report.targets) > 1
    named = {case.result.slot: (gate, case) for gate in report.verdict.gates_with_cases for case in gate.cases}
    for row in tools.rows(report):
        suites.setdefault(row.slot.suite, _Suite()).add(row, named.get(row.slot), with_target=with_target)
    properties = _properties(report)
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites {_totals(report, suites)}>\n'
    parts = [suite.render(name, properties) for name, suite in (suites or {"agentv": _Suite()}).items()]
    return f"{head}{''.join(parts)}</testsuites>\n"


def _totals(report: RunReport, suites: dict[str, _Suite]) -> str:
    def sum_of(kind: str) -> str:
        return str(sum(suite.counts[kind] for suite in suites.values()))

    return _attributes(
        {
            "name": f"agentv run {report.run_id}",
            "tests": str(sum(len(suite.first) + len(suite.cases) for suite in suites.values())),
            "failures": sum_of("failure"),
            "errors": sum_of("error"),
            "time": f"{report.duration_s:.3f}",
        }
    )


def _properties(report: RunReport) -> str:
    values = {"verdict": report.verdict.sentence, "exit_code": str(report.exit_code), "run_id": report.run_id}
    unverified = sum(target.unverified for target in report.targets)
    if unverified:
        values["unverified"] = str(unverified)
    if clamped := sum(target.clamped for target in report.targets):
        values["clamped"] = str(clamped)
    properties = [*values.items(), *(("failed_gate", _gate_text(gate)) for gate in report.verdict.gates_with_cases)]
    lines = [
        f"      <property {_attributes({'name': f'agentv.{name}', 'value': value})}/>\n" for name, value in properties
    ]
    return f"    <properties>\n{''.join(lines)}    </properties>\n"


def _gate_text(gate: GateResult) -> str:
    """Return a failed gate with the names of its cases."""
    names = [PLAIN_LABELS.case(case.result) for case in gate.cases]
    rest = gate.cases_total - len(names)
    return f"{plain(gate_heading(gate))}: {', '.join(names)}{f', and {rest:,} more' if rest > 0 else ''}"


def _testcase(row: CaseResult, kind: str | None, named: NamedCase | None, *, with_target: bool) -> str:
    attributes = {
        "classname": row.slot.suite,
        "name": (PLAIN_LABELS if with_target else LABELS_WITHOUT_TARGET).label(row),
        "file": row.file or row.slot.suite,
        "line": str(row.line) if row.line else "",
        "time": f"{(row.duration_ms or 0.0) / 1000:.3f}",
    }
    head = f"    <testcase {_attributes({name: value for name, value in attributes.items() if value})}"
    if kind is None:
        return f"{head}/>\n"
    return f"{head}>\n      {_outcome(row, kind, named)}\n    </testcase>\n"


def _outcome(row: CaseResult, kind: str, named: NamedCase | None) -> str:
    if kind == "skipped":
        return f"<skipped {_attributes({'message': row.reasoning})}/>" if row.reasoning else "<skipped/>"
    reason = whole_reason(row)
    message = reason if len(reason) <= _MAX_MESSAGE_CHARS else f"{reason[:_MAX_MESSAGE_CHARS]}…"
    type_ = row.error.kind if row.error is not None else row_state(row)
    if named is not None:
        text = "\n".join((plain(gate_heading(named[0])), *_labelled_texts(named[1]), reason))
    elif row.origin is not None and row.origin.trace_id:  # the place without one is in the attributes
        text = f"{reason}\nfrom: {origin_text(row.origin)}"
    else:
        text = reason
    return f"<{kind} {_attributes({'message': message, 'type': type_})}>{escape(printable(text))}</{kind}>"


def _labelled_texts(case: CaseOutcome) -> Iterator[str]:
    """Yield the question and the answers of a case that made a gate fail; its reason follows whole."""
    yield from (f"{each.name}: {one_line(each.text)}" for each in case_texts(case) if each.name != "reason")


def _attributes(values: dict[str, str]) -> str:
    return " ".join(f"{name}={quoteattr(one_line(value))}" for name, value in values.items())
