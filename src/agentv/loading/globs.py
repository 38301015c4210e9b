"""Path patterns: `**` crosses folders, `*` and `?` do not, dot-folders are folders like any other."""

import re
from collections.abc import Iterable
from functools import cache

_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")
_MEANINGS = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def matches_any(path: str, patterns: Iterable[str]) -> bool:
    """Whether a relative path with `/` matches one of the patterns, from its beginning to its end."""
    return any(_compiled(pattern).fullmatch(path) for pattern in patterns)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    tokens = _TOKEN.findall(pattern.replace("\\", "/").removeprefix("./").removeprefix("/"))
    return re.compile("".join(_MEANINGS.get(token) or re.escape(token) for token in tokens), re.DOTALL)
