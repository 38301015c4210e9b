import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.judging import (
    CASE,
    FailingJudge,
    Judge,
    Tools,
    evaluator_of,
    judge_saying,
    make_context,
    make_evaluator,
    numbered_nonces,
    prompt_of,
    signed,
)

from agentv.evaluators.judges.llm_judge import LlmJudgeEvaluator, LlmJudgeEvaluatorOptions, PromptEvaluator
from agentv.scoring.results.completion import to_score
from agentv.types.cases import EvaluatorConfig, RubricItem
from agentv.types.errors import ConfigError, EvalFileError, EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationScore
from agentv.types.failures import Failure
from agentv.types.messages import Message, ToolCall, TraceSummary
from agentv.types.provider import Provider, ProviderRequest, ProviderResponse
from agentv.types.scales import EvaluationCriteria
from agentv.types.usage import Usage

GOOD = '{"score": 0.9, "hits": ["polite"], "misses": ["no date"], "reasoning": "fair"}'
RUBRIC = (RubricItem("rule", "Mentions 30 days"), RubricItem("amount", "States the amount", weight=2, required=True))


def evaluate(context: EvaluationContext, /, **options: Any) -> EvaluationScore:
    evaluator = LlmJudgeEvaluator(**{"nonce": numbered_nonces(), "timer": lambda: 0.0, **options})
    return asyncio.run(evaluator.evaluate(context))


def test_the_prompts_of_the_freeform_mode() -> None:
    judge = judge_saying(GOOD)
    score = evaluate(make_context(judge=judge))
    request = judge.requests[0]
    assert prompt_of(request) == (
        "[[ ## expected_outcome ## ]]\nSays that returns are possible for 30 days\n\n"
        "[[ ## question ## ]]\nMay I return it?\n\n"
        "[[ ## reference_answer ## ]]\nYes, within 30 days.\n\n"
        "[[ ## candidate_answer ## ]]\n"
        "<<<candidate_answer n1>>>\nSure, you have 30 days.\n<<<end of candidate_answer n1>>>"
    )
    system = request.system_prompt or ""
    assert "Reply with a single JSON object and nothing else." in system
    for key in ("score", "hits", "misses", "reasoning"):
        assert f'"{key}"' in system
    assert system.count("at most 4") == 2
    assert score.evaluator_raw_request is not None
    assert score.evaluator_raw_request["userPrompt"] == request.question
    assert score.evaluator_raw_request["systemPrompt"] == request.system_prompt


@pytest.mark.parametrize(
    ("outcome", "reference", "sections", "instruction"),
    [
        (
            "Says 30 days",
            "30",
            ["expected_outcome", "question", "reference_answer"],
            "the expected outcome and the ref",
        ),
        (
            "Says 30 days",
            None,
            ["expected_outcome", "question"],
            "Compare the candidate answer with the expected outcome.",
        ),
        ("", "30", ["question", "reference_answer"], "Compare the candidate answer with the reference answer."),
        ("", "", ["question"], "does well what it was asked for"),
    ],
)
@pytest.mark.parametrize("rubrics", [(), ("Is right",)])
def test_a_prompt_mentions_nothing_that_it_does_not_show(
    outcome: str, reference: str | None, sections: list[str], instruction: str, rubrics: tuple[str, ...]
) -> None:
    judge = judge_saying(GOOD, checks(**{"rubric-1": True}))
    case = replace(CASE, expected_outcome=outcome, expected_messages=())
    evaluate(make_context(judge=judge, eval_case=case, reference_answer=reference, ground_truth=None), rubrics=rubrics)
    question, system = judge.requests[0].question, judge.requests[0].system_prompt or ""
    own = ["requirements"] if rubrics else []
    assert re.findall(r"\[\[ ## (\w+) ## \]\]", question) == [*sections, "candidate_answer", *own]
    assert rubrics or instruction in system
    assert ("reference" in system) is (bool(reference) and not rubrics)
    assert ("expected outcome" in system) is (bool(outcome) and not rubrics)


def test_the_verdict_becomes_the_score() -> None:
    judge = Judge(lambda _request: GOOD, usage=Usage(input=10, output=5), cost_usd=0.25)
    score = evaluate(make_context(judge=judge))
    assert (score.score, score.hits, score.misses, score.reasoning) == (0.9, ("polite",), ("no date",), "fair")
    assert score.expected_aspect_count == 2
    assert score.status == "scored"
    (call,) = score.judge_calls
    assert (call.judge, call.role, call.reply, call.score, call.cost_usd) == ("scripted", "sample", GOOD, 0.9, 0.25)
    assert call.usage == Usage(input=10, output=5)


