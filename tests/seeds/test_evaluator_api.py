"""Seed evaluator-api.md: the interface, its classes and types, the registry, the results."""

import asyncio
import inspect
import json
import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import agentv as package
from agentv import (
    CodeEvaluator,
    CodeEvaluatorOptions,
    CompositeEvaluator,
    EvalCase,
    EvaluationContext,
    EvaluationScore,
    Evaluator,
    EvaluatorConfig,
    EvaluatorError,
    EvaluatorResult,
    LlmJudgeEvaluator,
    LlmJudgeEvaluatorOptions,
    ProviderRequest,
    ProviderResponse,
    RunReport,
    ToolTrajectoryEvaluator,
    build_evaluator_registry,
    evaluate,
    run_evaluators_for_case,
)
from agentv.evaluators import EVALUATORS
from agentv.evaluators.judges.settings import READY_MADE
from agentv.types.failures import Failure
from agentv.types.provider import ProviderError
from agentv.types.structs import struct_fields

SOURCE = Path(package.__file__).parent
TESTS = Path(__file__).parent.parent


class Spy:
    """A custom evaluator: scores as it is told and remembers what it saw."""

    kind = "spy"

    def __init__(self, score: float = 1.0, log: list[str] | None = None, name: str = "spy") -> None:
        self.score = score
        self.name = name
        self.log = log if log is not None else []
        self.seen: list[EvaluationContext] = []

    def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        self.seen.append(context)
        self.log.append(self.name)
        return EvaluationScore(score=self.score, hits=("looked",))


def answer_hello(_: ProviderRequest) -> str:
    return "hello"


def evaluated(*evaluators: Any) -> RunReport:
    """Run one case against a function with these evaluators."""
    case = EvalCase(id="c", input_messages="hi", expected_outcome="Says hello")
    return evaluate([case], task=answer_hello, evaluators=list(evaluators))


# --- REQ-EVAL-001 ------------------------------------------------------------------------------------------------


def test_implementing_a_custom_evaluator() -> None:
    assert isinstance(Spy(), Evaluator)

    class Async:
        kind = "async"

        async def evaluate(self, context: EvaluationContext) -> EvaluationScore:
            return EvaluationScore(score=float("hello" in context.candidate))

    (row,) = evaluated(Spy(0.5), Async()).results
    assert [(result.type, result.score) for result in row.evaluator_results] == [("spy", 0.5), ("async", 1.0)]


def test_using_an_evaluator_in_the_orchestrator() -> None:
    spy = Spy()
    (row,) = evaluated(spy).results
    (seen,) = spy.seen
    assert isinstance(seen, EvaluationContext)
    assert row.evaluator_results[0].hits == ("looked",)
    assert not hasattr(spy, "grade")


# --- REQ-EVAL-002 ------------------------------------------------------------------------------------------------


def test_creating_an_llm_judge_evaluator(judge: Callable[..., Any], context: Callable[..., Any]) -> None:
    model = judge('{"score": 0.9}')

    async def resolve(_: EvaluationContext) -> Any:
        return model

    options = LlmJudgeEvaluatorOptions(resolve_judge_provider=resolve, max_output_tokens=1000, temperature=0.0)
    by_keywords = LlmJudgeEvaluator(resolve_judge_provider=resolve, max_output_tokens=1000, temperature=0.0)
    for evaluator in (LlmJudgeEvaluator(options), by_keywords):
        assert evaluator.kind == "llm_judge"
        assert asyncio.run(evaluator.evaluate(context("4"))).score == 0.9
        assert model.requests[-1].max_output_tokens == 1000
        assert model.requests[-1].temperature == 0.0
    with pytest.raises(EvaluatorError, match="no judge is configured"):
        asyncio.run(LlmJudgeEvaluator().evaluate(context("4")))


