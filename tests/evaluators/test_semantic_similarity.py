"""`semantic_similarity`: the cosine of a text and its references."""

import asyncio
import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from tests.support.judging import Tools, WordEmbedder, evaluator_of, make_context

from agentv.evaluators import EVALUATORS
from agentv.evaluators.text.semantic_similarity import SemanticSimilaritySettings
from agentv.loading.models.settings import read_settings
from agentv.scoring.results.completion import to_score
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import EvalFileError, EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationScore
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject
from agentv.types.provider import Embedder, Embedding, ProviderError
from agentv.types.scales import EvaluationCriteria
from agentv.types.usage import Usage

DEGREES = {"east": 0, "north-east": 45, "north": 90, "west": 180}


@dataclass
class Compass:
    """An embedder with known vectors, so that every cosine is known; `odd` has the vectors of other texts."""

    odd: Mapping[str, Embedding] | None = None
    name: str = "compass"

    async def embed(self, texts: Sequence[str]) -> tuple[Embedding, ...]:
        return tuple((self.odd or {}).get(text) or direction(text) for text in texts)


@dataclass
class Refusing:
    failure: Failure
    name: str = "embedder"

    async def embed(self, texts: Sequence[str]) -> tuple[Embedding, ...]:  # noqa: ARG002 - unused
        raise ProviderError(self.failure)


def direction(text: str) -> Embedding:
    angle = math.radians(DEGREES[text])
    usage = Usage(input=len(text), total=len(text), requests=1)
    return Embedding(array("f", [math.cos(angle), math.sin(angle)]), usage=usage, cost_usd=0.25)


def judge(context: EvaluationContext, embedder: Embedder | None = None, **settings: Any) -> EvaluationScore:
    async def run() -> object:
        evaluator = evaluator_of("semantic_similarity", Tools(vectors=embedder or Compass()), **settings)
        return await evaluator.evaluate(context)  # type: ignore[misc] # it is a coroutine

    return to_score(asyncio.run(run()), name="meaning", kind="semantic_similarity", criteria=context.criteria)


def heading(candidate: str, ground_truth: Any = "east", **fields: Any) -> EvaluationContext:
    return make_context(candidate, ground_truth=ground_truth, **fields)


@pytest.mark.parametrize(
    ("candidate", "score"), [("east", 1.0), ("north-east", math.sqrt(0.5)), ("north", 0.0), ("west", 0.0)]
)
def test_the_score_is_the_cosine_and_never_below_zero(candidate: str, score: float) -> None:
    assert judge(heading(candidate)).score == pytest.approx(score, abs=1e-6)


def test_the_cosine_itself_is_kept() -> None:
    (result,) = judge(heading("west")).results
    assert result.metadata == {"cosine": pytest.approx(-1.0), "reference": "ground_truth"}
    assert result.reasoning == "cosine -1.0000 with ground_truth"


@pytest.mark.parametrize(("threshold", "score"), [(0.7, 1.0), (0.71, 0.0)])
def test_a_threshold_makes_it_pass_or_fail(threshold: float, score: float) -> None:
    judged = judge(heading("north-east"), threshold=threshold)
    assert judged.score == score
    line = f"cosine 0.7071 with ground_truth ({'at least' if score else 'less than'} {threshold})"
    assert (judged.hits if score else judged.misses) == (line,)


def test_of_several_references_the_closest_counts_and_is_named() -> None:
    judged = judge(heading("north", ["west", "north-east", "east"]))
    assert judged.score == pytest.approx(math.sqrt(0.5))
    assert judged.reasoning == "cosine 0.7071 with ground_truth.1"


def test_references_may_stand_in_several_places() -> None:
    context = heading("north", "west", metadata={"other": "north"})
    judged = judge(context, reference=["ground_truth", "metadata.other"])
    assert judged.reasoning == "cosine 1.0000 with metadata.other"


