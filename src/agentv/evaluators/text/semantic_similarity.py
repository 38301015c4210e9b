"""`semantic_similarity`: similarity of meaning between a text and a reference, by embeddings of both."""

from collections.abc import Sequence
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from agentv.evaluators.rules.base import judged_text, references_at
from agentv.scoring.results.aggregation import is_met, reaches
from agentv.scoring.results.criteria import criterion_named, result_of
from agentv.scoring.results.sources import parse_source
from agentv.scoring.text.vectors import cosine
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationScore, JudgeCall
from agentv.types.json_value import JsonObject
from agentv.types.protocols import EvaluatorTools
from agentv.types.provider import Embedder, Embedding, ProviderError
from agentv.types.usage import total_usage

KIND = "semantic_similarity"


class SemanticSimilaritySettings(Struct, frozen=True, kw_only=True):
    """Settings of `semantic_similarity`."""

    warning_if_alone: ClassVar[str] = (
        "`semantic_similarity` as the only evaluator sees neither a negation nor a changed number"
    )

    model: Annotated[
        str | JsonObject,
        Meta(
            description=(
                "the embedding model: `local`, the name of a target, or a target definition "
                "(`{provider: openai, model: …, api_key: …}`)"
            ),
            extra={"aliases": ("embedding_model", "embedding_adapter", "embedding_config")},
        ),
    ] = "local"
    reference: Annotated[
        str | tuple[str, ...],
        Meta(
            description="the path of the text to compare with, as in `source`, or a list of paths; the most similar "
            "text counts",
            extra={"aliases": ("reference_field", "reference_text_field")},
        ),
    ] = "ground_truth"
    threshold: Annotated[
        float | None,
        Meta(
            description="score 1.0 from this similarity on, else 0.0; default: the similarity itself",
            extra={"aliases": ("similarity_threshold",)},
        ),
    ] = None

    def __post_init__(self) -> None:
        """Raise ValueError unless the threshold is above 0 and at most 1, and there are references with valid paths."""
        if self.threshold is not None and not 0 < self.threshold <= 1:
            raise ValueError("`threshold` must be above 0 and at most 1")
        if not self.references:
            raise ValueError("`reference` must name at least one text")
        for path in self.references:
            try:
                parse_source(path)
            except ValueError as error:
                raise ValueError(f"`reference`: {error}") from None

    @property
    def references(self) -> tuple[str, ...]:
        """The paths of the texts to compare with."""
        return (self.reference,) if isinstance(self.reference, str) else self.reference

    @property
    def embedding_model(self) -> str | JsonObject:
        """The embedding model; planning checks it before the first paid call."""
        return self.model


class Passage(Struct, frozen=True):
    """A text, and the name of its source in results."""

    place: str
    text: str


class Closest(Struct, frozen=True):
    """The reference closest to the text, and the cosine of the two, -1..1."""

    reference: Passage
    cosine: float


class SemanticSimilarityEvaluator:
    """An evaluator that compares one text with one or more references.

    Not `reusable`: the embedder belongs to the run that it was made for.
    """

    kind = KIND
    reads_workspace = False

    def __init__(self, config: EvaluatorConfig, settings: SemanticSimilaritySettings, embedder: Embedder) -> None:
        self._source = config.source
        self._settings = settings
        self._embedder = embedder

    async def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        """Return the cosine, clamped to 0..1, as the score; with a threshold, 1.0 if it is reached, else 0.0.

        Raises EvaluatorError for an empty text or a failed embedding.
        """
        text = Passage(self._source, judged_text(context, self._source))
        passages = (text, *(Passage(*found) for found in references_at(context, self._settings.references)))
        for passage in passages:
            if not passage.text.strip():
                raise EvaluatorError(f"the text of {passage.place!r} is empty, so it cannot be compared")
        try:
            embeddings = await self._embedder.embed([passage.text for passage in passages])
        except ProviderError as error:
            message = f"no embeddings from {self._embedder.name!r}: {error.failure.message}"
            raise EvaluatorError(message, kind=error.failure.kind) from error
        return self._judged(context, passages, embeddings)

    def _judged(
        self, context: EvaluationContext, passages: Sequence[Passage], embeddings: Sequence[Embedding]
    ) -> EvaluationScore:
        closest = _closest(passages, embeddings)
        score = max(0.0, closest.cosine)
        summary = f"cosine {closest.cosine:.4f} with {closest.reference.place}"
        threshold = self._settings.threshold
        if threshold is not None:
            score = float(reaches(score, threshold))
            summary += f" ({'at least' if score else 'less than'} {threshold:g})"
        truncated = [passage.place for passage, embedding in zip(passages, embeddings, strict=True) if embedding.is_cut]
        if truncated:
            summary += f"; truncated to the model's limit: {', '.join(truncated)}"
        config = context.evaluator
        name = KIND if config is None else config.criterion or config.name
        criterion = criterion_named(name, context.criteria, scale="numeric")
        metadata: JsonObject = {"cosine": closest.cosine, "reference": closest.reference.place}
        return EvaluationScore(
            score=score,
            hits=(summary,) if is_met(score) else (),
            misses=() if is_met(score) else (summary,),
            reasoning=summary,
            results=(result_of(score, criterion, kind=KIND, reasoning=summary, metadata=metadata),),
            judge_calls=(_call(self._embedder.name, embeddings),),
        )


def make_semantic_similarity(
    config: EvaluatorConfig, settings: SemanticSimilaritySettings, tools: EvaluatorTools
) -> SemanticSimilarityEvaluator:
    """Return a `semantic_similarity` evaluator."""
    return SemanticSimilarityEvaluator(config, settings, tools.embedder(settings.model))


def _closest(passages: Sequence[Passage], embeddings: Sequence[Embedding]) -> Closest:
    """Return the reference closest to the text, which is the first passage; on a tie, the first such reference."""
    for passage, embedding in zip(passages, embeddings, strict=True):
        if not any(embedding.vector):
            raise EvaluatorError(f"the vector of {passage.place!r} is all zeros", kind="unexpected_shape")
    text = embeddings[0].vector
    try:
        cosines = [cosine(text, embedding.vector) for embedding in embeddings[1:]]
    except ValueError as error:
        raise EvaluatorError(f"the vectors cannot be compared: {error}", kind="unexpected_shape") from error
    best = max(range(len(cosines)), key=cosines.__getitem__)
    return Closest(passages[1 + best], cosines[best])


def _call(name: str, embeddings: Sequence[Embedding]) -> JudgeCall:
    """Return the call with the usage and cost of all embeddings; cached embeddings have neither.

    The cost is None if the price of any embedding is unknown.
    """
    costs = [embedding.cost_usd for embedding in embeddings if embedding.usage is not None]
    known_costs = [cost for cost in costs if cost is not None]
    return JudgeCall(
        name,
        "embedding",
        reply="",
        usage=total_usage(embedding.usage for embedding in embeddings),
        cost_usd=sum(known_costs) if known_costs and len(known_costs) == len(costs) else None,
        cached=all(embedding.cached for embedding in embeddings),
    )