def test_evaluating_with_custom_prompt(judge: Callable[..., Any], context: Callable[..., Any]) -> None:
    model = judge('{"score": 1}')
    evaluator = LlmJudgeEvaluator(resolve_judge_provider=lambda _: model)
    score = asyncio.run(evaluator.evaluate(context("4", system_prompt="Judge only the spelling.")))
    asked = model.requests[0].system_prompt
    default = LlmJudgeEvaluator(resolve_judge_provider=lambda _: model)
    asyncio.run(default.evaluate(context("4")))
    assert asked.startswith("Judge only the spelling.")
    assert not model.requests[1].system_prompt.startswith("Judge only the spelling.")
    assert score.evaluator_raw_request is not None
    assert score.evaluator_raw_request["systemPrompt"] == asked


# --- REQ-EVAL-003 ------------------------------------------------------------------------------------------------


def test_creating_a_code_evaluator() -> None:
    options = CodeEvaluatorOptions(script="python check_output.py", cwd="/path/to/scripts", agent_timeout_ms=30000)
    assert CodeEvaluator(options).kind == "code"
    keywords = CodeEvaluator(script="python check_output.py", cwd="/path/to/scripts", agent_timeout_ms=30000)
    assert keywords.kind == "code"
    with pytest.raises(TypeError):
        CodeEvaluator()


CHECK_OUTPUT = """
import json, sys
case = json.load(sys.stdin)
right = case["candidate_answer"] == "4"
print(json.dumps({"score": float(right), "hits": ["right"] * right, "misses": [], "reasoning": case["question"]}))
"""


def test_executing_a_code_evaluator(tmp_path: Path, context: Callable[..., Any]) -> None:
    (tmp_path / "check_output.py").write_text(CHECK_OUTPUT)
    evaluator = CodeEvaluator(script=[sys.executable, "check_output.py"], cwd=str(tmp_path))
    score = asyncio.run(evaluator.evaluate(context("4")))
    assert isinstance(score, EvaluationScore)
    assert (score.score, score.hits, score.misses) == (1.0, ("right",), ())
    assert score.reasoning == "What is 2 + 2?"

    broken = CodeEvaluator(script=[sys.executable, "-c", "import sys; sys.exit('no such table')"])
    failed = asyncio.run(broken.evaluate(context("4")))
    assert failed.score == 0.0
    assert any("no such table" in miss for miss in failed.misses)


# --- REQ-EVAL-004 and 005 ----------------------------------------------------------------------------------------


class FlakyOnce:
    """A provider that loses its first connection, then says hello."""

    kind = "flaky"

    def __init__(self) -> None:
        self.calls = 0

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:  # noqa: ARG002 - the protocol has it
        self.calls += 1
        if self.calls == 1:
            raise ProviderError(Failure("transport", "the connection was lost", retryable=True))
        return ProviderResponse("hello")


class Asking:
    """An evaluator that asks the provider and the judge of its context again, and remembers the context."""

    kind = "asking"

    async def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        self.seen = context
        assert context.judge_provider is not None
        request = ProviderRequest(question="and now?")
        self.answers = [(await each.invoke(request)).text for each in (context.provider, context.judge_provider)]
        return EvaluationScore(score=1.0)


def test_passing_context_to_evaluator(judge: Callable[..., Any]) -> None:
    provider, model, evaluator, before = FlakyOnce(), judge("judged"), Asking(), datetime.now(UTC)
    case = EvalCase(id="c", input_messages="hi", expected_outcome="Says hello", metadata={"level": 3})
    (row,) = evaluate([case], target=provider, evaluators=[evaluator], judge=model).results
    seen = evaluator.seen
    assert (row.score, row.error) == (1.0, None)
    assert (seen.eval_case.id, seen.eval_case.expected_outcome, seen.eval_case.metadata) == (
        "c",
        "Says hello",
        {"level": 3},
    )
    assert (seen.candidate, seen.prompt_inputs.question) == ("hello", "hi")
    assert seen.attempt == 1
    assert (seen.target.name, seen.provider.kind) == ("target", "flaky")
    assert before <= seen.now <= datetime.now(UTC)
    assert (evaluator.answers, provider.calls, len(model.requests)) == (["hello", "judged"], 3, 1)


