"""`keyword_coverage`: the share of the expected keywords that a text contains."""

import re
from collections.abc import Callable, Sequence
from operator import contains
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from agentv.evaluators.rules.base import judged_text, quoted
from agentv.scoring.results.sources import parse_source, source_value
from agentv.scoring.text.forms import TextForm
from agentv.scoring.text.words import has_words
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationScore
from agentv.types.json_value import JsonValue
from agentv.types.messages_json import compact_json
from agentv.types.protocols import EvaluatorTools

Expect: TypeAlias = Literal["share", "all", "any", "none"]
Split: TypeAlias = Literal["commas", "whitespace", "exact"]

_CONFIG = "config"
"""The `keywords_source` of keywords that are listed in `expected_keywords`."""

_SHOWN_MISSES = 5
_SEPARATORS = re.compile(r"[,;\n]")
_VARIATION_SELECTORS = str.maketrans("", "", "\ufe0e\ufe0f")  # whether an emoji is shown in colour or in black


class KeywordCoverageSettings(Struct, frozen=True, kw_only=True):
    """Settings of `keyword_coverage`."""

    expected_keywords: Annotated[
        tuple[str, ...], Meta(description="the keywords, as literal text", extra={"aliases": ("keywords",)})
    ] = ()
    keywords_source: Annotated[
        str,
        Meta(
            description="where the keywords are: `config` (in `expected_keywords`), or a path such as ground_truth or "
            "context.PATH",
            extra={"aliases": ("keywords_source_field",), "spellings": {"groundTruth": "ground_truth"}},
        ),
    ] = _CONFIG
    split: Annotated[
        Split,
        Meta(
            description="how a text from `keywords_source` is split: commas (also ; and newlines), whitespace or exact",
            extra={"aliases": ("ground_truth_keyword_mode",), "spellings": {"split-comma": "commas"}},
        ),
    ] = "commas"
    expect: Annotated[
        Expect,
        Meta(
            description="share: the share of the keywords found; all, any or none: 1 if so many are found, else 0",
            extra={"aliases": ("expected_outcome",)},
        ),
    ] = "share"
    match_whole_word: Annotated[bool, Meta(description="match whole words only: `café` is not in `cafés`")] = True
    case_sensitive: Annotated[bool, Meta(description="treat `Yes` and `yes` as different")] = False
    normalize_whitespace: Annotated[
        bool,
        Meta(
            description="treat a run of white space as one space",
            extra={"aliases": ("normalize_whitespace_for_source",)},
        ),
    ] = True

    def __post_init__(self) -> None:
        """Raise ValueError for blank or no keywords, an invalid source of keywords, or both keywords and a source."""
        if self.keywords_source == _CONFIG:
            if not self.expected_keywords:
                raise ValueError(
                    "`expected_keywords` must have at least one keyword, unless `keywords_source` names another source"
                )
            blank = next((word for word in self.expected_keywords if not _normalized(TextForm(), word)), None)
            if blank is not None:
                raise ValueError(
                    f"`expected_keywords` has {quoted(blank)}, a blank keyword that every text contains; remove it"
                )
            return
        if self.expected_keywords:
            raise ValueError(f"`expected_keywords` cannot be combined with `keywords_source: {self.keywords_source}`")
        try:
            parse_source(self.keywords_source)
        except ValueError as error:
            raise ValueError(f"`keywords_source` {error}; or `config`, to use `expected_keywords`") from error


class _Keyword(Struct, frozen=True):
    """A keyword as written, and in the normalized form that is searched for."""

    written: str
    normalized: str


