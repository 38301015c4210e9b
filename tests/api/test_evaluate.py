"""The Python API: evaluate() and evaluate_async()."""

import asyncio
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agentv import (
    ConfigError,
    EvalCase,
    EvaluationContext,
    EvaluationScore,
    EvaluatorConfig,
    Message,
    ProviderError,
    ProviderRequest,
    ProviderResponse,
    TargetConfig,
    ToolCall,
    UnknownNameError,
    evaluate,
    evaluate_async,
    evaluator,
)
from agentv.types.events import AnswerArrived, RowFinished, RunEvent, RunNote
from agentv.types.failures import Failure

SUM = EvalCase("sum", "What is 2 + 2?")
FOUR = EvaluatorConfig("four", "contains", {"value": "4"})


def answers_four(request: ProviderRequest) -> str:
    return "4" if "2 + 2" in request.question else "no idea"


class Says:
    """A judge with a constant reply."""

    kind = "says"

    def __init__(self, text: str) -> None:
        self.text = text
        self.requests: list[ProviderRequest] = []

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        self.requests.append(request)
        return ProviderResponse(self.text)


class Reasonings:
    """An observer that collects the reasoning of every answer."""

    hears = (AnswerArrived,)

    def __init__(self) -> None:
        self.seen: list[str | None] = []

    def notify(self, event: RunEvent) -> None:
        if isinstance(event, AnswerArrived):
            self.seen.append(event.answer.reasoning)

    def close(self) -> None:
        pass


class Exclaims:
    """An evaluator as an object."""

    kind = "exclaims"
    name = "cheer"

    def evaluate(self, context: EvaluationContext) -> bool:
        return context.candidate.endswith("!")


def test_a_function_answers_and_a_rule_judges() -> None:
    report = evaluate([SUM], task=answers_four, evaluators=[FOUR])
    assert report.exit_code == 0
    (row,) = report.results
    assert (row.eval_id, row.target, row.status, row.score, row.verdict) == ("sum", "answers_four", "pass", 1.0, "pass")


def test_an_async_function_answers() -> None:
    async def task(request: ProviderRequest) -> str:
        await asyncio.sleep(0)
        return f"4 for {request.eval_case_id}"

    assert evaluate([SUM], task=task, evaluators=[FOUR]).results[0].candidate_answer == "4 for sum"


@pytest.mark.parametrize(
    "messages",
    [
        [{"type": "function_call", "name": "delete", "arguments": "{}", "call_id": "c"}],
        [{"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": "delete", "args": {}}]}],
        [{"type": "ai", "content": "", "tool_calls": [{"name": "delete", "args": {}}]}],
    ],
)
def test_messages_of_a_framework_are_read_in_a_response_object_too(messages: Any) -> None:
    def task(_request: ProviderRequest) -> ProviderResponse:
        return ProviderResponse("4", output_messages=messages)

    (row,) = evaluate([SUM], task=task, evaluators=[FORBIDDEN]).results
    assert (row.status, row.score) == ("fail", 0.0)


FORBIDDEN = EvaluatorConfig("calls", "tool_trajectory", {"mode": "any_order", "forbidden": ["delete"]})


def test_messages_that_are_not_understood_are_an_error_and_no_pass() -> None:
    def task(_request: ProviderRequest) -> ProviderResponse:
        return ProviderResponse("4", output_messages=[{"role": "assistant", "toolUse": "delete"}])  # type: ignore[arg-type]

    (row,) = evaluate([SUM], task=task, evaluators=[FORBIDDEN]).results
    assert row.status == "error"
    assert row.error is not None
    assert row.error.message.startswith("the response cannot be read: output_messages[0].toolUse is not understood; ")


@pytest.mark.parametrize(
    ("said", "text", "reasoning"),
    [
        ("<think>2 + 2 is 4</think>no idea", "no idea", "2 + 2 is 4"),
        ("<think>2 + 2 is 4", "", "2 + 2 is 4"),
        ({"output_messages": [{"role": "assistant", "content": None, "reasoning_content": "4?"}]}, "", "4?"),
        ({"text": " ", "reasoning": "4?"}, " ", "4?"),
    ],
)
def test_thoughts_are_not_the_answer_and_an_empty_answer_is_marked(said: Any, text: str, reasoning: str) -> None:
    heard = Reasonings()
    (row,) = evaluate([SUM], task=lambda _: said, evaluators=[FOUR], observers=[heard]).results
    assert (row.candidate_answer, row.score, row.empty_answer) == (text, 0.0, not text.strip())
    assert heard.seen == [reasoning]


