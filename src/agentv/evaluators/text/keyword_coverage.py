"""`keyword_coverage`: which share of the expected keywords a text has."""

import re
from collections.abc import Callable, Sequence
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

Split: TypeAlias = Literal["commas", "whitespace", "exact"]

_CONFIG = "config"
_SHOWN_MISSES = 5
_SEPARATORS = re.compile(r"[,;\n]")
_VARIATION_SELECTORS = str.maketrans("", "", "\ufe0e\ufe0f")  # the same emoji in colour and in black


class KeywordCoverageSettings(Struct, frozen=True, kw_only=True):
    """Settings of `keyword_coverage`."""

    expected_keywords: Annotated[
        tuple[str, ...], Meta(description="the keywords, as literal text", extra={"aliases": ("keywords",)})
    ] = ()
    keywords_source: Annotated[
        str,
        Meta(
            description="where the keywords stand: config (in expected_keywords), ground_truth or context.PATH",
            extra={"aliases": ("keywords_source_field",), "spellings": {"groundTruth": "ground_truth"}},
        ),
    ] = _CONFIG
    split: Annotated[
        Split,
        Meta(
            description="how a text found there is split: at commas (semicolons, newlines), whitespace, or not (exact)",
            extra={"aliases": ("ground_truth_keyword_mode",), "spellings": {"split-comma": "commas"}},
        ),
    ] = "commas"
    match_whole_word: Annotated[bool, Meta(description="whether `café` is not in `cafés`")] = True
    case_sensitive: Annotated[bool, Meta(description="whether `Yes` and `yes` are different")] = False
    normalize_whitespace: Annotated[
        bool,
        Meta(
            description="take a run of white space for one blank",
            extra={"aliases": ("normalize_whitespace_for_source",)},
        ),
    ] = True

    def __post_init__(self) -> None:
        """Refuse keywords that are none, none at all, and two places for them."""
        if self.keywords_source == _CONFIG:
            if not self.expected_keywords:
                raise ValueError(
                    "`expected_keywords` must name at least one keyword, or `keywords_source` say where they stand"
                )
            blank = next((word for word in self.expected_keywords if not _plain(TextForm(), word)), None)
            if blank is not None:
                raise ValueError(f"`expected_keywords` holds {quoted(blank)}, which every text has")
            return
        if self.expected_keywords:
            raise ValueError(f"`expected_keywords` are not read with `keywords_source: {self.keywords_source}`")
        try:
            parse_source(self.keywords_source)
        except ValueError as error:
            raise ValueError(f"`keywords_source` {error}; or config") from error


class _Keyword(Struct, frozen=True):
    """A keyword as it was written, and as it is looked for."""

    written: str
    plain: str


class KeywordCoverageEvaluator:
    """Scores the share of expected keywords that a text has.

    Takes a settings object, keywords of the same names, or both.

    >>> KeywordCoverageEvaluator(expected_keywords=("C++",)).kind
    'keyword_coverage'
    """

    kind = "keyword_coverage"
    reusable = True
    inline = True

    def __init__(
        self, settings: KeywordCoverageSettings | None = None, /, *, source: str = "response", **keywords: Any
    ) -> None:
        given = replace(settings, **keywords) if settings is not None else KeywordCoverageSettings(**keywords)
        self._settings = given
        self._source = source
        self._form = TextForm(case_sensitive=given.case_sensitive, normalize_whitespace=given.normalize_whitespace)
        self._own = self._keywords(given.expected_keywords)
        self._is_there: Callable[[str, str], bool] = has_words if given.match_whole_word else _holds

    def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        """Look for every keyword. Raises EvaluatorError when there are none to look for."""
        wanted = self._own or self._found_keywords(context)
        text = _plain(self._form, judged_text(context, self._source))
        hits, misses = [], []
        for keyword in wanted:
            if self._is_there(text, keyword.plain):
                hits.append(f"has {quoted(keyword.written)}")
            else:
                misses.append(f"does not have {quoted(keyword.written)}")
        return EvaluationScore(
            score=len(hits) / len(wanted),
            hits=tuple(hits),
            misses=tuple(misses),
            expected_aspect_count=len(wanted),
            reasoning=_told(hits, misses),
        )

    def _found_keywords(self, context: EvaluationContext) -> tuple[_Keyword, ...]:
        place = self._settings.keywords_source
        value = None if place.startswith("files.") else source_value(context, place)
        # What leads nowhere is told by `judged_text`, as for any other source.
        listed = _listed(judged_text(context, place) if value is None else value, place, self._settings.split)
        found = self._keywords(listed)
        if not found:
            raise EvaluatorError(f"there is no keyword at {place!r}: nothing can be covered")
        return found

    def _keywords(self, written: tuple[str, ...]) -> tuple[_Keyword, ...]:
        """Return each keyword once, without those that are blank."""
        by_form = {_plain(self._form, word): word.strip() for word in reversed(written)}
        return tuple(_Keyword(word, plain) for plain, word in reversed(by_form.items()) if plain.strip())


def make_keyword_coverage(
    config: EvaluatorConfig, settings: KeywordCoverageSettings, _tools: EvaluatorTools
) -> KeywordCoverageEvaluator:
    """Make a `keyword_coverage`."""
    return KeywordCoverageEvaluator(settings, source=config.source)


def _holds(text: str, keyword: str) -> bool:
    return keyword in text


def _plain(form: TextForm, text: str) -> str:
    return form.of(text).translate(_VARIATION_SELECTORS) if not text.isascii() else form.of(text)


def _listed(value: JsonValue, place: str, split: Split) -> tuple[str, ...]:
    """Return the keywords that stand at a place: the items of a list, or the parts of a text."""
    if isinstance(value, list | tuple):
        if not all(isinstance(item, str | int | float) for item in value):
            raise EvaluatorError(f"the list at {place!r} holds more than texts: its items cannot be keywords")
        return tuple(item if isinstance(item, str) else compact_json(item) for item in value)
    if isinstance(value, dict):
        raise EvaluatorError(f"{place!r} leads to an object: keywords are a list or a text")
    text = value if isinstance(value, str) else compact_json(value)
    if split == "exact":
        return (text,)
    return tuple(text.split() if split == "whitespace" else map(str.strip, _SEPARATORS.split(text)))


def _told(hits: Sequence[str], misses: Sequence[str]) -> str:
    """Return how many keywords a text has, and the first of those that it has not."""
    more = len(misses) - _SHOWN_MISSES
    lines = (*misses[:_SHOWN_MISSES], *((f"and {more} more",) if more > 0 else ()))
    return "; ".join((f"{len(hits)} of {len(hits) + len(misses)} keywords", *lines))
