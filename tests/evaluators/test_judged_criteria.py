"""`llm_judge` with `criteria`: one call scores several criteria, each on its own scale."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.judging import (
    FailingJudge,
    Judge,
    Tools,
    evaluator_of,
    judge_saying,
    make_context,
    numbered_nonces,
    prompt_of,
    signed,
)

from agentv import AggregatedEvaluationResult, EvaluationInput, EvaluationRunConfig, run_evaluation_sync
from agentv.engine.plugins.loading import load_specs
from agentv.evaluators.judges.llm_judge import LlmJudgeEvaluator
from agentv.evaluators.judges.settings import LlmJudgeSettings, RubricSettings
from agentv.loading.suites.suites import load_suite
from agentv.scoring.results.completion import to_score
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import ConfigError, EvalFileError, EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationScore
from agentv.types.failures import Failure
from agentv.types.scales import EvaluationCriteria

CRITERIA = (
    EvaluationCriteria("facts", "Are the facts right?", weight=2.0),
    EvaluationCriteria("tone", "Is it friendly?", scale="likert5"),
    EvaluationCriteria("length", scale="numeric", min=0, max=10),
    EvaluationCriteria("grade", "As a whole", scale="labels", labels=("poor", "good")),
    EvaluationCriteria("share", scale="percent"),
    EvaluationCriteria("gate", scale="pass/fail"),
    EvaluationCriteria("part", scale="numeric"),
    EvaluationCriteria("mood", "Its mood", scale="a word"),
)
NAMES = tuple(criterion.name for criterion in CRITERIA)


def said(**scores: object) -> str:
    entries = [{"name": name, "score": score, "reasoning": f"why {name}"} for name, score in scores.items()]
    return f'"criteria": {json.dumps(entries)}, "overall_reasoning": "all in all"'


def context_with(judge: Any, **fields: Any) -> EvaluationContext:
    return make_context(judge=judge, criteria=CRITERIA, **fields)


def judged(judge: Any, *names: str, **options: Any) -> EvaluationScore:
    evaluator = LlmJudgeEvaluator(criteria=names or NAMES, nonce=numbered_nonces(), timer=lambda: 0.0, **options)
    return asyncio.run(evaluator.evaluate(context_with(judge)))


def test_one_call_is_shown_every_criterion_with_what_it_allows() -> None:
    judge = Judge(lambda request: signed(request, said(facts=True)))
    judged(judge)
    (request,) = judge.requests
    assert prompt_of(request).endswith(
        "<<<end of candidate_answer n1>>>\n\n"
        "[[ ## criteria ## ]]\n"
        '- "facts": Are the facts right? Score: true (met) or false (not met)\n'
        '- "tone": Is it friendly? Score: a number from 1 (worst) to 5 (best)\n'
        '- "length" Score: a number from 0 (worst) to 10 (best)\n'
        '- "grade": As a whole Score: one of "poor", "good" (from worst to best)\n'
        '- "share" Score: a number from 0 (worst) to 100 (best)\n'
        '- "gate" Score: "pass" or "fail"\n'
        '- "part" Score: a number from 0 (worst) to 1 (best)\n'
        '- "mood": Its mood Score: a text on the scale "a word"'
    )
    system = request.system_prompt or ""
    for key in ("nonce", "criteria", "overall_reasoning"):
        assert f'- "{key}"' in system
    assert "by several criteria" in system


def test_the_schema_names_the_criteria_and_the_types_of_their_scores() -> None:
    judge = Judge(lambda request: signed(request, said(facts=True, tone=4)))
    judged(judge, "facts", "tone")
    judged(judge, "tone")
    both, one = (request.response_schema for request in judge.requests)
    assert both is not None
    assert both["required"] == ["nonce", "criteria", "overall_reasoning"]
    entry: Any = both["properties"]["criteria"]["items"]  # type: ignore[index,call-overload]
    assert entry["properties"]["name"] == {"type": "string", "enum": ["facts", "tone"]}
    assert entry["properties"]["score"] == {"type": ["boolean", "number"]}
    assert '"score": {"type": "number"}' in json.dumps(one)


def test_each_criterion_gets_its_result_and_the_whole_their_weighted_mean() -> None:
    judge = Judge(lambda request: signed(request, said(tone=3, facts=True)))
    score = judged(judge, "facts", "tone")
    assert [(result.criterion_name, result.score, result.value) for result in score.results] == [
        ("facts", True, 1.0),
        ("tone", 3, 0.5),
    ]
    assert score.score == pytest.approx((2 * 1.0 + 0.5) / 3)
    assert score.reasoning == "all in all"
    (call,) = score.judge_calls
    assert call.score == score.score
    assert to_score(score, name="judge", kind="llm_judge", criteria=CRITERIA).results == score.results


def test_a_reply_in_a_code_fence_is_read_with_the_nonce_alone() -> None:
    judge = Judge(lambda request: f"Here you go:\n```json\n{signed(request, said(facts=1, tone='4'))}\n```")
    assert [result.value for result in judged(judge, "facts", "tone").results] == [1.0, 0.75]
    assert len(judge.requests) == 1
    unsigned = judge_saying(f"Here you go:\n```json\n{{{said(facts=1, tone='4')}}}\n```")
    assert [result.value for result in judged(unsigned, "facts", "tone").results] == [1.0, 0.75], "it is code"
    unsigned = Judge(unsigned.reply, is_code=False)
    assert [result.value for result in judged(unsigned, "facts", "tone").results] == [None, None]
    assert len(unsigned.requests) == 2
    accepted = judged(unsigned, "facts", "tone", unsigned="accept")
    assert ([result.value for result in accepted.results], accepted.status) == ([1.0, 0.75], "unverified")


def test_a_criterion_left_out_is_its_error_and_no_second_call() -> None:
    judge = Judge(lambda request: signed(request, said(facts=True)))
    score = judged(judge, "facts", "tone")
    assert [result.error for result in score.results] == [None, "the judge did not answer it"]
    assert score.error is not None
    assert score.error.message == "tone: the judge did not answer it"
    assert len(judge.requests) == 1


def test_a_judge_that_cannot_be_heard_is_an_error_of_every_criterion() -> None:
    silent = judged(FailingJudge(Failure("rate_limited", "HTTP 429")), "facts", "tone")
    unread = judged(judge_saying("Looks fine to me."), "facts", "tone")
    assert {result.error for result in silent.results} == {"the judge 'failing' did not answer: HTTP 429"}
    assert {result.error for result in unread.results} == {
        "the judge 'scripted' gave no usable verdict in two attempts: its reply is text without a JSON object"
    }
    assert [result.criterion_name for result in unread.results] == ["facts", "tone"]
    assert (unread.score, unread.reasoning) == (0.0, "Looks fine to me.")
    assert {result.reasoning for result in unread.results} == {"Looks fine to me."}


def test_several_judges_vote_on_each_criterion() -> None:
    marks = iter((2, 4, 5))
    judge = Judge(lambda request: signed(request, said(tone=next(marks))))
    (result,) = judged(judge, "tone", samples=3, vote="median").results
    assert (result.score, result.value) == (4, 0.75)
    assert result.metadata is not None
    assert "spread" in result.metadata


def test_an_undefined_name_is_an_error_that_lists_the_defined_ones() -> None:
    with pytest.raises(EvaluatorError, match=r"no criterion 'tune' in `criteria`; defined: facts, tone, length"):
        judged(judge_saying(""), "tune")


def test_a_file_that_names_an_unknown_criterion_is_refused_where_it_stands(tmp_path: Path) -> None:
    suite = tmp_path / "s.yaml"
    suite.write_text(
        """
