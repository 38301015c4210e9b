"""The fixture `agentv`: the rows of a marked test, checks of a test's own answers, and what a failure prints."""

import json
from collections.abc import Iterator, Mapping

import msgspec
import pytest
from _pytest.outcomes import Failed

from agentv.pytest_plugin.marked import MarkedCase, wanted_of
from agentv.pytest_plugin.rows import GivenAnswer, Rows, SessionRun, session_options
from agentv.pytest_plugin.state import MARKER, SESSION
from agentv.scoring.results.conversations import transcript
from agentv.types.cases import EvalCase
from agentv.types.errors import AgentvError, ConfigError, JudgeUnavailable
from agentv.types.evaluation import EvaluatorResult
from agentv.types.json_value import JsonValue
from agentv.types.messages_json import content_text, reference_answer
from agentv.types.records.result import CaseResult

MAX_LINES = 30
"""The most lines of a text that are printed."""


def failed_text(row: CaseResult, case: EvalCase | None, *, prompt: str = "", expected: str | None = None) -> str:
    """Return why a row did not pass. A row of `agentv.check` has no case, but may have `prompt` and `expected`."""
    if case is not None:
        said = [message for message in case.input_messages if message.role == "user"]
        prompt = content_text(said[-1].content) if said else ""
        expected = reference_answer(case.expected_messages) or case.expected_outcome
    score = "" if row.score is None else f", score {row.score:.2f}"
    lines = [f"{_named(row)}: {row.verdict}{score}"]
    for result in row.evaluator_results:
        lines += _reasons(result)
    if case is not None and case.turns:
        return "\n".join((*lines, *_block("conversation", transcript(row.output_messages or ()))))
    for label, text in (("question", prompt), ("expected", expected or ""), ("actual", row.candidate_answer or "")):
        if text or label == "actual":
            lines += _block(label, text or "(empty)")
    return "\n".join(lines)


def broken_text(row: CaseResult) -> str:
    """Return why a row has no verdict."""
    message = "unknown error" if row.error is None else row.error.message
    return f"{_named(row)}: {message}"


def _named(row: CaseResult) -> str:
    parts = [row.target] if row.target != "check" else []
    parts += [row.prompt] if row.prompt is not None else []
    parts += [f"trial {row.trial + 1}"] if row.trial else []
    return f"{row.eval_id} ({', '.join(parts)})" if parts else row.eval_id


def _reasons(result: EvaluatorResult, indent: str = "  ") -> Iterator[str]:
    if result.verdict == "pass" and not result.misses:
        return
    yield f"{indent}{result.name} ({result.type}): {result.verdict or result.status}, score {result.score:.2f}"
    for miss in result.misses:
        yield f"{indent}  missing: {miss}"
    if result.reasoning:
        yield f"{indent}  reason: {result.reasoning}"
    for member in result.evaluator_results:
        yield from _reasons(member, f"{indent}  ")


def _block(label: str, text: str) -> Iterator[str]:
    lines = text.splitlines() or [""]
    yield f"  {label}: {lines[0]}"
    yield from (f"    {line}" for line in lines[1:MAX_LINES])
    if len(lines) > MAX_LINES:
        yield f"    … {len(lines) - MAX_LINES} more lines"


class RowFailedError(Failed):
    """A case that has no verdict, because its target or a judge failed; shown without a traceback."""

    __qualname__ = "Failed"  # the short summary of pytest prints module and name of an exception before its message
    __module__ = "builtins"

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message, pytrace=False)
        self.agentv_kind = kind


def _plain(value: object) -> JsonValue:
    """Return a value as JSON, as it is sent between processes. Raises ConfigError for other objects."""
    __tracebackhide__ = True
    try:
        decoded: JsonValue = msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"agentv.check takes texts, numbers, lists and dicts: {error}") from None
    return decoded


def _judge_name(judge: object) -> str | None:
    """Return the name of a judge, which for a dict is its JSON. Raises ConfigError for other objects."""
    __tracebackhide__ = True
    if judge is None or isinstance(judge, str):
        return judge
    if not isinstance(judge, Mapping):
        raise ConfigError(
            f"judge must be the name of a target, provider:model or a dict with `provider`, not {type(judge).__name__}"
        )
    return json.dumps(_plain(judge))


class AgentvFixture:
    """The fixture `agentv` of one test. `results` are the rows of a marked test: one for each target and trial."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._case: EvalCase | None = None
        self.results: tuple[CaseResult, ...] = ()

    @property
    def result(self) -> CaseResult:
        """The row of a marked test. Raises ValueError if the test has none, or several."""
        if len(self.results) != 1:
            raise ValueError(f"this test has {len(self.results)} results; use `results`")
        return self.results[0]

    def run_case(self, marked: MarkedCase) -> None:
        """Call and judge the case of a marked test, in its setup phase."""
        self._case = marked.case
        try:
            self.results = self._rows().of_case(marked.wanted, wanted_of(self._item.session.items))
        except AgentvError as error:
            raise RowFailedError(str(error), "run") from None
        broken = [row for row in self.results if row.status == "error"]
        if broken:
            kind = "judge" if all(row.error and row.error.stage == "evaluator" for row in broken) else "target"
            raise RowFailedError("\n".join(map(broken_text, broken)), kind)

    def assert_passed(self) -> None:
        """Fail the test if a row of its case did not pass."""
        failed = [row for row in self.results if row.verdict not in ("pass", None)]
        if failed and self._case is not None:
            case = self._case
            pytest.fail("\n\n".join(failed_text(row, case) for row in failed), pytrace=False)

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

        Each keyword is a type of evaluator, its value the main setting or a dict of all settings, or True for none:
        `contains="30 days"`, `llm_judge="Is polite"`, `length={"max": 40}`. The answer is a text, or what the API of a
        model or a framework returned, as JSON. `expected` is the reference answer; `judge` is the name of a target,
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
            answer=_plain(answer),
            prompt=prompt,
            expected=expected,
            evaluators={name: _plain(value) for name, value in evaluators.items()},
            judge=_judge_name(judge),
        )
        try:
            row = self._rows().of_answer(given, wanted_of(self._item.session.items))
        except AgentvError as error:
            raise error.with_traceback(None) from None  # it is about the arguments, not about the code below
        if row.error is not None and row.error.stage != "evaluator":
            raise ConfigError(f"the answer cannot be checked: {row.error.message}")
        if row.status == "error":
            raise JudgeUnavailable(broken_text(row))
        if row.verdict != "pass":
            raise AssertionError(failed_text(row, None, prompt=prompt, expected=expected))
        return row

    def _rows(self) -> Rows:
        config = self._item.config
        session = config.stash[SESSION]
        if session.rows is None:
            worker = getattr(config, "workerinput", {})
            if MARKER in worker:
                from agentv.pytest_plugin.remote import ControllerRows  # noqa: PLC0415 - only with pytest-xdist

                session.rows = ControllerRows(worker[MARKER])
            else:
                session.rows = SessionRun(session_options(config))
        return session.rows
