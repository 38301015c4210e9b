"""The report of a run: its state, its counts and its verdict."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, cast, get_args

from msgspec import Struct

from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject
from agentv.types.records.result import CaseResult
from agentv.types.structs import repr_without
from agentv.types.summaries import (
    BaselineSummary,
    CorrectedRate,
    EvaluatorSummary,
    GroupSummary,
    MatrixSummary,
    TargetSummary,
)
from agentv.types.views import (
    MAX_LINES,
    Line,
    View,
    escape,
    reason_of,
    score_text,
    table_html,
    view_html,
    view_of,
    view_text,
)

RowState: TypeAlias = Literal["pass", "borderline", "fail", "error", "skipped"]
"""The five disjoint states of a row: a verdict, or the reason why there is none."""


GateState: TypeAlias = Literal["passed", "failed", "undecided", "not_evaluated"]
"""The state of a gate: `undecided` if a run lacks the data for it, `not_evaluated` if it does not apply to the run."""


class CaseId(NamedTuple):
    """A case of a suite, whatever its prompt and target."""

    suite: str
    eval_id: str


class CaseName(NamedTuple):
    """The unit of pairing: a case of a suite with a target, and with a prompt if the suite has prompts.

    A side of a comparison calls each such unit a case.
    """

    suite: str
    eval_id: str
    target: str
    prompt: str | None = None


class CaseBefore(Struct, frozen=True):
    """A case in the baseline: its mean score, and its answer; None if that is not known, as in a baseline file."""

    score: float
    answer: str | None = None


class CaseOutcome(Struct, frozen=True):
    """A case with its target and prompt that did not pass, or that made a gate fail."""

    result: CaseResult
    """Of the results that count, the first trial of the worst state."""
    question: str = ""
    """Empty if it was not stored."""
    expected: str = ""
    """The reference answer or the expected outcome; empty if there is none, or if it was not stored."""
    failed: int = 1
    """The number of `results` that did not pass, or that count against the gate."""
    results: int = 1
    """The number of the case's results, which are its trials."""
    before: CaseBefore | None = None
    """What the baseline has; None for a gate that is not about a baseline."""
    reruns: int = 0
    """How often the case failed when it was called again to confirm that it fails."""

    @property
    def name(self) -> CaseName:
        """The case with its target and prompt."""
        slot = self.result.slot
        return CaseName(slot.suite, slot.eval_id, slot.target, slot.prompt)

    @property
    def id(self) -> CaseId:
        """The case without its target and prompt."""
        return CaseId(self.result.slot.suite, self.result.slot.eval_id)


class GateResult(Struct, frozen=True):
    """One gate expression with its result."""

    expression: str
    state: GateState
    value: float | None
    """The number that was compared with the bound: the metric, or for `with 95%` an end of its interval; None if
    nothing was measured.
    """
    sentence: str
    cases: tuple[CaseOutcome, ...] = ()
    """The first of the `cases_total` cases that made the gate fail, the worst first; targets and prompts of a case
    follow each other.
    """
    other_cases: tuple[CaseId, ...] = ()
    """The next worst cases."""
    cases_total: int = 0
    """The number of the cases, each with its targets and prompts."""
    cases_distinct: int = 0
    """The number of the cases without targets and prompts."""
    is_whole_run: bool = False
    """True if every result of the run that did not pass counts against the gate."""

    @property
    def passed(self) -> bool:
        """True if the gate was evaluated and holds."""
        return self.state == "passed"

    @property
    def is_evaluated(self) -> bool:
        """True if the gate applies to the run: it passed, failed or is undecided."""
        return self.state != "not_evaluated"


def gate_to_json(gate: GateResult) -> JsonObject:
    """Return the result of a gate as JSON, the same in every report."""
    return {
        "expression": gate.expression,
        "state": gate.state,
        "passed": gate.passed,
        "value": gate.value,
        "sentence": gate.sentence,
    }


def gate_from_json(fields: JsonObject) -> GateResult:
    """Return the result of a gate. Older versions stored no state: a gate without a value was not measured."""
    state, number = fields.get("state"), fields.get("value")
    value = float(number) if isinstance(number, int | float) else None
    if state not in get_args(GateState):
        state = "passed" if fields.get("passed") is True else "undecided" if value is None else "failed"
    sentence = str(fields.get("sentence", ""))
    return GateResult(str(fields.get("expression", "")), cast(GateState, state), value, sentence)