def test_a_reference_that_is_an_object_is_compared_as_json() -> None:
    embedder = WordEmbedder()
    judge(heading("east", {"answer": "east"}), embedder)
    assert embedder.requests == [("east", '{"answer":"east"}')]


def test_a_criterion_gets_the_score_on_its_own_scale() -> None:
    scored = judge(
        heading(
            "east",
            criteria=(EvaluationCriteria("meaning", scale="likert5"),),
            evaluator=EvaluatorConfig("close", "semantic_similarity", criterion="meaning"),
        ),
        threshold=0.5,
    )
    (result,) = scored.results
    assert (result.criterion_name, result.score, result.value) == ("meaning", 5, 1.0)


@pytest.mark.parametrize("candidate", ["", " \n\t"])
def test_an_empty_text_is_an_error_and_no_score(candidate: str) -> None:
    with pytest.raises(EvaluatorError, match="the text of 'response' is empty"):
        judge(heading(candidate))


def test_an_empty_reference_is_an_error_that_names_it() -> None:
    with pytest.raises(EvaluatorError, match=r"the text of 'ground_truth\.1' is empty"):
        judge(heading("east", ["north", ""]))


def test_a_reference_that_is_not_there_is_an_error() -> None:
    with pytest.raises(EvaluatorError, match="finds nothing"):
        judge(heading("east"), reference="metadata.nothing")


def test_a_zero_vector_is_an_error_that_names_its_text() -> None:
    embedder = Compass(odd={"east": Embedding(array("f", [0.0, 0.0]))})
    with pytest.raises(EvaluatorError, match="'ground_truth' is all zeros") as raised:
        judge(heading("north"), embedder)
    assert raised.value.failure.kind == "unexpected_shape"


def test_vectors_of_different_lengths_are_an_error() -> None:
    embedder = Compass(odd={"east": Embedding(array("f", [1.0]))})
    with pytest.raises(EvaluatorError, match="cannot be compared"):
        judge(heading("north"), embedder)


def test_a_failure_of_the_embedder_keeps_its_kind() -> None:
    with pytest.raises(EvaluatorError, match="no embeddings from 'embedder': Slow down") as raised:
        judge(heading("east"), Refusing(Failure("rate_limited", "Slow down")))
    assert raised.value.failure.kind == "rate_limited"


def test_a_text_that_was_read_in_part_is_named() -> None:
    embedder = Compass(odd={"north": Embedding(array("f", [1.0, 0.0]), is_cut=True)})
    assert str(judge(heading("north"), embedder).reasoning).endswith("; truncated to the model's limit: response")


def test_what_the_vectors_used_is_summed() -> None:
    (call,) = judge(heading("north")).judge_calls
    assert (call.judge, call.role, call.cached) == ("compass", "embedding", False)
    assert call.usage == Usage(input=9, total=9, requests=2)
    assert call.cost_usd == 0.5


def test_what_is_paid_at_an_unknown_price_has_no_cost() -> None:
    unpriced = Embedding(array("f", [1.0, 0.0]), usage=Usage(input=5, total=5))
    (call,) = judge(heading("north"), Compass(odd={"east": unpriced})).judge_calls
    assert call.cost_usd is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threshold": 0}, "`threshold` must be above 0"),
        ({"threshold": 1.5}, "`threshold` must be above 0"),
        ({"reference": []}, "`reference` must name at least one text"),
        ({"reference": "nowhere.at.all"}, "is not a source"),
        ({"model": 7}, "model"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(EvalFileError, match=message):
        evaluator_of("semantic_similarity", **settings)


def test_the_settings_of_the_prd_are_read() -> None:
    spec = EVALUATORS.get("NLPAccuracy")
    raw: JsonObject = {"embeddingModel": "embedder", "similarityThreshold": 0.5, "referenceField": "prompt"}
    assert read_settings(spec, raw, where="meaning") == SemanticSimilaritySettings(
        model="embedder", threshold=0.5, reference="prompt"
    )
