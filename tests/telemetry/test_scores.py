"""Results as scores of the traces that were judged."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.rows import make_row

from agentv.telemetry.sending.destination import Omitted
from agentv.telemetry.sending.evaluations import RunContent
from agentv.telemetry.sending.scores import NO_SCORE, NO_TRACE, Score, scores_of
from agentv.types.evaluation import EvaluationResult, EvaluatorResult, JudgeCall
from agentv.types.failures import Failure
from agentv.types.records.result import CaseResult

SILENT, TALKING = RunContent("nightly"), RunContent("nightly", with_content=True)
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TONE = EvaluatorResult(name="tone", type="llm_judge", score=0.7, verdict="borderline", reasoning="polite\0 words")

BROKEN = tuple(EvaluationResult(name, error="no reply") for name in ("polite", "brief"))


def judged(*results: EvaluatorResult, **fields: Any) -> CaseResult:
    defaults = {"trace_id": TRACE, "span_id": SPAN, "evaluator_results": results or (TONE,)}
    return replace(make_row("refund", score=0.7), **{**defaults, **fields})


def scores(row: CaseResult, run: RunContent = SILENT) -> tuple[Score, ...]:
    found = scores_of(row, run)
    assert not isinstance(found, Omitted)
    return found


def test_a_judgement_is_a_score_of_the_trace_and_the_span() -> None:
    (score,) = scores(judged(score_keys={"tone": "v1:abc"}))
    assert (score.trace_id, score.span_id, score.name, score.value) == (TRACE, SPAN, "tone", 0.7)
    assert score.label == "borderline"
    assert score.about == {
        "agentv.evaluator.type": "llm_judge",
        "agentv.evaluator.revision": "v1:abc",
        "agentv.evaluator.weight": 1.0,
        "test.suite.name": "evals/s.yaml",
        "test.case.name": "refund",
        "test.case.result.status": "fail",
        "agentv.run.id": "r",
        "agentv.run.name": "nightly",
        "agentv.target": "t",
        "agentv.trial": 0,
        "agentv.verdict": make_row("refund", score=0.7).verdict,
    }


def test_reasons_are_sent_on_request_only_and_without_null_characters() -> None:
    assert scores(judged())[0].reasons is None
    assert scores(judged(), TALKING)[0].reasons == "polite words"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"trace_id": "", "span_id": ""}, NO_TRACE, id="no-trace"),
        pytest.param({"trace_id": "", "span_id": SPAN}, NO_TRACE, id="span-alone"),
        pytest.param({"evaluator_results": ()}, NO_SCORE, id="not-judged"),
        pytest.param(
            {"evaluator_results": (replace(TONE, status="error", error=Failure("judge_error", "down")),)},
            NO_SCORE,
            id="judge-failed",
        ),
        pytest.param({"evaluator_results": (replace(TONE, status="skipped"),)}, NO_SCORE, id="skipped"),
        pytest.param({"evaluator_results": (replace(TONE, results=BROKEN),)}, NO_SCORE, id="criteria-failed"),
    ],
)
def test_a_result_without_a_place_or_a_score_says_why(fields: dict[str, Any], expected: Omitted) -> None:
    assert scores_of(judged(**fields), SILENT) == expected


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        pytest.param({"trace_id": TRACE.upper(), "span_id": SPAN.upper()}, (TRACE, SPAN), id="upper-case"),
        pytest.param({"trace_id": "trace-of-Mine"}, ("trace-of-Mine", ""), id="own-id"),
    ],
)
def test_ids_come_from_the_metadata_of_other_answers(metadata: dict[str, Any], expected: tuple[str, str]) -> None:
    (score,) = scores(judged(trace_id="", span_id="", metadata=metadata))
    assert (score.trace_id, score.span_id) == expected


def test_a_case_made_from_an_earlier_answer_does_not_have_its_trace() -> None:
    metadata = {"trace_id": TRACE, "span_id": SPAN, "origin": {"run": "earlier", "trace_id": TRACE, "span_id": SPAN}}
    assert scores_of(judged(trace_id="", span_id="", metadata=metadata), SILENT) == NO_TRACE
    assert scores(judged(metadata=metadata))[0].span_id == SPAN


def test_an_evaluator_of_several_criteria_has_a_score_for_each() -> None:
    results = (
        EvaluationResult("polite", score=True, value=1.0, reasoning="says please"),
        EvaluationResult("brief", score=2, value=0.25, scale="1-5"),
        EvaluationResult("broken", error="no reply"),
    )
    found = scores(judged(replace(TONE, results=results)), TALKING)
    assert [(each.name, each.value, each.label, each.reasons) for each in found] == [
        ("polite", 1.0, "pass", "says please"),
        ("brief", 0.25, "fail", None),
    ]
    assert len({each.id for each in found}) == 2


def test_an_evaluator_of_one_criterion_or_of_several_turns_has_one_score() -> None:
    one = EvaluationResult("polite", score=True, value=1.0)
    for results in ((one,), (one, replace(one, score=False, value=0.0))):
        assert [each.name for each in scores(judged(replace(TONE, results=results)))] == ["tone"]


def test_the_judge_is_a_person_a_model_or_code() -> None:
    call = JudgeCall("openai:x", "sample", "{}")
    composite = EvaluatorResult(
        name="both", type="composite", score=1.0, evaluator_results=(replace(TONE, judge_calls=(call,)),)
    )
    found = scores(
        judged(
            replace(TONE, judge_calls=(call,)),
            composite,
            EvaluatorResult(
                name="near", type="semantic_similarity", score=1.0, judge_calls=(replace(call, role="embedding"),)
            ),
            EvaluatorResult(name="person", type="human", score=1.0),
        )
    )
    assert [each.judge for each in found] == ["model", "model", "code", "person"]


def test_a_judgement_made_again_has_the_id_of_the_first_and_a_later_time() -> None:
    first, again = scores(judged())[0], scores(judged(rescored=1, generation=1))[0]
    assert again.id == first.id
    assert again.judged_at > first.judged_at


def test_other_answers_have_other_ids() -> None:
    rows = (judged(), judged(run_id="other"), judged(generation=1), judged(replace(TONE, name="other")))
    assert len({scores(row)[0].id for row in rows}) == 4
