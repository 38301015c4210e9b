"""The fixture `agentv`: the rows of a marked test, checks of a test's own answers, and what a failure prints."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress

import msgspec
import pytest
from _pytest.outcomes import Failed

from agentv.pytest_plugin.marked import MarkedCase, wanted_cases
from agentv.pytest_plugin.rows import GivenAnswer, RowSource, SessionRun, session_options
from agentv.pytest_plugin.state import MARKER, SESSION
from agentv.scoring.results.conversations import transcript
from agentv.types.cases import EvalCase
from agentv.types.errors import AgentvError, ConfigError, JudgeUnavailable
from agentv.types.evaluation import EvaluatorResult
from agentv.types.json_value import JsonValue
from agentv.types.messages_json import content_text, reference_answer
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult

MAX_PRINTED_LINES = 30
"""The maximum number of lines that are printed of one text."""


def failure_text(row: CaseResult, case: EvalCase | None, *, prompt: str = "", expected: str | None = None) -> str:
    """Return why a row did not pass. A row of `agentv.check` has no case, but may have `prompt` and `expected`."""
    if case is not None:
        user_messages = [message for message in case.input_messages if message.role == "user"]
        prompt = content_text(user_messages[-1].content) if user_messages else ""
        expected = reference_answer(case.expected_messages) or case.expected_outcome
    score = "" if row.score is None else f", score {row.score:.2f}"
    lines = [f"{_row_label(row)}: {row.verdict}{score}"]
    for result in row.evaluator_results:
        lines += _failure_reasons(result)
    if case is not None and case.turns:
        return "\n".join((*lines, *_text_lines("conversation", transcript(row.output_messages or ()))))
    for label, text in (("question", prompt), ("expected", expected or ""), ("actual", row.candidate_answer or "")):
        if text or label == "actual":
            lines += _text_lines(label, text or "(empty)")
    return "\n".join(lines)


def _has_failed(row: CaseResult) -> bool:
    """Return True for a row that was judged and did not pass; a row with an error or a skipped one was not judged."""
    return row.status not in ("error", "skipped") and row.passed is not True


def no_verdict_text(row: CaseResult) -> str:
    """Return why a row has no verdict."""
    message = "unknown error" if row.error is None else row.error.message
    return f"{_row_label(row)}: {message}"


def _row_label(row: CaseResult) -> str:
    parts = [row.target] if row.target != "check" else []
    parts += [row.prompt] if row.prompt is not None else []
    parts += [f"trial {row.trial + 1}"] if row.trial else []
    return f"{row.eval_id} ({', '.join(parts)})" if parts else row.eval_id


def _failure_reasons(result: EvaluatorResult, indent: str = "  ") -> Iterator[str]:
    if result.verdict == "pass" and not result.misses:
        return
    score = "" if result.status == "skipped" else f", score {result.score:.2f}"
    yield f"{indent}{result.name} ({result.type}): {result.verdict or result.status}{score}"
    for miss in result.misses:
        yield f"{indent}  missing: {miss}"
    if result.reasoning:
        yield f"{indent}  reason: {result.reasoning}"
    for member in result.evaluator_results:
        yield from _failure_reasons(member, f"{indent}  ")


def _text_lines(label: str, text: str) -> Iterator[str]:
    lines = text.splitlines() or [""]
    yield f"  {label}: {lines[0]}"
    yield from (f"    {line}" for line in lines[1:MAX_PRINTED_LINES])
    if len(lines) > MAX_PRINTED_LINES:
        yield f"    … {len(lines) - MAX_PRINTED_LINES} more lines"


class NoVerdictError(Failed):
    """A case has no verdict. Shown without a traceback. `kind` says what failed: `target`, `judge` or the `run`."""

    __qualname__ = "Failed"  # the short summary of pytest prints module and name of an exception before its message
    __module__ = "builtins"

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message, pytrace=False)
        self.agentv_kind = kind


def _to_json(value: object) -> JsonValue:
    """Return a value as JSON, to be sent to another process. Raises ConfigError for a value that is not JSON."""
    __tracebackhide__ = True
    try:
        decoded: JsonValue = msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"agentv.check takes texts, numbers, lists and dicts: {error}") from None
    return decoded


def _judge_name(judge: object) -> str | None:
    """Return the name of a judge; for a dict, its JSON. Raises ConfigError for any other type."""
    __tracebackhide__ = True
    if judge is None or isinstance(judge, str):
        return judge
    if not isinstance(judge, Mapping):
        raise ConfigError(
            f"judge must be the name of a target, provider:model or a dict with `provider`, not {type(judge).__name__}"
        )
    return json.dumps(_to_json(judge))


class AgentvFixture:
    """The fixture `agentv` of one test. In a marked test, `results` has a row for each prompt, target and trial."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._case: EvalCase | None = None
        self._not_passed: list[ResultKey] = []
        self._is_expected = True
        self.results: tuple[CaseResult, ...] = ()

    @property
    def result(self) -> CaseResult:
        """The row of a marked test. Raises ValueError if the test has none, or several."""
        if len(self.results) != 1:
            raise ValueError(f"`result` needs exactly one result; this test has {len(self.results)} (in `results`)")
        return self.results[0]

    def run_case(self, marked: MarkedCase) -> None:
        """Run the case of a marked test, in its setup phase.

        Raises NoVerdictError if the case cannot be run, or if one of its rows ended with an error.
        """
        self._case = marked.case
        try:
            self.results = self._row_source().of_case(marked.wanted, wanted_cases(self._item.session.items))
        except AgentvError as error:
            raise NoVerdictError(str(error), "run") from None
        self._not_passed += [row.slot for row in self.results if _has_failed(row)]
        broken = [row for row in self.results if row.status == "error"]
        if broken:
            kind = "judge" if all(row.error and row.error.stage == "evaluator" for row in broken) else "target"
            raise NoVerdictError("\n".join(map(no_verdict_text, broken)), kind)

    def assert_passed(self) -> None:
        """Fail the test if a row of its case has a verdict other than `pass`; skip it if all rows were skipped."""
        if self.results and all(row.status == "skipped" for row in self.results):
            pytest.skip(self.results[0].reasoning or "the case was skipped")
        failed = [row for row in self.results if row.verdict not in ("pass", None)]
        if failed and self._case is not None:
            case = self._case
            pytest.fail("\n\n".join(failure_text(row, case) for row in failed), pytrace=False)

    def check(
        self,
        answer: JsonValue,
        *,
        prompt: str = "",
        expected: str | None = None,
        judge: str | Mapping[str, JsonValue] | None = None,
        **evaluators: JsonValue,
    ) -> CaseResult:
        """Judge an answer by the evaluators given as keywords, and return the result.

        Each keyword is a type of evaluator. Its value is the main setting, a dict of all settings, or True for no
        settings: `contains="30 days"`, `llm_judge="Is polite"`, `length={"max": 40}`. The answer is a text, or the JSON
        that a model API or a framework returned. `expected` is the reference answer. `judge` is the name of a target,
        `provider:model`, or a dict with `provider`; default: the judge of `--agentv-target`, or of the default target.

        Raises AssertionError with the reasons unless the verdict is `pass`, JudgeUnavailable if an evaluator could not
        judge, and ConfigError for an answer or evaluators that cannot be used.
        """
        __tracebackhide__ = True
        if not evaluators:
            raise ConfigError("agentv.check needs at least one evaluator, as in contains='30 days'")
        file, _, test = self._item.nodeid.partition("::")
        given = GivenAnswer(
            id=test,
            file=file,
            answer=_to_json(answer),
            prompt=prompt,
            expected=expected,
            evaluators={name: _to_json(value) for name, value in evaluators.items()},
            judge=_judge_name(judge),
        )
        try:
            row = self._row_source().of_answer(given, wanted_cases(self._item.session.items))
        except AgentvError as error:
            raise error.with_traceback(None) from None  # the message gives the reason; our frames would not help
        if _has_failed(row):
            self._not_passed.append(row.slot)
        if row.error is not None and row.error.stage != "evaluator":
            raise ConfigError(f"the answer cannot be checked: {row.error.message}")
        if row.status == "error":
            raise JudgeUnavailable(no_verdict_text(row))
        if row.verdict != "pass":
            raise AssertionError(failure_text(row, None, prompt=prompt, expected=expected))
        return row

    def note_outcome(self, report: pytest.TestReport) -> None:
        """Take the outcome of a phase of the test; after the last one, settle the rows that did not pass.

        The test expected that they do not pass if it is marked `xfail`, or if it passed by catching the exception.
        """
        is_skip = report.skipped and not hasattr(report, "wasxfail")
        self._is_expected = self._is_expected and not (report.failed or is_skip)
        if report.when != "teardown" or not self._not_passed:
            return
        expected = f"{self._item.nodeid} expected that this does not pass" if self._is_expected else None
        with suppress(AgentvError):  # the run has ended, for instance because the session was interrupted
            self._row_source().settle(self._not_passed, expected=expected)

    def _row_source(self) -> RowSource:
        config = self._item.config
        session = config.stash[SESSION]
        if session.row_source is None:
            worker = getattr(config, "workerinput", {})
            if MARKER in worker:
                from agentv.pytest_plugin.remote import ControllerRowSource  # noqa: PLC0415 - only with pytest-xdist

                session.row_source = ControllerRowSource(worker[MARKER])
            else:
                session.row_source = SessionRun(session_options(config))
        return session.row_source
