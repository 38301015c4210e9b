"""`sentiment`: the tone of a text, by VADER's word list (needs the extra `text`)."""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from agentv.evaluators.registry import require_extra
from agentv.evaluators.rules.base import judged_text
from agentv.scoring.results.criteria import criterion_named, result_of
from agentv.types.cases import EvaluatorConfig
from agentv.types.evaluation import EvaluationContext, EvaluationResult
from agentv.types.protocols import EvaluatorTools
from agentv.types.scales import NAMED_SCALES, EvaluationCriteria

KIND = "sentiment"

Category: TypeAlias = Literal["positive", "neutral", "negative"]
Output: TypeAlias = Literal["comparative_normalized", "raw_score", "category"]

_CATEGORY_VALUES: dict[Category, float] = {"negative": 0.0, "neutral": 0.5, "positive": 1.0}
"""The value of a category on a numeric scale."""


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
            description="score 1 for this category, else 0: positive, neutral or negative",
            extra={"aliases": ("expected_outcome",)},
        ),
    ] = None
    positive_threshold: Annotated[float, Meta(description="a compound score above it is positive")] = 0.2
    negative_threshold: Annotated[float, Meta(description="a compound score below it is negative")] = -0.2

    def __post_init__(self) -> None:
        """Raise ValueError for invalid thresholds, `expect` with a numeric output, or a missing extra."""
        require_extra("vaderSentiment", "sentiment", "text")
        low, high = self.negative_threshold, self.positive_threshold
        if not -1 <= low <= high <= 1:
            raise ValueError(
                f"`positive_threshold` {high:g} and `negative_threshold` {low:g} must be in -1..1, and the "
                "positive one must not be below the negative one"
            )
        if self.expect is not None and self.output == "raw_score":
            raise ValueError("`expect` needs a category: remove `output`, or set it to category")


class SentimentEvaluator:
    """An evaluator that returns the tone of a text, as a number or a category.

    Takes a settings object, keywords of the same names, or both.

    >>> SentimentEvaluator(expect="positive").kind
    'sentiment'
    """

    kind = KIND
    reads_workspace = False
    reusable = True
    inline = False  # pure Python, and slow on long texts

    def __init__(
        self,
        settings: SentimentSettings | None = None,
        /,
        *,
        criterion: str = KIND,
        source: str = "response",
        **keywords: Any,
    ) -> None:
        # Imported here, as the package is missing without its extra.
        from agentv.evaluators.text.vader import make_analyzer  # noqa: PLC0415

        self._settings = replace(settings, **keywords) if settings is not None else SentimentSettings(**keywords)
        self._criterion = criterion
        self._source = source
        self._compound_of = make_analyzer().compound

    def evaluate(self, context: EvaluationContext) -> EvaluationResult:
        """Return the tone of the text. Raises EvaluatorError when there is no text."""
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
        summary = f"{category} (compound {compound:.2f})"
        expected = self._settings.expect
        if expected is not None:
            is_met = expected == category
            line = summary if is_met else f"{summary}, expected {expected}"
            return result_of(float(is_met), criterion, kind=self.kind, reasoning=line)
        if self._settings.output == "category":
            return self._category_result(category, criterion, summary)
        result = result_of((compound + 1) / 2, criterion, kind=self.kind, reasoning=summary)
        if self._settings.output == "raw_score" and _can_hold_compound(criterion):
            return replace(result, score=compound)
        return result

    def _category_result(self, category: Category, criterion: EvaluationCriteria, summary: str) -> EvaluationResult:
        """Return the category itself if the scale has labels, else its value: negative 0, neutral 0.5, positive 1."""
        if not criterion.labels and criterion.scale in NAMED_SCALES:
            return result_of(_CATEGORY_VALUES[category], criterion, kind=self.kind, reasoning=summary)
        # A later step computes the value from the position among the labels; a custom scale without labels has none.
        return EvaluationResult(
            criterion_name=criterion.name,
            score=category,
            value=None,
            scale=criterion.scale,
            reasoning=summary,
            evaluator_type=self.kind,
        )


def _can_hold_compound(criterion: EvaluationCriteria) -> bool:
    """Return True if a scale can hold a compound score unchanged: numeric without bounds or with -1..1, or custom."""
    if criterion.labels:
        return False
    if criterion.scale == "numeric":
        return (criterion.min, criterion.max) in {(None, None), (-1.0, 1.0)}
    return criterion.scale not in NAMED_SCALES


def make_sentiment(config: EvaluatorConfig, settings: SentimentSettings, _tools: EvaluatorTools) -> SentimentEvaluator:
    """Return a `sentiment` evaluator."""
    return SentimentEvaluator(settings, criterion=config.criterion or config.name, source=config.source)