def test_a_case_may_have_its_own_deadline() -> None:
    async def task(_request: ProviderRequest) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    (row,) = evaluate([replace(SUM, timeout_s=0.05)], task=task, evaluators=[FOUR]).results
    assert row.error is not None
    assert row.error.kind == "target_timeout"


def test_an_exception_group_is_reported_by_its_first_cause() -> None:
    async def task(_request: ProviderRequest) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
        return "4"

    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError("no order book")

    (row,) = evaluate([SUM], task=task, evaluators=[FOUR]).results
    assert row.error is not None
    assert "LookupError: no order book (" in row.error.message
    assert "unhandled errors" not in row.error.message


def test_a_key_of_a_reply_that_is_not_read_is_noted_once_for_its_target() -> None:
    report = evaluate([SUM, SUM_AGAIN], task=lambda _: {"text": "4", "txet": "5"}, evaluators=[FOUR])
    assert [note for note in report.notes if "txet" in note] == [
        "target 'task': its responses have the unknown key 'txet', which is ignored; did you mean 'text'?"
    ]


SUM_AGAIN = EvalCase("sum again", "What is 2 + 2?")


def test_a_task_may_return_output_messages() -> None:
    def task(_request: ProviderRequest) -> dict[str, Any]:
        return {"text": "4", "output_messages": [{"role": "assistant", "tool_calls": [{"tool": "add"}]}]}

    trajectory = EvaluatorConfig("calls", "tool_trajectory", {"mode": "any_order", "minimums": {"add": 1}})
    (row,) = evaluate([SUM], task=task, evaluators=[trajectory]).results
    assert row.score == 1.0
    assert row.output_messages == (Message("assistant", tool_calls=(ToolCall("add"),)),)


def test_an_evaluator_may_be_an_object() -> None:
    (row,) = evaluate([SUM], task=lambda _request: "4!", evaluators=[FOUR, Exclaims()]).results
    assert [(result.name, result.score) for result in row.evaluator_results] == [("four", 1.0), ("cheer", 1.0)]


def test_an_evaluator_may_be_a_function_marked_or_plain() -> None:
    @evaluator("short")
    def is_short(context: EvaluationContext, *, limit: int = 3) -> bool:
        return len(context.candidate) <= limit

    def says_four(context: EvaluationContext) -> float:
        return 1.0 if "4" in context.candidate else 0.0

    strict = EvaluatorConfig("strict", "short", {"limit": 0})
    (row,) = evaluate([SUM], task=answers_four, evaluators=[is_short, says_four, strict]).results
    assert [(result.name, result.score) for result in row.evaluator_results] == [
        ("short", 1.0),
        ("says_four", 1.0),
        ("strict", 0.0),
    ]


def test_a_case_that_names_its_own_evaluators_keeps_them() -> None:
    case = EvalCase("own", "Hi", evaluators=(Exclaims(),))
    (row,) = evaluate([case], task=lambda _request: "4", evaluators=[FOUR]).results
    assert [result.name for result in row.evaluator_results] == ["cheer"]


def test_a_judge_object_judges_and_its_request_is_kept() -> None:
    judge = Says('{"score": 0.7, "hits": ["right"], "misses": [], "reasoning": "fine"}')
    report = evaluate([SUM], task=answers_four, judge=judge)
    (row,) = report.results
    assert (row.score, row.status, row.verdict, row.hits) == (0.7, "fail", "borderline", ("right",))
    assert row.single_form
    assert "What is 2 + 2?" in judge.requests[0].question


def test_a_task_without_a_judge_that_needs_one_judges_itself() -> None:
    def both(request: ProviderRequest) -> str:
        return (
            "4"
            if "candidate_answer" not in request.question
            else '{"score": 1, "hits": [], "misses": [], "reasoning": ""}'
        )

    assert evaluate([SUM], task=both).results[0].score == 1.0


def test_a_target_that_raises_is_an_error_row_and_the_others_go_on() -> None:
    def task(request: ProviderRequest) -> str:
        if request.eval_case_id == "bad":
            raise ValueError("boom")
        return "4"

    bad = EvalCase("bad", "?")
    report = evaluate([bad, SUM], task=task, evaluators=[FOUR], max_retries=0)
    assert [(row.eval_id, row.status) for row in report.results] == [("bad", "error"), ("sum", "pass")]
    assert report.results[0].error is not None
    assert "boom" in report.results[0].error.message
    assert (report.results[0].score, report.results[0].verdict) == (None, None)
    assert report.exit_code == 3


