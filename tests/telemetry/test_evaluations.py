"""Results as spans and events."""

import pytest
from msgspec.structs import replace
from tests.support.rows import make_row

from agentv.telemetry.sending.evaluations import EVENT_NAME, MAX_CHARS, RunContent, exported_result
from agentv.types.evaluation import EvaluatorResult
from agentv.types.failures import Failure
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord

SILENT, TALKING = RunContent("nightly"), RunContent("nightly", with_content=True)
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def judged(**fields: object) -> CaseResult:
    tone = EvaluatorResult(
        name="tone", type="llm_judge", score=0.7, verdict="borderline", reasoning="polite words", duration_ms=250.0
    )
    return replace(
        make_row("refund", score=0.7, duration_ms=1000.0),
        evaluator_results=(tone,),
        verdict="borderline",
        candidate_answer="my words",
        score_keys={"tone": "v1:abc"},
        **fields,
    )


def test_a_judgement_is_a_span_below_that_of_the_answer_and_an_event() -> None:
    exported = exported_result(judged(), SILENT)
    answer, evaluation = exported.spans
    (event,) = exported.logs
    assert (answer.name, answer.parent_id) == ("case refund", b"")
    assert (evaluation.name, evaluation.parent_id) == ("evaluation tone", answer.span_id)
    assert (event.name, event.span_id) == (EVENT_NAME, answer.span_id)
    assert answer.trace_id == evaluation.trace_id == event.trace_id
    assert evaluation.attributes == event.attributes
    assert evaluation.attributes == {
        "gen_ai.evaluation.name": "tone",
        "gen_ai.evaluation.score.value": 0.7,
        "gen_ai.evaluation.score.label": "borderline",
        "test.suite.name": "evals/s.yaml",
        "test.case.name": "refund",
        "test.case.result.status": "fail",
        "agentv.run.id": "r",
        "agentv.run.name": "nightly",
        "agentv.target": "t",
        "agentv.trial": 0,
        "agentv.verdict": "borderline",
        "agentv.evaluator.type": "llm_judge",
        "agentv.evaluator.revision": "v1:abc",
        "agentv.evaluator.weight": 1.0,
    }


def test_times_are_those_of_the_answer_and_the_judging() -> None:
    answer, evaluation = exported_result(judged(), SILENT).spans
    assert evaluation.end_ns == answer.end_ns
    assert evaluation.end_ns - evaluation.start_ns == 250_000_000
    assert answer.end_ns - answer.start_ns == 1_250_000_000


def test_content_is_sent_with_the_switch_only() -> None:
    case = CaseRecord(case_key="k", suite="evals/s.yaml", eval_id="refund", question="my question")
    silent, talking = (str(exported_result(judged(), each, case)) for each in (SILENT, TALKING))
    for text in ("polite words", "my words", "my question"):
        assert text not in silent
        assert text in talking


def test_the_message_of_an_error_is_content() -> None:
    failure = Failure(kind="judge_error", stage="evaluator", message="the judge said: my words")
    result = EvaluatorResult(name="tone", type="llm_judge", score=0.0, status="error", error=failure)
    row = replace(judged(), evaluator_results=(result,), status="error", verdict=None)
    _, span = exported_result(row, SILENT).spans
    assert span.error == ""
    assert span.attributes["error.type"] == "judge_error"
    assert span.attributes["test.case.result.status"] == "error"
    assert "gen_ai.evaluation.score.value" not in span.attributes
    assert exported_result(row, TALKING).spans[1].error == "the judge said: my words"


def test_a_target_that_failed_has_a_span_with_its_error() -> None:
    failure = Failure(kind="target_timeout", stage="target", message="too slow")
    row = replace(make_row("refund", score=None, error=failure), evaluator_results=())
    (span,) = exported_result(row, SILENT).spans
    assert (span.name, span.error, span.attributes["error.type"]) == ("case refund", "", "target_timeout")


def test_skipped_evaluators_have_judged_nothing() -> None:
    exported = exported_result(make_row("refund", score=None, is_skipped=True), SILENT)
    assert [span.name for span in exported.spans] == ["case refund"]
    assert exported.logs == ()


def test_the_span_that_the_metadata_names_is_the_parent() -> None:
    row = judged(metadata={"trace_id": TRACE.upper(), "span_id": SPAN})
    (span,) = exported_result(row, SILENT).spans
    assert (span.trace_id.hex(), span.parent_id.hex()) == (TRACE, SPAN)


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"trace_id": "0" * 32, "span_id": SPAN}, id="zero"),
        pytest.param({"trace_id": TRACE}, id="no-span"),
        pytest.param({"trace_id": 7, "span_id": ["x"]}, id="types"),
    ],
)
def test_an_invalid_span_in_the_metadata_is_not_a_parent(metadata: dict[str, object]) -> None:
    assert len(exported_result(judged(metadata=metadata), SILENT).spans) == 2


def test_ids_follow_from_run_slot_and_evaluator() -> None:
    row = judged()
    assert exported_result(row, SILENT) == exported_result(row, SILENT)
    others = [
        replace(row, run_id="r2"),
        replace(row, slot=replace(row.slot, trial=1)),
        replace(row, slot=replace(row.slot, target="u")),
        replace(row, generation=1),
        replace(row, evaluator_results=(*row.evaluator_results, *row.evaluator_results)),
    ]
    ids = {span.span_id for each in (row, *others) for span in exported_result(each, SILENT).spans}
    assert len(ids) == 2 * 5 + 1  # the last row has one more judgement, and shares the rest with the first


def test_a_result_that_was_judged_again_has_the_same_answer_and_new_judgements() -> None:
    (answer, first), (second,) = (
        exported_result(judged(), SILENT).spans,
        exported_result(judged(generation=1, rescored=1), SILENT).spans,
    )
    assert second.parent_id == answer.span_id
    assert second.span_id != first.span_id


def test_long_texts_are_cut() -> None:
    answer = exported_result(replace(judged(), candidate_answer="x" * 10 * MAX_CHARS), TALKING).spans[0]
    assert len(str(answer.attributes["gen_ai.output.messages"])) < MAX_CHARS + 100


def test_the_id_of_the_response_comes_from_the_metadata() -> None:
    _, span = exported_result(judged(metadata={"response_id": "resp_1"}), SILENT).spans
    assert span.attributes["gen_ai.response.id"] == "resp_1"
