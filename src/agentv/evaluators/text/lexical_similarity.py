"""`lexical_similarity`: similarity between a text and a reference, by letters or words."""

from collections.abc import Callable
from functools import lru_cache
from math import isfinite
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from agentv.evaluators.registry import require_extra
from agentv.evaluators.rules.base import judged_text, quoted, references_at
from agentv.scoring.results.aggregation import is_met, reaches
from agentv.scoring.results.sources import parse_source
from agentv.scoring.text.forms import TextForm, UnicodeForm
from agentv.scoring.text.similarity import MEASURES, Measure, Prepared, prepared, similarity
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import EvaluatorError, MissingExtraError
from agentv.types.evaluation import EvaluationContext, EvaluationScore
from agentv.types.protocols import EvaluatorTools
from agentv.types.structs import blank

Algorithm: TypeAlias = Literal["sorensen_dice", "jaro_winkler", "levenshtein", "token_set", "bleu", "chrf", "rouge_l"]

_SACREBLEU_ALGORITHMS = frozenset({"bleu", "chrf"})

_CACHED_REFERENCES = 64
"""The maximum number of prepared references in the cache: many targets and trials share a case's reference."""


class LexicalSimilaritySettings(Struct, frozen=True, kw_only=True):
    """Settings of `lexical_similarity`."""

    algorithm: Annotated[
        Algorithm,
        Meta(
            description="the similarity measure; bleu and chrf need the extra `text`",
            extra={
                "spellings": {
                    "sorensen-dice": "sorensen_dice",
                    "sorensenDice": "sorensen_dice",
                    "jaro-winkler": "jaro_winkler",
                    "jaroWinkler": "jaro_winkler",
                    "token-set": "token_set",
                    "rouge-l": "rouge_l",
                }
            },
        ),
    ] = "sorensen_dice"
    reference: Annotated[
        str | tuple[str, ...],
        Meta(
            description="the path of the text to compare with, or a list of paths; the most similar text counts",
            extra={"aliases": ("reference_field", "reference_text_field")},
        ),
    ] = "ground_truth"
    threshold: Annotated[
        float | None,
        Meta(
            description="score 1 from this similarity on, else 0; default: the similarity itself",
            extra={"aliases": ("similarity_threshold",)},
        ),
    ] = None
    case_sensitive: Annotated[bool, Meta(description="treat `Yes` and `yes` as different")] = False
    normalize_whitespace: Annotated[bool, Meta(description="treat a run of white space as one space")] = True
    unicode: Annotated[
        UnicodeForm, Meta(description="Unicode normalization: NFC, NFKC (also wide letters and ligatures) or none")
    ] = "NFC"

    def __post_init__(self) -> None:
        """Raise ValueError for no path or an invalid one, a threshold outside (0, 1], or a missing extra."""
        if not self.references:
            raise ValueError("`reference` must name at least one path")
        for path in self.references:
            try:
                parse_source(path)
            except ValueError as error:
                raise ValueError(f"`reference` {error}") from error
        if self.threshold is not None and not (isfinite(self.threshold) and 0 < self.threshold <= 1):
            raise ValueError("`threshold` must be above 0 and at most 1")
        if self.algorithm in _SACREBLEU_ALGORITHMS:
            require_extra("sacrebleu", f"`algorithm` {self.algorithm}", "text")

    @property
    def references(self) -> tuple[str, ...]:
        """The paths of the references."""
        return (self.reference,) if isinstance(self.reference, str) else self.reference


_BLANK = blank(EvaluationScore)


class _Reference(NamedTuple):
    """A prepared reference, and its quoted text for results."""

    prepared: Prepared
    shown: str


