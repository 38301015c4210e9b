"""Rules on literal keywords: which of them a text includes, and how often. `C++` is not a pattern."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from agentv.evaluators.rules.base import Check, Finding, quoted
from agentv.evaluators.rules.numbers import check_range
from agentv.evaluators.rules.text import literal_form

_CASE_HELP = "treat `Yes` and `yes` as different"


class IncludesSettings(Struct, frozen=True, kw_only=True):
    """Settings of the rule `includes`."""

    keywords: Annotated[tuple[str, ...], Meta(description="literal texts to look for")]
    expect: Annotated[
        Literal["all", "any", "none"],
        Meta(
            description="how many of them the text must include: all, any or none",
            extra={"aliases": ("expected_outcome",)},
        ),
    ] = "all"
    case_sensitive: Annotated[bool, Meta(description=_CASE_HELP)] = False

    def __post_init__(self) -> None:
        """Raise ValueError for an empty list or an empty keyword, which every text includes."""
        if not self.keywords or "" in self.keywords:
            raise ValueError("`keywords` must have at least one text, and no empty one")


class KeywordCountSettings(Struct, frozen=True, kw_only=True):
    """Settings of the rule `keyword_count`."""

    keyword: Annotated[str, Meta(description="the literal text to count, without overlaps")]
    min: Annotated[int | None, Meta(description="the minimum number of times")] = None
    max: Annotated[int | None, Meta(description="the maximum number of times")] = None
    case_sensitive: Annotated[bool, Meta(description=_CASE_HELP)] = False

    def __post_init__(self) -> None:
        """Raise ValueError for an empty keyword, or a range without bounds or that no text can meet."""
        if not self.keyword:
            raise ValueError("`keyword` must not be empty: every text contains the empty text")
        check_range(self.min, self.max, "keyword_count")


def includes_check(settings: IncludesSettings) -> Check:
    """Return a check of which keywords a text includes."""
    keywords = tuple(dict.fromkeys(settings.keywords))
    form = literal_form(case_sensitive=settings.case_sensitive)
    formed = tuple(map(form, keywords))

    def check(text: str) -> Finding:
        searched = form(text)
        found = tuple(keyword for keyword, plain in zip(keywords, formed, strict=True) if plain in searched)
        absent = tuple(keyword for keyword in keywords if keyword not in found)
        included, missing = _lines("includes", found), _lines("does not include", absent)
        if settings.expect == "none":
            return Finding(not found, hits=missing, misses=included)
        passed = bool(found) if settings.expect == "any" else not absent
        return Finding(passed, hits=included, misses=() if passed else missing)

    return check


def keyword_count_check(settings: KeywordCountSettings) -> Check:
    """Return a check of how often a text has a keyword."""
    form = literal_form(case_sensitive=settings.case_sensitive)
    keyword = form(settings.keyword)
    shown, least, most = quoted(settings.keyword), settings.min, settings.max

    def check(text: str) -> Finding:
        count = form(text).count(keyword)
        got = f"has {shown} {count} time{'' if count == 1 else 's'}"
        if least is not None and count < least:
            return Finding(passed=False, misses=(f"{got}, expected at least {least}",))
        if most is not None and count > most:
            return Finding(passed=False, misses=(f"{got}, expected at most {most}",))
        return Finding(passed=True, hits=(got,))

    return check


def _lines(words: str, keywords: tuple[str, ...]) -> tuple[str, ...]:
    return (f"{words} {', '.join(map(quoted, keywords))}",) if keywords else ()
