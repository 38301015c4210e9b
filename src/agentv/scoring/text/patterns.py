"""Compilation of regular expressions from users, with a limit on their repeats.

Compiling copies the repeated part of a pattern as often as it must match, so that `a{99999999}` takes all memory.
"""

import functools
from collections.abc import Iterator
from types import ModuleType

import regex

MAX_REPEATS = 100_000
"""The maximum number of required repeats (20 in `a{20,}`) of a pattern: nested repeats are multiplied, others added."""

_MAX_PARTS = 500_000
"""The maximum number of parts (characters, sets and their members, groups) after all repeats are written out."""

_PARTS_OF_A_REPEAT = 3
"""The number of parts for which a repeat itself counts."""


@functools.lru_cache(maxsize=256)
def compile_pattern(pattern: str, flags: int = 0) -> "regex.Pattern[str]":
    """Compile a pattern with `flags` of the regex package.

    Raises ValueError with the fault and its position; a pattern whose repeats are too large is not compiled.
    """
    core = _parser_module()
    try:
        repeats, parts = _expanded_size(core, _parsed(core, pattern, flags)) if "{" in pattern else (0, 0)
        if repeats <= MAX_REPEATS and parts <= _MAX_PARTS + len(pattern):
            return regex.compile(pattern, flags)
    except (regex.error, ValueError) as error:
        raise ValueError(f"is not a valid regular expression: {error}") from error
    except RecursionError:
        raise ValueError("is not a valid regular expression: it is nested too deeply") from None
    if repeats > MAX_REPEATS:
        allowed = f"{MAX_REPEATS:,} (nested repeats are multiplied, others added)"
        raise ValueError(f"is too large: it requires at least {repeats:,} repeats; allowed: {allowed}")
    raise ValueError(
        f"is too large: with all repeats written out it has {parts:,} characters and sets; "
        f"allowed: {_MAX_PARTS + len(pattern):,}"
    )


def _parser_module() -> ModuleType:
    # The package has no public parser, and a parser of our own would differ in some syntax.
    from regex import _regex_core  # noqa: PLC0415

    core: ModuleType = _regex_core
    return core


def _parsed(core: ModuleType, pattern: str, flags: int) -> object:
    """Return the syntax tree of a pattern, parsed as `regex.compile` does."""
    while True:
        source = core.Source(pattern)
        info = core.Info(flags, source.char_type, {})
        info.guess_encoding = core.UNICODE
        source.ignore_space = bool(info.flags & core.VERBOSE)
        try:
            return core._parse_pattern(source, info)  # noqa: SLF001 - the package has no public parser
        except core._UnscopedFlagSet:  # noqa: SLF001 - the pattern sets a global flag: parse again with it
            flags = info.global_flags


def _expanded_size(core: ModuleType, node: object) -> tuple[int, int]:
    """Return a node's number of required repeats, and its number of parts with all repeats written out."""
    sizes = [_expanded_size(core, child) for child in _children(core, node)]
    repeats, parts = sum(repeats for repeats, _ in sizes), sum(parts for _, parts in sizes)
    if not isinstance(node, core.GreedyRepeat):  # lazy and possessive repeats are subclasses
        return repeats, parts + (not isinstance(node, core.Sequence))
    count: int = node.min_count
    if count <= 1:
        return repeats, parts + _PARTS_OF_A_REPEAT
    return count * max(1, repeats), count * parts + _PARTS_OF_A_REPEAT


def _children(core: ModuleType, node: object) -> Iterator[object]:
    for value in vars(node).values():
        for each in value if isinstance(value, list | tuple) else (value,):
            if isinstance(each, core.RegexBase):
                yield each
