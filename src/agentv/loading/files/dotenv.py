"""`.env` files: `NAME=value` lines. The first file found upward counts and never overrides the process environment."""

import re
from collections.abc import Mapping
from pathlib import Path

from agentv.loading.files.composer import place_of
from agentv.loading.files.places import upward
from agentv.loading.files.text import read_text, shown
from agentv.types.errors import EvalFileError
from agentv.types.problems import Problem

ENV_FILE = ".env"
_STATEMENT = re.compile(
    r"""
    [ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*
    (?: '(?P<single>[^']*)' | "(?P<double>(?:[^"\\]|\\.)*)" | (?P<bare>[^'"\s\#][^\n]*?)? )
    [ \t]*(?:(?<=[\s='"])\#[^\n]*)?(?:\n|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
_BLANK_OR_COMMENT = re.compile(r"[ \t]*(?:\#[^\n]*)?(?:\n|\Z)")
_LINE = re.compile(r"[^\n]*(?:\n|\Z)")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_CHARACTERS = {"n": "\n", "r": "\r", "t": "\t"}


def load_env(folder: Path, base: Mapping[str, str]) -> dict[str, str]:
    """Return `base` extended by the first `.env` from `folder` upward. Raises EvalFileError for a broken file."""
    found = next((place / ENV_FILE for place in upward(folder.resolve()) if (place / ENV_FILE).is_file()), None)
    if found is None:
        return dict(base)
    values, problems = parse_env(read_text(found), shown(found))
    if problems:
        raise EvalFileError(shown(found), problems)
    return {**values, **base}


def parse_env(text: str, path: str) -> tuple[dict[str, str], tuple[Problem, ...]]:
    r"""Return the variables of a `.env` text, and its problems.

    `#` starts a comment, `export` is allowed. Single quotes take a value literally; in double quotes, `\n`, `\r`, `\t`,
    `\"` and `\\` are escapes. Quoted values may span lines. Variables are not expanded.
    """
    text = text.replace("\r\n", "\n")
    values: dict[str, str] = {}
    problems: list[Problem] = []
    position = 0
    while position < len(text):
        match = _STATEMENT.match(text, position) or _BLANK_OR_COMMENT.match(text, position)
        if match is None:
            advice = "write NAME=value, or NAME='value' with both quotes"
            problems.append(Problem(path, "this line sets no variable", *place_of(text, position), allowed=advice))
            match = _LINE.match(text, position)
        elif match.re is _STATEMENT:
            values[match["name"]] = _assigned_value(match)
        position = match.end() if match is not None else len(text)
    return values, tuple(problems)


def _assigned_value(match: re.Match[str]) -> str:
    if match["double"] is not None:
        return _ESCAPE.sub(lambda escape: _ESCAPED_CHARACTERS.get(escape[1], escape[1]), match["double"])
    return match["single"] or match["bare"] or ""
