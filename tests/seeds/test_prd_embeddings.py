"""Seed evaluation-framework-prd.md: NLPAccuracyEvaluator."""

from pathlib import Path

import pytest
from tests.support.fake_server import serving_fake

from agentv import AggregatedEvaluationResult, EvaluationInput, EvaluationRunConfig, run_evaluation_sync

KEY = "sk-canary-0123456789"
pytestmark = pytest.mark.filterwarnings("ignore:`semantic_similarity` as the only evaluator")
INPUT = {
    "prompt": "May I return it?",
    "response": "You may return it for 30 days",
    "groundTruth": "You may return it within 30 days",
    "criteria": [{"name": "SemanticAccuracy", "description": "Means the same", "scale": "numeric"}],
}


def judge(model: object, **config: object) -> AggregatedEvaluationResult:
    settings = {"criterionName": "SemanticAccuracy", "embeddingModel": model, **config}
    return run_evaluation_sync(
        EvaluationInput.from_dict(INPUT),
        EvaluationRunConfig.from_dict({"evaluatorConfigs": [{"type": "NLPAccuracy", "config": settings}]}),
    )


def test_meaning_is_compared_with_the_ground_truth_by_embeddings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EMBEDDING_KEY", KEY)
    with serving_fake() as server:
        model = {"provider": "openai", "model": "m", "baseUrl": f"{server.url}/v1", "apiKey": "${{ EMBEDDING_KEY }}"}
        result = judge(model)
        strict = judge(model, similarityThreshold=0.99)
        assert {call.api for call in server.calls} == {"openai-embeddings"}
    (said,) = result.results
    assert (said.criterion_name, said.evaluator_type) == ("SemanticAccuracy", "semantic_similarity")
    # Six of seven words are the same, and the fake server's vectors count words.
    assert said.value == result.overall_score == pytest.approx(6 / 7)
    assert strict.overall_score == 0.0
    assert KEY not in repr(result)


def test_the_package_brings_a_model_for_it_that_needs_no_network() -> None:
    assert judge("local").overall_score == pytest.approx(0.99, abs=0.03)