class RunVerdict(Struct, frozen=True):
    """The verdict of a run: exit code and sentence, printed the same everywhere (docs/reference/gates.md)."""

    exit_code: int
    sentence: str
    gates: tuple[GateResult, ...] = ()

    @property
    def gates_with_cases(self) -> tuple[GateResult, ...]:
        """The failed gates whose cases are known."""
        return tuple(gate for gate in self.gates if gate.cases)


class CaseTexts(NamedTuple):
    """The texts of a case that its results do not have; empty if they are not known."""

    question: str = ""
    expected: str = ""
    """The reference answer, else the expected outcome."""


class ReportOutputs(Protocol):
    """A writer of report files and data frames, for the methods of RunReport."""

    def save(self, report: "RunReport", path: str) -> None:
        """Write a report to a file in the format of its suffix."""

    def frame(self, report: "RunReport") -> Any:
        """Return a data frame with one row for each result."""

    def texts(self, report: "RunReport", rows: Sequence[CaseResult]) -> Sequence[CaseTexts]:
        """Return the texts of the case of each row."""


def _line_of(case: CaseOutcome, texts: CaseTexts) -> Line:
    row = case.result
    state = "error" if row.status == "error" else row.verdict or row.status
    trial = f"trial {row.trial + 1}" if row.trial and case.results == 1 else ""
    name = " · ".join(filter(None, (row.eval_id, row.target, row.prompt, trial)))
    passed = f"{case.results - case.failed} of {case.results} passed" if case.results > 1 else ""
    said = (("question", texts.question), ("expected", texts.expected), ("answer", row.candidate_answer))
    return Line(state, name, row.judged_score, _missed_text(row), passed, texts=said)


def _missed_text(row: CaseResult) -> str:
    """Return why a result did not pass: its error, else what each evaluator missed, behind its name."""
    if row.error is not None:
        return row.error.message
    missed = [
        f"{each.name}: {each.error.message if each.error else '; '.join(each.misses) or each.reasoning}"
        for each in row.evaluator_results
        if each.status != "skipped" and (each.error or each.verdict != "pass") and (each.misses or each.reasoning)
    ]
    return " | ".join(missed) or reason_of(row.reasoning, row.misses)


RunState: TypeAlias = Literal["finished", "stopped", "interrupted", "failed", "running"]
"""How a run ended; `running` if another process is still writing it."""