def test_passing_context_to_evaluator_with_its_optional_fields(judge: Callable[..., Any]) -> None:
    spy, config = Spy(), EvaluatorConfig("strict", "llm_judge", {"prompt": "Is {{ candidate_answer }} right?"})
    registry = build_evaluator_registry({"llm_judge": spy}, lambda _: judge("{}"))
    asyncio.run(run_evaluators_for_case(case_with(config), "4", evaluator_registry=registry))
    assert spy.seen[0].evaluator == config
    assert spy.seen[0].judge_provider is None
    # `system_prompt` and `judge_model` are for callers of an evaluator: no file sets them for a custom one.
    asked = judge('{"score": 1}')
    context = replace(spy.seen[0], system_prompt="Judge only the spelling.", judge_model="m-2", evaluator=None)
    asyncio.run(LlmJudgeEvaluator(resolve_judge_provider=lambda _: asked).evaluate(context))
    assert asked.requests[0].system_prompt.startswith("Judge only the spelling.")
    assert asked.requests[0].model == "m-2"


def test_returning_evaluation_results() -> None:
    fields = {field.name: field for field in struct_fields(EvaluationScore)}
    assert {
        "score",
        "hits",
        "misses",
        "expected_aspect_count",
        "reasoning",
        "raw_aspects",
        "evaluator_raw_request",
    } <= set(fields)
    score = EvaluationScore(score=0.5)
    assert (score.hits, score.misses, score.reasoning, score.raw_aspects) == ((), (), None, None)
    with pytest.raises(AttributeError):
        score.score = 1.0  # type: ignore[misc]  # that it cannot be set is what is tested


# --- REQ-EVAL-006 ------------------------------------------------------------------------------------------------


def test_building_evaluator_registry(judge: Callable[..., Any]) -> None:
    spy = Spy()
    registry = build_evaluator_registry({"spy": spy}, lambda _: judge('{"score": 1}'))
    assert registry["llm_judge"].kind == "llm_judge"
    assert registry["spy"] is spy
    own = Spy(0.1)
    assert build_evaluator_registry({"llm_judge": own}, lambda _: judge("{}"))["llm_judge"] is own


def test_looking_up_evaluator_by_kind(judge: Callable[..., Any]) -> None:
    registry = build_evaluator_registry({"spy": Spy()}, lambda _: judge('{"score": 1}'))
    assert registry["spy"].kind == "spy"
    assert registry["nobody-knows-this"] is registry["llm_judge"]


# --- REQ-EVAL-007 ------------------------------------------------------------------------------------------------


def case_with(*evaluators: Any, **fields: Any) -> EvalCase:
    return EvalCase(
        id="c",
        input_messages="What is 2 + 2?",
        expected_outcome="It is four",
        evaluators=tuple(evaluators) or None,
        **fields,
    )


def judged_case(case: EvalCase, model: Any) -> tuple[EvaluationScore, Sequence[EvaluatorResult]]:
    registry = build_evaluator_registry(None, lambda _: model)
    return asyncio.run(run_evaluators_for_case(case, "4", evaluator_registry=registry))


def test_running_evaluators_for_a_test_case(judge: Callable[..., Any]) -> None:
    model = judge('{"score": 0.4}')
    score, results = judged_case(case_with(Spy(1.0), Spy(0.0)), model)
    assert score.score == 0.5
    assert [result.score for result in results] == [1.0, 0.0]
    for legacy in ({"evaluator": "llm_judge"}, {"grader": "llm_judge"}):
        score, results = judged_case(case_with(**legacy), model)
        assert (score.score, [result.type for result in results]) == (0.4, ["llm_judge"])


class Slow:
    """An evaluator that lets others run before it is done, and notes its start and end."""

    kind = "slow"

    def __init__(self, log: Path, name: str) -> None:
        self.log, self.name = log, name

    async def evaluate(self, context: EvaluationContext) -> EvaluationScore:  # noqa: ARG002 - the protocol has it
        note(self.log, f"{self.name} starts")
        for _ in range(20):
            await asyncio.sleep(0)
        note(self.log, f"{self.name} ends")
        return EvaluationScore(score=1.0)


