"""`sentiment`: the tone of a text, by VADER's word list (extra `text`)."""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from agentv.evaluators.registry import require_extra
from agentv.evaluators.rules.base import judged_text
from agentv.scoring.results.criteria import criterion_named, result_of
from agentv.types.cases import EvaluatorConfig
from agentv.types.criteria.scales import NAMED_SCALES, EvaluationCriteria
from agentv.types.evaluation import EvaluationContext, EvaluationResult
from agentv.types.protocols import EvaluatorTools

KIND = "sentiment"

Category: TypeAlias = Literal["positive", "neutral", "negative"]
Output: TypeAlias = Literal["comparative_normalized", "raw_score", "category"]

_PLACES: dict[Category, float] = {"negative": 0.0, "neutral": 0.5, "positive": 1.0}
"""Where a category stands on a scale that has numbers."""


class SentimentSettings(Struct, frozen=True, kw_only=True):
    """Settings of `sentiment`."""

    output: Annotated[
        Output,
        Meta(
            description="comparative_normalized (0..1, neutral 0.5), raw_score (VADER's compound, -1..1) or category",
            extra={
                "aliases": ("output_type",),
                "spellings": {"comparativeNormalized": "comparative_normalized", "rawScore": "raw_score"},
            },
        ),
    ] = "comparative_normalized"
    expect: Annotated[
        Category | None,
        Meta(
            description="1 for this category and 0 for another: positive, neutral or negative",
            extra={"aliases": ("expected_outcome",)},
        ),
    ] = None
    positive_threshold: Annotated[float, Meta(description="a compound above it is positive")] = 0.2
    negative_threshold: Annotated[float, Meta(description="a compound below it is negative")] = -0.2

    def __post_init__(self) -> None:
        """Refuse thresholds the wrong way round, an expectation of a number, and an extra that is missing."""
        require_extra("vaderSentiment", "sentiment", "text")
        low, high = self.negative_threshold, self.positive_threshold
        if not -1 <= low <= high <= 1:
            raise ValueError(
                f"`positive_threshold` {high:g} and `negative_threshold` {low:g} must lie in -1..1, and the "
                "positive one not below the negative one"
            )
        if self.expect is not None and self.output == "raw_score":
            raise ValueError("`expect` is about a category: leave `output` out, or make it category")


class SentimentEvaluator:
    """Scores the tone of a text: a number, or a category.

    Takes a settings object, keywords of the same names, or both.

    >>> SentimentEvaluator(expect="positive").kind
    'sentiment'
    """

    kind = KIND
    reusable = True
    inline = False  # about 1 ms per kB, all of it Python

    def __init__(
        self,
        settings: SentimentSettings | None = None,
        /,
        *,
        criterion: str = KIND,
        source: str = "response",
        **keywords: Any,
    ) -> None:
        # Imported here: the package is not there without its extra.
        from agentv.evaluators.text.vader import make_analyzer  # noqa: PLC0415

        self._settings = replace(settings, **keywords) if settings is not None else SentimentSettings(**keywords)
        self._criterion = criterion
        self._source = source
        self._compound_of = make_analyzer().compound

    def evaluate(self, context: EvaluationContext) -> EvaluationResult:
        """Judge the tone of the text. Raises EvaluatorError when there is none to look at."""
        compound = self._compound_of(judged_text(context, self._source))
        category = self._category(compound)
        criterion = criterion_named(self._criterion, context.criteria, scale="numeric")
        return replace(
            self._result(compound, category, criterion), metadata={"compound": compound, "category": category}
        )

    def _category(self, compound: float) -> Category:
        if compound > self._settings.positive_threshold:
            return "positive"
        return "negative" if compound < self._settings.negative_threshold else "neutral"

    def _result(self, compound: float, category: Category, criterion: EvaluationCriteria) -> EvaluationResult:
        told = f"{category} (compound {compound:.2f})"
        expected, share = self._settings.expect, (compound + 1) / 2
        if expected is not None:
            met = expected == category
            line = told if met else f"{told}, expected {expected}"
            return result_of(float(met), criterion, kind=self.kind, reasoning=line)
        if self._settings.output == "category":
            return self._category_result(category, criterion, told)
        made = result_of(share, criterion, kind=self.kind, reasoning=told)
        if self._settings.output == "raw_score" and _takes_any_number(criterion):
            return replace(made, score=compound)
        return made

    def _category_result(self, category: Category, criterion: EvaluationCriteria, told: str) -> EvaluationResult:
        """Return the category itself where the scale has words, else its place: negative 0, neutral 0.5, positive 1."""
        if not criterion.labels and criterion.scale in NAMED_SCALES:
            return result_of(_PLACES[category], criterion, kind=self.kind, reasoning=told)
        # Its value is where the category stands among the scale's labels; a scale of free words has none.
        return EvaluationResult(
            criterion_name=criterion.name,
            score=category,
            value=None,
            scale=criterion.scale,
            reasoning=told,
            evaluator_type=self.kind,
        )


def _takes_any_number(criterion: EvaluationCriteria) -> bool:
    """Whether a compound can stand on a scale as it is: one without bounds, or with its own."""
    if criterion.labels or criterion.scale != "numeric":
        return not criterion.labels and criterion.scale not in NAMED_SCALES
    return (criterion.min, criterion.max) in {(None, None), (-1.0, 1.0)}


def make_sentiment(config: EvaluatorConfig, settings: SentimentSettings, _tools: EvaluatorTools) -> SentimentEvaluator:
    """Make a `sentiment`."""
    return SentimentEvaluator(settings, criterion=config.criterion or config.name, source=config.source)