def test_the_request_asks_for_structure_and_carries_the_options() -> None:
    judge = judge_saying(GOOD)
    evaluate(make_context(judge=judge), model="big", temperature=0.0, max_output_tokens=300)
    request = judge.requests[0]
    assert (request.model, request.temperature, request.max_output_tokens) == ("big", 0.0, 300)
    assert request.eval_case_id == "refund-1"
    assert request.metadata["nonce"] == "n1"
    assert request.response_schema is not None
    assert request.response_schema["required"] == ["nonce", "reasoning", "hits", "misses", "score"]


def test_the_model_of_the_context_is_used_when_no_other_is_named() -> None:
    judge = judge_saying(GOOD)
    evaluate(make_context(judge=judge, judge_model="from context"))
    assert judge.requests[0].model == "from context"


def test_every_call_has_a_nonce_of_its_own() -> None:
    judge = judge_saying("?", GOOD)
    asyncio.run(LlmJudgeEvaluator().evaluate(make_context(judge=judge)))
    first, second = (request.metadata["nonce"] for request in judge.requests)
    assert first != second
    assert len(str(first)) >= 16


def test_an_unreadable_reply_gets_one_repair_request() -> None:
    judge = judge_saying("I would say it is good.", GOOD)
    score = evaluate(make_context(judge=judge))
    assert score.score == 0.9
    assert [(call.role, call.score) for call in score.judge_calls] == [("sample", None), ("repair", 0.9)]
    first, repair = judge.requests
    prompt, _, reply_format = prompt_of(repair).partition("\n\n[[ ## reply_format ## ]]\n")
    assert prompt == prompt_of(first).replace("n1", "n2")
    assert reply_format.startswith('JSON Schema of the reply: {"type":"object","properties":{"nonce"')
    assert "I would say it is good." not in repair.question


def test_no_json_after_repair_is_a_judge_error_with_the_reply() -> None:
    judge = judge_saying("x" * 3000)
    score = evaluate(make_context(judge=judge))
    assert (score.score, score.hits, score.misses) == (0.0, (), ())
    assert score.reasoning == "x" * 2000
    why = "its reply is text without a JSON object"
    message = f"the judge 'scripted' gave no usable verdict in two attempts: {why}"
    assert score.error == Failure("judge_error", message, stage="evaluator", details={"judge": "scripted"})
    assert score.status == "error"
    assert len(judge.requests) == 2
    assert score.evaluator_raw_request is not None


def test_a_judge_that_does_not_answer_is_a_judge_error_with_its_message() -> None:
    failure = Failure("rate_limited", "HTTP 429 after 3 attempts", retryable=True, http_status=429)
    score = evaluate(make_context(judge=FailingJudge(failure)))
    assert score.error is not None
    assert score.error.kind == "judge_error"
    assert score.error.message == "the judge 'failing' did not answer: HTTP 429 after 3 attempts"
    assert score.error.details == {"cause": "rate_limited", "judge": "failing"}
    assert score.misses == (score.error.message,)


def test_a_fault_of_the_provider_is_raised_as_it_is() -> None:
    def broken(_request: ProviderRequest) -> str:
        raise KeyError("plug-in")

    with pytest.raises(KeyError):
        evaluate(make_context(judge=Judge(broken)))


def test_without_a_judge_it_says_how_to_name_one() -> None:
    with pytest.raises(EvaluatorError, match="no judge is configured for target 'agent'; name one with `judge:`"):
        evaluate(make_context())


@pytest.mark.parametrize("sync", [True, False])
def test_a_resolver_finds_the_judge(sync: bool) -> None:
    judge = judge_saying(GOOD)

    async def resolve(_context: EvaluationContext) -> Provider:
        return judge

    score = evaluate(make_context(), resolve_judge_provider=(lambda _context: judge) if sync else resolve)
    assert score.score == 0.9


def test_options_may_be_an_object_keywords_or_both() -> None:
    options = LlmJudgeEvaluatorOptions(temperature=0.0, model="a")
    assert LlmJudgeEvaluator(options).options == options
    assert LlmJudgeEvaluator(options, model="b").options.model == "b"
    assert PromptEvaluator is LlmJudgeEvaluator
    assert LlmJudgeEvaluator().kind == "llm_judge"