class KeywordCoverageEvaluator:
    """An evaluator that returns the share of the expected keywords that a text contains.

    Takes a settings object, its fields as keyword arguments, or both.

    >>> KeywordCoverageEvaluator(expected_keywords=("C++",)).kind
    'keyword_coverage'
    """

    kind = "keyword_coverage"
    reads_workspace = False
    reusable = True
    inline = True

    def __init__(
        self, settings: KeywordCoverageSettings | None = None, /, *, source: str = "response", **fields: Any
    ) -> None:
        given = replace(settings, **fields) if settings is not None else KeywordCoverageSettings(**fields)
        self._settings = given
        self._source = source
        self._form = TextForm(case_sensitive=given.case_sensitive, normalize_whitespace=given.normalize_whitespace)
        self._configured = self._distinct_keywords(given.expected_keywords)
        self._has_keyword: Callable[[str, str], bool] = has_words if given.match_whole_word else contains

    def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        """Score the share of keywords found in the text. Raises EvaluatorError without a text or a usable keyword."""
        keywords = self._configured or self._keywords_at_source(context)
        text = _normalized(self._form, judged_text(context, self._source))
        hits, misses = [], []
        for keyword in keywords:
            if self._has_keyword(text, keyword.normalized):
                hits.append(f"has {quoted(keyword.written)}")
            else:
                misses.append(f"does not have {quoted(keyword.written)}")
        expect = self._settings.expect
        if expect == "none":
            hits, misses = misses, hits
        return EvaluationScore(
            score=_score(expect, found=len(hits), expected=len(keywords)),
            hits=tuple(hits),
            misses=tuple(misses),
            expected_aspect_count=len(keywords),
            reasoning=_summary(hits, misses),
        )

    def _keywords_at_source(self, context: EvaluationContext) -> tuple[_Keyword, ...]:
        path = self._settings.keywords_source
        value = None if path.startswith("files.") else source_value(context, path)
        if value is None:
            # Reads `files.PATH`, and raises the usual error for a path without a value.
            value = judged_text(context, path)
        keywords = self._distinct_keywords(_split_keywords(value, path, self._settings.split))
        if not keywords:
            raise EvaluatorError(f"no keywords found at {path!r}")
        return keywords

    def _distinct_keywords(self, written: tuple[str, ...]) -> tuple[_Keyword, ...]:
        """Return each keyword once, in its first spelling, without blank ones."""
        by_form: dict[str, str] = {}
        for word in written:
            by_form.setdefault(_normalized(self._form, word), word.strip())
        return tuple(_Keyword(word, form) for form, word in by_form.items() if form.strip())


def _score(expect: Expect, *, found: int, expected: int) -> float:
    if expect == "share":
        return found / expected
    return float(found > 0 if expect == "any" else found == expected)


def make_keyword_coverage(
    config: EvaluatorConfig, settings: KeywordCoverageSettings, _tools: EvaluatorTools
) -> KeywordCoverageEvaluator:
    """Return a `keyword_coverage` evaluator."""
    return KeywordCoverageEvaluator(settings, source=config.source)


def _normalized(form: TextForm, text: str) -> str:
    normalized = form.of(text)
    return normalized if text.isascii() else normalized.translate(_VARIATION_SELECTORS)


def _split_keywords(value: JsonValue, path: str, split: Split) -> tuple[str, ...]:
    """Return the keywords in the value at `path`: the items of a list, or the parts of a string.

    Raises EvaluatorError for an object, or a list with items that are neither texts nor numbers.
    """
    if isinstance(value, list | tuple):
        if not all(isinstance(item, str | int | float) for item in value):
            raise EvaluatorError(f"the items of the list at {path!r} must be texts or numbers to be keywords")
        return tuple(item if isinstance(item, str) else compact_json(item) for item in value)
    if isinstance(value, dict):
        raise EvaluatorError(f"{path!r} is an object; keywords must be a list or a string")
    text = value if isinstance(value, str) else compact_json(value)
    if split == "exact":
        return (text,)
    return tuple(text.split() if split == "whitespace" else map(str.strip, _SEPARATORS.split(text)))


def _summary(hits: Sequence[str], misses: Sequence[str]) -> str:
    """Return the number of keywords found, and the first missing ones."""
    more = len(misses) - _SHOWN_MISSES
    lines = (*misses[:_SHOWN_MISSES], *((f"and {more} more",) if more > 0 else ()))
    return "; ".join((f"{len(hits)} of {len(hits) + len(misses)} keywords", *lines))