class NotingJudge:
    """A judge model that notes its start and end."""

    kind = "noting"

    def __init__(self, log: Path) -> None:
        self.log = log
        self.requests: list[ProviderRequest] = []

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        self.requests.append(request)
        note(self.log, "judge starts")
        for _ in range(20):
            await asyncio.sleep(0)
        note(self.log, "judge ends")
        return ProviderResponse('{"score": 0.5}')


def note(log: Path, line: str) -> None:
    with log.open("a") as file:
        file.write(f"{line}\n")


NOTING_CODE = """
import json, os, sys
log = open(sys.argv[1], "a")
log.write(f"code {sys.argv[2]} starts\\n")
log.write(f"code {sys.argv[2]} ends\\n")
print(json.dumps({"score": 0.2, "reasoning": str(os.getpid())}))
"""


def test_running_multiple_evaluators(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    code = [sys.executable, "-c", NOTING_CODE, str(log)]
    model = NotingJudge(log)
    case = case_with(
        Slow(log, "first"),
        EvaluatorConfig("code 1", "code_judge", {"script": [*code, "1"]}),
        EvaluatorConfig("judge", "llm_judge", {"prompt": "Is {{ candidate_answer }} right?"}),
        EvaluatorConfig("code 2", "code_judge", {"script": [*code, "2"]}),
        Slow(log, "last"),
    )
    score, results = judged_case(case, model)
    names = ["first", "code 1", "judge", "code 2", "last"]
    assert log.read_text().splitlines() == [f"{name} {what}" for name in names for what in ("starts", "ends")]
    assert [result.name for result in results] == names
    assert [result.score for result in results] == [1.0, 0.2, 0.5, 0.2, 1.0]
    assert score.score == pytest.approx((1.0 + 0.2 + 0.5 + 0.2 + 1.0) / 5)
    assert model.requests[0].question.startswith("Is ")
    assert "4" in model.requests[0].question
    assert results[1].reasoning != results[3].reasoning  # a process for each


def test_running_multiple_evaluators_calls_the_judge_of_the_registry(judge: Callable[..., Any]) -> None:
    own, prompt = Spy(0.3), {"prompt": "Is {{ candidate_answer }} right?"}
    registry = build_evaluator_registry({"llm_judge": own}, lambda _: judge('{"score": 1}'))
    case = case_with(EvaluatorConfig("one", "llm_judge", prompt), EvaluatorConfig("two", "llm_judge", prompt))
    _, results = asyncio.run(run_evaluators_for_case(case, "4", evaluator_registry=registry))
    assert [(result.name, result.score) for result in results] == [("one", 0.3), ("two", 0.3)]
    assert [context.evaluator.settings for context in own.seen if context.evaluator] == [prompt, prompt]


# --- REQ-EVAL-008 ------------------------------------------------------------------------------------------------

VERDICT = json.dumps({"score": 0.5, "hits": ["a"], "misses": ["b"], "reasoning": "c"})
JUDGED = json.dumps(
    {
        "targets": [
            {"name": "default", "provider": "mock", "response": "hello", "judge_target": "judge"},
            {"name": "judge", "provider": "mock", "response": VERDICT},
        ]
    }
)
CASE = """
evalcases:
  - id: c
    expected_outcome: Says hello
    input_messages: [{role: user, content: hi}]
"""


def test_single_evaluator_result(run: Callable[..., Any]) -> None:
    (row,) = run(CASE + "    evaluator: llm_judge\n", targets=JUDGED).rows
    assert "hello" in row["evaluator_raw_request"]["userPrompt"]
    assert row["evaluator_provider_request"] == row["evaluator_raw_request"]
    assert "grader_raw_request" not in row
    assert "evaluator_results" not in row


def test_multiple_evaluators_result(run: Callable[..., Any]) -> None:
    evaluators = (
        "    evaluators:\n"
        "      - {name: j, type: llm_judge}\n"
        "      - {name: h, type: contains, value: hello}\n"
        "      - {name: m, type: contains, value: goodbye}\n"
    )
    (row,) = run(CASE + evaluators, targets=JUDGED).rows
    judged, held, missed = row["evaluator_results"]
    common = ("name", "type", "score", "hits", "misses")
    assert {key: judged[key] for key in (*common, "reasoning")} == {
        "name": "j",
        "type": "llm_judge",
        "score": 0.5,
        "hits": ["a"],
        "misses": ["b"],
        "reasoning": "c",
    }
    assert "hello" in judged["evaluator_provider_request"]["userPrompt"]
    assert judged["evaluator_raw_request"] == judged["evaluator_provider_request"]
    assert [held[key] for key in common] == ["h", "contains", 1.0, held["hits"], []]
    assert [missed[key] for key in common] == ["m", "contains", 0.0, [], missed["misses"]]
    assert "hello" in " ".join(held["hits"])
    assert "goodbye" in " ".join(missed["misses"])
    assert row["score"] == pytest.approx((0.5 + 1.0 + 0.0) / 3)
    assert (row["hits"], row["misses"]) == (["a", *held["hits"]], ["b", *missed["misses"]])
    assert "evaluator_raw_request" not in row


def test_multiple_evaluators_result_is_a_list_for_one_entry_too(run: Callable[..., Any]) -> None:
    (row,) = run(CASE + "    evaluators: [{name: j, type: llm_judge}]\n", targets=JUDGED).rows
    assert [(result["name"], result["score"]) for result in row["evaluator_results"]] == [("j", 0.5)]


# --- REQ-EVAL-009 ------------------------------------------------------------------------------------------------


def loaded(tmp_path: Path, keys: str) -> EvalCase:
    path = tmp_path / "suite.yaml"
    path.write_text(CASE + keys)
    (case,) = package.load_suite(path).cases
    assert isinstance(case, EvalCase)
    return case


def test_parsing_new_evaluator_field(tmp_path: Path) -> None:
    case = loaded(tmp_path, "    evaluator: llm_judge\n")
    assert (case.evaluator, case.grader) == ("llm_judge", None)


# A suite whose evaluators would say something else than a case's `grader:`, which comes before them.
LEGACY = """
execution: {evaluators: [{name: other, type: contains, value: nowhere}]}
evalcases:
  - {id: c, expected_outcome: Says hello, input_messages: [{role: user, content: hi}], grader: llm_judge}
  - {id: d, expected_outcome: Says hello, input_messages: [{role: user, content: hi}], grader: llm_judge}
"""


def test_parsing_legacy_grader_field(tmp_path: Path, run: Callable[..., Any], agentv: Callable[..., Any]) -> None:
    case = loaded(tmp_path, "    grader: llm_judge\n")
    assert (case.evaluator, case.grader) == (None, "llm_judge")
    rows = run(LEGACY, targets=JUDGED).rows
    assert [(row["score"], row["reasoning"]) for row in rows] == [(0.5, "c"), (0.5, "c")]
    checked = agentv("check", "evals")
    warnings = [line for line in checked.output.splitlines() if "grader" in line and "warning" in line]
    assert len(warnings) == 1
    assert "suite.yaml:4" in warnings[0]
    assert "deprecated" in warnings[0]


def test_parsing_legacy_grader_field_beside_the_new_one(tmp_path: Path, run: Callable[..., Any]) -> None:
    both = "    evaluator: llm_judge\n    grader: is_json\n"
    assert loaded(tmp_path, both).evaluator == "llm_judge"
    (row,) = run(CASE + both, targets=JUDGED).rows
    assert (row["score"], row["reasoning"]) == (0.5, "c")


def test_parsing_evaluators_list(tmp_path: Path, agentv: Callable[..., Any]) -> None:
    (tmp_path / "check.py").write_text("")
    case = loaded(
        tmp_path,
        "    evaluators:\n"
        "      - {name: plain, type: llm_judge}\n"
        "      - {name: prompted, type: llm_judge, prompt: 'Judge {{ candidate_answer }}', model: m}\n"
        "      - {name: coded, type: code_judge, script: 'python check.py'}\n"
        "      - {name: placed, type: code_judge, script: 'python check.py', cwd: .}\n",
    )
    evaluators = case.evaluators or ()
    assert all(isinstance(evaluator, EvaluatorConfig) for evaluator in evaluators)
    assert [getattr(evaluator, "name", None) for evaluator in evaluators] == ["plain", "prompted", "coded", "placed"]
    for wrong, missing in [
        ("{type: llm_judge}", "name"),
        ("{name: x}", "type"),
        ("{name: x, type: code_judge}", "script"),
    ]:
        (tmp_path / "evals").mkdir(exist_ok=True)
        (tmp_path / "evals" / "wrong.yaml").write_text(f"{CASE}    evaluators: [{wrong}]\n")
        done = agentv("check", "evals")
        assert done.code == 4
        assert missing in done.output + done.errors


# --- REQ-EVAL-010 and 012 ----------------------------------------------------------------------------------------


def test_importing_evaluator_types() -> None:
    names = "Evaluator EvaluationContext EvaluationScore LlmJudgeEvaluator CodeEvaluator EvaluatorKind EvaluatorConfig"
    assert [name for name in names.split() if not hasattr(package, name)] == []
    assert set(names.split()) <= set(package.__all__)


# Type → the module that makes it, in src/agentv/evaluators/, and its tests, in tests/evaluators/.
WHERE = {
    **{name: (f"judges/{name}.py", f"test_{name}.py") for name in ("llm_judge", "pairwise", "code_judge", "composite")},
    "rubric": ("judges/llm_judge.py", "test_llm_judge.py"),
    **dict.fromkeys(("contains", "equals", "one_of", "starts_with", "ends_with"), ("rules/text.py", "test_rules.py")),
    **dict.fromkeys(READY_MADE, ("judges/llm_judge.py", "test_ready_made_judges.py")),
    "regex": ("rules/regex.py", "test_rules.py"),
    "is_json": ("rules/json.py", "test_rules.py"),
    "numeric": ("rules/numeric.py", "test_numeric.py"),
    "length": ("rules/text.py", "test_rules.py"),
    "rule_based": ("rules/rule_based.py", "test_rule_based.py"),
    **{
        name: (f"tools/{name}.py", f"test_{name}.py")
        for name in ("tool_trajectory", "tool_usage", "trace", "skill_trigger")
    },
    "field_accuracy": ("rules/field_accuracy.py", "test_field_accuracy.py"),
    "human": ("people/human.py", "test_human.py"),
    **{
        name: (f"text/{name}.py", f"test_{name}.py")
        for name in ("lexical_similarity", "keyword_coverage", "sentiment", "semantic_similarity", "toxicity")
    },
}


def modules_about_grading(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.py") if re.search("(?<!up)grad", str(path.relative_to(folder)))]


def test_evaluators_module_file() -> None:
    made_in = {spec.name: inspect.getsourcefile(spec.load_factory()) for spec in EVALUATORS}
    assert made_in == {name: str(SOURCE / "evaluators" / module) for name, (module, _) in WHERE.items()}
    for public in (LlmJudgeEvaluator, CodeEvaluator, ToolTrajectoryEvaluator, CompositeEvaluator):
        assert Path(inspect.getfile(public)).is_relative_to(SOURCE / "evaluators")
    assert modules_about_grading(SOURCE) == []


def test_evaluators_test_file() -> None:
    for name, (module, tests) in WHERE.items():
        text = (TESTS / "evaluators" / tests).read_text("utf-8")
        assert "\ndef test_" in text, tests
        tested = (
            f'"{name}"' in text or f"agentv.evaluators.{module.removesuffix('.py').replace('/', '.')} import" in text
        )
        assert tested, f"{tests} says nothing of {name}"
    assert modules_about_grading(TESTS) == []