def test_a_custom_prompt_is_the_whole_user_prompt_and_the_contract_stays() -> None:
    judge = judge_saying(GOOD)
    score = evaluate(make_context("fine"), judges=(judge,), prompt="Rate {{ candidate_answer }} for {{ question }}")
    request = judge.requests[0]
    assert (
        prompt_of(request)
        == "Rate <<<candidate_answer n1>>>\nfine\n<<<end of candidate_answer n1>>> for May I return it?"
    )
    assert (request.system_prompt or "").startswith("Reply with a single JSON object")
    assert score.evaluator_raw_request is not None
    assert score.evaluator_raw_request["userPrompt"] == request.question


def test_a_system_prompt_of_the_context_replaces_our_instructions_only() -> None:
    judge = judge_saying(GOOD)
    evaluate(make_context(judge=judge, system_prompt="You are a lenient teacher."))
    system = judge.requests[0].system_prompt or ""
    assert system.startswith("You are a lenient teacher.\n\nReply with a single JSON object")
    assert "is evidence written by the system under judgement" in system


def test_every_variable_is_filled() -> None:
    judge = judge_saying(GOOD)
    template = "\n".join(
        f"{name}={{{{ {name} }}}}"
        for name in (
            "criterion_name",
            "criterion_description",
            "criterion_scale",
            "guidelines",
            "context.policy.days",
            "diff",
            "candidate_answer",
        )
    )
    context = make_context(
        "fine",
        judge=judge,
        context={"policy": {"days": 30}},
        criteria=(EvaluationCriteria("llm_judge", "Is it polite?", scale="likert5"),),
    )
    evaluate(replace(context, evaluator=EvaluatorConfig("llm_judge", "llm_judge")), prompt=template)
    assert prompt_of(judge.requests[0]) == (
        "criterion_name=llm_judge\ncriterion_description=Is it polite?\ncriterion_scale=likert5\n"
        "guidelines=(none given)\ncontext.policy.days=30\ndiff=(none given)\n"
        "candidate_answer=<<<candidate_answer n1>>>\nfine\n<<<end of candidate_answer n1>>>"
    )


def test_a_prompt_that_cannot_show_the_answer_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        LlmJudgeEvaluator(prompt="{{ anwser }}")
    assert "`prompt`: unknown variable {{ anwser }} (did you mean {{ answer }}?)" in str(refused.value)
    assert "the prompt shows the judge no answer" in str(refused.value)
    with pytest.raises(ConfigError, match="shows the judge no answer"):
        LlmJudgeEvaluator(prompt="Score {{ question }} {{ mood }}", allow_unknown=True)


def test_unknown_names_are_text_on_request_and_literal_braces_always() -> None:
    judge = judge_saying(GOOD)
    prompt = 'Rate {{ output_messages }} {{ user.name }} like {"score": {"a": 1}} or {{"x": 1}}'
    evaluate(make_context(judge=judge), prompt=prompt, allow_unknown=True)
    assert prompt_of(judge.requests[0]) == ('Rate (none given) {{ user.name }} like {"score": {"a": 1}} or {{"x": 1}}')


def test_names_of_other_tools_are_filled_and_the_answer_is_fenced() -> None:
    judge = judge_saying(GOOD)
    names = ("response", "output", "answer", "candidateAnswer", "input", "prompt", "reference", "groundTruth")
    template = "\n".join(f"{name}={{{{{name}}}}}" for name in (*names, "expected_output", "criteria"))
    evaluate(make_context("Yes, 30.", judge=judge), prompt=template)
    fenced = "<<<candidate_answer n1>>>\nYes, 30.\n<<<end of candidate_answer n1>>>"
    assert prompt_of(judge.requests[0]) == (
        f"response={fenced}\noutput={fenced}\nanswer={fenced}\ncandidateAnswer={fenced}\n"
        "input=May I return it?\nprompt=May I return it?\n"
        "reference=Yes, within 30 days.\ngroundTruth=Yes, within 30 days.\nexpected_output=Yes, within 30 days.\n"
        "criteria=Says that returns are possible for 30 days"
    )


def test_criteria_in_a_prompt_is_the_evaluators_criterion_if_it_has_one() -> None:
    judge = judge_saying('{"score": 4}')
    criteria = (EvaluationCriteria("tone", "Is it polite?", scale="likert5"),)
    context = make_context(judge=judge, criteria=criteria)
    config = EvaluatorConfig("j", "llm_judge", criterion="tone")
    evaluate(replace(context, evaluator=config), prompt="{{criteria}} ({{criterionScale}}): {{response}}")
    assert judge.requests[0].question.startswith("tone: Is it polite? (likert5): <<<candidate_answer")