def test_an_exception_of_an_evaluator_is_never_a_wrong_answer() -> None:
    class Broken:
        kind = "broken"

        def evaluate(self, context: EvaluationContext) -> bool:
            raise KeyError(context.candidate)

    (row,) = evaluate([SUM], task=answers_four, evaluators=[FOUR, Broken()]).results
    assert (row.status, row.verdict, row.score) == ("error", None, 0.5)
    assert row.evaluator_results[1].error is not None
    assert row.evaluator_results[1].error.kind == "evaluator_error"
    assert row.evaluator_results[0].score == 1.0


def test_a_broken_evaluator_that_weighs_nothing_does_not_spoil_the_row() -> None:
    class Broken:
        kind = "broken"
        weight = 0

        def evaluate(self, context: EvaluationContext) -> bool:
            raise KeyError(context.candidate)

    assert evaluate([SUM], task=answers_four, evaluators=[FOUR, Broken()]).exit_code == 0


def test_a_provider_object_is_a_target() -> None:
    (row,) = evaluate([SUM], target=Says("4"), evaluators=[FOUR]).results
    assert (row.target, row.status) == ("target", "pass")


def test_a_failing_provider_says_which_kind() -> None:
    class Refuses:
        kind = "refuses"

        async def invoke(self, _request: ProviderRequest) -> ProviderResponse:
            raise ProviderError(Failure("auth", "HTTP 401", http_status=401))

    report = evaluate([SUM, EvalCase("b", "?")], target=Refuses(), evaluators=[FOUR])
    assert [row.error.kind for row in report.results if row.error] == ["auth", "auth"]
    second = report.results[1].error
    assert second is not None
    assert second.message.startswith("not called")


def test_a_target_config_is_taken() -> None:
    target = TargetConfig("canned", "mock", {"response": "4"})
    assert evaluate([SUM], target=target, evaluators=[FOUR]).results[0].target == "canned"


def test_trials_repeat_a_case_and_disagreeing_ones_are_flaky() -> None:
    answers = iter(["4", "5", "4"])
    report = evaluate([SUM], task=lambda _request: next(answers), evaluators=[FOUR], trials=3)
    assert [row.slot.trial for row in report.results] == [0, 1, 2]
    assert report.flaky == ("sum (task)",)


def test_results_come_without_a_loop_and_inside_one() -> None:
    async def inside() -> Sequence[float | None]:
        blocking = evaluate([SUM], task=answers_four, evaluators=[FOUR])
        awaited = await evaluate_async([SUM], task=answers_four, evaluators=[FOUR])
        return [blocking.results[0].score, awaited.results[0].score]

    assert asyncio.run(inside()) == [1.0, 1.0]