class LexicalSimilarityEvaluator:
    """An evaluator that returns the similarity of a text and its reference, 0..1; with `threshold`, 1 or 0.

    Takes a settings object, its fields as keyword arguments, or both.

    >>> LexicalSimilarityEvaluator(algorithm="levenshtein").kind
    'lexical_similarity'
    """

    kind = "lexical_similarity"
    reads_workspace = False
    reusable = True

    def __init__(
        self, settings: LexicalSimilaritySettings | None = None, /, *, source: str = "response", **fields: Any
    ) -> None:
        given = replace(settings, **fields) if settings is not None else LexicalSimilaritySettings(**fields)
        self._settings = given
        self._source = source
        self._measure = _measure(given.algorithm)
        self._form = TextForm(
            unicode=given.unicode,
            case_sensitive=given.case_sensitive,
            normalize_whitespace=given.normalize_whitespace,
        )
        self._reference_of: Callable[[str], _Reference] = self._make_reference
        if self._measure.prepare is not str:  # if the measure converts nothing, a cache would save little
            self._reference_of = lru_cache(_CACHED_REFERENCES)(self._make_reference)
        # sacrebleu is pure Python and takes seconds for a megabyte; the time of the other measures is limited.
        self.inline = given.algorithm not in _SACREBLEU_ALGORITHMS

    def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        """Compare the text with every reference; the most similar one counts.

        Raises EvaluatorError if there is no text or no reference, or if they are too long for the algorithm.
        """
        candidate = self._prepared(judged_text(context, self._source))
        best, best_path, shown = -1.0, "", ""
        for path, text in references_at(context, self._settings.references):
            reference = self._reference_of(text)
            value = self._compared(candidate, reference.prepared)
            if value > best:
                best, best_path, shown = value, path, reference.shown
        return self._scored(best, f"{self._settings.algorithm} {best:.3f} with {best_path} {shown}")

    def _scored(self, value: float, summary: str) -> EvaluationScore:
        threshold = self._settings.threshold
        if threshold is None:
            score, line = value, summary
        else:
            score, line = float(reaches(value, threshold)), f"{summary} (threshold {threshold:g})"
        if is_met(score):
            return replace(_BLANK, score=score, hits=(line,), reasoning=line)
        return replace(_BLANK, score=score, misses=(line,), reasoning=line)

    def _compared(self, candidate: Prepared, reference: Prepared) -> float:
        try:
            return similarity(self._measure, candidate, reference)
        except ValueError as error:
            advice = "compare a part of the text (`source`), or use sorensen_dice"
            raise EvaluatorError(f"{self._settings.algorithm}: {error}; {advice}") from error

    def _prepared(self, text: str) -> Prepared:
        return prepared(self._measure, self._form.of(text))

    def _make_reference(self, text: str) -> _Reference:
        return _Reference(self._prepared(text), quoted(text))


def make_lexical_similarity(
    config: EvaluatorConfig, settings: LexicalSimilaritySettings, _tools: EvaluatorTools
) -> LexicalSimilarityEvaluator:
    """Return a `lexical_similarity` evaluator."""
    return LexicalSimilarityEvaluator(settings, source=config.source)


def _measure(algorithm: Algorithm) -> Measure:
    if algorithm in _SACREBLEU_ALGORITHMS:
        return _sacrebleu_measure(algorithm)
    return MEASURES[algorithm]


def _sacrebleu_measure(name: str) -> Measure:
    """Return sacrebleu's sentence `bleu` or `chrf` (chrF2) on 0..1. Lower-casing is left to the TextForm of the texts.

    With `effective_order`, as in sacrebleu's own `sentence_bleu`, BLEU uses no n-grams longer than the candidate.
    Raises MissingExtraError without sacrebleu.
    """
    try:
        from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415 - an extra
        from sacrebleu.metrics.chrf import CHRF  # noqa: PLC0415 - as above
    except ImportError as error:
        raise MissingExtraError("the algorithms bleu and chrf", "text") from error
    metric = BLEU(effective_order=True) if name == "bleu" else CHRF()

    def compare(candidate: str, reference: str) -> float:
        return float(metric.sentence_score(candidate, [reference]).score) / 100

    return Measure(compare, is_linear=True)
