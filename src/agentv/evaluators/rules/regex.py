"""The `regex` rule. A match has a time limit of one second, so that no pattern and no answer can hang a run."""

from typing import Annotated, Literal

import regex
from msgspec import Meta, Struct

from agentv.evaluators.rules.base import Check, Finding, RuleEvaluator, quoted
from agentv.scoring.text import patterns
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import EvaluatorError
from agentv.types.protocols import EvaluatorTools

MATCH_TIMEOUT_S = 1.0

_FLAGS = {"i": regex.IGNORECASE, "m": regex.MULTILINE, "s": regex.DOTALL, "x": regex.VERBOSE}
_WITHOUT_EFFECT = frozenset("gu")
"""Flags of JavaScript patterns that have no effect here: one match is enough, and all text is Unicode."""


class RegexSettings(Struct, frozen=True):
    """Settings of `regex`."""

    pattern: Annotated[str, Meta(description="a regular expression, searched for anywhere in the text")]
    flags: Annotated[
        str,
        Meta(
            description=(
                "any of i (ignore case), m (^ and $ at lines), s (. matches newlines), x (verbose); "
                "g and u are accepted and have no effect"
            )
        ),
    ] = ""
    expect: Annotated[
        Literal["match", "no_match"],
        Meta(
            description="`match`, or `no_match` if the pattern must not match", extra={"aliases": ("expected_outcome",)}
        ),
    ] = "match"

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown flag, or an empty or broken pattern, before anything runs."""
        unknown = sorted(set(self.flags) - set(_FLAGS) - _WITHOUT_EFFECT)
        if unknown:
            raise ValueError(f"`flags` has {unknown[0]!r}, which is not a flag; allowed: {', '.join(_FLAGS)}")
        if not self.pattern:
            raise ValueError("`pattern` must not be empty: every text matches the empty pattern")
        compile_pattern(self)


def compile_pattern(settings: RegexSettings) -> "regex.Pattern[str]":
    """Compile a pattern. Raises ValueError with the fault and its place."""
    flags = 0
    for letter in settings.flags:
        flags |= _FLAGS.get(letter, 0)
    try:
        return patterns.compile_pattern(settings.pattern, flags)
    except ValueError as error:
        raise ValueError(f"`pattern` {quoted(settings.pattern)} {error}") from error


def make_regex(config: EvaluatorConfig, settings: RegexSettings, _tools: EvaluatorTools) -> RuleEvaluator:
    """Return a `regex` evaluator."""
    return RuleEvaluator("regex", regex_check(settings), source=config.source, inline=False)


def regex_check(settings: RegexSettings) -> Check:
    """Return a check of a text with a pattern, which is compiled once, here.

    The check raises EvaluatorError of kind `regex_timeout` if a match takes more than a second or too much memory.
    """
    pattern = compile_pattern(settings)
    shown = quoted(settings.pattern)

    def check(text: str) -> Finding:
        try:
            # `concurrent` releases the GIL, so that other threads continue during a slow match.
            found = pattern.search(text, timeout=MATCH_TIMEOUT_S, concurrent=True)
        except TimeoutError as error:
            message = f"the pattern {shown} did not finish within {MATCH_TIMEOUT_S:g} s; make it simpler"
            raise EvaluatorError(message, kind="regex_timeout") from error
        except MemoryError as error:  # the regex package limits the memory of recursion, such as (?R)
            message = f"the pattern {shown} needs too much memory; make it simpler"
            raise EvaluatorError(message, kind="regex_timeout") from error
        if settings.expect == "match":
            return _matched(found, f"expected a match of {shown}, got {quoted(text)}")
        if found is None:
            return Finding(passed=True, hits=(f"no match of {shown}",))
        return Finding(passed=False, misses=(f"expected no match of {shown}, found {quoted(found[0])}",))

    return check


def _matched(found: "regex.Match[str] | None", miss: str) -> Finding:
    if found is None:
        return Finding(passed=False, misses=(miss,))
    return Finding(passed=True, hits=(f"matches {quoted(found[0])}",))