def test_cases_given_as_objects_leave_nothing_on_disk_by_default(tmp_path: Path) -> None:
    report = evaluate([SUM], task=answers_four, evaluators=[FOUR])
    assert report.folder is None
    kept = evaluate([SUM], task=answers_four, evaluators=[FOUR], folder=tmp_path)
    assert kept.folder is not None
    names = {path.name for path in Path(kept.folder).iterdir()}
    assert {"run.json", "events.jsonl", "cases.jsonl", "answers.jsonl", "results.jsonl"} <= names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "x", "task": answers_four}, "not both"),
        ({"target": "nowhere"}, "there is no target 'nowhere'"),
        ({"task": answers_four, "evaluators": [EvaluatorConfig("a", "contians", {})]}, "Did you mean 'contains'"),
        ({"task": answers_four, "evaluators": [EvaluatorConfig("a", "contains", {})]}, "value"),
        ({"task": answers_four, "evaluators": [EvaluatorConfig("a", "regex", {"pattern": "("})]}, "pattern"),
        ({"task": answers_four, "gates": ["pass_rat > 1"]}, "Did you mean 'pass_rate'"),
        ({"task": answers_four, "evaluators": [object()]}, "not an evaluator"),
    ],
)
def test_invalid_arguments_are_rejected_before_any_call(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        evaluate([SUM], **arguments)
    assert message in str(caught.value)


def test_all_that_is_wrong_is_said_at_once() -> None:
    wrong = [EvaluatorConfig("a", "contians", {}), EvaluatorConfig("b", "regex", {"pattern": "("})]
    with pytest.raises(ConfigError) as caught:
        evaluate([SUM], task=answers_four, evaluators=wrong, gates=["men > 1"])
    assert [word in str(caught.value) for word in ("contians", "'b'", "men")] == [True, True, True]


def test_a_misspelt_option_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'workers'"):
        evaluate([SUM], task=answers_four, worker=3)  # type: ignore[call-arg]


def test_two_cases_with_one_id_are_refused() -> None:
    with pytest.raises(ConfigError, match="case ids must be unique; duplicates: sum"):
        evaluate([SUM, SUM], task=answers_four, evaluators=[FOUR])


def test_required_and_negated_evaluators_shape_the_verdict() -> None:
    required = EvaluatorConfig("required", "contains", {"value": "5"}, weight=0, required=True)
    negated = EvaluatorConfig("negated", "contains", {"value": "5"}, negate=True)
    (row,) = evaluate([SUM], task=answers_four, evaluators=[FOUR, required, negated]).results
    assert (row.score, row.status, row.verdict) == (1.0, "pass", "fail")


def test_only_free_leaves_out_what_costs_money() -> None:
    judge = Says("never called")
    paid = EvaluatorConfig("paid", "llm_judge")
    (row,) = evaluate([SUM], task=answers_four, evaluators=[FOUR, paid], judge=judge, only="free").results
    assert [result.status for result in row.evaluator_results] == ["scored", "skipped"]
    assert (row.score, judge.requests) == (1.0, [])


def test_a_score_that_is_no_number_is_the_evaluators_error() -> None:
    class NotANumber:
        kind = "nan"

        def evaluate(self, _context: EvaluationContext) -> EvaluationScore:
            return EvaluationScore(float("nan"))

    (row,) = evaluate([SUM], task=answers_four, evaluators=[NotANumber()]).results
    assert row.status == "error"


def test_fail_fast_starts_no_new_rows() -> None:
    cases = [EvalCase(f"c{n}", "?") for n in range(20)]
    report = evaluate(cases, task=lambda _request: "no", evaluators=[FOUR], fail_fast=2, gates="none")
    assert (len(report.results), report.exit_code, report.state) == (2, 2, "stopped")


def test_a_report_of_many_rows_is_not_written_out_with_them() -> None:
    def shown(count: int) -> int:
        cases = [EvalCase(f"sum-{number}", SUM.input_messages) for number in range(count)]
        report = evaluate(cases, task=answers_four, evaluators=[FOUR])
        assert len(report.results) == count
        return len(repr(report))

    assert shown(20) - shown(10) < 20


@pytest.mark.parametrize(
    "target", ["{bad", '{"provider": "mock"} more', '{"a":' * 100_000], ids=["broken", "more", "deep"]
)
def test_a_target_that_is_not_valid_json_is_a_configuration_error(target: str) -> None:
    with pytest.raises(ConfigError, match=r"^target \{.*: not valid JSON: .*; write an object such as") as caught:
        evaluate([EvalCase("a", "Where?")], target=target, evaluators=[])
    assert len(str(caught.value)) < 400


class FullDiskAfterTheRows:
    """An observer after whose first finished row no file can grow."""

    event_types = (RowFinished, RunNote)

    def __init__(self) -> None:
        self.problems: list[str] = []

    def notify(self, event: RunEvent) -> None:
        if isinstance(event, RowFinished):
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        elif isinstance(event, RunNote) and event.is_problem:
            self.problems.append(event.message)

    def close(self) -> None:
        pass


def test_a_verdict_that_cannot_be_saved_is_reported(tmp_path: Path) -> None:
    observer = FullDiskAfterTheRows()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        report = evaluate([SUM], task=answers_four, evaluators=[FOUR], folder=tmp_path, observers=[observer])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert report.exit_code == 0
    assert [problem.partition(": ")[0] for problem in observer.problems] == ["the verdict is not saved with the run"]
    assert "continue with: agentv resume" in observer.problems[0]


@pytest.mark.parametrize("gates", [[], (), None])
def test_an_empty_list_of_gates_leaves_the_default_one(gates: list[str] | None) -> None:
    report = evaluate([SUM], task=lambda _request: "no", evaluators=[FOUR], gates=gates)
    assert (report.exit_code, report.passed) == (1, False)


def test_none_turns_off_all_gates() -> None:
    report = evaluate([SUM], task=lambda _request: "no", evaluators=[FOUR], gates="none")
    assert (report.exit_code, report.verdict.sentence[:8]) == (0, "NO GATE:")


def test_none_beside_a_gate_is_an_error() -> None:
    with pytest.raises(ConfigError, match="'none' disables all gates and cannot be combined"):
        evaluate([SUM], task=answers_four, evaluators=[FOUR], gates=["none", "mean > 0"])


@pytest.mark.parametrize(
    ("answers", "notes"),
    [(("", " \n", "4"), ("2 answers are empty",)), (("", "4", "4"), ("1 answer is empty",)), (("4", "4", "4"), ())],
)
def test_empty_answers_are_counted_in_a_note(answers: tuple[str, ...], notes: tuple[str, ...]) -> None:
    cases = [EvalCase(str(number), "What is 2 + 2?") for number in range(3)]
    report = evaluate(cases, task=lambda request: answers[int(request.eval_case_id)], evaluators=[FOUR])
    assert report.notes == notes