def test_a_prompt_may_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "judge.md").write_text("From a file: {{ candidate_answer }}")
    judge = judge_saying(GOOD)
    evaluate(make_context("x"), judges=(judge,), prompt="judge.md", base_dir=str(tmp_path))
    assert judge.requests[0].question.startswith("From a file: <<<")
    with pytest.raises(ConfigError, match=r"cannot read the prompt .*nope\.md.*there is no such file"):
        LlmJudgeEvaluator(prompt="nope.md", base_dir=str(tmp_path))


def test_the_trace_is_shown_on_request_and_absent_without_one() -> None:
    judge = judge_saying(GOOD)
    summary = TraceSummary(1, ("search",), {"search": 1}, 0)
    evaluate(make_context(judge=judge, candidate_trace_summary=summary), include_trace=True)
    evaluate(make_context(judge=judge), include_trace=True)
    evaluate(make_context(judge=judge, candidate_trace_summary=summary))
    shown = ["[[ ## trace_summary ## ]]" in request.question for request in judge.requests]
    assert shown == [True, False, False]
    assert '"toolCallsByName"' in judge.requests[0].question


def test_another_source_is_judged() -> None:
    judge = judge_saying(GOOD)
    messages = (Message(role="assistant", content="from messages", tool_calls=(ToolCall("t"),)),)
    evaluate(make_context(judge=judge, output_messages=messages), source="output_messages.-1")
    assert "<<<candidate_answer n1>>>\nfrom messages\n" in judge.requests[0].question


def checks(**said: bool) -> str:
    entries = ",".join(f'{{"id": "{name}", "satisfied": {str(met).lower()}}}' for name, met in said.items())
    return f'{{"checks": [{entries}], "overall_reasoning": "so so"}}'


def test_rubrics_are_checked_one_by_one() -> None:
    judge = judge_saying(checks(rule=True, amount=False))
    score = evaluate(make_context(judge=judge), rubrics=RUBRIC)
    assert score.score == pytest.approx(1 / 3)
    assert score.verdict == "fail"
    assert score.hits == ("[rule] Mentions 30 days",)
    assert score.misses == ("[amount] States the amount",)
    assert prompt_of(judge.requests[0]).endswith(
        "[[ ## requirements ## ]]\n- rule: Mentions 30 days\n- amount (required): States the amount"
    )
    assert '"checks"' in (judge.requests[0].system_prompt or "")


@pytest.mark.parametrize(("said", "verdict"), [({"rule": True, "amount": True}, "pass"), ({"rule": True}, "fail")])
def test_a_required_item_decides_the_verdict(said: dict[str, bool], verdict: str) -> None:
    assert evaluate(make_context(judge=judge_saying(checks(**said))), rubrics=RUBRIC).verdict == verdict


def test_several_judges_vote() -> None:
    judges = tuple(judge_saying(f'{{"score": {score}, "reasoning": "r{score}"}}') for score in (0.9, 0.8, 0.1))
    score = evaluate(make_context(), judges=judges, vote="median")
    assert score.score == 0.8
    assert score.reasoning == "r0.8"
    assert [call.role for call in score.judge_calls] == ["member"] * 3
    assert score.results[0].metadata == {
        "spread": {"values": [0.9, 0.8, 0.1], "min": 0.1, "max": 0.9, "stdev": pytest.approx(0.3559, abs=1e-4)}
    }


def test_samples_repeat_the_judge_and_keep_the_spread() -> None:
    judge = judge_saying('{"score": 1.0}', '{"score": 0.5}')
    score = evaluate(make_context(judge=judge), samples=2)
    assert score.score == 0.75
    assert len(judge.requests) == 2
    assert to_score(score, name="x").results[0].metadata is not None


def test_a_panel_is_whole_or_it_is_an_error() -> None:
    failure = Failure("server_error", "HTTP 500")
    score = evaluate(make_context(), judges=(judge_saying(GOOD), FailingJudge(failure)))
    assert score.error is not None
    assert score.error.message == "the judge 'failing' did not answer: HTTP 500"
    assert len(score.judge_calls) == 1


def test_settings_choose_judges_by_name() -> None:
    first, second = judge_saying(GOOD), judge_saying('{"score": 0.1}')
    tools = Tools(judges={"first": first, "second": second})
    one = evaluator_of("llm_judge", tools, target="first")
    both = evaluator_of("llm_judge", tools, judges=["first", "second"], vote="min")
    context = make_context()
    assert asyncio.run(one.evaluate(context)).score == 0.9  # type: ignore[arg-type]
    assert asyncio.run(both.evaluate(context)).score == 0.1  # type: ignore[arg-type]


