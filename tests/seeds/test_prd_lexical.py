"""Seed evaluation-framework-prd.md, FR2.5: the lexical suite, configured with the PRD's own names."""

import pytest

from agentv import EvaluationInput, EvaluationRunConfig, run_evaluation_sync
from agentv.types.json_value import JsonObject

INPUT: JsonObject = {
    "prompt": "What is it written in?",
    "response": "In C++, at a great café.",
    "groundTruth": "In C++, at a great bar.",
    "context": {"facts": ["C++", "café", "tea"]},
}


def scored(type_: str, scale: str, **config: object) -> object:
    criteria = [{"name": "C", "scale": scale}]
    given = {"type": type_, "config": {"criterionName": "C", **config}}
    done = run_evaluation_sync(
        EvaluationInput.from_dict({**INPUT, "criteria": criteria}),
        EvaluationRunConfig.from_dict({"evaluatorConfigs": [given]}),
    )
    (result,) = done.results
    assert (result.criterion_name, result.error, done.run_errors) == ("C", None, ())
    return result.score


@pytest.mark.parametrize(
    ("algorithm", "score"), [("sorensen-dice", 0.8), ("jaro-winkler", 0.9576), ("levenshtein", 0.875)]
)
def test_fr2_5_lexical_similarity(algorithm: str, score: float) -> None:
    places = {"sourceField": "response", "referenceField": "groundTruth"}
    options = {"algorithm": algorithm, "caseSensitive": False, "normalizeWhitespace": True}
    assert scored("LexicalSimilarity", "numeric", **places, **options) == pytest.approx(score, abs=1e-4)


def test_fr2_5_keyword_coverage() -> None:
    options = {"sourceTextField": "response", "caseSensitive": False, "matchWholeWord": True}
    assert scored("KeywordCoverage", "numeric", expectedKeywords=["c++", "tea"], **options) == 0.5
    assert scored("KeywordCoverage", "percent", keywordsSourceField="context.facts") == pytest.approx(200 / 3)
    assert scored("KeywordCoverage", "numeric", keywordsSourceField="groundTruth") == 0.5


def test_fr2_5_sentiment() -> None:
    assert scored("Sentiment", "numeric", outputType="rawScore", sourceTextField="response") == 0.6249
    assert scored("Sentiment", "numeric", outputType="comparativeNormalized") == pytest.approx(0.81245)
    assert scored("Sentiment", "tone", outputType="category", positiveThreshold=0.5) == "positive"
    assert scored("Sentiment", "tone", outputType="category", positiveThreshold=0.7) == "neutral"


def test_fr2_5_toxicity() -> None:
    options = {"caseSensitive": False, "matchWholeWord": True, "sourceTextField": "response"}
    assert scored("Toxicity", "binary", toxicTerms=["grate", "at a bar"], **options) is True
    assert scored("Toxicity", "binary", toxicTerms=["great"], **options) is False
    assert scored("Toxicity", "pass/fail", toxicTerms=["great"]) == "fail"