class RunReport(Struct, frozen=True):
    """The report of a run: counts, means, rows that did not pass, notes, and the verdict."""

    run_id: str
    state: RunState
    planned: int | None
    targets: tuple[TargetSummary, ...]
    evaluators: tuple[EvaluatorSummary, ...]
    histogram: tuple[int, ...]
    verdict: RunVerdict
    failing: tuple[CaseResult, ...] = ()
    """The first rows that did not pass, up to a limit, in the order they finished."""
    failing_total: int = 0
    """The number of all rows that did not pass."""
    cases: tuple[CaseOutcome, ...] = ()
    """The first cases that did not pass: failed ones, then borderline ones, then those with an error.

    Targets and prompts of a case follow each other.
    """
    other_cases: tuple[CaseId, ...] = ()
    """The next cases that did not pass, up to a limit."""
    cases_total: int = 0
    """The number of all cases that did not pass, each with its targets and prompts."""
    cases_distinct: int = 0
    """The number of all cases that did not pass, without targets and prompts."""
    worst: tuple[CaseResult, ...] = ()
    """Of the rows that did not pass, those with the lowest scores."""
    errors: tuple[CaseResult, ...] = ()
    """The first rows with an error."""
    flaky: tuple[str, ...] = ()
    reruns: int = 0
    """The number of results that were re-run after they had an answer."""
    rescored: int = 0
    """How often answers were judged again."""
    notes: tuple[str, ...] = ()
    duration_s: float = 0.0
    folder: str | None = None
    needs: str = ""
    """The options that `agentv resume` requires."""
    baseline: BaselineSummary | None = None
    groups: tuple[GroupSummary, ...] = ()
    matrix: MatrixSummary | None = None
    corrected: tuple[CorrectedRate, ...] = ()
    """The pass rates of judges with a calibration."""
    results: tuple[CaseResult, ...] = ()
    """All results in a report that `evaluate()` returned; empty in every other report."""
    read: int | None = None
    """The number of lines read; set for a stream of existing answers only."""
    judging_median_s: float | None = None
    """The median time to judge an answer; set for a stream of existing answers only."""
    judging_p95_s: float | None = None
    """The 95th percentile of the time to judge an answer; set for a stream of existing answers only."""
    is_imported: bool = False
    """True for a run made from another program's log, which cannot be resumed."""
    outputs: ReportOutputs | None = None
    by: tuple[str, ...] = ()
    """The kinds of `groups` to show as tables."""

    def __repr__(self) -> str:
        """Return the usual text without results, whose answers may be long: asyncio takes the repr of what it ran."""
        return repr_without(self, "failing", "cases", "worst", "errors", "results", "outputs")

    @property
    def passed(self) -> bool | None:
        """True if the exit code is 0 (gates met, nothing missing); None if nothing was judged."""
        judged = sum(self.counts.get(state, 0) for state in ("pass", "borderline", "fail"))
        return self.exit_code == 0 if judged else None

    @property
    def failures(self) -> tuple[CaseResult, ...]:
        """The results that did not pass or could not be judged; `failing` if the report has no `results`."""
        if not self.results:
            return self.failing
        return tuple(row for row in self.results if row.passed is not True and row.status != "skipped")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report to a file, in the format of its suffix: .html, .md, .csv, .junit.xml, .jsonl, .json, ….

        Raises ConfigError for an unknown suffix or a file that cannot be written.
        """
        self._outputs().save(self, os.fspath(path))

    def to_dataframe(self) -> Any:
        """Return one row for each result, as a DataFrame of pandas, else of polars, else as an Arrow table.

        Its columns: suite, case, target, prompt, trial, status, verdict, score, one `score.NAME` for each evaluator,
        question, expected (the reference answer, else the expected outcome), answer, reasoning, error, duration_ms,
        cost_usd and tags. Raises MissingExtraError if none of these packages is installed.
        """
        return self._outputs().frame(self)

    def _outputs(self) -> ReportOutputs:
        if self.outputs is None:
            raise ConfigError("only a report that evaluate() returned can be saved or converted to a data frame")
        return self.outputs

    def _view(self, *, with_texts: bool = False) -> View:
        shown = self.cases or tuple(map(CaseOutcome, self.failures[:MAX_LINES]))
        has_texts = with_texts and self.outputs is not None
        rows = tuple(each.result for each in shown)
        texts = self._outputs().texts(self, rows) if has_texts else [CaseTexts()] * len(shown)
        total = self.cases_total if self.cases else len(self.failures) if self.results else self.failing_total
        state = {True: "pass", False: "fail", None: "error"}[self.passed]
        return view_of(state, self.verdict.sentence, map(_line_of, shown, texts), total=total)

    def __str__(self) -> str:
        """Return the verdict, the rates of each target, and the first cases that did not pass, with their reasons."""
        heading, *lines = view_text(self._view()).split("\n")
        rates = [f"  {target} · {counts} · mean {mean}" for target, counts, mean in self._rates()]
        return "\n".join((heading, *rates, *self._compared(), *lines))

    def _repr_html_(self) -> str:
        """Return what `str` returns as tables, with questions and answers, for notebooks."""
        compared = "".join(f"<p>{escape(line)}</p>" for line in self._compared())
        targets = table_html("targets", ("target", "results", "mean score"), self._rates())
        return view_html(self._view(with_texts=True)) + compared + targets

    def _compared(self) -> list[str]:
        found = self.baseline
        if found is None:
            return []
        difference = "" if found.difference is None else f", mean score {found.difference:+.2f}"
        return [f"  compared with {found.baseline}: {found.finding}{difference} ({found.cases} cases)"]

    def _rates(self) -> list[tuple[str, str, str]]:
        return [
            (
                each.target,
                ", ".join(f"{count} {state}" for state, count in each.counts.items() if count),
                score_text(each.mean_score),
            )
            for each in self.targets
        ]

    @property
    def shown_groups(self) -> tuple[GroupSummary, ...]:
        """The groups to show as tables."""
        return tuple(group for group in self.groups if group.by in self.by)

    @property
    def exit_code(self) -> int:
        """The exit code of `agentv run`."""
        return self.verdict.exit_code

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows by state over all targets."""
        total: dict[str, int] = {}
        for target in self.targets:
            for state, count in target.counts.items():
                total[state] = total.get(state, 0) + count
        return total