criteria: [{name: tone}, {name: facts}]
evalcases:
  - id: a
    expected_outcome: ok
    input_messages: [{role: user, content: hi}]
    evaluators: [{name: e, type: llm_judge, criteria: [facts, tune]}]
"""
    )
    with pytest.raises(EvalFileError, match="no criterion 'tune' in `criteria`; known: facts, tone") as caught:
        load_suite(suite, specs=load_specs())
    (problem,) = caught.value.problems
    assert (problem.line, problem.suggestion) == (7, "tone")


def test_criteria_and_rubrics_exclude_each_other() -> None:
    with pytest.raises(EvalFileError, match="`criteria` cannot be combined with `rubrics`"):
        evaluator_of("llm_judge", criteria=["facts"], rubrics=["Is right"])
    with pytest.raises(ConfigError, match="give either criteria= or rubrics="):
        LlmJudgeEvaluator(criteria=("facts",), rubrics=("Is right",))


def test_only_evaluators_that_score_several_criteria_have_the_setting() -> None:
    assert LlmJudgeSettings().criteria == ()
    assert not hasattr(RubricSettings(rubrics=("a",)), "criteria")


def test_from_a_file_it_works_under_both_names() -> None:
    for type_ in ("llm_judge", "LLMJudge"):
        judge = Judge(lambda request: signed(request, said(tone=5)))
        evaluator = evaluator_of(type_, Tools(judges={"j": judge}), criteria=["tone"], judge="j")
        assert asyncio.run(evaluator.evaluate(context_with(None))).score == 1.0  # type: ignore[arg-type]


def test_a_custom_prompt_is_followed_by_the_criteria(tmp_path: Path) -> None:
    judge = Judge(lambda request: signed(request, said(tone=5)))
    judged(judge, "tone", prompt="Judge {{ candidate_answer }}", base_dir=str(tmp_path))
    assert judge.requests[0].question.startswith("Judge <<<candidate_answer n1>>>")
    assert '[[ ## criteria ## ]]\n- "tone"' in judge.requests[0].question


def evaluate_criteria(*evaluators: EvaluatorConfig) -> AggregatedEvaluationResult:
    checks = '"checks": [{"id": "rubric-1", "satisfied": true}]'
    judge = Judge(lambda request: signed(request, f"{said(facts=True, tone=4)}, {checks}"))
    given = EvaluationInput("30 days.", prompt="May I return it?", criteria=CRITERIA[:2])
    return run_evaluation_sync(given, EvaluationRunConfig(evaluators=evaluators, judge=judge))


def test_a_judge_that_names_no_criterion_scores_all_of_an_input() -> None:
    result = evaluate_criteria(EvaluatorConfig("q", "llm_judge"))
    assert [(each.criterion_name, each.value) for each in result.results] == [("facts", 1.0), ("tone", 0.75)]
    assert result.overall_score == pytest.approx((2 * 1.0 + 0.75) / 3)


def test_a_judge_with_requirements_stands_for_one_criterion() -> None:
    rubrics = {"rubrics": ["Is right"]}
    with pytest.raises(ConfigError, match="does not name the criterion it scores"):
        evaluate_criteria(EvaluatorConfig("q", "llm_judge", rubrics))
    result = evaluate_criteria(
        EvaluatorConfig("q", "llm_judge", rubrics, criterion="facts"),
        EvaluatorConfig("p", "llm_judge", criterion="tone", settings={"criteria": ("tone",)}),
    )
    assert [(each.criterion_name, each.value) for each in result.results] == [("facts", 1.0), ("tone", 0.75)]


GOOD = '"score": 0.75, "hits": [], "misses": [], "reasoning": "r"'


def freeform(context: EvaluationContext) -> tuple[str, str]:
    """Return the prompts of a freeform call on a context."""
    judge = Judge(lambda request: signed(request, GOOD))
    evaluator = LlmJudgeEvaluator(nonce=numbered_nonces())
    asyncio.run(evaluator.evaluate(replace(context, judge_provider=judge)))
    return judge.requests[0].question, judge.requests[0].system_prompt or ""


def test_the_one_criterion_of_a_freeform_judge_is_shown_to_it() -> None:
    context = replace(context_with(None), evaluator=EvaluatorConfig("j", "llm_judge", criterion="tone"))
    question, system = freeform(context)
    assert question.startswith("[[ ## criterion ## ]]\ntone: Is it friendly?\n\n[[ ## expected_outcome ## ]]")
    assert "What counts is the criterion alone" in system
    assert '- "score": a number from 1 (worst) to 5 (best)' in system
    nameless = replace(context, evaluator=EvaluatorConfig("length", "llm_judge"))
    assert freeform(nameless)[0].startswith("[[ ## criterion ## ]]\nlength\n\n")


def test_its_score_is_reported_on_the_criterions_scale() -> None:
    judge = Judge(lambda request: signed(request, '"score": 4'))
    context = replace(context_with(judge), evaluator=EvaluatorConfig("j", "llm_judge", criterion="tone"))
    output = asyncio.run(LlmJudgeEvaluator().evaluate(context))
    (result,) = to_score(output, name="tone", kind="llm_judge", criteria=CRITERIA).results
    assert (result.criterion_name, result.score, result.value) == ("tone", 4, 0.75)


@pytest.mark.parametrize(
    "evaluator", [None, EvaluatorConfig("j", "llm_judge"), EvaluatorConfig("j", "llm_judge", criterion="x")]
)
def test_without_a_defined_criterion_there_is_no_section_for_one(evaluator: EvaluatorConfig | None) -> None:
    question, system = freeform(replace(context_with(None), evaluator=evaluator))
    assert question.startswith("[[ ## expected_outcome ## ]]")
    assert "criterion" not in system