def test_a_reusable_judge_scores_answers_by_its_config_criterion() -> None:
    tools = Tools(judges={"first": judge_saying(GOOD)})
    evaluator = make_evaluator(EvaluatorConfig("kind", "llm_judge", criterion="tone"))
    assert getattr(evaluator, "reusable", False)
    assert not getattr(evaluator_of("llm_judge", tools, target="first"), "reusable", False), "its judge is its suite's"
    judge = judge_saying(GOOD)
    tone = EvaluationCriteria("tone", "Is it kind?", scale="numeric")
    for outcome in ("Is refused", "", "Is granted"):
        case = replace(CASE, expected_outcome=outcome)
        asyncio.run(evaluator.evaluate(make_context(judge=judge, eval_case=case, criteria=(tone,))))  # type: ignore[arg-type]
    questions = [request.question for request in judge.requests]
    assert all(question.startswith("[[ ## criterion ## ]]\ntone: Is it kind?") for question in questions)
    assert ["expected_outcome" in question for question in questions] == [True, False, True]


def test_a_rubric_in_yaml_takes_plain_texts_and_items() -> None:
    judge = judge_saying(checks(**{"rubric-1": True, "amount": True}))
    evaluator = evaluator_of(
        "rubric", items=["Is kind", {"id": "amount", "description": "Says how much", "required": True}]
    )
    assert asyncio.run(evaluator.evaluate(make_context(judge=judge))).score == 1.0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("type_", "settings", "message"),
    [
        ("llm_judge", {"samples": 0}, r"\$.samples  `samples` must be at least 1"),
        ("llm_judge", {"max_output_tokens": 0}, r"\$.max_output_tokens"),
        ("llm_judge", {"temperature": -1}, r"\$.temperature"),
        ("llm_judge", {"target": "a", "judges": ["b"]}, r"\$.target  `judge` cannot be combined with `judges`"),
        ("llm_judge", {"vote": "medain"}, r"did you mean 'median'\?"),
        ("rubric", {"rubrics": []}, "a rubric needs at least one item in `rubrics`"),
        ("rubric", {}, "the key 'rubrics' is missing"),
        (
            "rubric",
            {"rubrics": ["a", {"id": "rubric-1", "description": "b"}]},
            "two rubric items have the id 'rubric-1'",
        ),
    ],
)
def test_settings_that_cannot_be_used_are_refused(type_: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(EvalFileError, match=message):
        evaluator_of(type_, **settings)


def test_a_judge_that_keeps_the_contract_signs() -> None:
    judge = Judge(lambda request: signed(request, '"score": 0.4, "hits": [], "misses": ["late"]'))
    assert evaluate(make_context(judge=judge)).misses == ("late",)


def test_a_reply_cut_at_its_token_limit_is_named_so() -> None:
    class Short:
        kind = "short"

        async def invoke(self, _request: ProviderRequest) -> ProviderResponse:
            return ProviderResponse('{"nonce": "n1", "reasoning": "The answer', finish_reason="MAX_TOKENS")

    score = evaluate(make_context(judge=Short()), max_output_tokens=9)
    assert score.error is not None
    assert "its reply was cut at its token limit of 9; raise `max_output_tokens`" in score.error.message


@pytest.mark.parametrize("options", [{}, {"rubrics": ("a", "b")}, {"criteria": ("llm_judge",)}])
def test_reasons_come_before_scores_and_lists_are_bounded(options: Any) -> None:
    judge = judge_saying("")
    evaluate(make_context(judge=judge, criteria=(EvaluationCriteria("llm_judge"),)), **options)
    schema: Any = judge.requests[0].response_schema
    assert "const" not in json.dumps(schema)
    lists = {name: each for name, each in schema["properties"].items() if each["type"] == "array"}
    assert all(each["maxItems"] == {"checks": 2, "criteria": 1}.get(name, 4) for name, each in lists.items())
    scored = next((each["items"] for each in lists.values() if each["items"]["type"] == "object"), schema)
    keys = list(scored["properties"])
    assert keys.index("reasoning") < min(keys.index(key) for key in ("score", "satisfied") if key in keys)
    system = judge.requests[0].system_prompt or ""
    assert system.index('"reasoning"') < min(
        system.index(f'"{key}"') for key in ("score", "satisfied") if key in system
    )
